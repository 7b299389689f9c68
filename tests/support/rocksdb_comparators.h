/* rocksdb_comparators.h - RocksDB databases whose comparator is not RocksDB's own, for tests. */
#ifndef WN_TESTS_ROCKSDB_COMPARATORS_H
#define WN_TESTS_ROCKSDB_COMPARATORS_H

#include <ctype.h>

#include "rocksdb_db.h"

/* ---- comparators -------------------------------------------------------- */

static inline void leave_alone(void *arg)
{
	(void)arg;
}

static const char *get_name(void *arg)
{
	(void)arg;
	return "winnow.test.comparator";
}

static inline int compare_folded(void *arg, const char *a, size_t a_size, const char *b,
				 size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;

	(void)arg;
	for (size_t i = 0; i < shorter; i++) {
		int difference = tolower((unsigned char)a[i]) - tolower((unsigned char)b[i]);

		if (difference)
			return difference;
	}
	return (a_size > b_size) - (a_size < b_size);
}

static inline int compare_backwards(void *arg, const char *a, size_t a_size, const char *b,
				    size_t b_size)
{
	size_t shorter = a_size < b_size ? a_size : b_size;
	int order = memcmp(a, b, shorter);

	(void)arg;
	return -(order ? order : (a_size > b_size) - (a_size < b_size));
}

static inline size_t fold(void *arg, const char *key, size_t size, char *room)
{
	(void)arg;
	for (size_t i = 0; i < size; i++)
		room[i] = (char)tolower((unsigned char)key[i]);
	return size;
}

/* Another function for the same comparator. */
static inline size_t raise_case(void *arg, const char *key, size_t size, char *room)
{
	(void)arg;
	for (size_t i = 0; i < size; i++)
		room[i] = (char)toupper((unsigned char)key[i]);
	return size;
}

static inline size_t write_too_much(void *arg, const char *key, size_t size, char *room)
{
	return fold(arg, key, size, room) + 1;
}

/* Made once, and never destroyed: databases borrow them. */
static rocksdb_comparator_t *folded, *backwards;

static inline void make_comparators(void)
{
	folded = rocksdb_comparator_create(NULL, leave_alone, compare_folded, get_name);
	backwards = rocksdb_comparator_create(NULL, leave_alone, compare_backwards, get_name);
}

/* ---- databases ---------------------------------------------------------- */

struct own_db {
	struct db db; /* rocks, options, reading */
	struct wn_rocksdb *wn;
	rocksdb_writeoptions_t *writing;
	char *error;
};

/* Options for tests to change. `setup` may be NULL. */
static inline struct own_db prepare_own(rocksdb_comparator_t *comparator,
					const struct db_setup *setup)
{
	static const struct db_setup plain;
	struct own_db own = {.db.options = rocksdb_options_create(),
			     .db.reading = rocksdb_readoptions_create(),
			     .writing = rocksdb_writeoptions_create()};

	db_set_options(&own.db, setup ? setup : &plain);
	db_set_table(&own.db, setup ? setup : &plain);
	if (comparator)
		rocksdb_options_set_comparator(own.db.options, comparator);
	return own;
}

static inline struct own_db open_own(const char *name, rocksdb_comparator_t *comparator,
				     const struct db_setup *setup,
				     const struct wn_rocksdb_options *given)
{
	struct own_db own = prepare_own(comparator, setup);

	own.db.rocks = wn_rocksdb_open(own.db.options, test_path(name), given, &own.wn, &own.error);
	return own;
}

static inline struct own_db open_good(const char *name, rocksdb_comparator_t *comparator,
				      const struct db_setup *setup,
				      const struct wn_rocksdb_options *given)
{
	struct own_db own = open_own(name, comparator, setup, given);

	expect_no(own.error);
	ck_assert_ptr_nonnull(own.db.rocks);
	return own;
}

