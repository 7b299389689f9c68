/* shim.cc - the filter policy as RocksDB sees it, and its name; see shim.h.
 *
 * This file and shim_options.cc are the only ones of the adapter that include RocksDB's C++
 * headers. They are compiled without run-time type information: a RocksDB built without it has
 * no type information to derive from, and one built with it never asks for ours.
 *
 * No exception leaves these files: RocksDB's threads would not catch it. */
#include "shim.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

/* RocksDB's classes are RocksDB's: what they are made of must not be looked for here. */
#pragma GCC visibility push(default)
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/object_registry.h>
#include <rocksdb/version.h>
#pragma GCC visibility pop

#include "filter_bits.h"

namespace rocks = ROCKSDB_NAMESPACE;

namespace {

/* The name under which RocksDB looks for a table's filter, and under which its built-in
 * policies write theirs: the two can read each other's tables because it is the same. */
const char compatibility_name[] = "rocksdb.BuiltinBloomFilter";

const char id_prefix[] = "winnow.";

/* A built-in filter without probes. It says "maybe" to everything; an empty one would say
 * "no" to everything. */
const char maybe_block[6] = {0, 0, 0, 0, 0, 0};

struct wn__bytes bytes_of(const rocks::Slice &slice)
{
	return {slice.data(), slice.size()};
}

/* A batch is passed on as it is, not copied: what RocksDB calls a slice is a pointer and a size. */
static_assert(sizeof(rocks::Slice) == sizeof(struct wn__bytes) &&
		      offsetof(rocks::Slice, data_) == offsetof(struct wn__bytes, data) &&
		      offsetof(rocks::Slice, size_) == offsetof(struct wn__bytes, size),
	      "slices have changed");

const struct wn__bytes *const *bytes_of(rocks::Slice *const *slices)
{
	return reinterpret_cast<const struct wn__bytes *const *>(slices);
}

class Builder final : public rocks::FilterBitsBuilder {
public:
	Builder(const struct wn__policy_calls *calls, void *builder, bool verify)
		: calls_(calls), builder_(builder), verify_(verify)
	{
	}

	~Builder() override
	{
		calls_->destroy_builder(builder_);
	}

	Builder(const Builder &) = delete;
	Builder &operator=(const Builder &) = delete;

	void AddKey(const rocks::Slice &key) override
	{
		calls_->add(builder_, bytes_of(key));
	}

#if WN_ROCKSDB_FAMILY >= 2
	void AddKeyAndAlt(const rocks::Slice &key, const rocks::Slice &alt) override
	{
		calls_->add_with_prefix(builder_, bytes_of(key), bytes_of(alt));
	}
#endif

	size_t EstimateEntriesAdded() override
	{
		return calls_->count(builder_);
	}

	rocks::Slice Finish(std::unique_ptr<const char[]> *ownerp) override
	{
		void *block;
		size_t size;

		calls_->finish(builder_, &block, &size);
		return hand_over(block, size, ownerp);
	}

	rocks::Slice Finish(std::unique_ptr<const char[]> *ownerp, rocks::Status *statusp) override
	{
		if (statusp != nullptr)
			*statusp = rocks::Status::OK();
		return Finish(ownerp);
	}

	rocks::Status MaybePostVerify(const rocks::Slice &block) override
	{
		if (!verify_ || block.data() == maybe_block ||
		    calls_->verify(builder_, bytes_of(block)))
			return rocks::Status::OK();
		return rocks::Status::Corruption("winnow: a filter was built wrong");
	}

	size_t ApproximateNumEntries(size_t bytes) override
	{
		return calls_->keys_for_space(builder_, bytes);
	}

#if WN_ROCKSDB_FAMILY >= 3
	size_t CalculateSpace(size_t entries) override
	{
		return calls_->space_for_keys(builder_, entries);
	}

