/* A kind that plugs in: one table of functions, registered, has all that a kind gets for free. */
#include <errno.h>
#include <string.h>

#include "learn/lessons.h"
#include "tests/support/made_table.h"
#include "tests/support/dump_file.h"
#include "tests/support/small_filter.h"
#include "tests/support/toy_kind.h"

/* ---- the list ----------------------------------------------------------- */

START_TEST(a_kind_is_registered_once)
{
	struct wn__kind other = toy_kind;
	size_t count = 0;

	while (wn__kind_at(count))
		count++;
	ck_assert_uint_eq(count, 3);
	ck_assert_ptr_eq(wn__kind_at(2), &toy_kind);
	ck_assert_ptr_eq(wn__kind_by_id(TOY_KIND_ID), &toy_kind);
	ck_assert_ptr_null(wn__kind_by_id(TOY_KIND_ID + 1));
	ck_assert_ptr_null(wn__kind_at(3));
	ck_assert_ptr_null(wn__kind_at(SIZE_MAX));
	ck_assert_int_eq(wn__kind_register(&toy_kind), WN_ERR_INVALID);
	other.name = "other"; /* the id is taken */
	ck_assert_int_eq(wn__kind_register(&other), WN_ERR_INVALID);
	other.id++;
	other.name = "aqf";
	ck_assert_int_eq(wn__kind_register(&other), WN_ERR_INVALID);
	ck_assert_ptr_null(wn__kind_at(3));
}
END_TEST

static void expect_refused(const struct wn__kind *kind)
{
	ck_assert_int_eq(wn__kind_register(kind), WN_ERR_INVALID);
	ck_assert_ptr_null(wn__kind_at(3));
}

START_TEST(a_kind_that_lacks_something_is_refused)
{
	static const char *const names[] = {NULL, "", "a:b", ":"};
	struct wn__small_form form = {.size = NULL};
	struct wn__kind kind;

#define EXPECT_REFUSED_WITH(change)                                                                \
	kind = toy_kind;                                                                           \
	kind.id = 12;                                                                              \
	kind.name = "twelve";                                                                      \
	change;                                                                                    \
	expect_refused(&kind)

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		EXPECT_REFUSED_WITH(kind.name = names[i]);
	}
	EXPECT_REFUSED_WITH(kind.id = 0);
	EXPECT_REFUSED_WITH(kind.id = 16); /* the small frame has 4 bits for it */
	EXPECT_REFUSED_WITH((kind.id = 256, kind.small = NULL));
	EXPECT_REFUSED_WITH(kind.build = NULL);
	EXPECT_REFUSED_WITH(kind.open = NULL);
	EXPECT_REFUSED_WITH(kind.close = NULL);
	EXPECT_REFUSED_WITH(kind.query = NULL);
	EXPECT_REFUSED_WITH(kind.query_batch = NULL);
	EXPECT_REFUSED_WITH(kind.describe = NULL);
	EXPECT_REFUSED_WITH(kind.small = &form);
	EXPECT_REFUSED_WITH(kind.option_count = WN__MAX_OPTIONS + 1);
}
END_TEST

START_TEST(too_many_kinds_are_refused)
{
	static struct wn__kind kinds[40];
	static char names[40][8];
	unsigned count = 0;
	int err = 0;

	for (; count < 40; count++) {
		kinds[count] = toy_kind;
		kinds[count].id = 20 + count;
		kinds[count].small = NULL;
		snprintf(names[count], sizeof(names[count]), "kind%u", count);
		kinds[count].name = names[count];
		err = wn__kind_register(&kinds[count]);
		if (err)
			break;
	}
	ck_assert_int_eq(err, ENOSPC);
	ck_assert_uint_ge(count, 10);
	ck_assert_ptr_eq(wn__kind_by_id(20 + count - 1), &kinds[count - 1]);
	ck_assert_ptr_null(wn__kind_by_id(20 + count));
	ck_assert_ptr_null(wn__kind_at(3 + count));
}
END_TEST

/* ---- options ------------------------------------------------------------ */

