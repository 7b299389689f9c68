/* lookup.c - lookups that teach: RocksDB's own, with a frame around them. */
#include "database.h"
#include "learn/lookup.h"

#define BLOCK_CACHE_TIER 1 /* RocksDB's kBlockCacheTier, which its C interface does not name */

/* A lookup that failed teaches nothing, and neither does one that must not read from disk: to
 * learn from it might. */
static bool teaches_nothing(const rocksdb_readoptions_t *options, const char *error)
{
	return error || rocksdb_readoptions_get_read_tier((rocksdb_readoptions_t *)options) ==
				BLOCK_CACHE_TIER;
}

char *WN__HOT wn_rocksdb_get(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			     const char *key, size_t size, size_t *value_sizep, char **errptr)
{
	struct wn__lookup lookup;
	char *value;

	wn__begin_lookup(wn, &lookup, key, size);
	value = rocksdb_get(wn->rocks, options, key, size, value_sizep, errptr);
	wn__lookup_end(&lookup, wn->learn, value, teaches_nothing(options, *errptr));
	return value;
}

char *WN__HOT wn_rocksdb_get_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			rocksdb_column_family_handle_t *family, const char *key, size_t size,
			size_t *value_sizep, char **errptr)
{
	struct wn__lookup lookup;
	char *value;

	wn__begin_lookup(wn, &lookup, key, size);
	value = rocksdb_get_cf(wn->rocks, options, family, key, size, value_sizep, errptr);
	wn__lookup_end(&lookup, wn->learn, value, teaches_nothing(options, *errptr));
	return value;
}

rocksdb_pinnableslice_t *WN__HOT wn_rocksdb_get_pinned(struct wn_rocksdb *wn,
					       const rocksdb_readoptions_t *options,
					       const char *key, size_t size, char **errptr)
{
	struct wn__lookup lookup;
	rocksdb_pinnableslice_t *value;

	wn__begin_lookup(wn, &lookup, key, size);
	value = rocksdb_get_pinned(wn->rocks, options, key, size, errptr);
	wn__lookup_end(&lookup, wn->learn, value, teaches_nothing(options, *errptr));
	return value;
}

rocksdb_pinnableslice_t *WN__HOT wn_rocksdb_get_pinned_cf(struct wn_rocksdb *wn,
						  const rocksdb_readoptions_t *options,
						  rocksdb_column_family_handle_t *family,
						  const char *key, size_t size, char **errptr)
{
	struct wn__lookup lookup;
	rocksdb_pinnableslice_t *value;

	wn__begin_lookup(wn, &lookup, key, size);
	value = rocksdb_get_pinned_cf(wn->rocks, options, family, key, size, errptr);
	wn__lookup_end(&lookup, wn->learn, value, teaches_nothing(options, *errptr));
	return value;
}

/* ---- many keys ---------------------------------------------------------- */

void wn__confirm_key(const struct wn_rocksdb *wn, struct wn__batch *batch, const char *key,
		     size_t size, bool found, bool failed)
{
	struct wn_hash hash = {0, 0};
	bool known = wn__policy_hash(wn->policy, wn->policy->secret, key, size, &hash);

	wn__batch_confirm(batch, hash, found, failed || !known);
}

static void end_batch(struct wn_rocksdb *wn, struct wn__lookup *lookup,
		      const rocksdb_readoptions_t *options, size_t count,
		      const char *const *keys, const size_t *sizes, void *const *values,
		      char *const *errors)
{
	struct wn__batch batch;

	wn__lookup_end_batch(lookup, wn->learn, &batch);
	for (size_t i = 0; i < count; i++)
		wn__confirm_key(wn, &batch, keys[i], sizes[i], values[i],
				teaches_nothing(options, errors[i]));
}

void wn_rocksdb_multi_get(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			  size_t count, const char *const *keys, const size_t *sizes,
			  char **valuesp, size_t *value_sizesp, char **errorsp)
{
	struct wn__lookup lookup;

	wn__begin_lookup(wn, &lookup, NULL, 0);
	rocksdb_multi_get(wn->rocks, options, count, keys, sizes, valuesp, value_sizesp, errorsp);
	end_batch(wn, &lookup, options, count, keys, sizes, (void *const *)valuesp, errorsp);
}

void wn_rocksdb_multi_get_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
			     const rocksdb_column_family_handle_t *const *families, size_t count,
			     const char *const *keys, const size_t *sizes, char **valuesp,
			     size_t *value_sizesp, char **errorsp)
{
	struct wn__lookup lookup;

	wn__begin_lookup(wn, &lookup, NULL, 0);
	rocksdb_multi_get_cf(wn->rocks, options, families, count, keys, sizes, valuesp,
			     value_sizesp, errorsp);
	end_batch(wn, &lookup, options, count, keys, sizes, (void *const *)valuesp, errorsp);
}

void wn_rocksdb_batched_multi_get_cf(struct wn_rocksdb *wn, const rocksdb_readoptions_t *options,
				     rocksdb_column_family_handle_t *family, size_t count,
				     const char *const *keys, const size_t *sizes,
				     rocksdb_pinnableslice_t **valuesp, char **errorsp,
				     const bool sorted_input)
{
	struct wn__lookup lookup;

	wn__begin_lookup(wn, &lookup, NULL, 0);
	rocksdb_batched_multi_get_cf(wn->rocks, options, family, count, keys, sizes, valuesp,
				     errorsp, sorted_input);
	end_batch(wn, &lookup, options, count, keys, sizes, (void *const *)valuesp, errorsp);
}