	double EstimatedFpRate(size_t, size_t) override
	{
		return calls_->expected_rate(builder_);
	}
#endif

private:
	static rocks::Slice hand_over(void *block, size_t size,
				      std::unique_ptr<const char[]> *ownerp)
	{
		const char *bytes = static_cast<const char *>(block);

		ownerp->reset(bytes);
		return bytes != nullptr ? rocks::Slice(bytes, size) :
					  rocks::Slice(maybe_block, sizeof(maybe_block));
	}

	const struct wn__policy_calls *const calls_;
	void *const builder_;
	const bool verify_;
};

class Reader final : public rocks::FilterBitsReader {
public:
	explicit Reader(struct wn__reader *reader) : reader_(reader)
	{
	}

	~Reader() override
	{
		wn__reader_close(reader_);
	}

	Reader(const Reader &) = delete;
	Reader &operator=(const Reader &) = delete;

	__attribute__((hot)) bool MayMatch(const rocks::Slice &key) override
	{
		return wn__reader_query(reader_, key.data(), key.size());
	}

	void MayMatch(int count, rocks::Slice **keys, bool *answersp) override
	{
		const struct wn__bytes *const *bytes = bytes_of(keys);
		const size_t size = static_cast<size_t>(count);

		for (size_t i = 0; i < size; i += WN__MAX_BATCH)
			wn__reader_query_batch(reader_, bytes + i,
					       std::min<size_t>(size - i, WN__MAX_BATCH),
					       answersp + i);
	}

private:
	struct wn__reader *const reader_;
};

class Policy final : public rocks::FilterPolicy {
public:
	/* Takes `policy` only once nothing can fail any more. */
	Policy(const struct wn__policy_calls *calls, const char *id, void *policy)
		: id_(id), builtin_(rocks::NewBloomFilterPolicy(10)), calls_(calls), policy_(policy)
	{
	}

	~Policy() override
	{
		calls_->release(policy_);
	}

	Policy(const Policy &) = delete;
	Policy &operator=(const Policy &) = delete;

	const char *Name() const override
	{
		return id_.c_str();
	}

	const char *CompatibilityName() const override
	{
		return compatibility_name;
	}

	rocks::FilterBitsBuilder *
	GetBuilderWithContext(const rocks::FilterBuildingContext &context) const override
	{
		const bool verify = context.table_options.detect_filter_construct_corruption;
		void *builder = calls_->create_builder(policy_, verify);
		Builder *shown;

		if (builder == nullptr)
			return nullptr;
		shown = new (std::nothrow) Builder(calls_, builder, verify);
		if (shown == nullptr)
			calls_->destroy_builder(builder);
		return shown;
	}

	/* RocksDB reads a missing reader as "maybe". */
	rocks::FilterBitsReader *GetFilterBitsReader(const rocks::Slice &block) const override
	{
		struct wn__reader *reader;
		Reader *shown;

		if (calls_->is_foreign(policy_, bytes_of(block)))
			return read_foreign(block);
		reader = wn__reader_open(policy_, bytes_of(block));
		shown = new (std::nothrow) Reader(reader);
		if (shown == nullptr)
			wn__reader_close(reader);
		return shown;
	}

	void *policy() const
	{
		return policy_;
	}

private:
	rocks::FilterBitsReader *read_foreign(const rocks::Slice &block) const
	{
		try {
			return builtin_->GetFilterBitsReader(block);
		} catch (...) {
			return nullptr;
		}
	}

	const std::string id_;
	const std::unique_ptr<const rocks::FilterPolicy> builtin_;
	const struct wn__policy_calls *const calls_;
	void *const policy_;
};

/* In RocksDB's C API a rocksdb_filterpolicy_t is a FilterPolicy, and nothing stands before
 * the FilterPolicy in it. */
rocksdb_filterpolicy_t *to_c(rocks::FilterPolicy *policy)
{
	return reinterpret_cast<rocksdb_filterpolicy_t *>(policy);
}

const rocks::FilterPolicy *from_c(const rocksdb_filterpolicy_t *policy)
{
	return reinterpret_cast<const rocks::FilterPolicy *>(policy);
}

const rocks::FilterPolicy *make_by_id(wn__make_policy_fn *make, const std::string &id,
				      std::unique_ptr<const rocks::FilterPolicy> *ownerp,
				      std::string *messagep)
{
	char message[256] = "";

	ownerp->reset(from_c(make(id.c_str(), message, sizeof(message))));
	if (*ownerp == nullptr)
		*messagep = message;
	return ownerp->get();
}

} // namespace

