/* report.c - the page: what stands where, and how it looks.
 *
 * Runs of one benchmark, with whatever filter, are shown together: a benchmark that
 * is run twice is two groups. A filter has the same colour all over the page. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "report_parts.h"

static const char style[] =
	":root{color-scheme:light dark;"
	"--page:#fff;--card:#f6f7f9;--ink:#1c2127;--soft:#5a6470;"
	"--line:#d5dae0;--c0:#2563b8;--c1:#c2570c;--c2:#1f7f4c;--c3:#7d3fbf;--c4:#b92f4a;"
	"--c5:#0e7c8b;--c6:#80641a;--c7:#596270;--good:#1f7f4c;--bad:#b3261e}\n"
	"@media (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1d2127;--ink:#e6e9ed;"
	"--soft:#9aa5b1;--line:#38404a;--c0:#6ea8f5;--c1:#f0964f;--c2:#5cc48d;--c3:#b98cf0;"
	"--c4:#f0819a;--c5:#4fc4d4;--c6:#d1b259;--c7:#a9b3bf;--good:#5cc48d;--bad:#ff8a80}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;max-width:1180px;padding:1.2rem 1rem 3rem;background:var(--page);"
	"color:var(--ink);font:15px/1.45 system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\","
	"sans-serif;overflow-wrap:anywhere}\n"
	"h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .2rem}"
	"h3{font-size:1rem;margin:0 0 .5rem}p{margin:.2rem 0 .8rem;color:var(--soft)}"
	".card p{margin:.3rem 0 0;font-size:.85rem}\n"
	".cards{display:grid;gap:1rem;grid-template-columns:repeat(auto-fill,"
	"minmax(min(100%,330px),1fr))}\n"
	".card{background:var(--card);border:1px solid var(--line);border-radius:8px;"
	"padding:.8rem .9rem;min-width:0}\n"
	"svg{display:block;width:100%;height:auto}svg text{fill:var(--ink);font-size:13.5px}"
	"svg .axis{fill:var(--soft)}svg .value{font-variant-numeric:tabular-nums}"
	".grid{stroke:var(--line);fill:none}.track{fill:var(--line);opacity:.45}"
	"svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}"
	"svg .dashed{stroke-dasharray:6 4}\n"
	".legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.5rem 0 .9rem;padding:0;"
	"list-style:none}.legend svg{display:inline-block;width:1.5rem;height:.8rem;"
	"margin-right:.4rem}\n"
	".scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px}"
	"table{border-collapse:collapse;width:100%;font-size:.9rem;"
	"font-variant-numeric:tabular-nums}th,td{padding:.35rem .55rem;"
	"text-align:right;white-space:nowrap;"
	"border-bottom:1px solid var(--line)}"
	"tbody tr:last-child>*{border-bottom:0}"
	"thead th{background:var(--card);font-weight:600;white-space:normal;"
	"overflow-wrap:normal;vertical-align:bottom}"
	"th:first-child,td.text,th.text{text-align:left}tbody th{font-weight:500}"
	".facts th{width:1%}.facts td{text-align:left;white-space:normal}\n"
	".good{color:var(--good)}.bad{color:var(--bad);font-weight:600}\n";

/* ---- groups of runs ----------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/* The nth time, from 0 on, of this benchmark with this filter. */
static size_t occurrence(const struct report *report, size_t run)
{
	const struct report_run *this = &report->runs[run];
	size_t count = 0;

	for (size_t i = 0; i < run; i++) {
		const struct report_run *other = &report->runs[i];

		count += same_text(this->benchmark, other->benchmark) &&
			 same_text(this->engine, other->engine) &&
			 same_text(this->filter, other->filter);
	}
	return count;
}

static bool same_group(const struct report *report, size_t a, size_t b)
{
	return same_text(report->runs[a].benchmark, report->runs[b].benchmark) &&
	       same_text(report->runs[a].engine, report->runs[b].engine) &&
	       occurrence(report, a) == occurrence(report, b);
}

static bool leads_group(const struct report *report, size_t run)
{
	for (size_t i = 0; i < run; i++)
		if (same_group(report, i, run))
			return false;
	return true;
}

