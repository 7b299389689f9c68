/* The HTML report: whatever is put in, a page comes out that stands alone. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tests/support/common.h"
#include "tools/report/report.h"

/* The whole page in memory; the caller frees it. */
static char *page_of(const struct report *report)
{
	char *page = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&page, &size);

	ck_assert_ptr_nonnull(to);
	ck_assert_int_eq(report_write(report, to), 0);
	ck_assert_int_eq(fclose(to), 0);
	ck_assert_uint_eq(strlen(page), size);
	return page;
}

/* ---- a small scanner ---------------------------------------------------- */

#define MAX_DEPTH 32
#define NAME_SIZE 16

struct scanner {
	const char *at;
	char open[MAX_DEPTH][NAME_SIZE];
	size_t depth;
};

static size_t name_length(const char *at)
{
	return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
}

/* Attributes up to the tag's end: name="value", no tag inside a value. */
static void scan_attributes(struct scanner *scanner, bool *closedp)
{
	*closedp = false;
	for (;;) {
		scanner->at += strspn(scanner->at, " \n");
		if (*scanner->at == '>') {
			scanner->at++;
			return;
		}
		if (strncmp(scanner->at, "/>", 2) == 0) {
			scanner->at += 2;
			*closedp = true;
			return;
		}
		expect(name_length(scanner->at) > 0);
		scanner->at += name_length(scanner->at);
		expect(strncmp(scanner->at, "=\"", 2) == 0);
		scanner->at += 2;
		scanner->at += strcspn(scanner->at, "\"<>");
		expect(*scanner->at == '"');
		scanner->at++;
	}
}

static void scan_tag(struct scanner *scanner)
{
	bool closing = scanner->at[1] == '/', closed;
	const char *name = scanner->at + 1 + closing;
	size_t length = name_length(name);

	expect(length > 0 && length < NAME_SIZE);
	scanner->at = name + length;
	if (closing) {
		expect(*scanner->at++ == '>');
		expect(scanner->depth > 0);
		scanner->depth--;
		expect(strncmp(scanner->open[scanner->depth], name, length) == 0);
		expect(scanner->open[scanner->depth][length] == '\0');
		return;
	}
	scan_attributes(scanner, &closed);
	if (closed)
		return;
	expect(scanner->depth < MAX_DEPTH);
	memcpy(scanner->open[scanner->depth], name, length);
	scanner->open[scanner->depth++][length] = '\0';
}

static void scan_text(struct scanner *scanner)
{
	size_t length = strcspn(scanner->at, "<>&");

	scanner->at += length;
	expect(*scanner->at != '>');
	if (*scanner->at == '&') {
		size_t entity = strcspn(scanner->at, "; <>");

		expect(entity > 2 && entity < 8 && scanner->at[entity] == ';');
		scanner->at += entity + 1;
	}
}

/* Every tag is closed in order, every special character is an entity. */
static void check_well_formed(const char *page)
{
	static const char start[] = "<!DOCTYPE html>\n";
	struct scanner scanner = {.at = page};

	ck_assert_int_eq(strncmp(page, start, strlen(start)), 0);
	scanner.at += strlen(start);
	while (*scanner.at) {
		if (strncmp(scanner.at, "<style>", 7) == 0) {
			const char *end = strstr(scanner.at, "</style>");

			ck_assert_ptr_nonnull(end);
			scanner.at = end + 8;
		} else if (*scanner.at == '<') {
			scan_tag(&scanner);
		} else {
			scan_text(&scanner);
		}
	}
	ck_assert_uint_eq(scanner.depth, 0);
}

/* No way out of the page: nothing is loaded, nothing runs. */
static void check_alone(const char *page)
{
	static const char *const outside[] = {"http:", "https:", "//", "url(", "@import", "src=",
					      "href=", "<script", "<link", "<iframe", "<img",
					      " on", "javascript"};

	for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++) {
		const char *found = strstr(page, outside[i]);

		/* " on" starts an event's attribute only when a name and = follow. */
		while (found && strcmp(outside[i], " on") == 0 &&
		       found[1 + name_length(found + 1)] != '=')
			found = strstr(found + 1, outside[i]);
		if (found)
			ck_abort_msg("the page holds %s: %.40s", outside[i], found);
	}
}

