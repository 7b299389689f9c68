/* may_match.cc - see may_match.h. */
#include "may_match.h"

#include <cstring>
#include <memory>
#include <new>

#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>

#include "adapters/rocksdb/filter_bits.h"

namespace rocks = ROCKSDB_NAMESPACE;

namespace {

class Nothing final : public rocks::FilterBitsReader {
public:
	bool MayMatch(const rocks::Slice &) override
	{
		return false;
	}

	void MayMatch(int count, rocks::Slice **, bool *answersp) override
	{
		memset(answersp, false, static_cast<size_t>(count));
	}
};

} // namespace

struct asked {
	std::unique_ptr<const char[]> bytes;
	rocks::Slice block;
	std::unique_ptr<rocks::FilterBitsReader> reader;
};

struct asked_keys {
	rocks::Slice slices[ASK_MAX_BATCH];
	rocks::Slice *pointers[ASK_MAX_BATCH];
	int count;
};

rocksdb_filterpolicy_t *asked_bloom(double bits)
{
	/* Not the C interface's: that one wraps the policy, and one must ask what it wraps. */
	return reinterpret_cast<rocksdb_filterpolicy_t *>(
		const_cast<rocks::FilterPolicy *>(rocks::NewBloomFilterPolicy(bits)));
}

struct asked *asked_create(const rocksdb_filterpolicy_t *policy, const void *keys, size_t key_size,
			   size_t count)
{
	try {
		const rocks::BlockBasedTableOptions options;
		const rocks::FilterBuildingContext context(options);
		const rocks::FilterPolicy *shown =
			reinterpret_cast<const rocks::FilterPolicy *>(policy);
		std::unique_ptr<rocks::FilterBitsBuilder> builder;
		std::unique_ptr<struct asked> made(new struct asked);
		const char *key = static_cast<const char *>(keys);

		if (policy == nullptr) {
			made->reader.reset(new Nothing);
			return made.release();
		}
		builder.reset(shown->GetBuilderWithContext(context));
		if (builder == nullptr)
			return nullptr;
		for (size_t i = 0; i < count; i++, key += key_size)
			builder->AddKey(rocks::Slice(key, key_size));
		made->block = builder->Finish(&made->bytes);
		made->reader.reset(shown->GetFilterBitsReader(made->block));
		return made->reader != nullptr ? made.release() : nullptr;
	} catch (...) {
		return nullptr;
	}
}

void asked_destroy(struct asked *asked)
{
	delete asked;
}

__attribute__((noinline)) bool ask(const struct asked *asked, const void *key, size_t size)
{
	return asked->reader->MayMatch(rocks::Slice(static_cast<const char *>(key), size));
}

struct asked_keys *asked_keys_create(void)
{
	return new (std::nothrow) asked_keys;
}

void asked_keys_set(struct asked_keys *batch, const void *keys, size_t key_size, size_t count)
{
	const char *key = static_cast<const char *>(keys);

	batch->count = static_cast<int>(count);
	for (size_t i = 0; i < count; i++, key += key_size) {
		batch->slices[i] = rocks::Slice(key, key_size);
		batch->pointers[i] = &batch->slices[i];
	}
}

void asked_keys_destroy(struct asked_keys *batch)
{
	delete batch;
}

__attribute__((noinline)) void ask_batch(const struct asked *asked, struct asked_keys *batch,
					 bool *answersp)
{
	asked->reader->MayMatch(batch->count, batch->pointers, answersp);
}
