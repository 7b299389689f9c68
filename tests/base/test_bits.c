/* test_bits.c - selecting a bit without the instructions that do it. */
#include "base/bits.h"
#include "tests/support/common.h"

static unsigned select_slowly(uint64_t word, unsigned index)
{
	for (unsigned at = 0; at < 64; at++)
		if (word >> at & 1 && index-- == 0)
			return at;
	return 64;
}

static void check_word(uint64_t word)
{
	expect(wn__count_bits(word, false) == wn__popcount(word));
	for (unsigned index = 0; index < 70; index++) {
		expect(wn__select_portable(word, index) == select_slowly(word, index));
		expect(wn__select(word, index & 63, false) == select_slowly(word, index & 63));
	}
}

START_TEST(every_set_bit_is_found_by_its_number)
{
	uint64_t random = test_seed("bits", 20261119);

	check_word(0);
	check_word(UINT64_MAX);
	for (unsigned a = 0; a < 64; a++) {
		check_word(UINT64_C(1) << a);
		check_word(~(UINT64_C(1) << a));
		check_word(UINT64_MAX << a);
		check_word(UINT64_MAX >> a);
		for (unsigned b = 0; b < 64; b++)
			check_word(UINT64_C(1) << a | UINT64_C(1) << b);
	}
	/* Full, half full, and nearly empty words. */
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t one = test_random(&random), other = test_random(&random);

		check_word(one);
		check_word(one | other);
		check_word(one & other & test_random(&random));
	}
}
END_TEST

/* All bytes, in every place. */
START_TEST(every_byte_is_taken_apart)
{
	for (unsigned byte = 0; byte < 256; byte++)
		for (unsigned shift = 0; shift <= 56; shift++)
			check_word((uint64_t)byte << shift);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("bits");
	TCase *tests = tcase_create("select");

	suite_add_tcase(suite, tests);
	tcase_add_test(tests, every_set_bit_is_found_by_its_number);
	tcase_add_test(tests, every_byte_is_taken_apart);
	return test_run(suite);
}
