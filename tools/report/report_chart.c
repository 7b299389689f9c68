/* report_chart.c - bars and curves in SVG.
 *
 * Everything is drawn in a box of WIDTH units that the page stretches to the room it
 * has: on a small screen a unit is a pixel or a little less, so text stays readable. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "report_parts.h"

#define WIDTH 420
#define HEIGHT 256
#define LEFT 52
#define RIGHT 12
#define TOP 30
#define BOTTOM 40

/* More points than this cannot be told apart. */
#define MAX_DRAWN 400

struct axis {
	enum report_scale scale;
	double low, high; /* as place_on() gives them */
	double length;
};

/* A value's place on a scale, in units of the scale: decades, mostly. */
static double place_on(enum report_scale scale, double value)
{
	switch (scale) {
	case REPORT_LOG:
		return log10(value > DBL_MIN ? value : DBL_MIN);
	case REPORT_LOG_ZERO:
		return value <= 0 ? -1 : value < 1 ? value - 1 : log10(value);
	case REPORT_PERCENTILE:
		return value >= 100 ? HUGE_VAL : value <= 0 ? 0 : -log10(1 - value / 100);
	case REPORT_LINEAR:
		break;
	}
	return value > 0 ? value : 0;
}

static bool can_draw(const struct report_chart *chart, const struct report_point *point)
{
	return isfinite(point->x) && isfinite(point->y) &&
	       (chart->y_scale != REPORT_LOG || point->y > 0);
}

int report_chart_has_points(const struct report_chart *chart)
{
	for (size_t i = 0; i < chart->count; i++)
		for (size_t j = 0; j < chart->series[i].count; j++)
			if (can_draw(chart, &chart->series[i].points[j]))
				return 1;
	return 0;
}

/* ---- axes --------------------------------------------------------------- */

static void widen(struct axis *axis, double value)
{
	double place = place_on(axis->scale, value);

	if (!isfinite(place))
		return;
	axis->low = place < axis->low ? place : axis->low;
	axis->high = place > axis->high ? place : axis->high;
}

static void round_axis(struct axis *axis)
{
	if (axis->low > axis->high)
		axis->low = axis->high = 0;
	switch (axis->scale) {
	case REPORT_LINEAR:
		axis->low = 0;
		axis->high = axis->high > 0 ? axis->high : 1;
		return;
	case REPORT_PERCENTILE:
		/* Room behind the last percentile for the maximum. */
		axis->low = 0;
		axis->high = axis->high < 1 ? 1.6 : axis->high + 0.6;
		return;
	case REPORT_LOG_ZERO:
		axis->low = -1;
		break;
	case REPORT_LOG:
		axis->low = floor(axis->low);
		break;
	}
	axis->high = ceil(axis->high);
	if (axis->high < axis->low + 2)
		axis->high = axis->low + 2;
}

static double at_axis(const struct axis *axis, double value)
{
	double place = place_on(axis->scale, value);

	place = place < axis->high ? place : axis->high;
	place = place > axis->low ? place : axis->low;
	return (place - axis->low) / (axis->high - axis->low) * axis->length;
}

static void fit_axes(const struct report_chart *chart, struct axis *x, struct axis *y)
{
	*x = (struct axis){ chart->x_scale, HUGE_VAL, -HUGE_VAL, WIDTH - LEFT - RIGHT };
	*y = (struct axis){ chart->y_scale, HUGE_VAL, -HUGE_VAL, HEIGHT - TOP - BOTTOM };
	for (size_t i = 0; i < chart->count; i++) {
		for (size_t j = 0; j < chart->series[i].count; j++) {
			const struct report_point *point = &chart->series[i].points[j];

			if (!can_draw(chart, point))
				continue;
			widen(x, point->x);
			widen(y, point->y);
		}
	}
	round_axis(x);
	round_axis(y);
}

static void put_y_tick(FILE *to, const struct axis *axis, double value, const char *label)
{
	double y = HEIGHT - BOTTOM - at_axis(axis, value);

	fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
	fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6, y + 4,
		label);
}