static void check_numbers(const char *page)
{
	const char *svg = page;

	while ((svg = strstr(svg, "<svg")) != NULL) {
		const char *end = strstr(svg, "</svg>");
		char *picture;

		ck_assert_ptr_nonnull(end);
		picture = strndup(svg, (size_t)(end - svg));
		ck_assert_ptr_nonnull(picture);
		ck_assert_ptr_null(strstr(picture, "nan"));
		ck_assert_ptr_null(strstr(picture, "\"inf"));
		ck_assert_ptr_null(strstr(picture, "-inf"));
		free(picture);
		svg = end;
	}
}

static void check_page(const char *page)
{
	check_well_formed(page);
	check_alone(page);
	check_numbers(page);
}

/* ---- reports ------------------------------------------------------------ */

#define POINTS 1000

static struct report_point falling[POINTS], level[POINTS], latency[] = {
	{0, 0.7}, {50, 1.5}, {90, 2}, {99, 12}, {99.9, 140}, {100, 3000}};

static struct report_run ordinary_run(const char *benchmark, const char *filter, bool learns)
{
	for (size_t i = 0; i < POINTS; i++) {
		falling[i] = (struct report_point){(double)(i + 1) * 100, i < 300 ? 300 - (double)i
										  : 0};
		level[i] = (struct report_point){(double)(i + 1) * 100, 300};
	}
	return (struct report_run){
		.benchmark = benchmark, .engine = "memory", .filter = filter,
		.ops = 100000, .seconds = 0.5, .ops_per_sec = 200000,
		.latency = latency, .latency_count = sizeof(latency) / sizeof(*latency),
		.false_positives = learns ? falling : level, .false_positive_count = POINTS,
		.interval = 100, .total_false_positives = 300000, .bits_per_key = 11.625,
		.filter_bytes = 3 << 20, .learned_bytes = 4321, .reversemap_bytes = 1600000,
	};
}

static size_t count_of(const char *page, const char *what)
{
	size_t count = 0;

	for (const char *at = page; (at = strstr(at, what)) != NULL; at += strlen(what))
		count++;
	return count;
}

START_TEST(a_report_has_pictures_and_tables)
{
	struct report_run runs[] = {
		ordinary_run("fillrandom", "bloom", false), ordinary_run("readmix", "bloom", false),
		ordinary_run("fillrandom", "aqf", true), ordinary_run("readmix", "aqf", true)};
	const char *const facts[][2] = {{"processors", "2"}, {"--num", "100000"}};
	struct report report = {"two filters", facts, 2, runs, 4};
	char *page = page_of(&report);

	check_page(page);
	ck_assert_uint_eq(count_of(page, "<title>two filters</title>"), 1);
	/* Two groups, each with bars, false positives and latency. */
	ck_assert_uint_eq(count_of(page, "<div class=\"card\">"), 6);
	ck_assert_uint_eq(count_of(page, "<table"), 3);
	ck_assert_uint_eq(count_of(page, "11.62"), 2 + 4);
	ck_assert_uint_eq(count_of(page, "4.22 KiB"), 2);
	ck_assert_uint_eq(count_of(page, "200 k ops/s"), 4);
	ck_assert_ptr_nonnull(strstr(page, "prefers-color-scheme:dark"));
	ck_assert_ptr_nonnull(strstr(page, "Every answer of every run was right"));
	ck_assert_ptr_nonnull(strstr(page, "<td>100000</td>"));
	free(page);
}
END_TEST

