/* test_block.c - the block around a filter, whole and damaged. */
#include <errno.h>
#include <string.h>

#include <winnow/block.h>
#include <winnow/error.h>

#include "base/alloc.h"
#include "kinds/block_build.h"
#include "kinds/block_format.h"
#include "tests/support/common.h"

#define KIND 7
#define KEY_COUNT 300

static struct wn_secret *secret;

static void set_up(void)
{
	secret = test_secret(42);
}

static void tear_down(void)
{
	wn_secret_destroy(secret);
}

static void fill_params(unsigned char *params, size_t length)
{
	memset(params, 0, WN_BLOCK_PARAMS_SIZE);
	for (size_t i = 0; i < length; i++)
		params[i] = (unsigned char)(200 + i);
}

static void fill_payload(unsigned char *payload, size_t size)
{
	for (size_t i = 0; i < size; i++)
		payload[i] = (unsigned char)(i * 37 + 5);
}

static unsigned char *make_block_of(size_t payload_size, size_t params_length,
				    uint64_t key_count, size_t *sizep)
{
	unsigned char params[WN_BLOCK_PARAMS_SIZE], *payload, *block;
	struct wn__block_writer writer = {0};

	ck_assert_int_eq(wn__block_begin(&writer, payload_size, &payload), 0);
	ck_assert_uint_eq((uintptr_t)payload % 8, 0);
	for (size_t i = 0; i < payload_size; i++)
		if (payload[i])
			ck_abort_msg("payload byte %zu is not zero", i);
	fill_payload(payload, payload_size);
	fill_params(params, params_length);
	ck_assert_int_eq(wn__block_end(&writer, KIND, params, key_count, secret), 0);
	/* An exact copy, so that a sanitizer sees the first byte read behind it. */
	block = malloc(writer.size);
	ck_assert_ptr_nonnull(block);
	memcpy(block, writer.block, writer.size);
	*sizep = writer.size;
	wn__block_abandon(&writer);
	ck_assert_ptr_null(writer.block);
	return block;
}

static unsigned char *make_block(size_t payload_size, size_t *sizep)
{
	return make_block_of(payload_size, 6, KEY_COUNT, sizep);
}

static void assert_refused(const unsigned char *block, size_t size, enum wn_check check, int error)
{
	struct wn_block_info info;
	const char *reason = NULL;
	int err = wn_block_read(block, size, check, &info, &reason);

	if (err != error || !reason || !*reason || info.payload)
		ck_abort_msg("size %zu: error %d, not %d; reason %s", size, err, error,
			     reason ? reason : "missing");
}

/* ---- whole blocks ------------------------------------------------------- */

static void assert_reads_back(size_t payload_size, size_t params_length, uint64_t key_count)
{
	unsigned char params[WN_BLOCK_PARAMS_SIZE];
	struct wn_block_info info;
	const char *reason;
	size_t size;
	unsigned char *block = make_block_of(payload_size, params_length, key_count, &size);

	fill_params(params, params_length);
	for (int check = WN_CHECK_HEADER; check <= WN_CHECK_ALL; check++) {
		ck_assert_int_eq(wn_block_read(block, size, (enum wn_check)check, &info, &reason),
				 0);
		ck_assert_ptr_null(reason);
		ck_assert_uint_eq(info.version, 2);
		ck_assert_uint_eq(info.kind, KIND);
		ck_assert_uint_eq(info.key_count, key_count);
		ck_assert_uint_eq(info.secret_id, wn_secret_id(secret));
		ck_assert_mem_eq(info.params, params, sizeof(params));
		ck_assert_uint_eq(info.payload_size, payload_size);
		for (size_t i = 0; i < payload_size; i++)
			if (info.payload[i] != (unsigned char)(i * 37 + 5))
				ck_abort_msg("payload byte %zu changed", i);
		ck_assert_uint_ge((size_t)(block + size - (info.payload + payload_size)), 8);
	}
	ck_assert(wn_block_is_ours(block, size));
	free(block);
}