/* A RocksDB without winnow; `policy` may be NULL. */
static inline struct own_db open_stock(const char *name, rocksdb_comparator_t *comparator,
				       const struct db_setup *setup)
{
	struct own_db own = prepare_own(comparator, setup);

	own.db.rocks = rocksdb_open(own.db.options, test_path(name), &own.error);
	expect_no(own.error);
	return own;
}

static inline void close_own(struct own_db *own)
{
	if (own->wn)
		wn_rocksdb_close(own->wn);
	else if (own->db.rocks)
		rocksdb_close(own->db.rocks);
	rocksdb_readoptions_destroy(own->db.reading);
	rocksdb_writeoptions_destroy(own->writing);
	rocksdb_options_destroy(own->db.options);
	rocksdb_free(own->error);
}

static inline void expect_refused(struct own_db *own, const char *word)
{
	ck_assert_ptr_null(own->db.rocks);
	ck_assert_ptr_nonnull(own->error);
	ck_assert_msg(strstr(own->error, word) != NULL, "%s", own->error);
	ck_assert_ptr_nonnull(strstr(own->error, "comparator"));
	ck_assert_ptr_nonnull(strstr(own->error, "canonical"));
}

/* ---- keys --------------------------------------------------------------- */

#define KEYS 5000
#define PREFIX_SIZE 12 /* "Key-" and the number */

/* Letters in it have a case. Every 50th is longer than most buffers. */
static inline size_t make_key(unsigned number, bool upper, char *key)
{
	size_t size = (size_t)snprintf(key, 600, "Key-%08x-%0*d", number * 2654435761u,
				       number % 50 ? 1 : 400, 7);

	for (size_t i = 0; upper && i < size; i++)
		key[i] = (char)toupper((unsigned char)key[i]);
	return size;
}

static inline void put_in(struct own_db *own, rocksdb_column_family_handle_t *family,
			  unsigned count)
{
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char key[600], value[100] = "value";

	for (unsigned i = 0; i < count; i++) {
		size_t size = make_key(i, false, key);

		if (family)
			rocksdb_put_cf(own->db.rocks, own->writing, family, key, size, value,
				       sizeof(value), &own->error);
		else
			rocksdb_put(own->db.rocks, own->writing, key, size, value, sizeof(value),
				    &own->error);
		expect_no(own->error);
	}
	if (family) {
		rocksdb_flush_cf(own->db.rocks, flushing, family, &own->error);
		rocksdb_compact_range_cf(own->db.rocks, family, NULL, 0, NULL, 0);
	} else {
		rocksdb_flush(own->db.rocks, flushing, &own->error);
		rocksdb_compact_range(own->db.rocks, NULL, 0, NULL, 0);
	}
	expect_no(own->error);
	rocksdb_flushoptions_destroy(flushing);
}

static inline void put_keys(struct own_db *own, unsigned count)
{
	put_in(own, NULL, count);
}

static inline unsigned count_in(struct own_db *own, rocksdb_column_family_handle_t *family,
				unsigned first, unsigned end, bool upper)
{
	unsigned found = 0;
	char key[600];
	size_t size;

	for (unsigned i = first; i < end; i++) {
		size_t key_size = make_key(i, upper, key);
		char *value;

		if (family)
			value = wn_rocksdb_get_cf(own->wn, own->db.reading, family, key, key_size,
						  &size, &own->error);
		else if (own->wn)
			value = wn_rocksdb_get(own->wn, own->db.reading, key, key_size, &size,
					       &own->error);
		else
			value = rocksdb_get(own->db.rocks, own->db.reading, key, key_size, &size,
					    &own->error);
		expect_no(own->error);
		found += value != NULL;
		rocksdb_free(value);
	}
	return found;
}

static inline unsigned count_found(struct own_db *own, unsigned first, unsigned end, bool upper)
{
	return count_in(own, NULL, first, end, upper);
}

static inline struct wn_stats stats_of(const struct own_db *own)
{
	struct wn_stats stats;

	wn_rocksdb_stats(own->wn, &stats);
	return stats;
}

#endif /* WN_TESTS_ROCKSDB_COMPARATORS_H */