START_TEST(options_name_it)
{
	struct wn_config *config;
	char message[300];

	ck_assert_int_eq(wn_config_parse("toy:number=7", message, sizeof(message), &config), 0);
	ck_assert_ptr_eq(config->kind, &toy_kind);
	ck_assert(config->values[0] == 7 && config->given[0]);
	ck_assert(!wn__config_wants_costs(config));
	wn_config_destroy(config);
	ck_assert_int_eq(wn_config_parse("toy", message, sizeof(message), &config), 0);
	ck_assert(config->values[0] == 5 && !config->given[0]);
	ck_assert_int_eq(wn__small_check_config(config, message, sizeof(message)), 0);
	wn_config_destroy(config);
	ck_assert_int_eq(wn_config_parse("toy:number=10", message, sizeof(message), &config),
			 WN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message, "toy: option \"number\""));
	ck_assert_int_eq(wn_config_parse("boy", message, sizeof(message), &config),
			 WN_ERR_OPTION);
	ck_assert_ptr_nonnull(strstr(message, "aqf, sscf, toy"));
}
END_TEST

START_TEST(a_kind_without_a_small_form_says_so)
{
	struct wn__kind kind = toy_kind;
	struct wn_config config = {.kind = &kind};
	struct wn_hash key = {1, 2};
	struct wn__small_input input = {.config = &config, .keys = &key, .key_count = 1};
	unsigned char *bytes;
	size_t size, denied;
	char message[200];

	kind.small = NULL;
	ck_assert_int_eq(wn__small_check_config(&config, message, sizeof(message)), WN_ERR_OPTION);
	ck_assert_str_eq(message, "filters of the kind 'toy' have no small form");
	ck_assert_int_eq(wn__small_build(&input, 1, NULL, &bytes, &size, &denied),
			 WN_ERR_INVALID);
	ck_assert_ptr_null(bytes);
}
END_TEST

/* ---- blocks ------------------------------------------------------------- */

START_TEST(blocks_are_built_opened_and_asked)
{
	struct wn__kind mute = toy_kind;
	struct wn_secret *secret = test_secret(1);
	struct wn__registry *registry;
	struct wn__lessons *lessons;
	struct wn_builder *builder;
	struct wn_config *config;
	struct wn_filter *filter;
	struct wn_filter_info info;
	uint64_t wrong = 0;
	void *block;
	size_t size;

	mute.learns = WN__LEARNS_NOT;
	ck_assert_int_eq(wn_config_parse("toy", NULL, 0, &config), 0);
	ck_assert_int_eq(wn_builder_create(config, secret, &builder), 0);
	for (uint64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(wn_builder_add(builder, &i, sizeof(i)), 0);
	ck_assert_int_eq(wn_builder_finish(builder, &block, &size), 0);
	ck_assert_uint_eq(size, 2000 + 141);
	ck_assert(wn_block_is_ours(block, size));
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, NULL, &filter, NULL), 0);
	for (uint64_t i = 0; i < 1000; i++)
		expect(wn_filter_query(filter, &i, sizeof(i), NULL));
	for (uint64_t i = 1000; i < 3000; i++)
		wrong += wn_filter_query(filter, &i, sizeof(i), NULL);
	ck_assert_uint_lt(wrong, 100);
	wn_filter_describe(filter, &info);
	ck_assert_str_eq(info.kind, "toy");
	ck_assert_uint_eq(info.key_count, 1000);
	ck_assert(wn_filter_fact_of(&info, "tag_bits") == 16);
	ck_assert(wn_filter_fact_of(&info, "slots") == 0);
	/* It learns; a kind that does not says so. */
	ck_assert_int_eq(wn__registry_create(0, &registry), 0);
	ck_assert_int_eq(wn__filter_lessons(registry, filter, &lessons), 0);
	wn__lessons_release(lessons);
	filter->kind = &mute;
	ck_assert_int_eq(wn__filter_lessons(registry, filter, &lessons), WN_ERR_READONLY);
	ck_assert_ptr_null(lessons);
	wn__registry_destroy(registry);
	wn_filter_close(filter);
	((unsigned char *)block)[200] ^= 1;
	ck_assert_int_eq(wn_filter_open(block, size, WN_CHECK_ALL, NULL, &filter, NULL),
			 WN_ERR_CORRUPT);
	free(block);
	wn_builder_destroy(builder);
	wn_config_destroy(config);
	wn_secret_destroy(secret);
}
END_TEST

