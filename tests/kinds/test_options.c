/* test_options.c - options strings. */
#include <errno.h>
#include <locale.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "base/alloc.h"
#include "kinds/kind.h"
#include "tests/support/common.h"

static char message[400];

static struct wn_config *parse(const char *text)
{
	struct wn_config *config = NULL;
	int err = wn_config_parse(text, message, sizeof(message), &config);

	ck_assert_msg(err == 0, "%s: %s", text, message);
	ck_assert_ptr_nonnull(config);
	ck_assert_str_eq(message, "");
	return config;
}

static size_t option_index(const struct wn_config *config, const char *name)
{
	for (size_t i = 0; i < config->kind->option_count; i++) {
		if (strcmp(config->kind->options[i].name, name) == 0)
			return i;
	}
	ck_abort_msg("no option %s", name);
}

static double value_of(const char *text, const char *option)
{
	struct wn_config *config = parse(text);
	double value = config->values[option_index(config, option)];

	wn_config_destroy(config);
	return value;
}

static void assert_refused(const char *text)
{
	struct wn_config *config = (void *)1;

	memset(message, 'x', sizeof(message));
	if (wn_config_parse(text, message, sizeof(message), &config) != WN_ERR_OPTION)
		ck_abort_msg("\"%s\" was not refused", text);
	ck_assert_ptr_null(config);
	ck_assert_ptr_nonnull(memchr(message, '\0', sizeof(message)));
	ck_assert_uint_gt(strlen(message), 10);
	for (const char *at = message; *at; at++)
		ck_assert_msg(*at >= ' ' && *at <= '~', "unprintable message for \"%s\"", text);
}

static void assert_said(const char *part)
{
	ck_assert_msg(strstr(message, part), "\"%s\" is not in \"%s\"", part, message);
}

/* ---- good strings ------------------------------------------------------- */

START_TEST(a_kind_alone_means_its_defaults)
{
	struct wn_config *config = parse("aqf");

	ck_assert_uint_eq(config->kind->id, WN_KIND_AQF);
	for (size_t i = 0; i < config->kind->option_count; i++) {
		ck_assert(config->values[i] == config->kind->options[i].fallback);
		ck_assert(!config->given[i]);
	}
	wn_config_destroy(config);
	wn_config_destroy(NULL);
}
END_TEST

START_TEST(given_options_are_set_and_the_others_stay)
{
	struct wn_config *config = parse("aqf:load=0.5;remainder_bits=11");
	size_t load = option_index(config, "load");
	size_t bits = option_index(config, "remainder_bits");

	for (size_t i = 0; i < config->kind->option_count; i++) {
		double expected = i == load ? 0.5 :
				  i == bits ? 11 :
					      config->kind->options[i].fallback;

		ck_assert(config->values[i] == expected);
		ck_assert(config->given[i] == (i == load || i == bits));
	}
	wn_config_destroy(config);
}
END_TEST

START_TEST(the_ends_of_a_range_are_allowed)
{
	ck_assert(value_of("aqf:remainder_bits=2", "remainder_bits") == 2);
	ck_assert(value_of("aqf:remainder_bits=32", "remainder_bits") == 32);
	ck_assert(value_of("aqf:load=0.95", "load") == 0.95);
}
END_TEST

START_TEST(every_kind_has_a_name_and_a_number)
{
	struct wn_config *config = parse("sscf:bits_per_key=10.5;vulnerable_share=0.5");

	ck_assert_uint_eq(config->kind->id, WN_KIND_SSCF);
	ck_assert(config->values[option_index(config, "bits_per_key")] == 10.5);
	ck_assert(config->values[option_index(config, "vulnerable_share")] == 0.5);
	ck_assert(wn__config_wants_costs(config));
	wn_config_destroy(config);
	config = parse("aqf");
	ck_assert(!wn__config_wants_costs(config));
	wn_config_destroy(config);
	assert_refused("sscf:remainder_bits=9");
	assert_said("bits_per_key, vulnerable_share, listed_share, hashes");
	assert_refused("sscf:bits_per_key=0.5");
	assert_refused("sscf:hashes=33");
	assert_refused("sscf:listed_share=0");
}
END_TEST

START_TEST(numbers_are_read_as_c_reads_them)
{
	static const char *const numbers[] = {
		"0.5",	  "0.95",   ".75",	"0.1",	 "+0.3",      "5e-1",	   "5.E-1",
		"0.05e1", "950e-3", "0.9499999", "0.123456789012345", "0.33333333", "00.500",
		"0.0000000005e9", "500000000000000000000e-21", "0.50000000000000000000000",
	};
	char text[100];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(text, sizeof(text), "aqf:load=%s", numbers[i]);
		ck_assert_msg(value_of(text, "load") == strtod(numbers[i], NULL), "%s", numbers[i]);
	}
	ck_assert(value_of("aqf:remainder_bits=+009", "remainder_bits") == 9);
}
END_TEST

