// shim.cc - the one file that includes LevelDB's C++ headers; see shim.h.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <leveldb/comparator.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/options.h>
#include <leveldb/slice.h>

#include "shim.h"

namespace {

using leveldb::Slice;
using leveldb::Status;

// The table's bytes are complete when LevelDB syncs or closes the file, whichever comes first.
class TableFile : public leveldb::WritableFile {
public:
	TableFile(leveldb::WritableFile *file, const wn__level_calls *calls, void *owner,
		  void *table)
		: file_(file), calls_(calls), owner_(owner), table_(table)
	{
	}

	~TableFile() override
	{
		delete file_;
		if (table_)
			calls_->drop_table(owner_, table_);
	}

	Status Append(const Slice &data) override { return file_->Append(data); }
	Status Flush() override { return file_->Flush(); }

	Status Close() override
	{
		End();
		return file_->Close();
	}

	Status Sync() override
	{
		End();
		return file_->Sync();
	}

private:
	void End()
	{
		if (table_)
			calls_->end_table(owner_, table_);
	}

	leveldb::WritableFile *file_;
	const wn__level_calls *calls_;
	void *owner_;
	void *table_;
};

// LevelDB opens a table on one thread, and reads from it on many when that is done. What it is
// given instead of its own buffer it takes to be there until the file is closed, as it does with
// files that are mapped.
class OpenTable : public leveldb::RandomAccessFile {
public:
	OpenTable(leveldb::RandomAccessFile *file, const wn__level_calls *calls, void *owner,
		  void *table)
		: file_(file), calls_(calls), owner_(owner), table_(table), watched_(true)
	{
	}

	~OpenTable() override
	{
		delete file_;
		calls_->end_reading(owner_, table_);
	}

	// Every lookup that reads a data block comes through here: it passes on, and no more.
	Status Read(uint64_t offset, size_t size, Slice *result, char *scratch) const override
	{
		if (!watched_.load(std::memory_order_relaxed))
			return file_->Read(offset, size, result, scratch);
		return Watch(offset, size, result, scratch);
	}

private:
	Status Watch(uint64_t offset, size_t size, Slice *result, char *scratch) const
	{
		Status status = file_->Read(offset, size, result, scratch);

		if (!status.ok() || result->size() != size)
			return status;
		const char *bytes = result->data();
		wn__level_read outcome = calls_->was_read(owner_, table_, offset, size, &bytes);
		if (outcome != WN__LEVEL_READ_ON)
			watched_.store(false, std::memory_order_relaxed);
		if (outcome == WN__LEVEL_READ_REFUSED)
			return Status::NotSupported("filters of another database, or damaged");
		*result = Slice(bytes, size);
		return status;
	}

	leveldb::RandomAccessFile *file_;
	const wn__level_calls *calls_;
	void *owner_;
	void *table_;
	mutable std::atomic<bool> watched_;
};

class WatchedEnv : public leveldb::EnvWrapper {
public:
	WatchedEnv(leveldb::Env *env, const wn__level_calls *calls)
		: leveldb::EnvWrapper(env), calls_(calls), owner_(nullptr)
	{
	}

	void SetOwner(void *owner) { owner_ = owner; }

	Status NewWritableFile(const std::string &name, leveldb::WritableFile **filep) override
	{
		uint64_t number = wn__level_table_number(name.c_str());
		Status status = target()->NewWritableFile(name, filep);

		if (!number || !status.ok())
			return status;
		void *table = calls_->begin_table(owner_, number);
		if (!table)
			return status;
		leveldb::WritableFile *file =
			new (std::nothrow) TableFile(*filep, calls_, owner_, table);
		if (file)
			*filep = file;
		else
			calls_->drop_table(owner_, table);
		return status;
	}

	Status NewRandomAccessFile(const std::string &name,
				   leveldb::RandomAccessFile **filep) override
	{
		Status status = target()->NewRandomAccessFile(name, filep);

		if (!status.ok() || !wn__level_table_number(name.c_str()))
			return status;
		// What is not watched is not known to be whole.
		void *table = calls_->begin_reading(owner_);
		leveldb::RandomAccessFile *file =
			table ? new (std::nothrow) OpenTable(*filep, calls_, owner_, table)
			      : nullptr;
		if (file) {
			*filep = file;
			return status;
		}
		if (table)
			calls_->end_reading(owner_, table);
		delete *filep;
		*filep = nullptr;
		return Status::IOError(name, "no memory to open the table");
	}

