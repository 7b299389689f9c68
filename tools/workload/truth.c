/* truth.c - see truth.h. */
#include "truth.h"

#include <stdlib.h>

#include "base/alloc.h"

bool truth_init(struct truth *truth, const struct keyspace *keyspace, size_t value_size)
{
	truth->keyspace = keyspace;
	truth->value_size = value_size;
	truth->versions = wn__calloc((size_t)keyspace_room(keyspace) + 1, sizeof(atomic_uchar));
	if (!truth->versions)
		return false;
	for (unsigned i = 0; i < TRUTH_LOCKS; i++)
		pthread_mutex_init(&truth->locks[i], NULL);
	return true;
}

void truth_fini(struct truth *truth)
{
	if (!truth->versions)
		return;
	free(truth->versions);
	truth->versions = NULL;
	for (unsigned i = 0; i < TRUTH_LOCKS; i++)
		pthread_mutex_destroy(&truth->locks[i]);
}

unsigned truth_version(struct truth *truth, uint64_t index)
{
	return atomic_load_explicit(&truth->versions[index], memory_order_acquire);
}

static unsigned next_version(unsigned version)
{
	return version == 255 ? 1 : version + 1;
}

unsigned truth_begin_write(struct truth *truth, uint64_t index)
{
	pthread_mutex_lock(&truth->locks[index % TRUTH_LOCKS]);
	return next_version(truth_version(truth, index));
}

void truth_end_write(struct truth *truth, uint64_t index, unsigned version, bool written)
{
	if (written)
		atomic_store_explicit(&truth->versions[index], (unsigned char)version,
				      memory_order_release);
	pthread_mutex_unlock(&truth->locks[index % TRUTH_LOCKS]);
}

bool truth_allows(struct truth *truth, uint64_t index, unsigned before, bool found,
		  const void *value, size_t size)
{
	const unsigned last = next_version(truth_version(truth, index));

	if (!found)
		return before == 0;
	if (size != truth->value_size)
		return false;
	for (unsigned version = before > 0 ? before : 1;; version = next_version(version)) {
		if (keyspace_is_value(truth->keyspace, index, version, value, size))
			return true;
		if (version == last)
			return false;
	}
}

bool truth_adopt(struct truth *truth, uint64_t index, const void *value, size_t size)
{
	if (size != truth->value_size)
		return false;
	for (unsigned version = 1; version <= 255; version++) {
		if (!keyspace_is_value(truth->keyspace, index, version, value, size))
			continue;
		atomic_store_explicit(&truth->versions[index], (unsigned char)version,
				      memory_order_release);
		return true;
	}
	return false;
}