/* The learning filter's curve ends on the line of zero, the lowest of the picture. */
START_TEST(no_false_positive_is_a_place_on_the_scale)
{
	struct report_run run = ordinary_run("readmissing", "aqf", true);
	struct report report = {"zero", NULL, 0, &run, 1};
	char *page = page_of(&report);
	const char *zero = strstr(page, ">0</text>");
	const char *curve = strstr(page, "<path class=\"curve c0\" d=\"M5");
	double grid_y = 0, label_y, end_y;
	const char *circle;

	check_page(page);
	ck_assert_ptr_nonnull(zero);
	while (zero[-1] != '<')
		zero--;
	ck_assert_int_eq(sscanf(strstr(zero, "y=\""), "y=\"%lf", &label_y), 1);
	grid_y = label_y - 4;
	ck_assert_ptr_nonnull(curve);
	circle = strstr(curve, "cy=\"");
	ck_assert_int_eq(sscanf(circle, "cy=\"%lf", &end_y), 1);
	ck_assert_double_eq_tol(end_y, grid_y, 0.2);
	free(page);
}
END_TEST

START_TEST(wrong_results_are_told_first)
{
	struct report_run runs[] = {ordinary_run("readmix", "a", true),
				    ordinary_run("readmix", "b", true)};
	struct report report = {"wrong", NULL, 0, runs, 2};
	char *page;

	runs[1].wrong_results = 3;
	page = page_of(&report);
	check_page(page);
	ck_assert_ptr_nonnull(strstr(page, "Wrong answers in 1 of 2 runs"));
	ck_assert_ptr_nonnull(strstr(page, "<td class=\"bad\">3</td>"));
	free(page);
}
END_TEST

START_TEST(a_benchmark_run_twice_is_two_groups)
{
	struct report_run runs[] = {ordinary_run("readmix", "a", true),
				    ordinary_run("readmix", "a", true)};
	struct report report = {"twice", NULL, 0, runs, 2};
	char *page = page_of(&report);

	ck_assert_uint_eq(count_of(page, "<h3>readmix</h3>"), 3);
	ck_assert_uint_eq(count_of(page, "<h3>readmix (2)</h3>"), 3);
	runs[1].engine = "rocksdb";
	free(page);
	page = page_of(&report);
	check_page(page);
	ck_assert_uint_eq(count_of(page, "<h3>readmix, memory</h3>"), 3);
	ck_assert_uint_eq(count_of(page, "<h3>readmix, rocksdb</h3>"), 3);
	free(page);
}
END_TEST

START_TEST(text_is_escaped_wherever_it_stands)
{
	static const char evil[] = "\"><script>alert('1')</script>&amp;"
		"\x01\x7f\xff\xc0\x80\xed\xa0\x80";
	const char *const facts[][2] = {{evil, evil}, {NULL, NULL}};
	struct report_run run = ordinary_run(evil, evil, true);
	struct report report = {evil, facts, 2, &run, 1};
	char *page;

	run.engine = evil;
	page = page_of(&report);
	check_page(page);
	ck_assert_ptr_nonnull(strstr(page, "&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)"));
	ck_assert_ptr_nonnull(strstr(page, "&amp;amp;\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"));
	for (const char *at = page; *at; at++) {
		expect((unsigned char)*at >= 0x20 || *at == '\n');
		expect((unsigned char)*at != 0xff && (unsigned char)*at != 0xc0);
	}
	free(page);
}
END_TEST

START_TEST(good_characters_stay)
{
	struct report_run run = ordinary_run("größe", "\xe2\x82\xac \xf0\x9f\x8c\xbe", true);
	struct report report = {"Spreu & Weizen – 麦", NULL, 0, &run, 1};
	char *page = page_of(&report);

	check_page(page);
	ck_assert_ptr_nonnull(strstr(page, "Spreu &amp; Weizen – 麦"));
	ck_assert_ptr_nonnull(strstr(page, "größe"));
	ck_assert_ptr_nonnull(strstr(page, "\xe2\x82\xac \xf0\x9f\x8c\xbe"));
	ck_assert_ptr_null(strstr(page, "\xef\xbf\xbd"));
	free(page);
}
END_TEST