START_TEST(a_block_reads_back_as_written)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 9, 100, 4096, 65535, 65536 };
	static const uint64_t counts[] = {
		0, 1, 255, 256, 65535, 65536, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX,
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_reads_back(sizes[i], 6, KEY_COUNT);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		assert_reads_back(50, 6, counts[i]);
	for (size_t length = 0; length <= WN_BLOCK_PARAMS_SIZE; length++)
		assert_reads_back(50, length, KEY_COUNT);
}
END_TEST

START_TEST(a_block_has_the_documented_bytes)
{
	static const unsigned char start[32] = {
		'W', 'I', 'N', 'N', 'O', 'W', 0x1a, 0x0a, 2, 0, KIND, 0, 128, 0, 0, 0,
		20,  0,	  0,   0,   0,	 0,   0,    0,	  KEY_COUNT & 255, KEY_COUNT >> 8,
	};
	static const unsigned char zeros[8];
	unsigned char params[WN_BLOCK_PARAMS_SIZE];
	size_t size;
	unsigned char *block = make_block(20, &size);

	fill_params(params, 6);
	ck_assert_uint_eq(size, 128 + 20 + 8 + 5);
	ck_assert_mem_eq(block, start, sizeof(start));
	ck_assert_mem_eq(block + 48, wn_secret_seed(secret), 32);
	ck_assert_mem_eq(block + 80, params, 32);
	ck_assert_mem_eq(block + 112, zeros, 8);
	ck_assert_uint_eq(get_le64(block + 120), XXH3_64bits(block, 120));
	ck_assert_uint_eq(get_le64(block + 148), XXH3_64bits(block + 128, 20));
	ck_assert_mem_eq(block + 156, zeros, 5);
	free(block);
}
END_TEST

START_TEST(ids_of_blocks_are_random)
{
	struct wn_block_info a, b;
	size_t size;
	unsigned char *first = make_block(20, &size), *second = make_block(20, &size);

	ck_assert_int_eq(wn_block_read(first, size, WN_CHECK_ALL, &a, NULL), 0);
	ck_assert_int_eq(wn_block_read(second, size, WN_CHECK_ALL, &b, NULL), 0);
	ck_assert_mem_ne(a.id, b.id, WN_BLOCK_ID_SIZE);
	ck_assert_mem_eq(a.seed, b.seed, WN_SEED_SIZE);
	ck_assert_mem_eq(a.seed, wn_secret_seed(secret), WN_SEED_SIZE);
	free(first);
	free(second);
}
END_TEST

START_TEST(a_kind_that_does_not_fit_is_refused)
{
	static const unsigned char params[WN_BLOCK_PARAMS_SIZE];
	struct wn__block_writer writer = {0};
	unsigned char *payload;

	unsigned largest = 255;

	ck_assert_int_eq(wn__block_begin(&writer, 8, &payload), 0);
	ck_assert_int_eq(wn__block_end(&writer, largest + 1, params, 1, secret),
			 WN_ERR_INVALID);
	ck_assert_ptr_nonnull(writer.block);
	ck_assert_int_eq(wn__block_end(&writer, largest, params, 1, secret), 0);
	wn__block_abandon(&writer);
}
END_TEST

START_TEST(without_memory_no_block_begins)
{
	struct wn__block_writer writer = {0};
	unsigned char *payload = (void *)1;
	volatile size_t huge = SIZE_MAX;

	wn__alloc_fail_at(1);
	ck_assert_int_eq(wn__block_begin(&writer, 8, &payload), ENOMEM);
	ck_assert_ptr_null(payload);
	wn__block_abandon(&writer);
	ck_assert_int_eq(wn__block_begin(&writer, huge - 100, &payload), ENOMEM);
	ck_assert_int_eq(wn__block_begin(&writer, huge, &payload), ENOMEM);
	wn__block_abandon(&writer);
}
END_TEST

/* ---- damage ------------------------------------------------------------- */

static bool is_version_byte(size_t at)
{
	return at == 8 || at == 9;
}

