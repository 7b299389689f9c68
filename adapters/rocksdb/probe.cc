/* probe.cc - do the declarations in filter_bits.h fit this RocksDB? Run by configure.
 *
 * Both directions are tried: a built-in filter is driven through the declarations, and a toy
 * filter of our own is driven by a real database. A wrong guess at the virtual tables' order
 * ends in wrong values or in a crash; both make configure refuse.
 *
 * usage: probe DIRECTORY, which is made and removed. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include <unistd.h>

#include <rocksdb/c.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include "filter_bits.h"

namespace rocks = ROCKSDB_NAMESPACE;

namespace {

const int key_count = 2000;

[[noreturn]] void fail(const char *what)
{
	fprintf(stderr, "probe: %s\n", what);
	_exit(1);
}

void require(bool condition, const char *what)
{
	if (!condition)
		fail(what);
}

/* Even numbers are stored, odd ones are not. */
std::string key_of(int number)
{
	char text[32];

	snprintf(text, sizeof(text), "prefix-%08d", number);
	return text;
}

/* ---- a built-in filter, driven by us ------------------------------------ */

void drive_builtin()
{
	const rocks::BlockBasedTableOptions options;
	const rocks::FilterBuildingContext context(options);
	std::unique_ptr<const rocks::FilterPolicy> policy(rocks::NewBloomFilterPolicy(10));
	std::unique_ptr<rocks::FilterBitsBuilder> builder(policy->GetBuilderWithContext(context));
	std::unique_ptr<const char[]> owner;
	rocks::Status status;
	int wrong = 0;

	require(builder != nullptr, "no built-in builder");
	for (int i = 0; i < key_count; i++)
		builder->AddKey(key_of(2 * i));
	require(builder->EstimateEntriesAdded() == (size_t)key_count, "built-in: entries");
#if WN_ROCKSDB_FAMILY >= 2
	builder->AddKeyAndAlt(key_of(2 * key_count), "prefix");
	require(builder->EstimateEntriesAdded() == (size_t)key_count + 2, "built-in: alt");
#endif
	const size_t entries = builder->ApproximateNumEntries(12800);
	require(entries > 8000 && entries < 12000, "built-in: entries for a size");
#if WN_ROCKSDB_FAMILY >= 3
	const size_t space = builder->CalculateSpace(10000);
	require(space > 12000 && space < 13000, "built-in: space");
	const double rate = builder->EstimatedFpRate(10000, space);
	require(rate > 0.001 && rate < 0.05, "built-in: rate");
#endif
	const rocks::Slice block = builder->Finish(&owner, &status);
	require(status.ok() && block.size() > 2000 && block.size() < 4000, "built-in: block");
	require(builder->MaybePostVerify(block).ok(), "built-in: verify");

	std::unique_ptr<rocks::FilterBitsReader> reader(policy->GetFilterBitsReader(block));
	require(reader != nullptr, "no built-in reader");
	for (int i = 0; i < key_count; i++) {
		std::string texts[2] = {key_of(2 * i), key_of(2 * i + 1)};
		rocks::Slice keys[2] = {texts[0], texts[1]};
		rocks::Slice *pointers[2] = {&keys[0], &keys[1]};
		bool answers[2] = {false, false};

		reader->MayMatch(2, pointers, answers);
		require(reader->MayMatch(keys[0]) && answers[0], "built-in: a key is denied");
		require(reader->MayMatch(keys[1]) == answers[1], "built-in: batch differs");
		wrong += answers[1];
	}
	require(wrong < key_count / 20, "built-in: nothing is filtered");
}

/* ---- a filter of ours, driven by RocksDB -------------------------------- */

struct Calls {
	int builders, added, finished, verified, sized, readers, asked, asked_batch, denied;
} calls;

void append_hash(std::string *to, const rocks::Slice &key)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < key.size(); i++)
		hash = (hash ^ static_cast<unsigned char>(key[i])) * 1099511628211u;
	to->append(reinterpret_cast<const char *>(&hash), sizeof(hash));
}