START_TEST(random_numbers_come_back_exactly)
{
	uint64_t random = test_seed("options", 20240611);
	char text[100];

	for (int i = 0; i < 2000; i++) {
		/* 15 digits: a double holds all of them. */
		uint64_t digits = 500000000000000 + test_random(&random) % 400000000000000;

		snprintf(text, sizeof(text), "aqf:load=0.%llu", (unsigned long long)digits);
		ck_assert(value_of(text, "load") == (double)digits / 1e15);
	}
}
END_TEST

START_TEST(the_locale_changes_nothing)
{
	static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8" };
	size_t found = 0;

	for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
		if (!setlocale(LC_ALL, locales[i]))
			continue;
		found++;
		ck_assert(value_of("aqf:load=0.5", "load") == 0.5);
		assert_refused("aqf:load=0,5");
		assert_said("0.95");
	}
	setlocale(LC_ALL, "C");
	if (!found)
		printf("no locale with a decimal comma on this machine: nothing tested\n");
}
END_TEST

/* ---- bad strings -------------------------------------------------------- */

START_TEST(an_unknown_kind_is_named_with_the_known_ones)
{
	assert_refused("bloom2:load=0.5");
	assert_said("\"bloom2\"");
	assert_said("aqf, sscf");
	assert_refused("");
	assert_said("aqf");
	assert_refused("aqfx");
	assert_refused("aq");
	assert_refused("AQF");
	assert_refused(" aqf");
	assert_refused(":load=0.5");
	assert_refused("aqf;load=0.5");
}
END_TEST

START_TEST(an_unknown_option_is_named_with_the_known_ones)
{
	assert_refused("aqf:remainder=9");
	assert_said("aqf");
	assert_said("\"remainder\"");
	assert_said("remainder_bits");
	assert_said("load");
	assert_refused("aqf:remainder_bits2=9");
	assert_refused("aqf: load=0.5");
	assert_refused("aqf:load =0.5");
	assert_refused("aqf:LOAD=0.5");
}
END_TEST

START_TEST(a_bad_value_is_named_with_what_is_allowed)
{
	assert_refused("aqf:remainder_bits=33");
	assert_said("remainder_bits");
	assert_said("\"33\"");
	assert_said("whole number");
	assert_said("2 to 32");
	assert_refused("aqf:load=1.5");
	assert_said("load");
	assert_said("\"1.5\"");
	assert_said("0.95");
}
END_TEST

START_TEST(values_that_are_no_numbers_are_refused)
{
	static const char *const values[] = {
		"",     "nan",  "inf", "-inf", "infinity", "NAN(1)", "0x1p-1", "0x9",
		"abc",  ".",    "-",   "+",    "+-1",      "--1",    "1e",     "1e+",
		"e1",   "0.5 ", "0.5x", " 0.5", "0,5",     "0.5.0",  "0.5=",   "=0.5",
		"1e-",  ".e1",  "0.5e-0.5", "5e-1e0",
	};
	char text[100];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(text, sizeof(text), "aqf:load=%s", values[i]);
		assert_refused(text);
		snprintf(text, sizeof(text), "aqf:remainder_bits=%s", values[i]);
		assert_refused(text);
	}
}
END_TEST

START_TEST(values_out_of_range_are_refused)
{
	static const char *const loads[] = {
		"-0.5", "0.96", "1", "2", "1e308", "1e309", "-1e400",
		"1e999999999999999999999", "99999999999999999999999999",
	};
	static const char *const bits[] = {
		"0", "1", "-9", "33", "4294967305", "18446744073709551625",
		"99999999999999999999999999999999999999999",
	};
	char text[100];

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		snprintf(text, sizeof(text), "aqf:load=%s", loads[i]);
		assert_refused(text);
	}
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		snprintf(text, sizeof(text), "aqf:remainder_bits=%s", bits[i]);
		assert_refused(text);
	}
}
END_TEST

START_TEST(whole_numbers_must_be_written_as_such)
{
	assert_refused("aqf:remainder_bits=9.0");
	assert_refused("aqf:remainder_bits=9.5");
	assert_refused("aqf:remainder_bits=1e1");
	assert_refused("aqf:remainder_bits=9 ");
}
END_TEST

START_TEST(an_option_given_twice_is_refused)
{
	assert_refused("aqf:load=0.5;load=0.5");
	assert_said("load");
	assert_said("twice");
	assert_refused("aqf:load=0.5;remainder_bits=9;load=0.6");
}
END_TEST

START_TEST(options_that_contradict_each_other_are_refused)
{
	assert_refused("aqf:bits_per_key=12;remainder_bits=9");
	assert_said("bits_per_key");
	assert_said("remainder_bits");
}
END_TEST

START_TEST(empty_pieces_are_refused)
{
	assert_refused("aqf:");
	assert_refused("aqf:;");
	assert_refused("aqf:load=0.5;");
	assert_refused("aqf:;load=0.5");
	assert_refused("aqf:load=0.5;;remainder_bits=9");
	assert_refused("aqf:load");
	assert_refused("aqf:=0.5");
	assert_refused("aqf:=");
	assert_refused("aqf:load=0.5:remainder_bits=9");
}
END_TEST