static void assert_flips_noticed(enum wn_check check)
{
	size_t size;
	unsigned char *block = make_block(200, &size);

	for (size_t bit = 0; bit < 8 * size; bit++) {
		size_t at = bit / 8;
		struct wn_block_info info;
		const char *reason;
		int err;

		/* What the header alone cannot tell. */
		if (check == WN_CHECK_HEADER && at >= 128 && at < size - 5)
			continue;
		block[at] ^= (unsigned char)(1 << bit % 8);
		err = wn_block_read(block, size, check, &info, &reason);
		if (err != WN_ERR_CORRUPT &&
		    !(err == WN_ERR_VERSION && is_version_byte(at)))
			ck_abort_msg("bit %zu flipped: error %d", bit, err);
		ck_assert_ptr_nonnull(reason);
		block[at] ^= (unsigned char)(1 << bit % 8);
	}
	free(block);
}

START_TEST(every_flipped_bit_is_noticed)
{
	assert_flips_noticed(WN_CHECK_ALL);
	assert_flips_noticed(WN_CHECK_HEADER);
}
END_TEST

START_TEST(a_block_cut_anywhere_is_refused)
{
	size_t size;
	unsigned char *block = make_block(200, &size);

	for (size_t cut = 0; cut < size; cut++) {
		unsigned char *piece = malloc(cut ? cut : 1);

		ck_assert_ptr_nonnull(piece);
		memcpy(piece, block, cut);
		assert_refused(piece, cut, WN_CHECK_HEADER, WN_ERR_CORRUPT);
		assert_refused(piece, cut, WN_CHECK_ALL, WN_ERR_CORRUPT);
		free(piece);
	}
	free(block);
}
END_TEST

START_TEST(bytes_added_behind_are_noticed)
{
	size_t size;
	unsigned char *block = make_block(200, &size);
	unsigned char *longer = calloc(1, size + 20);

	ck_assert_ptr_nonnull(longer);
	memcpy(longer, block, size);
	for (size_t more = 1; more <= 20; more++)
		assert_refused(longer, size + more, WN_CHECK_HEADER, WN_ERR_CORRUPT);
	free(longer);
	free(block);
}
END_TEST

START_TEST(a_block_cut_off_is_still_ours)
{
	size_t size;
	unsigned char *block = make_block(200, &size);

	for (size_t cut = 0; cut <= size; cut++)
		ck_assert(wn_block_is_ours(block, cut) == (cut >= 8));
	free(block);
}
END_TEST

START_TEST(other_peoples_blocks_are_not_ours)
{
	/* What RocksDB's and LevelDB's own filters end in. */
	static const unsigned char tails[][6] = {
		{ 0xf7, 0xff, 0, 6, 0, 0 },                /* RocksDB's Bloom */
		{ 0xf7, 0xfe, 1, 2, 0, 0 },                /* Ribbon */
		{ 0xf7, 6, 0, 0, 0, 1 },                   /* Bloom before format version 5 */
		{ 0xf7, 0xf7, 0xf7, 0xf7, 0xf7, 6 },       /* LevelDB's Bloom */
	};
	unsigned char block[32];
	static const unsigned char zeros[200];

	ck_assert(!wn_block_is_ours(NULL, 0));
	memset(block, 0xf7, sizeof(block));
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		memcpy(block + sizeof(block) - 6, tails[i], 6);
		ck_assert(!wn_block_is_ours(block, sizeof(block)));
	}
	for (size_t size = 0; size <= sizeof(zeros); size++) {
		ck_assert(!wn_block_is_ours(zeros, size));
		assert_refused(zeros, size, WN_CHECK_HEADER, WN_ERR_CORRUPT);
	}
	assert_refused(NULL, 0, WN_CHECK_ALL, WN_ERR_CORRUPT);
}
END_TEST

/* Fields that lie under a checksum that is right. */

START_TEST(a_payload_size_that_lies_is_refused)
{
	static const uint64_t lies[] = {
		0, 199, 201, UINT32_MAX, (uint64_t)INT64_MAX, UINT64_MAX - 140, UINT64_MAX,
	};
	size_t size;
	unsigned char *block = make_block(200, &size);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		wn__block_set_payload_size(block, lies[i]);
		wn__block_set_header_sum(block);
		assert_refused(block, size, WN_CHECK_HEADER, WN_ERR_CORRUPT);
	}
	free(block);
}
END_TEST

