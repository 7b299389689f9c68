/* leveldb_bloom.cc - see leveldb_bloom.h. */
#include "leveldb_bloom.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>

struct leveldb_bloom {
	std::unique_ptr<const leveldb::FilterPolicy> policy;
};

struct leveldb_bloom *leveldb_bloom_create(int bits_per_key)
{
	try {
		std::unique_ptr<leveldb_bloom> bloom(new leveldb_bloom);

		bloom->policy.reset(leveldb::NewBloomFilterPolicy(bits_per_key));
		return bloom.release();
	} catch (...) {
		return nullptr;
	}
}

struct leveldb_bloom *leveldb_bloom_wrap(struct leveldb_filterpolicy_t *policy)
{
	leveldb_bloom *bloom = new (std::nothrow) leveldb_bloom;

	/* The C interface derives its policies from the C++ class, first base and only one. */
	if (bloom != nullptr)
		bloom->policy.reset(reinterpret_cast<const leveldb::FilterPolicy *>(policy));
	return bloom;
}

void leveldb_bloom_destroy(struct leveldb_bloom *bloom)
{
	delete bloom;
}

const char *leveldb_bloom_name(const struct leveldb_bloom *bloom)
{
	return bloom->policy->Name();
}

char *leveldb_bloom_build(const struct leveldb_bloom *bloom, const char *const *keys,
			  const size_t *sizes, int count, size_t *sizep)
{
	*sizep = 0;
	try {
		std::vector<leveldb::Slice> slices;
		std::string filter;
		char *bytes;

		for (int i = 0; i < count; i++)
			slices.emplace_back(keys[i], sizes[i]);
		bloom->policy->CreateFilter(slices.data(), count, &filter);
		bytes = static_cast<char *>(malloc(filter.size() + 1));
		if (bytes != nullptr) {
			memcpy(bytes, filter.data(), filter.size());
			*sizep = filter.size();
		}
		return bytes;
	} catch (...) {
		return nullptr;
	}
}

bool leveldb_bloom_may_match(const struct leveldb_bloom *bloom, const char *key, size_t size,
			     const char *filter, size_t filter_size)
{
	return bloom->policy->KeyMayMatch(leveldb::Slice(key, size),
					  leveldb::Slice(filter, filter_size));
}