class ToyBuilder final : public rocks::FilterBitsBuilder {
public:
	void AddKey(const rocks::Slice &key) override
	{
		require(key.size() == key_of(0).size() && key.starts_with("prefix"), "ours: key");
		append_hash(&hashes_, key);
		calls.added++;
	}
#if WN_ROCKSDB_FAMILY >= 2
	void AddKeyAndAlt(const rocks::Slice &key, const rocks::Slice &alt) override
	{
		require(key.starts_with(alt), "ours: alt");
		AddKey(key);
		append_hash(&hashes_, alt);
	}
#endif
	size_t EstimateEntriesAdded() override
	{
		calls.sized++;
		return hashes_.size() / 8;
	}
	rocks::Slice Finish(std::unique_ptr<const char[]> *ownerp) override
	{
		char *block = new char[hashes_.size() + 6]();

		memcpy(block, hashes_.data(), hashes_.size());
		ownerp->reset(block);
		last_ = rocks::Slice(block, hashes_.size() + 6);
		hashes_.clear();
		calls.finished++;
		return last_;
	}
	rocks::Slice Finish(std::unique_ptr<const char[]> *ownerp, rocks::Status *statusp) override
	{
		require(statusp == nullptr || statusp->ok(), "ours: status");
		return Finish(ownerp);
	}
	rocks::Status MaybePostVerify(const rocks::Slice &block) override
	{
		require(block == last_, "ours: another block to verify");
		calls.verified++;
		return rocks::Status::OK();
	}
	size_t ApproximateNumEntries(size_t bytes) override
	{
		require(bytes < 1 << 20, "ours: an odd size");
		return bytes / 8;
	}
#if WN_ROCKSDB_FAMILY >= 3
	size_t CalculateSpace(size_t entries) override
	{
		return entries * 8 + 6;
	}
	double EstimatedFpRate(size_t, size_t) override
	{
		return 0.01;
	}
#endif

private:
	std::string hashes_;
	rocks::Slice last_;
};

class ToyReader final : public rocks::FilterBitsReader {
public:
	explicit ToyReader(const rocks::Slice &block) : block_(block)
	{
	}
	bool MayMatch(const rocks::Slice &key) override
	{
		calls.asked++;
		return find(key);
	}
	void MayMatch(int count, rocks::Slice **keys, bool *answersp) override
	{
		require(count > 0 && count <= 1024, "ours: batch size");
		for (int i = 0; i < count; i++)
			answersp[i] = find(*keys[i]);
		calls.asked_batch++;
	}

private:
	bool find(const rocks::Slice &key)
	{
		std::string hash;

		append_hash(&hash, key);
		for (size_t at = 0; at + 8 + 6 <= block_.size(); at += 8)
			if (memcmp(block_.data() + at, hash.data(), 8) == 0)
				return true;
		calls.denied++;
		return false;
	}

	const rocks::Slice block_;
};

class ToyPolicy final : public rocks::FilterPolicy {
public:
	const char *Name() const override
	{
		return "winnow.probe";
	}
	const char *CompatibilityName() const override
	{
		return "rocksdb.BuiltinBloomFilter";
	}
	rocks::FilterBitsBuilder *
	GetBuilderWithContext(const rocks::FilterBuildingContext &) const override
	{
		calls.builders++;
		return new ToyBuilder;
	}
	rocks::FilterBitsReader *GetFilterBitsReader(const rocks::Slice &block) const override
	{
		calls.readers++;
		return new ToyReader(block);
	}
};

void require_no(char *error)
{
	if (error != nullptr)
		fail(error);
}

/* Through the C API, as the adapter's users do. */
rocksdb_options_t *make_options(bool partitioned)
{
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

	rocksdb_block_based_options_set_filter_policy(
		table, reinterpret_cast<rocksdb_filterpolicy_t *>(
			       static_cast<rocks::FilterPolicy *>(new ToyPolicy)));
	if (partitioned) {
		rocksdb_block_based_options_set_index_type(
			table, rocksdb_block_based_table_index_type_two_level_index_search);
		rocksdb_block_based_options_set_partition_filters(table, 1);
	}
	rocksdb_options_set_block_based_table_factory(options, table);
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_block_based_options_destroy(table);
	return options;
}