static void put_x_tick(FILE *to, const struct axis *axis, double value, const char *label)
{
	double x = LEFT + at_axis(axis, value);

	fprintf(to, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, HEIGHT - BOTTOM,
		HEIGHT - BOTTOM + 4);
	fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x,
		HEIGHT - BOTTOM + 16, x > WIDTH - RIGHT - 12 ? "end" : "middle", label);
}

/* 1, 2 or 5 times a power of ten: about `count` steps make the whole. */
static double step_for(double whole, int count)
{
	double power = pow(10, floor(log10(whole / count)));
	double times = whole / count / power;

	return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void put_linear_ticks(FILE *to, const struct axis *axis,
			     void put(FILE *, const struct axis *, double, const char *))
{
	double step = step_for(axis->high, 4);

	if (!isfinite(step) || step <= 0)
		return;
	for (int i = 0; i <= 10 && i * step <= axis->high * 1.0001; i++)
		put(to, axis, i * step, report_tick(i * step).text);
}

static void put_log_ticks(FILE *to, const struct axis *axis,
			  void put(FILE *, const struct axis *, double, const char *))
{
	double decades = ceil((axis->high - axis->low) / 7);

	if (axis->scale == REPORT_LOG_ZERO)
		put(to, axis, 0, "0");
	for (double at = axis->scale == REPORT_LOG_ZERO ? 0 : axis->low; at <= axis->high;
	     at += decades) {
		char small[32];

		snprintf(small, sizeof(small), "%g", pow(10, at));
		put(to, axis, pow(10, at),
		    at < 0 || at > 14 ? small : report_tick(pow(10, at)).text);
	}
}

static void put_percentile_ticks(FILE *to, const struct axis *axis,
				 void put(FILE *, const struct axis *, double, const char *))
{
	static const struct {
		double value;
		const char *label;
	} ticks[] = { { 0, "0" }, { 50, "50" }, { 90, "90" }, { 99, "99" }, { 99.9, "99.9" },
		      { 99.99, "99.99" }, { 99.999, "99.999" } };
	double free_from = 0;

	/* Labels that would touch are left out. */
	for (size_t i = 0; i < sizeof(ticks) / sizeof(*ticks); i++) {
		double at = at_axis(axis, ticks[i].value);
		double half = 5 + 3.7 * (double)strlen(ticks[i].label);

		if ((i > 0 && at - half < free_from) || at + half > axis->length - 28)
			continue;
		put(to, axis, ticks[i].value, ticks[i].label);
		free_from = at + half;
	}
	put(to, axis, 100, "max");
}

static void put_ticks(FILE *to, const struct axis *axis,
		      void put(FILE *, const struct axis *, double, const char *))
{
	switch (axis->scale) {
	case REPORT_LINEAR:
		put_linear_ticks(to, axis, put);
		return;
	case REPORT_LOG:
	case REPORT_LOG_ZERO:
		put_log_ticks(to, axis, put);
		return;
	case REPORT_PERCENTILE:
		put_percentile_ticks(to, axis, put);
	}
}

static void put_labels(FILE *to, const struct report_chart *chart)
{
	fprintf(to, "<text class=\"axis\" x=\"2\" y=\"12\">");
	report_put_text(to, chart->y_label);
	fprintf(to, "</text><text class=\"axis\" x=\"%d\" y=\"%d\" text-anchor=\"end\">",
		WIDTH - RIGHT, HEIGHT - 6);
	report_put_text(to, chart->x_label);
	fprintf(to, "</text>\n");
}

/* ---- curves ------------------------------------------------------------- */

/* The highest of some neighbours: a peak is never hidden, a calm is never made up. */
static const struct report_point *highest(const struct report_chart *chart,
					  const struct report_point *points, size_t count)
{
	const struct report_point *found = NULL;

	for (size_t i = 0; i < count; i++)
		if (can_draw(chart, &points[i]) && (!found || points[i].y > found->y))
			found = &points[i];
	return found;
}

static void put_curve(FILE *to, const struct report_chart *chart,
		      const struct report_series *series, const struct axis *x,
		      const struct axis *y)
{
	size_t each = (series->count + MAX_DRAWN - 1) / MAX_DRAWN;
	size_t drawn = 0;
	double last_x = 0, last_y = 0;

	fprintf(to, "<path class=\"curve c%u%s\" d=\"", series->colour % REPORT_COLOURS,
		series->colour >= REPORT_COLOURS ? " dashed" : "");
	for (size_t i = 0; i < series->count; i += each) {
		size_t left = series->count - i;
		const struct report_point *point =
			highest(chart, series->points + i, left < each ? left : each);

		if (!point)
			continue;
		last_x = LEFT + at_axis(x, point->x);
		last_y = HEIGHT - BOTTOM - at_axis(y, point->y);
		fprintf(to, "%c%.1f %.1f", drawn++ ? 'L' : 'M', last_x, last_y);
	}
	/* An empty path is not drawn, but "M" must be there to make it one. */
	fprintf(to, "%s\"/>\n", drawn ? "" : "M0 0");
	if (drawn > 0)
		fprintf(to, "<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
			series->colour % REPORT_COLOURS, last_x, last_y);
}

void report_put_chart(FILE *to, const struct report_chart *chart)
{
	struct axis x, y;

	fit_axes(chart, &x, &y);
	fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
	report_put_text(to, chart->y_label);
	fprintf(to, "\">\n");
	put_ticks(to, &y, put_y_tick);
	put_ticks(to, &x, put_x_tick);
	put_labels(to, chart);
	for (size_t i = 0; i < chart->count; i++)
		put_curve(to, chart, &chart->series[i], &x, &y);
	fprintf(to, "</svg>\n");
}

/* ---- bars --------------------------------------------------------------- */

#define BAR_ROW 36
#define BAR_HEIGHT 12

/* Room for about this many characters beside the value; the legend has them all. */
#define BAR_LABEL 36

static void put_bar_label(FILE *to, const char *label)
{
	char start[BAR_LABEL + 1];
	size_t size = BAR_LABEL;

	if (!label || strlen(label) <= BAR_LABEL) {
		report_put_text(to, label);
		return;
	}
	/* Not in the middle of a character. */
	while (size > 0 && ((unsigned char)label[size] & 0xc0) == 0x80)
		size--;
	memcpy(start, label, size);
	start[size] = '\0';
	report_put_text(to, start);
	fputs("\xe2\x80\xa6", to);
}

void report_put_bars(FILE *to, const struct report_bar *bars, size_t count, const char *unit)
{
	double highest_bar = 0;

	for (size_t i = 0; i < count; i++)
		if (isfinite(bars[i].value) && bars[i].value > highest_bar)
			highest_bar = bars[i].value;
	fprintf(to, "<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"", WIDTH,
		count * BAR_ROW + 4);
	report_put_text(to, unit);
	fprintf(to, "\">\n");
	for (size_t i = 0; i < count; i++) {
		double share = isfinite(bars[i].value) && bars[i].value > 0
				       ? bars[i].value / highest_bar : 0;
		size_t y = i * BAR_ROW;

		fprintf(to, "<text x=\"0\" y=\"%zu\">", y + 13);
		put_bar_label(to, bars[i].label);
		fprintf(to, "</text><text class=\"value\" x=\"%d\" y=\"%zu\" text-anchor=\"end\">",
			WIDTH, y + 13);
		fprintf(to, "%s ", report_short(bars[i].value).text);
		report_put_text(to, unit);
		fprintf(to, "</text><rect class=\"track\" x=\"0\" y=\"%zu\" width=\"%d\" "
			"height=\"%d\" rx=\"3\"/>", y + 18, WIDTH, BAR_HEIGHT);
		fprintf(to, "<rect class=\"c%u\" x=\"0\" y=\"%zu\" width=\"%.1f\" height=\"%d\" "
			"rx=\"3\"/>\n", bars[i].colour % REPORT_COLOURS, y + 18, share * WIDTH,
			BAR_HEIGHT);
	}
	fprintf(to, "</svg>\n");
}