	Status RemoveFile(const std::string &name) override
	{
		uint64_t number = wn__level_table_number(name.c_str());
		Status status = target()->RemoveFile(name);

		if (number && status.ok())
			calls_->remove_table(owner_, number);
		return status;
	}

private:
	const wn__level_calls *calls_;
	void *owner_;
};

// The C interface keeps its options in a struct of which the C++ options are the first and
// only member.
leveldb::Options *inside(leveldb_options_t *options)
{
	return reinterpret_cast<leveldb::Options *>(options);
}

const leveldb::Options *inside(const leveldb_options_t *options)
{
	return reinterpret_cast<const leveldb::Options *>(options);
}

bool are_as_expected(leveldb_options_t *options)
{
	leveldb_options_set_write_buffer_size(options, 123457);
	leveldb_options_set_block_size(options, 7654321);
	leveldb_options_set_max_open_files(options, 543);
	return inside(options)->write_buffer_size == 123457 &&
	       inside(options)->block_size == 7654321 && inside(options)->max_open_files == 543;
}

} // namespace

struct wn__level_shim {
	leveldb_options_t *options;
	WatchedEnv *env;
};

uint64_t wn__level_table_number(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	char *end;
	unsigned long long number = strtoull(base, &end, 10);

	if (end == base || (strcmp(end, ".ldb") != 0 && strcmp(end, ".sst") != 0))
		return 0;
	return number;
}

wn__level_shim *wn__level_watch(const leveldb_options_t *options, const wn__level_calls *calls,
			 bool *odd)
{
	wn__level_shim *shim = new (std::nothrow) wn__level_shim();

	*odd = false;
	if (!shim)
		return nullptr;
	shim->options = leveldb_options_create();
	if (!are_as_expected(shim->options)) {
		*odd = true;
		wn__level_unwatch(shim);
		return nullptr;
	}
	*inside(shim->options) = *inside(options);
	shim->env = new (std::nothrow) WatchedEnv(inside(options)->env, calls);
	if (!shim->env) {
		wn__level_unwatch(shim);
		return nullptr;
	}
	inside(shim->options)->env = shim->env;
	return shim;
}

void wn__level_set_owner(wn__level_shim *shim, void *owner)
{
	shim->env->SetOwner(owner);
}

leveldb_options_t *wn__level_options(wn__level_shim *shim)
{
	return shim->options;
}

void wn__level_unwatch(wn__level_shim *shim)
{
	if (!shim)
		return;
	leveldb_options_destroy(shim->options);
	delete shim->env;
	delete shim;
}

bool wn__level_creates(const wn__level_shim *shim)
{
	return inside(shim->options)->create_if_missing;
}

double wn__level_bits_per_key(const wn__level_shim *shim)
{
	const leveldb::FilterPolicy *policy = inside(shim->options)->filter_policy;
	char keys[1000][16] = {};
	Slice slices[1000];
	std::string filter;

	if (policy == nullptr)
		return 0;
	for (int i = 0; i < 1000; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%07d", i);
		slices[i] = Slice(keys[i], sizeof(keys[i]));
	}
	policy->CreateFilter(slices, 1000, &filter);
	return 8.0 * static_cast<double>(filter.size()) / 1000;
}

bool wn__level_is_bytewise(const wn__level_shim *shim)
{
	return inside(shim->options)->comparator == leveldb::BytewiseComparator();
}

int wn__level_compare(const wn__level_shim *shim, const void *a, size_t a_size, const void *b,
		     size_t b_size)
{
	return inside(shim->options)
		->comparator->Compare(Slice(static_cast<const char *>(a), a_size),
				      Slice(static_cast<const char *>(b), b_size));
}

void *wn__level_bloom_create(void)
{
	return const_cast<leveldb::FilterPolicy *>(leveldb::NewBloomFilterPolicy(10));
}

void wn__level_bloom_destroy(void *bloom)
{
	delete static_cast<leveldb::FilterPolicy *>(bloom);
}

bool wn__level_bloom_may_match(const void *bloom, const char *key, size_t size, const char *filter,
			      size_t filter_size)
{
	return static_cast<const leveldb::FilterPolicy *>(bloom)->KeyMayMatch(
		Slice(key, size), Slice(filter, filter_size));
}