START_TEST(a_long_name_is_cut_between_characters)
{
	char name[400] = "";
	struct report_run run = ordinary_run("readmix", name, true);
	struct report report = {"long", NULL, 0, &run, 1};

	for (size_t i = 0; i < 4; i++) {
		char *page;

		memset(name, 'x', i);
		name[i] = '\0';
		for (size_t j = 0; j < 60; j++)
			strcat(name, "ü");
		page = page_of(&report);
		check_page(page);
		ck_assert_ptr_null(strstr(page, "\xef\xbf\xbd"));
		ck_assert_ptr_nonnull(strstr(page, "ü\xe2\x80\xa6</text>"));
		free(page);
	}
}
END_TEST

START_TEST(nothing_is_a_report_too)
{
	struct report_run run = {0};
	struct report none = {NULL, NULL, 0, NULL, 0}, empty = {NULL, NULL, 0, &run, 1};
	char *page = page_of(&none);

	check_page(page);
	ck_assert_ptr_nonnull(strstr(page, "Nothing was measured"));
	free(page);
	page = page_of(&empty);
	check_page(page);
	ck_assert_uint_eq(count_of(page, "<div class=\"card\">"), 1);
	free(page);
}
END_TEST

START_TEST(any_number_gives_a_page)
{
	static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e-320, 1e-9, 0.5, 1,
				     999.96, 1e15, 1e300, 1.7976931348623157e308};
	size_t count = sizeof(odd) / sizeof(*odd);

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < count; j++) {
			struct report_point points[] = {{odd[i], odd[j]}, {odd[j], odd[i]},
							{1, 1}, {odd[i], odd[i]}};
			struct report_run run = ordinary_run("odd", "numbers", true);
			struct report report = {"odd", NULL, 0, &run, 1};
			char *page;

			run.latency = run.false_positives = points;
			run.latency_count = run.false_positive_count = i % 5;
			run.ops = run.found = run.filter_bytes = run.interval = UINT64_MAX;
			run.seconds = odd[i];
			run.ops_per_sec = odd[j];
			run.bits_per_key = odd[i];
			page = page_of(&report);
			check_page(page);
			free(page);
		}
	}
}
END_TEST

START_TEST(many_filters_share_the_colours)
{
	static char names[40][12];
	struct report_run runs[40];
	struct report report = {"many", NULL, 0, runs, 40};
	char *page;

	for (size_t i = 0; i < 40; i++) {
		snprintf(names[i], sizeof(names[i]), "filter%zu", i);
		runs[i] = ordinary_run("readmix", names[i], i % 2);
	}
	page = page_of(&report);
	check_page(page);
	ck_assert_ptr_nonnull(strstr(page, "curve c7 dashed"));
	ck_assert_ptr_null(strstr(page, "curve c8"));
	free(page);
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
	struct report_run run = ordinary_run("readmix", "aqf", true);
	struct report report = {"full", NULL, 0, &run, 1};
	FILE *full = fopen("/dev/full", "w");

	if (!full)
		return;
	ck_assert_int_eq(report_write(&report, full), ENOSPC);
	fclose(full);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("report");
	TCase *pages = tcase_create("pages"), *odd = tcase_create("odd");

	tcase_add_test(pages, a_report_has_pictures_and_tables);
	tcase_add_test(pages, no_false_positive_is_a_place_on_the_scale);
	tcase_add_test(pages, wrong_results_are_told_first);
	tcase_add_test(pages, a_benchmark_run_twice_is_two_groups);
	tcase_add_test(odd, text_is_escaped_wherever_it_stands);
	tcase_add_test(odd, good_characters_stay);
	tcase_add_test(odd, a_long_name_is_cut_between_characters);
	tcase_add_test(odd, nothing_is_a_report_too);
	tcase_add_test(odd, any_number_gives_a_page);
	tcase_add_test(odd, many_filters_share_the_colours);
	tcase_add_test(odd, a_full_disk_is_an_error);
	suite_add_tcase(suite, pages);
	suite_add_tcase(suite, odd);
	return test_run(suite);
}
