/* embed.c - for layers above RocksDB that open and ask it themselves: winnow/rocksdb_embed.h. */
#include <winnow/rocksdb_embed.h>

#include <assert.h>
#include <stdio.h>

#include <winnow/error.h>

#include "database.h"
#include "learn/lookup.h"

struct frame {
	struct wn__lookup lookup;
	struct wn__batch batch;
	struct wn_rocksdb *wn;
};

static_assert(sizeof(struct frame) <= sizeof(struct wn_rocksdb_frame), "a frame is too large");

static struct frame *inside(struct wn_rocksdb_frame *frame)
{
	return (struct frame *)frame;
}

void WN__HOT wn_rocksdb_lookup_begin(struct wn_rocksdb *wn, struct wn_rocksdb_frame *frame,
				     const char *key, size_t size)
{
	inside(frame)->wn = wn;
	wn__begin_lookup(wn, &inside(frame)->lookup, key, size);
}

void WN__HOT wn_rocksdb_lookup_end(struct wn_rocksdb_frame *frame,
				   enum wn_rocksdb_outcome outcome)
{
	wn__lookup_end(&inside(frame)->lookup, inside(frame)->wn->learn,
		       outcome == WN_ROCKSDB_FOUND, outcome == WN_ROCKSDB_NO_ANSWER);
}

void wn_rocksdb_batch_begin(struct wn_rocksdb *wn, struct wn_rocksdb_frame *frame)
{
	inside(frame)->wn = wn;
	wn__begin_lookup(wn, &inside(frame)->lookup, NULL, 0);
}

void wn_rocksdb_batch_end(struct wn_rocksdb_frame *frame)
{
	wn__lookup_end_batch(&inside(frame)->lookup, inside(frame)->wn->learn,
			     &inside(frame)->batch);
}

void wn_rocksdb_batch_tell(struct wn_rocksdb_frame *frame, const char *key, size_t size,
			   enum wn_rocksdb_outcome outcome)
{
	wn__confirm_key(inside(frame)->wn, &inside(frame)->batch, key, size,
			outcome == WN_ROCKSDB_FOUND, outcome == WN_ROCKSDB_NO_ANSWER);
}

int wn_rocksdb_fits(int major, int minor, char *message, size_t size)
{
	int built_major, built_minor;

	wn__shim_version(&built_major, &built_minor);
	if (!wn__shim_fits(message, size))
		return WN_ERR_MISMATCH;
	if (message && size)
		*message = '\0';
	if (major == built_major && minor == built_minor)
		return 0;
	snprintf(message, message ? size : 0, "this program was compiled for RocksDB %d.%d, and "
		 "winnow for RocksDB %d.%d", major, minor, built_major, built_minor);
	return WN_ERR_MISMATCH;
}
