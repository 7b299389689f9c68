/* options.c - options strings: "kind:option=value;option=value".
 *
 * Numbers are read and written by hand: strtod() and printf() follow the
 * process's locale, and an options file must mean the same everywhere. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "kind.h"

/* Pieces longer than this are cut in messages. */
#define MAX_QUOTED 40

/* A piece of the options string; not terminated. */
struct piece {
	const char *text;
	size_t length;
};

/* Where complaints go. `text` is always there and terminated. */
struct message {
	char *text;
	size_t size;
	size_t length;
};

/* ---- messages ----------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void say(struct message *message, const char *format, ...)
{
	size_t room = message->size - message->length;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(message->text + message->length, room, format, args);
	va_end(args);
	if (length > 0)
		message->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* The piece in quotes, harmless to print whatever is in it. */
static void say_quoted(struct message *message, struct piece piece)
{
	char quoted[MAX_QUOTED + 1];
	size_t length = piece.length < MAX_QUOTED ? piece.length : MAX_QUOTED;

	for (size_t i = 0; i < length; i++)
		quoted[i] = piece.text[i] >= ' ' && piece.text[i] <= '~' ? piece.text[i] : '?';
	quoted[length] = '\0';
	say(message, "\"%s%s\"", quoted, piece.length > MAX_QUOTED ? "..." : "");
}

/* As "%g", with a point whatever the locale has there. */
static void say_number(struct message *message, double number)
{
	char text[32], plain[32];
	size_t length = 0;

	snprintf(text, sizeof(text), "%.10g", number);
	for (const char *at = text; *at; at++) {
		if (strchr("0123456789+-e", *at))
			plain[length++] = *at;
		else if (length == 0 || plain[length - 1] != '.')
			plain[length++] = '.';
	}
	plain[length] = '\0';
	say(message, "%s", plain);
}

static void say_allowed(struct message *message, const struct wn__option *option)
{
	say(message, "%s from ",
	    option->type == WN__OPTION_INTEGER ? "a whole number" : "a number");
	say_number(message, option->min);
	say(message, " to ");
	say_number(message, option->max);
}

static int refuse_kind(struct message *message, struct piece name)
{
	say(message, "unknown filter kind ");
	say_quoted(message, name);
	say(message, "; the kinds are:");
	for (size_t i = 0; wn__kind_at(i); i++)
		say(message, "%s %s", i ? "," : "", wn__kind_at(i)->name);
	return WN_ERR_OPTION;
}

static int refuse_option(struct message *message, const struct wn__kind *kind, struct piece name)
{
	say(message, "%s: unknown option ", kind->name);
	say_quoted(message, name);
	say(message, "; the options are:");
	for (size_t i = 0; i < kind->option_count; i++)
		say(message, "%s %s", i ? "," : "", kind->options[i].name);
	return WN_ERR_OPTION;
}

static int refuse_value(struct message *message, const struct wn__kind *kind,
			const struct wn__option *option, struct piece value)
{
	say(message, "%s: option \"%s\" cannot be ", kind->name, option->name);
	say_quoted(message, value);
	say(message, "; allowed is ");
	say_allowed(message, option);
	return WN_ERR_OPTION;
}

/* ---- numbers ------------------------------------------------------------ */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool take(struct piece *piece, char c)
{
	if (!piece->length || *piece->text != c)
		return false;
	piece->text++;
	piece->length--;
	return true;
}

/* A number as it is read: mantissa * 10^exponent. */
struct decimal {
	bool negative;
	uint64_t mantissa;
	long exponent;
};

/* Far past every double, and far from overflow when such are added. */
#define EXPONENT_LIMIT 100000L

/* Digits into the mantissa; those past what 64 bits hold only shift it. False
 * if there is none. */