static bool has_many_engines(const struct report *report)
{
	for (size_t i = 1; i < report->run_count; i++)
		if (!same_text(report->runs[i].engine, report->runs[0].engine))
			return true;
	return false;
}

/* Distinct filters are numbered as they come. */
static unsigned colour_of(const struct report *report, size_t run)
{
	unsigned count = 0;

	for (size_t i = 0; i <= run; i++) {
		bool is_new = true;

		for (size_t j = 0; j < i && is_new; j++)
			is_new = !same_text(report->runs[i].filter, report->runs[j].filter);
		if (same_text(report->runs[i].filter, report->runs[run].filter))
			return count;
		count += is_new;
	}
	return count;
}

static void put_group_name(FILE *to, const struct report *report, size_t run)
{
	size_t nth = occurrence(report, run);

	report_put_text(to, report->runs[run].benchmark);
	if (nth > 0)
		fprintf(to, " (%zu)", nth + 1);
	if (has_many_engines(report)) {
		fprintf(to, ", ");
		report_put_text(to, report->runs[run].engine);
	}
}

/* ---- pictures ----------------------------------------------------------- */

static void begin_section(FILE *to, const char *heading, const char *words)
{
	fprintf(to, "<section>\n<h2>%s</h2>\n<p>%s</p>\n", heading, words);
}

static void begin_card(FILE *to, const struct report *report, size_t run)
{
	fprintf(to, "<div class=\"card\">\n<h3>");
	put_group_name(to, report, run);
	fprintf(to, "</h3>\n");
}

static void put_legend(FILE *to, const struct report *report)
{
	fprintf(to, "<ul class=\"legend\">\n");
	for (size_t i = 0; i < report->run_count; i++) {
		unsigned colour = colour_of(report, i);
		bool seen = false;

		for (size_t j = 0; j < i && !seen; j++)
			seen = same_text(report->runs[i].filter, report->runs[j].filter);
		if (seen)
			continue;
		fprintf(to, "<li><svg viewBox=\"0 0 24 12\"><path class=\"curve c%u%s\" "
			"d=\"M1 6H23\"/></svg>", colour % REPORT_COLOURS,
			colour >= REPORT_COLOURS ? " dashed" : "");
		report_put_text(to, report->runs[i].filter);
		fprintf(to, "</li>\n");
	}
	fprintf(to, "</ul>\n");
}

/* `bars` has room for all runs. */
static void put_throughput(FILE *to, const struct report *report, struct report_bar *bars)
{
	begin_section(to, "Throughput", "Operations a second; each benchmark has a scale of its "
		      "own, from 0 on. Longer is better.");
	fprintf(to, "<div class=\"cards\">\n");
	for (size_t i = 0; i < report->run_count; i++) {
		size_t count = 0;

		if (!leads_group(report, i))
			continue;
		for (size_t j = i; j < report->run_count; j++)
			if (same_group(report, i, j))
				bars[count++] = (struct report_bar){ colour_of(report, j),
								     report->runs[j].filter,
								     report->runs[j].ops_per_sec };
		begin_card(to, report, i);
		report_put_bars(to, bars, count, "ops/s");
		fprintf(to, "</div>\n");
	}
	fprintf(to, "</div>\n</section>\n");
}

enum curves { FALSE_POSITIVES, LATENCY };

/* The curves of the group that `run` leads; `series` has room for all runs. */
static struct report_chart chart_of(const struct report *report, size_t run, enum curves what,
				    struct report_series *series)
{
	size_t curves = 0;

	for (size_t i = run; i < report->run_count; i++) {
		const struct report_run *from = &report->runs[i];

		if (!same_group(report, run, i))
			continue;
		series[curves++] = (struct report_series){
			.colour = colour_of(report, i),
			.points = what == LATENCY ? from->latency : from->false_positives,
			.count = what == LATENCY ? from->latency_count
						 : from->false_positive_count,
		};
	}
	if (what == LATENCY)
		return (struct report_chart){ "percentile", "microseconds", REPORT_PERCENTILE,
					      REPORT_LOG, series, curves };
	return (struct report_chart){ "operations done", "false positives an interval",
				      REPORT_LINEAR, REPORT_LOG_ZERO, series, curves };
}

static void put_curves(FILE *to, const struct report *report, enum curves what,
		       struct report_series *series)
{
	size_t drawn = 0;