void *wn__shim_new(size_t size)
{
	return new (std::nothrow) char[size];
}

void wn__shim_delete(void *memory)
{
	delete[] static_cast<char *>(memory);
}

bool wn__shim_fits(char *message, size_t size)
{
	int major = -1, minor = -1;

	try {
		const std::string version = rocks::GetRocksVersionAsString();

		sscanf(version.c_str(), "%d.%d", &major, &minor);
		if (message != nullptr)
			snprintf(message, size, "this process has RocksDB %s, and winnow was "
				 "built for RocksDB %d.%d", version.c_str(), ROCKSDB_MAJOR,
				 ROCKSDB_MINOR);
	} catch (...) {
		if (message != nullptr)
			snprintf(message, size, "no memory to ask for RocksDB's version");
	}
	return major == ROCKSDB_MAJOR && minor == ROCKSDB_MINOR;
}

void wn__shim_version(int *majorp, int *minorp)
{
	*majorp = ROCKSDB_MAJOR;
	*minorp = ROCKSDB_MINOR;
}

namespace {

/* A Ribbon filter is asked for as a Bloom filter of so many bits, and has fewer. What was asked
 * for, from what it has: within 2% from 6 to 24 bits (measured with RocksDB 7.8). */
double chosen_bits(const rocks::FilterPolicy &policy, double bits)
{
	return strncmp(policy.Name(), "ribbon", 6) == 0 ? bits * (1.3 + 0.017 * bits) : bits;
}

} // namespace

/* As many bytes as are asked about are much more than what a filter has besides its keys. */
double wn__shim_bits_per_key(const rocksdb_options_t *options)
{
	const size_t bytes = 1 << 20;

	try {
		const rocks::TableFactory *factory =
			reinterpret_cast<const rocks::Options *>(options)->table_factory.get();
		const auto *table = factory->GetOptions<rocks::BlockBasedTableOptions>();

		if (table == nullptr || table->filter_policy == nullptr)
			return 0;

		const rocks::FilterBuildingContext context(*table);
		const std::unique_ptr<rocks::FilterBitsBuilder> builder(
			table->filter_policy->GetBuilderWithContext(context));
		const size_t keys = builder != nullptr ? builder->ApproximateNumEntries(bytes) : 0;

		return keys > 0 ? chosen_bits(*table->filter_policy,
					      8.0 * bytes / static_cast<double>(keys)) :
				  0;
	} catch (...) {
		return 0;
	}
}

rocksdb_filterpolicy_t *wn__shim_create(const struct wn__policy_calls *calls, const char *id,
					void *policy)
{
	try {
		return to_c(new Policy(calls, id, policy));
	} catch (...) {
		return nullptr;
	}
}

void *wn__shim_policy(const rocksdb_filterpolicy_t *policy)
{
	const rocks::FilterPolicy *shown = from_c(policy);

	if (strncmp(shown->Name(), id_prefix, sizeof(id_prefix) - 1) != 0)
		return nullptr;
	return static_cast<const Policy *>(shown)->policy();
}

bool wn__shim_register(wn__make_policy_fn *make)
{
	try {
		/* RocksDB puts braces around an id with an equals sign when it writes an
		 * options file, and leaves them on when it reads it. */
		rocks::ObjectLibrary::Default()->AddFactory<const rocks::FilterPolicy>(
			rocks::ObjectLibrary::PatternEntry("winnow", false)
				.AnotherName("{winnow")
				.AddSeparator("."),
			[make](const std::string &id,
			       std::unique_ptr<const rocks::FilterPolicy> *ownerp,
			       std::string *messagep) {
				return make_by_id(make, id, ownerp, messagep);
			});
		return true;
	} catch (...) {
		return false;
	}
}
