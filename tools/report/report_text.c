/* report_text.c - strings and numbers, fit to be read in a page. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "report_parts.h"

/* Bytes of the UTF-8 character at `at`, 0 if it is none that a page may hold. */
static size_t character_size(const unsigned char *at)
{
	size_t size = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3
		    : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;

	/* The string's end is no continuation byte, so this stops there. */
	for (size_t i = 1; i < size; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if (size == 1)
		return *at >= 0x20 && *at != 0x7f;
	if (size == 2)
		return *at == 0xc2 && at[1] < 0xa0 ? 0 : 2;
	if (size == 3 && ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) ||
			  (*at == 0xef && at[1] == 0xbf && at[2] >= 0xbe)))
		return 0;
	if (size == 4 && ((*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] >= 0x90)))
		return 0;
	return size;
}

static const char *entity_for(unsigned char character)
{
	switch (character) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	case '\t':
	case '\n':
		return " ";
	default:
		return NULL;
	}
}

void report_put_text(FILE *to, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (at && *at) {
		const char *entity = entity_for(*at);
		size_t size = entity ? 1 : character_size(at);

		if (entity)
			fputs(entity, to);
		else if (size)
			fwrite(at, 1, size, to);
		else
			fputs("\xef\xbf\xbd", to);
		at += size ? size : 1;
	}
}

static struct report_number dash(void)
{
	return (struct report_number){ "\xe2\x80\x93" };
}

struct report_number report_count(uint64_t count)
{
	struct report_number number;
	char digits[24];
	size_t length, at = 0;

	snprintf(digits, sizeof(digits), "%" PRIu64, count);
	length = strlen(digits);
	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			number.text[at++] = ',';
		number.text[at++] = digits[i];
	}
	number.text[at] = '\0';
	return number;
}

/* Three digits that count, never 1000 of a unit. */
static struct report_number with_unit(double value, double step, const char *const *units,
				      size_t unit_count, bool trim)
{
	struct report_number number;
	size_t unit = 0;
	double size;

	if (!isfinite(value))
		return dash();
	while (unit + 1 < unit_count && fabs(value) >= 0.9995 * step) {
		value /= step;
		unit++;
	}
	size = fabs(value);
	if (trim || size >= 1e6)
		snprintf(number.text, sizeof(number.text), "%.3g%s%s", value,
			 *units[unit] ? " " : "", units[unit]);
	else
		snprintf(number.text, sizeof(number.text), "%.*f%s%s",
			 size >= 99.95 || (unit == 0 && value == floor(value)) ? 0
			 : size >= 9.995 ? 1 : 2,
			 value, *units[unit] ? " " : "", units[unit]);
	return number;
}

static const char *const thousands[] = { "", "k", "M", "G", "T" };

struct report_number report_short(double value)
{
	return with_unit(value, 1000, thousands, sizeof(thousands) / sizeof(*thousands), false);
}

struct report_number report_tick(double value)
{
	return with_unit(value, 1000, thousands, sizeof(thousands) / sizeof(*thousands), true);
}

struct report_number report_bytes(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };

	return with_unit((double)bytes, 1024, units, sizeof(units) / sizeof(*units), false);
}

struct report_number report_real(double value, int decimals)
{
	struct report_number number;

	if (!isfinite(value))
		return dash();
	snprintf(number.text, sizeof(number.text), fabs(value) < 1e15 ? "%.*f" : "%.*g", decimals,
		 value);
	return number;
}
