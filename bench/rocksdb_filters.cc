/* rocksdb_filters.cc - see rocksdb_filters.h.
 *
 * RocksDB hides the classes of its filters; the adapter's filter_bits.h declares
 * them, and configure has proved that they fit. */
#include "rocksdb_filters.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include "adapters/rocksdb/filter_bits.h"

namespace rocks = ROCKSDB_NAMESPACE;

struct rf_builder {
	std::unique_ptr<const rocks::FilterPolicy> policy;
	std::unique_ptr<rocks::FilterBitsBuilder> bits;
};

struct rf_filter {
	std::unique_ptr<const rocks::FilterPolicy> policy;
	std::unique_ptr<const char[]> bytes;
	rocks::Slice contents;
	std::unique_ptr<rocks::FilterBitsReader> reader;
};

/* Each of the two has what the other has not: Bloom needs all the bits it was
 * given, Ribbon about a quarter fewer; neither denies a key. */
static bool probe_kind(enum rf_kind kind, double min_bits, double max_bits)
{
	const size_t count = 4096;
	std::unique_ptr<uint64_t[]> keys(new uint64_t[2 * count]);
	struct rf_filter *filter;
	bool good = true;
	double bits;
	size_t wrong = 0;

	for (size_t i = 0; i < 2 * count; i++)
		keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	filter = rf_build(kind, 10.0, keys.get(), sizeof(keys[0]), count);
	if (filter == nullptr)
		return false;
	for (size_t i = 0; i < 2 * count; i++) {
		const bool answer = rf_may_match(filter, &keys[i], sizeof(keys[0]));

		if (i < count)
			good = good && answer;
		else
			wrong += answer;
	}
	bits = 8.0 * (double)rf_size(filter) / (double)count;
	rf_free(filter);
	return good && wrong < count / 20 && bits >= min_bits && bits <= max_bits;
}

bool rf_check(char *message, size_t size)
{
	int major = 0, minor = 0;

	sscanf(rf_version(), "%d.%d", &major, &minor);
	if (major != ROCKSDB_MAJOR || minor != ROCKSDB_MINOR) {
		snprintf(message, size, "built for RocksDB %d.%d, but the library is %s",
			 ROCKSDB_MAJOR, ROCKSDB_MINOR, rf_version());
		return false;
	}
	if (!probe_kind(RF_BLOOM, 9.5, 11.5) || !probe_kind(RF_RIBBON, 5.0, 9.0)) {
		snprintf(message, size, "RocksDB %s's filters do not behave as expected",
			 rf_version());
		return false;
	}
	return true;
}

const char *rf_version(void)
{
	static const std::string version = rocks::GetRocksVersionAsString();

	return version.c_str();
}

/* -1: Ribbon at every level; by default flushes get Bloom. */
static const rocks::FilterPolicy *make_policy(enum rf_kind kind, double bits)
{
	if (kind == RF_RIBBON)
		return rocks::NewRibbonFilterPolicy(bits, -1);
	return rocks::NewBloomFilterPolicy(bits);
}

struct rf_builder *rf_builder_create(enum rf_kind kind, double bits)
{
	try {
		const rocks::BlockBasedTableOptions options;
		const rocks::FilterBuildingContext context(options);
		std::unique_ptr<rf_builder> builder(new rf_builder);

		builder->policy.reset(make_policy(kind, bits));
		if (builder->policy == nullptr)
			return nullptr;
		builder->bits.reset(builder->policy->GetBuilderWithContext(context));
		return builder->bits != nullptr ? builder.release() : nullptr;
	} catch (...) {
		return nullptr;
	}
}

void rf_builder_add(struct rf_builder *builder, const void *keys, size_t key_size, size_t count)
{
	const char *key = static_cast<const char *>(keys);

	for (size_t i = 0; i < count; i++, key += key_size)
		builder->bits->AddKey(rocks::Slice(key, key_size));
}

struct rf_filter *rf_builder_finish(struct rf_builder *builder)
{
	std::unique_ptr<rf_builder> owned(builder);

	try {
		std::unique_ptr<rf_filter> filter(new rf_filter);

		filter->contents = owned->bits->Finish(&filter->bytes);
		filter->policy = std::move(owned->policy);
		filter->reader.reset(filter->policy->GetFilterBitsReader(filter->contents));
		return filter->reader != nullptr ? filter.release() : nullptr;
	} catch (...) {
		return nullptr;
	}
}

struct rf_filter *rf_build(enum rf_kind kind, double bits, const void *keys, size_t key_size,
			   size_t count)
{
	struct rf_builder *builder = rf_builder_create(kind, bits);

	if (builder == nullptr)
		return nullptr;
	rf_builder_add(builder, keys, key_size, count);
	return rf_builder_finish(builder);
}

bool rf_may_match(const struct rf_filter *filter, const void *key, size_t size)
{
	return filter->reader->MayMatch(rocks::Slice(static_cast<const char *>(key), size));
}

void rf_may_match_many(const struct rf_filter *filter, const void *keys, size_t key_size,
		       size_t count, bool *answersp)
{
	rocks::Slice slices[RF_MAX_BATCH];
	rocks::Slice *pointers[RF_MAX_BATCH];
	const char *key = static_cast<const char *>(keys);

	for (size_t i = 0; i < count; i++, key += key_size) {
		slices[i] = rocks::Slice(key, key_size);
		pointers[i] = &slices[i];
	}
	filter->reader->MayMatch(static_cast<int>(count), pointers, answersp);
}

const void *rf_bytes(const struct rf_filter *filter)
{
	return filter->contents.data();
}

struct rf_filter *rf_reopen(const struct rf_filter *filter, const void *bytes)
{
	try {
		std::unique_ptr<rf_filter> copy(new rf_filter);

		copy->contents = rocks::Slice(static_cast<const char *>(bytes),
					      filter->contents.size());
		copy->reader.reset(filter->policy->GetFilterBitsReader(copy->contents));
		return copy->reader != nullptr ? copy.release() : nullptr;
	} catch (...) {
		return nullptr;
	}
}

size_t rf_size(const struct rf_filter *filter)
{
	return filter->contents.size();
}

void rf_free(struct rf_filter *filter)
{
	delete filter;
}
