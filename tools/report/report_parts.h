/* report_parts.h - what the pages of a report are put together from. */
#ifndef WN_TOOLS_REPORT_REPORT_PARTS_H
#define WN_TOOLS_REPORT_REPORT_PARTS_H

#include "report.h"

/* As many colours as the style sheet has; then they come again, dashed. */
#define REPORT_COLOURS 8

/* ---- text (report_text.c) ----------------------------------------------- */

/* `text` as it may stand between tags and in attributes; NULL is nothing. Bytes that
 * are not UTF-8, and control characters, become U+FFFD. */
void report_put_text(FILE *to, const char *text);

/* Numbers for people. What is not a number is a dash. */
struct report_number {
	char text[32];
};
struct report_number report_count(uint64_t count);   /* 1,234,567 */
struct report_number report_short(double value);     /* 1.23 M */
struct report_number report_tick(double value);      /* 1.2 M, 5 k: no zeros at the end */
struct report_number report_bytes(uint64_t bytes);   /* 1.18 MiB */
struct report_number report_real(double value, int decimals);

/* ---- charts (report_chart.c) -------------------------------------------- */

enum report_scale {
	REPORT_LINEAR,     /* from 0 on */
	REPORT_LOG,
	REPORT_LOG_ZERO,   /* with a place for 0, one decade below 1 */
	REPORT_PERCENTILE  /* each decade nearer to 100 has the same room */
};

struct report_series {
	unsigned colour;
	const struct report_point *points;
	size_t count;
};

struct report_chart {
	const char *x_label, *y_label;
	enum report_scale x_scale, y_scale;
	const struct report_series *series;
	size_t count;
};

/* Is there anything in the chart to be drawn? */
int report_chart_has_points(const struct report_chart *chart);
void report_put_chart(FILE *to, const struct report_chart *chart);

struct report_bar {
	unsigned colour;
	const char *label;
	double value;
};

void report_put_bars(FILE *to, const struct report_bar *bars, size_t count, const char *unit);

#endif /* WN_TOOLS_REPORT_REPORT_PARTS_H */