START_TEST(hostile_strings_are_refused_with_a_printable_message)
{
	size_t size = 1 << 20;
	char *text = malloc(size + 1);

	ck_assert_ptr_nonnull(text);
	text[size] = '\0';
	memset(text, 'a', size);
	assert_refused(text);
	assert_said("...");
	memcpy(text, "aqf:", 4);
	assert_refused(text);
	memcpy(text, "aqf:load=", 9);
	assert_refused(text);
	memset(text + 9, '9', size - 9);
	assert_refused(text);
	text[10] = '.';
	assert_refused(text);
	memset(text + 4, ';', size - 4);
	assert_refused(text);
	memset(text + 4, '=', size - 4);
	assert_refused(text);
	free(text);
	assert_refused("\x1b[31m%s%n:load=0.5");
	assert_said("?[31m%s%n");
	assert_refused("aqf:\n=1");
	assert_refused("aqf:load=\xff\xfe");
	assert_refused("aqf:%s%n=%n");
}
END_TEST

START_TEST(very_long_numbers_are_read)
{
	size_t zeros = 100000;
	char *text = malloc(zeros + 100);
	char *at;

	ck_assert_ptr_nonnull(text);
	at = text + sprintf(text, "aqf:load=0.");
	memset(at, '0', zeros);
	sprintf(at + zeros, "5e%zu", zeros);
	ck_assert_double_eq_tol(value_of(text, "load"), 0.5, 1e-12);
	free(text);
}
END_TEST

START_TEST(every_message_size_is_safe)
{
	for (size_t size = 1; size < 120; size++) {
		char *small = malloc(size);
		struct wn_config *config;

		ck_assert_ptr_nonnull(small);
		ck_assert_int_eq(wn_config_parse("aqf:load=7", small, size, &config),
				 WN_ERR_OPTION);
		ck_assert_ptr_nonnull(memchr(small, '\0', size));
		ck_assert_int_eq(wn_config_parse("what", small, size, &config), WN_ERR_OPTION);
		ck_assert_ptr_nonnull(memchr(small, '\0', size));
		free(small);
	}
}
END_TEST

START_TEST(nobody_has_to_want_a_message)
{
	struct wn_config *config;

	ck_assert_int_eq(wn_config_parse("aqf:load=7", NULL, 0, &config), WN_ERR_OPTION);
	ck_assert_int_eq(wn_config_parse("what", message, 0, &config), WN_ERR_OPTION);
	ck_assert_int_eq(wn_config_parse("aqf:load=0.5", NULL, 100, &config), 0);
	wn_config_destroy(config);
	ck_assert_int_eq(wn_config_parse(NULL, message, sizeof(message), &config), WN_ERR_INVALID);
	ck_assert_ptr_null(config);
}
END_TEST

START_TEST(without_memory_there_is_no_config)
{
	struct wn_config *config = (void *)1;

	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn_config_parse("aqf", message, sizeof(message), &config), ENOMEM);
	ck_assert_ptr_null(config);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("options");
	TCase *good = tcase_create("good");
	TCase *bad = tcase_create("bad");

	suite_add_tcase(suite, good);
	tcase_add_test(good, a_kind_alone_means_its_defaults);
	tcase_add_test(good, given_options_are_set_and_the_others_stay);
	tcase_add_test(good, the_ends_of_a_range_are_allowed);
	tcase_add_test(good, every_kind_has_a_name_and_a_number);
	tcase_add_test(good, numbers_are_read_as_c_reads_them);
	tcase_add_test(good, random_numbers_come_back_exactly);
	tcase_add_test(good, the_locale_changes_nothing);
	tcase_add_test(good, very_long_numbers_are_read);

	suite_add_tcase(suite, bad);
	tcase_add_test(bad, an_unknown_kind_is_named_with_the_known_ones);
	tcase_add_test(bad, an_unknown_option_is_named_with_the_known_ones);
	tcase_add_test(bad, a_bad_value_is_named_with_what_is_allowed);
	tcase_add_test(bad, values_that_are_no_numbers_are_refused);
	tcase_add_test(bad, values_out_of_range_are_refused);
	tcase_add_test(bad, whole_numbers_must_be_written_as_such);
	tcase_add_test(bad, an_option_given_twice_is_refused);
	tcase_add_test(bad, options_that_contradict_each_other_are_refused);
	tcase_add_test(bad, empty_pieces_are_refused);
	tcase_add_test(bad, hostile_strings_are_refused_with_a_printable_message);
	tcase_add_test(bad, every_message_size_is_safe);
	tcase_add_test(bad, nobody_has_to_want_a_message);
	tcase_add_test(bad, without_memory_there_is_no_config);
	return test_run(suite);
}