void fill(rocksdb_t *db)
{
	rocksdb_writeoptions_t *writing = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flushing = rocksdb_flushoptions_create();
	char *error = nullptr;

	for (int i = 0; i < key_count; i++) {
		const std::string key = key_of(2 * i);

		rocksdb_put(db, writing, key.data(), key.size(), "v", 1, &error);
		require_no(error);
	}
	rocksdb_flush(db, flushing, &error);
	require_no(error);
	rocksdb_flushoptions_destroy(flushing);
	rocksdb_writeoptions_destroy(writing);
}

bool is_there(rocksdb_t *db, rocksdb_readoptions_t *reading, int number)
{
	const std::string key = key_of(number);
	size_t size;
	char *error = nullptr;
	char *value = rocksdb_get(db, reading, key.data(), key.size(), &size, &error);
	const bool found = value != nullptr;

	require_no(error);
	rocksdb_free(value);
	return found;
}

/* A stored key and an absent one in one call: the batched MayMatch(). */
void ask_both(rocksdb_t *db, rocksdb_column_family_handle_t *family,
	      rocksdb_readoptions_t *reading, int number)
{
	const std::string texts[2] = {key_of(number), key_of(number + 1)};
	const char *keys[2] = {texts[0].data(), texts[1].data()};
	const size_t sizes[2] = {texts[0].size(), texts[1].size()};
	rocksdb_pinnableslice_t *values[2] = {nullptr, nullptr};
	char *errors[2] = {nullptr, nullptr};

	rocksdb_batched_multi_get_cf(db, reading, family, 2, keys, sizes, values, errors, true);
	require_no(errors[0]);
	require_no(errors[1]);
	require(values[0] != nullptr && values[1] == nullptr, "ours: wrong answer to a batch");
	rocksdb_pinnableslice_destroy(values[0]);
}

void be_driven(const char *directory, bool partitioned)
{
	rocksdb_options_t *options = make_options(partitioned);
	const rocksdb_options_t *family_options = options;
	rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
	rocksdb_column_family_handle_t *family;
	const char *family_name = "default";
	char *error = nullptr;
	rocksdb_t *db;

	calls = Calls();
	db = rocksdb_open_column_families(options, directory, 1, &family_name, &family_options,
					  &family, &error);
	require_no(error);
	/* The adapter reads and makes handles of the C API: shim_handles.cc. */
	require((*reinterpret_cast<rocks::DB **>(db))->GetName() == directory,
		"a database's handle");
	require((*reinterpret_cast<rocks::ColumnFamilyHandle **>(family))->GetName() ==
			family_name,
		"a family's handle");
	fill(db);
	for (int i = 0; i + 1 < key_count; i++) {
		require(is_there(db, reading, 2 * i), "ours: a key is lost");
		require(!is_there(db, reading, 2 * i + 1), "ours: a key is made up");
	}
	for (int i = 0; i + 1 < key_count; i += 10)
		ask_both(db, family, reading, 2 * i);
	rocksdb_column_family_handle_destroy(family);
	rocksdb_close(db);
	rocksdb_destroy_db(options, directory, &error);
	require_no(error);
	rocksdb_readoptions_destroy(reading);
	rocksdb_options_destroy(options);

	require(calls.builders == 1 && calls.added == key_count, "ours: keys");
	require(partitioned ? calls.finished > 1 : calls.finished == 1, "ours: blocks");
	require(calls.verified == calls.finished && calls.sized > 0, "ours: verified, sized");
	require(calls.readers > 0 && calls.asked > 0 && calls.asked_batch > 0, "ours: asked");
	require(calls.denied >= key_count, "ours: the filter's answer is not heard");
}

} // namespace

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "conftest.rocksdb";
	int major = -1, minor = -1;

	alarm(120);
	sscanf(rocks::GetRocksVersionAsString().c_str(), "%d.%d", &major, &minor);
	require(major == ROCKSDB_MAJOR && minor == ROCKSDB_MINOR,
		"headers and library are of different versions");
	drive_builtin();
	be_driven(directory, false);
	be_driven(directory, true);
	return 0;
}