	for (size_t i = 0; i < report->run_count; i++) {
		struct report_chart chart;

		if (!leads_group(report, i))
			continue;
		chart = chart_of(report, i, what, series);
		if (!report_chart_has_points(&chart))
			continue;
		if (drawn++ == 0) {
			if (what == LATENCY)
				begin_section(to, "Latency",
					      "What share of the operations was as fast, in "
					      "microseconds, both axes logarithmic. Lower is "
					      "better.");
			else
				begin_section(to, "False positives over time",
					      "In each interval of operations, on a logarithmic "
					      "scale whose lowest line is none at all. A filter "
					      "that learns goes down.");
			put_legend(to, report);
			fprintf(to, "<div class=\"cards\">\n");
		}
		begin_card(to, report, i);
		report_put_chart(to, &chart);
		if (what == FALSE_POSITIVES && report->runs[i].interval > 0)
			fprintf(to, "<p>Intervals of %s operations.</p>\n",
				report_count(report->runs[i].interval).text);
		fprintf(to, "</div>\n");
	}
	if (drawn > 0)
		fprintf(to, "</div>\n</section>\n");
}

/* ---- tables ------------------------------------------------------------- */

static void begin_table(FILE *to, const char *const *heads, size_t count, size_t texts)
{
	fprintf(to, "<div class=\"scroll\"><table>\n<thead><tr>");
	for (size_t i = 0; i < count; i++)
		fprintf(to, "<th%s>%s</th>", i < texts ? " class=\"text\"" : "", heads[i]);
	fprintf(to, "</tr></thead>\n<tbody>\n");
}

static void end_table(FILE *to)
{
	fprintf(to, "</tbody>\n</table></div>\n</section>\n");
}

static void put_cell(FILE *to, struct report_number number)
{
	fprintf(to, "<td>%s</td>", number.text);
}

static void put_text_cell(FILE *to, const char *text)
{
	fprintf(to, "<td class=\"text\">");
	report_put_text(to, text);
	fprintf(to, "</td>");
}

/* The last run of the filter on this engine that has a filter, or the last of all. */
static bool is_last_of_filter(const struct report *report, size_t run)
{
	const struct report_run *this = &report->runs[run];

	for (size_t i = 0; i < report->run_count; i++) {
		const struct report_run *other = &report->runs[i];

		if (i == run || !same_text(this->filter, other->filter) ||
		    !same_text(this->engine, other->engine))
			continue;
		if (this->filter_bytes == 0 && other->filter_bytes > 0)
			return false;
		if (i > run && (this->filter_bytes == 0 || other->filter_bytes > 0))
			return false;
	}
	return true;
}

static void put_memory(FILE *to, const struct report *report)
{
	static const char *const heads[] = { "filter", "engine", "bits a key", "filter", "learned",
					     "reverse map" };

	begin_section(to, "Memory", "After the last benchmark of each filter. The reverse map may "
		      "be on disk.");
	begin_table(to, heads, sizeof(heads) / sizeof(*heads), 2);
	for (size_t i = 0; i < report->run_count; i++) {
		const struct report_run *run = &report->runs[i];

		if (!is_last_of_filter(report, i))
			continue;
		fprintf(to, "<tr><th>");
		report_put_text(to, run->filter);
		fprintf(to, "</th>");
		put_text_cell(to, run->engine);
		put_cell(to, report_real(run->bits_per_key, 2));
		put_cell(to, report_bytes(run->filter_bytes));
		put_cell(to, report_bytes(run->learned_bytes));
		put_cell(to, report_bytes(run->reversemap_bytes));
		fprintf(to, "</tr>\n");
	}
	end_table(to);
}

/* The curve's value at a percentile, as long as it has a point there. */
static double latency_at(const struct report_run *run, double percentile)
{
	for (size_t i = 0; i < run->latency_count; i++)
		if (fabs(run->latency[i].x - percentile) < 1e-9)
			return run->latency[i].y;
	return NAN;
}

