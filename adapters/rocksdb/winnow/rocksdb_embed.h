/* rocksdb_embed.h - winnow under RocksDB databases that are not opened or asked through the C API.
 *
 * For those who write a layer of their own above RocksDB: the C++ interface (winnow/rocksdb.hpp),
 * another language's binding, a storage engine. It says around which calls of RocksDB's winnow has
 * to be told what; what is done there is the caller's.
 *
 * Thread safety: any thread, any time. A frame belongs to its thread. */
#ifndef WINNOW_ROCKSDB_EMBED_H
#define WINNOW_ROCKSDB_EMBED_H

#include <winnow/rocksdb.h>

WN_BEGIN_DECLS

/* ---- versions ----------------------------------------------------------- */

/* Does this library fit a program that was compiled with the headers of RocksDB MAJOR.MINOR, and
 * the RocksDB in this process? All three must be of one minor version, since RocksDB's classes
 * change between any two. WN_ERR_MISMATCH: no, with a sentence in `message` (may be NULL). */
WN_PUBLIC int wn_rocksdb_fits(int major, int minor, char *message, size_t size);

/* ---- open --------------------------------------------------------------- */

/* How the program opens its database. */
struct wn_rocksdb_opener {
	/* Open a database with these families, in this order: the program's, which have winnow's
	 * policy in their options now, and perhaps one more, winnow's. The options are borrowed: a
	 * rocksdb_options_t is a rocksdb::Options. *handlesp is room for `count` pointers to
	 * rocksdb::ColumnFamilyHandle. The result is a rocksdb::DB: RocksDB's own, or one that is
	 * stacked above it. NULL: failed. */
	void *(*open)(void *arg, const rocksdb_options_t *options, int count,
		      const char *const *names, const rocksdb_options_t *const *family_options,
		      void **handlesp);
	/* Close it, so that no more tables are written; winnow's handle is gone by then. Who
	 * opened it destroys the object, now or later. */
	void (*close)(void *arg, void *db);
	void *arg;
	uint64_t reserved[4]; /* zero; functions of later versions (winnow/common.h) */
};

/* As wn_rocksdb_open_column_families(), but that `opener` (copied) opens the database: close `*wnp`
 * first, and then destroy what it opened. handlesp[i] is that of names[i]. If the handle turns out
 * to be one to read only, or a secondary instance, nothing is written. 0, or what went wrong, with
 * a message in *errptr; WN_ERR_NOT_FOUND: opener->open() returned NULL, and knows why. After
 * another error what was opened has been closed, and its handles destroyed. */
WN_PUBLIC int wn_rocksdb_open_by(const struct wn_rocksdb_opener *opener,
				 const rocksdb_options_t *options, const char *path, int count,
				 const char *const *names,
				 const rocksdb_options_t *const *family_options, void **handlesp,
				 const struct wn_rocksdb_options *given, struct wn_rocksdb **wnp,
				 char **errptr);

/* Put winnow's policy into the options of a family that is about to be made. */
WN_PUBLIC void wn_rocksdb_prepare_family(struct wn_rocksdb *wn, rocksdb_options_t *options,
					 char **errptr);

/* ---- lookups ------------------------------------------------------------ */

/* What a lookup came to. */
enum wn_rocksdb_outcome {
	WN_ROCKSDB_MISSING,
	WN_ROCKSDB_FOUND,
	WN_ROCKSDB_NO_ANSWER /* it failed, or might not read from disk: it teaches nothing */
};

/* The frame of a lookup, on the caller's stack: what the filters that are asked in between say is
 * noted in it. Begin and end are called on one thread, also if the lookup failed; frames may be
 * nested, and then end in reverse order. A lookup that is suspended and goes on elsewhere, or lets
 * another one run meanwhile (RocksDB's GetAsync()), must not have one. */
struct wn_rocksdb_frame {
	uint64_t opaque[1024];
};

/* The key is borrowed until the end. */
WN_PUBLIC void wn_rocksdb_lookup_begin(struct wn_rocksdb *wn, struct wn_rocksdb_frame *frame,
				       const char *key, size_t size);
WN_PUBLIC void wn_rocksdb_lookup_end(struct wn_rocksdb_frame *frame,
				     enum wn_rocksdb_outcome outcome);

/* The same for many keys at once. When it is over, what became of each key is told. */
WN_PUBLIC void wn_rocksdb_batch_begin(struct wn_rocksdb *wn, struct wn_rocksdb_frame *frame);
WN_PUBLIC void wn_rocksdb_batch_end(struct wn_rocksdb_frame *frame);
WN_PUBLIC void wn_rocksdb_batch_tell(struct wn_rocksdb_frame *frame, const char *key, size_t size,
				     enum wn_rocksdb_outcome outcome);

WN_END_DECLS

#endif /* WINNOW_ROCKSDB_EMBED_H */