START_TEST(what_a_later_version_may_add_is_refused)
{
	size_t size;
	unsigned char *block = make_block(200, &size);

	for (unsigned version = 0; version < 65536; version += 257) {
		wn__block_set_version(block, version);
		wn__block_set_header_sum(block);
		assert_refused(block, size, WN_CHECK_HEADER, WN_ERR_VERSION);
	}
	wn__block_set_version(block, WN__BLOCK_VERSION);
	for (unsigned bit = 0; bit < 8; bit++) {
		wn__block_set_flags(block, 1u << bit);
		wn__block_set_header_sum(block);
		assert_refused(block, size, WN_CHECK_HEADER, WN_ERR_VERSION);
	}
	wn__block_set_flags(block, 0);
	for (size_t at = 112; at < 120; at++) {
		block[at] = 1;
		wn__block_set_header_sum(block);
		assert_refused(block, size, WN_CHECK_HEADER, WN_ERR_VERSION);
		block[at] = 0;
	}
	wn__block_set_header_size(block, 136);
	wn__block_set_header_sum(block);
	assert_refused(block, size, WN_CHECK_HEADER, WN_ERR_CORRUPT);
	free(block);
}
END_TEST

START_TEST(no_input_reads_outside_itself)
{
	uint64_t random = test_seed("block", 20240611);

	for (int i = 0; i < 20000; i++) {
		size_t size = test_random(&random) % 300;
		unsigned char *bytes = malloc(size ? size : 1);
		struct wn_block_info info;

		ck_assert_ptr_nonnull(bytes);
		for (size_t at = 0; at < size; at++)
			bytes[at] = (unsigned char)test_random(&random);
		if (i % 2 && size >= WN__BLOCK_MIN_SIZE) {
			memset(bytes + size - WN__BLOCK_TRAILER_SIZE, 0, WN__BLOCK_TRAILER_SIZE);
			wn__block_set_magic(bytes);
			wn__block_set_version(bytes, WN__BLOCK_VERSION);
			wn__block_set_flags(bytes, 0);
			wn__block_set_header_size(bytes, WN__BLOCK_HEADER_SIZE);
			wn__block_set_payload_size(bytes, size - WN__BLOCK_MIN_SIZE);
			memset(bytes + WN__BLOCK_RESERVED_AT, 0, 8);
			wn__block_set_header_sum(bytes);
			wn__block_set_payload_sum(bytes, size - WN__BLOCK_MIN_SIZE);
		} else if (size >= WN__BLOCK_MIN_SIZE) {
			wn__block_set_magic(bytes);
			wn__block_set_version(bytes, WN__BLOCK_VERSION);
			wn__block_set_header_sum(bytes);
		}
		if (wn_block_read(bytes, size, WN_CHECK_ALL, &info, NULL) == 0 &&
		    (info.payload < bytes || info.payload + info.payload_size + 8 > bytes + size))
			ck_abort_msg("a payload outside its block");
		free(bytes);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("block");
	TCase *whole = tcase_create("whole");
	TCase *damage = tcase_create("damage");

	suite_add_tcase(suite, whole);
	tcase_add_checked_fixture(whole, set_up, tear_down);
	tcase_add_test(whole, a_block_reads_back_as_written);
	tcase_add_test(whole, a_block_has_the_documented_bytes);
	tcase_add_test(whole, ids_of_blocks_are_random);
	tcase_add_test(whole, a_kind_that_does_not_fit_is_refused);
	tcase_add_test(whole, without_memory_no_block_begins);

	suite_add_tcase(suite, damage);
	tcase_add_checked_fixture(damage, set_up, tear_down);
	tcase_add_test(damage, every_flipped_bit_is_noticed);
	tcase_add_test(damage, a_block_cut_anywhere_is_refused);
	tcase_add_test(damage, bytes_added_behind_are_noticed);
	tcase_add_test(damage, a_block_cut_off_is_still_ours);
	tcase_add_test(damage, other_peoples_blocks_are_not_ours);
	tcase_add_test(damage, a_payload_size_that_lies_is_refused);
	tcase_add_test(damage, what_a_later_version_may_add_is_refused);
	tcase_add_test(damage, no_input_reads_outside_itself);
	return test_run(suite);
}