static void put_run(FILE *to, const struct report *report, size_t index)
{
	const struct report_run *run = &report->runs[index];

	fprintf(to, "<tr><th>");
	put_group_name(to, report, index);
	fprintf(to, "</th>");
	put_text_cell(to, run->engine);
	put_text_cell(to, run->filter);
	put_cell(to, report_count(run->ops));
	put_cell(to, report_real(run->seconds, 3));
	put_cell(to, report_short(run->ops_per_sec));
	put_cell(to, report_real(latency_at(run, 50), 2));
	put_cell(to, report_real(latency_at(run, 99), 2));
	fprintf(to, "<td class=\"%s\">%s</td>", run->wrong_results ? "bad" : "good",
		report_count(run->wrong_results).text);
	put_cell(to, report_count(run->found));
	put_cell(to, report_count(run->total_false_positives));
	put_cell(to, report_count(run->repeated_false_positives));
	put_cell(to, report_count(run->adaptations));
	put_cell(to, report_count(run->data_block_reads));
	put_cell(to, report_real(run->bits_per_key, 2));
	fprintf(to, "</tr>\n");
}

static void put_runs(FILE *to, const struct report *report)
{
	static const char *const heads[] = {
		"benchmark", "engine", "filter", "operations", "seconds", "ops/s", "p50 \xc2\xb5s",
		"p99 \xc2\xb5s", "wrong results", "found", "false positives", "repeated",
		"adaptations", "blocks read", "bits a key" };

	begin_section(to, "All runs", "In the order they were made.");
	begin_table(to, heads, sizeof(heads) / sizeof(*heads), 3);
	for (size_t i = 0; i < report->run_count; i++)
		put_run(to, report, i);
	end_table(to);
}

static void put_facts(FILE *to, const struct report *report)
{
	fprintf(to, "<section>\n<h2>Machine and parameters</h2>\n"
		"<div class=\"scroll\"><table class=\"facts\">\n<tbody>\n");
	for (size_t i = 0; i < report->fact_count; i++) {
		fprintf(to, "<tr><th>");
		report_put_text(to, report->facts[i][0]);
		fprintf(to, "</th><td>");
		report_put_text(to, report->facts[i][1]);
		fprintf(to, "</td></tr>\n");
	}
	end_table(to);
}

/* ---- the page ----------------------------------------------------------- */

static void put_head(FILE *to, const struct report *report)
{
	fprintf(to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
		"<title>");
	report_put_text(to, report->title);
	fprintf(to, "</title>\n<style>\n%s", style);
	for (unsigned i = 0; i < REPORT_COLOURS; i++)
		fprintf(to, ".c%u{fill:var(--c%u);stroke:var(--c%u);stroke-width:0}\n", i, i, i);
	fprintf(to, "</style>\n</head>\n<body>\n<h1>");
	report_put_text(to, report->title);
	fprintf(to, "</h1>\n");
}

/* What must be known before any number below is looked at. */
static void put_verdict(FILE *to, const struct report *report)
{
	size_t bad = 0;

	for (size_t i = 0; i < report->run_count; i++)
		bad += report->runs[i].wrong_results > 0;
	if (report->run_count == 0)
		fprintf(to, "<p>Nothing was measured.</p>\n");
	else if (bad == 0)
		fprintf(to, "<p class=\"good\">Every answer of every run was right.</p>\n");
	else
		fprintf(to, "<p class=\"bad\">Wrong answers in %zu of %zu runs: there is a bug, "
			"and the figures below mean little.</p>\n", bad, report->run_count);
}

int report_write(const struct report *report, FILE *to)
{
	struct report_bar *bars = calloc(report->run_count + 1, sizeof(*bars));
	struct report_series *series = calloc(report->run_count + 1, sizeof(*series));
	int err = !bars || !series ? ENOMEM : 0;

	if (!err) {
		errno = 0;
		put_head(to, report);
		put_verdict(to, report);
		if (report->run_count > 0) {
			put_throughput(to, report, bars);
			put_curves(to, report, FALSE_POSITIVES, series);
			put_curves(to, report, LATENCY, series);
			put_memory(to, report);
			put_runs(to, report);
		}
		if (report->fact_count > 0)
			put_facts(to, report);
		fprintf(to, "</body>\n</html>\n");
		if (fflush(to) != 0 || ferror(to))
			err = errno ? errno : EIO;
	}
	free(bars);
	free(series);
	return err;
}
