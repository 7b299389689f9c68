// shim.cc - the one file that includes LevelDB's C++ headers; see shim.h.
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
	TableFile(leveldb::WritableFile *file, const wn__shim_calls *calls, void *owner,
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
	const wn__shim_calls *calls_;
	void *owner_;
	void *table_;
};

class WatchedEnv : public leveldb::EnvWrapper {
public:
	WatchedEnv(leveldb::Env *env, const wn__shim_calls *calls, void *owner)
		: leveldb::EnvWrapper(env), calls_(calls), owner_(owner)
	{
	}

	Status NewWritableFile(const std::string &name, leveldb::WritableFile **filep) override
	{
		uint64_t number = wn__shim_table_number(name.c_str());
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

	Status RemoveFile(const std::string &name) override
	{
		uint64_t number = wn__shim_table_number(name.c_str());
		Status status = target()->RemoveFile(name);

		if (number && status.ok())
			calls_->remove_table(owner_, number);
		return status;
	}

private:
	const wn__shim_calls *calls_;
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

struct wn__shim {
	leveldb_options_t *options;
	WatchedEnv *env;
};

uint64_t wn__shim_table_number(const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	char *end;
	unsigned long long number = strtoull(base, &end, 10);

	if (end == base || (strcmp(end, ".ldb") != 0 && strcmp(end, ".sst") != 0))
		return 0;
	return number;
}

wn__shim *wn__shim_watch(const leveldb_options_t *options, const wn__shim_calls *calls,
			  void *owner, bool *odd)
{
	wn__shim *shim = new (std::nothrow) wn__shim();

	*odd = false;
	if (!shim)
		return nullptr;
	shim->options = leveldb_options_create();
	if (!are_as_expected(shim->options)) {
		*odd = true;
		wn__shim_unwatch(shim);
		return nullptr;
	}
	*inside(shim->options) = *inside(options);
	shim->env = new (std::nothrow) WatchedEnv(inside(options)->env, calls, owner);
	if (!shim->env) {
		wn__shim_unwatch(shim);
		return nullptr;
	}
	inside(shim->options)->env = shim->env;
	return shim;
}

leveldb_options_t *wn__shim_options(wn__shim *shim)
{
	return shim->options;
}

void wn__shim_unwatch(wn__shim *shim)
{
	if (!shim)
		return;
	leveldb_options_destroy(shim->options);
	delete shim->env;
	delete shim;
}

bool wn__shim_is_bytewise(const wn__shim *shim)
{
	return inside(shim->options)->comparator == leveldb::BytewiseComparator();
}

int wn__shim_compare(const wn__shim *shim, const void *a, size_t a_size, const void *b,
		     size_t b_size)
{
	return inside(shim->options)
		->comparator->Compare(Slice(static_cast<const char *>(a), a_size),
				      Slice(static_cast<const char *>(b), b_size));
}

void *wn__shim_bloom_create(void)
{
	return const_cast<leveldb::FilterPolicy *>(leveldb::NewBloomFilterPolicy(10));
}

void wn__shim_bloom_destroy(void *bloom)
{
	delete static_cast<leveldb::FilterPolicy *>(bloom);
}

bool wn__shim_bloom_may_match(const void *bloom, const char *key, size_t size, const char *filter,
			      size_t filter_size)
{
	return static_cast<const leveldb::FilterPolicy *>(bloom)->KeyMayMatch(
		Slice(key, size), Slice(filter, filter_size));
}