static bool take_digits(struct piece *piece, struct decimal *number, bool fraction)
{
	bool any = false;

	for (; piece->length && is_digit(*piece->text); piece->text++, piece->length--) {
		unsigned digit = (unsigned)(*piece->text - '0');

		any = true;
		if (number->mantissa <= (UINT64_MAX - 9) / 10) {
			number->mantissa = number->mantissa * 10 + digit;
			number->exponent -= fraction;
		} else if (!fraction) {
			number->exponent++;
		}
	}
	return any;
}

static bool take_exponent(struct piece *piece, struct decimal *number)
{
	struct decimal exponent = { .negative = take(piece, '-') };

	if (!exponent.negative)
		take(piece, '+');
	if (!take_digits(piece, &exponent, false))
		return false;
	if (exponent.exponent || exponent.mantissa > EXPONENT_LIMIT)
		exponent.mantissa = EXPONENT_LIMIT;
	number->exponent += exponent.negative ? -(long)exponent.mantissa : (long)exponent.mantissa;
	return true;
}

/* The whole piece is one number: [+-] digits [. digits] [e [+-] digits], with a
 * digit before or after the point. */
static bool read_decimal(struct piece piece, struct decimal *number)
{
	bool any;

	*number = (struct decimal){ .negative = take(&piece, '-') };
	if (!number->negative)
		take(&piece, '+');
	any = take_digits(&piece, number, false);
	if (take(&piece, '.'))
		any |= take_digits(&piece, number, true);
	if (any && (take(&piece, 'e') || take(&piece, 'E')))
		any = take_exponent(&piece, number);
	return any && !piece.length;
}

/* Exactly rounded for numbers of up to 15 digits and powers up to 10^22: both
 * factors are then exact. Others may be off in the last place. */
static double decimal_value(const struct decimal *number)
{
	double value = (double)number->mantissa;
	long left = labs(number->exponent);

	while (left && value > 0 && !isinf(value)) {
		long step = left < 22 ? left : 22;
		double power = 1;

		for (long i = 0; i < step; i++)
			power *= 10;
		value = number->exponent < 0 ? value / power : value * power;
		left -= step;
	}
	return number->negative ? -value : value;
}

static bool read_real(struct piece piece, double *valuep)
{
	struct decimal number;

	if (!read_decimal(piece, &number))
		return false;
	*valuep = decimal_value(&number);
	return true;
}

/* Digits only: 9.0 and 1e3 are no whole numbers here. */
static bool read_integer(struct piece piece, double *valuep)
{
	for (size_t i = 0; i < piece.length; i++) {
		bool sign = i == 0 && (piece.text[0] == '-' || piece.text[0] == '+');

		if (!sign && !is_digit(piece.text[i]))
			return false;
	}
	return read_real(piece, valuep);
}

/* ---- the string --------------------------------------------------------- */

static bool is_named(struct piece piece, const char *name)
{
	return strlen(name) == piece.length && memcmp(piece.text, name, piece.length) == 0;
}

/* Cut off and return what comes before `separator`. Without one: all of it,
 * and *rest ends up with NULL text. */
static struct piece cut(struct piece *rest, char separator)
{
	struct piece piece = *rest;
	const char *at = memchr(rest->text, separator, rest->length);

	if (!at) {
		*rest = (struct piece){ NULL, 0 };
		return piece;
	}
	piece.length = (size_t)(at - piece.text);
	*rest = (struct piece){ at + 1, rest->length - piece.length - 1 };
	return piece;
}

static const struct wn__kind *find_kind(struct piece name)
{
	const struct wn__kind *kind;

	for (size_t i = 0; (kind = wn__kind_at(i)); i++)
		if (is_named(name, kind->name))
			break;
	return kind;
}

static int set_value(struct wn_config *config, size_t index, struct piece value,
		     struct message *message)
{
	const struct wn__option *option = &config->kind->options[index];
	bool integer = option->type == WN__OPTION_INTEGER;
	double number;

	if (!(integer ? read_integer(value, &number) : read_real(value, &number)) ||
	    !(number >= option->min && number <= option->max))
		return refuse_value(message, config->kind, option, value);
	config->values[index] = number;
	config->given[index] = true;
	return 0;
}

