/* shim.h - the border between RocksDB's C++ and winnow's C.
 *
 * shim.cc shows RocksDB a filter policy and passes every call on to a table of C functions;
 * policy.c fills the table. shim_options.cc changes options and listens. Nothing is decided in
 * the shim. */
#ifndef WN_ADAPTERS_ROCKSDB_SHIM_H
#define WN_ADAPTERS_ROCKSDB_SHIM_H

#include <rocksdb/c.h>

#include <winnow/common.h>

WN_BEGIN_DECLS

struct wn__bytes {
	const void *data;
	size_t size;
};

/* As many keys as one call of wn__reader_query_batch() may bring: RocksDB's own limit. */
#define WN__MAX_BATCH 32

/* What RocksDB asks of a filter policy. `policy` is the pointer that was given to
 * wn__shim_create(); builders and readers are what the functions here return. None of them
 * may be called with two threads on one builder; the rest may be called by any thread. */
struct wn__policy_calls {
	/* RocksDB needs the policy no longer. Its builders and readers may live on: in a
	 * block cache that several databases share, readers outlive everything else. */
	void (*release)(void *policy);

	/* A builder for one table; NULL: the table gets no filter. `verify`: verify() will
	 * be asked after every finish(). */
	void *(*create_builder)(void *policy, bool verify);
	void (*destroy_builder)(void *builder);
	void (*add)(void *builder, struct wn__bytes key);
	/* A key and its prefix, which come in order: either may be the same as before. */
	void (*add_with_prefix)(void *builder, struct wn__bytes key, struct wn__bytes prefix);
	size_t (*count)(const void *builder);
	/* Make the block, in memory from wn__shim_new(), and empty the builder. *blockp is
	 * taken; NULL: there is none, and RocksDB is given one that says "maybe" to everything. */
	void (*finish)(void *builder, void **blockp, size_t *sizep);
	/* Does the block that finish() made hold every key? Asked before the next key. */
	bool (*verify)(void *builder, struct wn__bytes block);
	size_t (*keys_for_space)(const void *builder, size_t bytes);
	size_t (*space_for_keys)(const void *builder, size_t keys);
	double (*expected_rate)(const void *builder);

	/* Not winnow's block: RocksDB's own reader is to read it. */
	bool (*is_foreign)(void *policy, struct wn__bytes block);
};

/* Memory for blocks, which RocksDB frees with delete[]. NULL: there is none. */
void *wn__shim_new(size_t size);
void wn__shim_delete(void *memory);

/* ---- readers (reader.c) -------------------------------------------------- */

/* An open filter. It is asked for every key of every lookup: called by name, not by the table. */
struct wn__reader;

/* The block is borrowed and outlives the reader. Never NULL: if the block cannot be opened, the
 * reader says "maybe". */
struct wn__reader *wn__reader_open(void *policy, struct wn__bytes block);
void wn__reader_close(struct wn__reader *reader);
bool wn__reader_query(const struct wn__reader *reader, const void *key, size_t size);
/* At most WN__MAX_BATCH keys. */
void wn__reader_query_batch(const struct wn__reader *reader, const struct wn__bytes *const *keys,
			    size_t count, bool *answersp);

/* ---- the policy ---------------------------------------------------------- */

/* Is the RocksDB in this process of the minor version that this library was built for? If not, its
 * classes are others: no function of this header may be called then but this one and those for
 * memory, paths and numbers. `message`, if it is not NULL, gets a sentence with both versions. */
bool wn__shim_fits(char *message, size_t size);

/* The version that this library was built for. */
void wn__shim_version(int *majorp, int *minorp);

/* A policy as RocksDB sees it. `calls` is borrowed for ever, `id` copied; `policy` is taken:
 * calls->release() gets it at the end. NULL: no memory, and nothing was taken. */
rocksdb_filterpolicy_t *wn__shim_create(const struct wn__policy_calls *calls, const char *id,
					void *policy);

/* The `policy` inside, or NULL if it is another's policy (told by its name). */
void *wn__shim_policy(const rocksdb_filterpolicy_t *policy);

/* ---- databases that learn ----------------------------------------------- */