/* ---- small filters ------------------------------------------------------ */

START_TEST(small_filters_are_built_and_asked)
{
	uint64_t random = test_seed("small_filters_are_built_and_asked", 1);

	for (uint32_t count = 1; count < 2000; count += count < 40 ? 1 : 97) {
		struct small_filter filter = make_small_filter("toy", count, 0, &random);
		const struct wn__small_form *form = small_form_of(filter.bytes, filter.size);
		unsigned wrong = 0;

		ck_assert_ptr_eq(form, &toy_small_form);
		ck_assert_ptr_eq((void *)(uintptr_t)wn__small_queries()[TOY_KIND_ID],
				 (void *)(uintptr_t)toy_small_query);
		expect_small_keys(&filter);
		expect_no_cut_is_whole(filter.bytes, filter.size, 1);
		for (int i = 0; i < 100; i++)
			wrong += small_says_maybe(form, filter.bytes, filter.size,
						  test_random_hash(&random));
		expect(wrong < 30);
		free_small_filter(&filter);
	}
}
END_TEST

/* ---- winnow-dump -------------------------------------------------------- */

static void expect_dumped(const struct shape *shape, const char *in_text, const char *in_json)
{
	struct wn_secret *secret = test_secret(MADE_TABLE_SECRET);
	struct dump_options options = {.verify = true, .secret = secret};
	struct span file = make_table(shape);
	struct dump dump;
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	dump_read(&dump, file, &options);
	expect_good(&dump, "a table of toys");
	ck_assert_str_eq(dump_filter_kind(&dump), "toy");
	ck_assert_uint_eq(dump.keys_asked, shape->blocks * shape->keys);
	ck_assert_uint_eq(dump.filters.sum.keys, shape->blocks * shape->keys);
	dump_print_text(&dump, "x", to);
	dump_print_json(&dump, "x", to);
	fclose(to);
	if (!strstr(text, in_text) || !strstr(text, in_json))
		ck_abort_msg("%s", text);
	free(text);
	dump_release(&dump);
	release(file);
	wn_secret_destroy(secret);
}

START_TEST(winnow_dump_shows_it)
{
	struct shape shape = {.format = 5, .checksum = CHECKSUM_XXH3, .layout = LAYOUT_FULL,
			      .content = WINNOW, .options = "toy", .delta = true, .blocks = 7,
			      .keys = 11};

	expect_dumped(&shape, "tag_bits      16\n",
		      "\"facts\":{\"tag_bits\":{\"least\":16,\"most\":16}},");
	shape = (struct shape){.leveldb = true, .layout = LAYOUT_BLOCKS, .content = SMALL,
			       .options = "toy", .blocks = 5, .keys = 20};
	expect_dumped(&shape, "table id      abcd", "\"table_id\":\"abcd");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("toy_kind");
	TCase *tests = tcase_create("toy_kind");

	if (wn__kind_register(&toy_kind)) {
		fprintf(stderr, "the toy cannot be registered\n");
		return EXIT_FAILURE;
	}
	tcase_add_test(tests, a_kind_is_registered_once);
	tcase_add_test(tests, a_kind_that_lacks_something_is_refused);
	tcase_add_test(tests, options_name_it);
	tcase_add_test(tests, a_kind_without_a_small_form_says_so);
	tcase_add_test(tests, blocks_are_built_opened_and_asked);
	tcase_add_test(tests, small_filters_are_built_and_asked);
	tcase_add_test(tests, winnow_dump_shows_it);
	/* Last: without a process for each test, the list stays full. */
	tcase_add_test(tests, too_many_kinds_are_refused);
	suite_add_tcase(suite, tests);
	return test_run(suite);
}