static int parse_assignment(struct wn_config *config, struct piece assignment,
			    struct message *message)
{
	const struct wn__kind *kind = config->kind;
	struct piece value = assignment;
	struct piece name = cut(&value, '=');

	if (!name.length || !value.text) {
		say(message, "%s: ", kind->name);
		say_quoted(message, assignment);
		say(message, " is not of the form option=value");
		return WN_ERR_OPTION;
	}
	for (size_t i = 0; i < kind->option_count; i++) {
		if (!is_named(name, kind->options[i].name))
			continue;
		if (!config->given[i])
			return set_value(config, i, value, message);
		say(message, "%s: option \"%s\" is given twice, now with ", kind->name,
		    kind->options[i].name);
		say_quoted(message, value);
		say(message, "; once is allowed");
		return WN_ERR_OPTION;
	}
	return refuse_option(message, kind, name);
}

static int parse(struct wn_config *config, struct piece text, struct message *message)
{
	struct piece kind_name = cut(&text, ':');
	const struct wn__kind *kind = find_kind(kind_name);

	if (!kind)
		return refuse_kind(message, kind_name);
	wn__config_init(config, kind);
	while (text.text) {
		int err = parse_assignment(config, cut(&text, ';'), message);

		if (err)
			return err;
	}
	return kind->check_config ? kind->check_config(config, message->text, message->size) : 0;
}

void wn__config_init(struct wn_config *config, const struct wn__kind *kind)
{
	memset(config, 0, sizeof(*config));
	config->kind = kind;
	for (size_t i = 0; i < kind->option_count; i++)
		config->values[i] = kind->options[i].fallback;
}

int wn_config_parse(const char *text, char *message, size_t message_size,
		    struct wn_config **configp)
{
	char unwanted[1];
	struct message complaint = { message, message_size, 0 };
	struct wn_config *config;
	int err;

	*configp = NULL;
	if (!message || !message_size)
		complaint = (struct message){ unwanted, sizeof(unwanted), 0 };
	complaint.text[0] = '\0';
	if (!text)
		return WN_ERR_INVALID;
	config = wn__alloc(sizeof(*config));
	if (!config)
		return ENOMEM;
	err = parse(config, (struct piece){ text, strlen(text) }, &complaint);
	if (err) {
		free(config);
		return err;
	}
	*configp = config;
	return 0;
}

void wn_config_destroy(struct wn_config *config)
{
	free(config);
}

/* ---- sizes -------------------------------------------------------------- */

static bool says_size(const struct wn_config *config)
{
	for (size_t i = 0; i < config->kind->option_count; i++)
		if (config->given[i] && config->kind->options[i].sizes)
			return true;
	return false;
}

/* The text, with the size behind it if that is not 0; in tenths, and no locale's. */
static char *write_size(const char *options, unsigned tenths)
{
	size_t size = strlen(options) + 40;
	char *text = wn__alloc(size);

	if (text && tenths)
		snprintf(text, size, "%s%cbits_per_key=%u.%u", options,
			 strchr(options, ':') ? ';' : ':', tenths / 10, tenths % 10);
	else if (text)
		snprintf(text, size, "%s", options);
	return text;
}

static bool is_understood(const char *text)
{
	struct wn_config *config;
	int err = wn_config_parse(text, NULL, 0, &config);

	wn_config_destroy(config);
	return !err;
}

int wn__options_of_size(const char *options, double bits, char *message, size_t message_size,
			char **textp)
{
	struct wn_config *config;
	int err = wn_config_parse(options, message, message_size, &config);
	unsigned tenths = 0;

	*textp = NULL;
	if (err)
		return err;
	if (bits > 0 && bits < 1000 && !says_size(config))
		tenths = (unsigned)(bits * 10 + 0.5);
	wn_config_destroy(config);
	*textp = write_size(options, tenths);
	if (*textp && !is_understood(*textp)) {
		free(*textp);
		*textp = write_size(options, 0);
	}
	return *textp ? 0 : ENOMEM;
}