/* What a database tells of its tables, by file number, on any thread of RocksDB's. Options may
 * be used for several databases, and then each of them tells the same listener: file numbers
 * mean nothing unless is_own() says that the database of this path is the listener's. */
struct wn__listener_calls {
	bool (*is_own)(void *listener, const char *path);
	void (*deleted)(void *listener, uint64_t file);
	void (*release)(void *listener);
};

enum wn__shim_result {
	WN__SHIM_OK,
	WN__SHIM_NO_MEMORY,
	WN__SHIM_NOT_BLOCK_BASED
};

/* Change `options`: the block-based table's filter policy becomes `policy`, and there is one
 * more listener (calls NULL: there is not). A listener that an earlier call put there goes, as
 * the earlier policy does. Policy and listener are taken, also on failure, which leaves the
 * options as they were. */
enum wn__shim_result wn__shim_change_options(rocksdb_options_t *options,
					     rocksdb_filterpolicy_t *policy,
					     const struct wn__listener_calls *calls,
					     void *listener);

/* Are keys that compare as equal the same bytes, as far as RocksDB knows? True of its own
 * comparators (timestamps are no part of a key here) and of those that say so. */
bool wn__shim_tells_bytes_apart(const rocksdb_options_t *options);

/* Nothing of the options' block cache is in it any more but what is in use. Readers of filters lie
 * there under their table's name, also from before the database was opened. */
void wn__shim_empty_cache(const rocksdb_options_t *options);

/* Let the block-based tables of `to` use the block cache of `from`, if that has one. */
void wn__shim_share_cache(const rocksdb_options_t *from, rocksdb_options_t *to);

/* Tables that are written with these options have their keys in the index as they are, not
 * shortened. Other settings of their tables are RocksDB's defaults. */
void wn__shim_index_whole_keys(rocksdb_options_t *options);

/* Let RocksDB note an ingested file's sequence number in its manifest, and not write it into
 * the file. */
void wn__shim_ingest_unchanged(rocksdb_ingestexternalfileoptions_t *options);

/* Charges memory to the block cache of these options' tables. NULL: there is no such cache, or
 * no memory. It keeps the cache, so nothing in the cache may keep it. */
void *wn__shim_create_charge(const rocksdb_options_t *options);
void wn__shim_destroy_charge(void *charge); /* NULL is fine */
/* Charge so much, and no longer what was charged before. Any thread. */
void wn__shim_charge(void *charge, uint64_t bytes);

/* The number of the table file that this thread is about to write, as this listener was told by
 * its own database; 0: none. */
uint64_t wn__shim_building(const void *listener);

/* The number in a table file's path; 0: it has none. */
uint64_t wn__shim_file_number(const char *path);

/* How many bits a key the filters of these options have, be they RocksDB's or anybody's (a Ribbon
 * filter: those of the Bloom filter that it equals); 0: there are none, or they do not say. */
double wn__shim_bits_per_key(const rocksdb_options_t *options);

/* ---- handles that were not made by the C API (shim_handles.cc) ------------ */

/* A handle of RocksDB's C API for what is at the bottom of a rocksdb::DB; NULL: no memory. It is
 * not to be closed. */
rocksdb_t *wn__shim_wrap(void *db);
void wn__shim_unwrap(rocksdb_t *db); /* NULL is fine */

/* The same for a rocksdb::ColumnFamilyHandle, which is taken, also when the result is NULL. */
rocksdb_column_family_handle_t *wn__shim_wrap_family(void *family);
void wn__shim_destroy_wrapped(rocksdb_column_family_handle_t *family);
void wn__shim_destroy_bare(void *family);

/* The identity of an open database, as its file IDENTITY has it if there is one. 0: not known, or
 * longer than `size`. */
size_t wn__shim_identity(rocksdb_t *db, char *identityp, size_t size);

/* ---- by name ------------------------------------------------------------ */

/* Make a policy from an id such as "winnow.aqf:load=0.9"; NULL with a sentence in `message`. */
typedef rocksdb_filterpolicy_t *wn__make_policy_fn(const char *id, char *message, size_t size);

/* Let RocksDB's options strings and files name policies by such ids. false: no memory. */
bool wn__shim_register(wn__make_policy_fn *make);

WN_END_DECLS

#endif /* WN_ADAPTERS_ROCKSDB_SHIM_H */
