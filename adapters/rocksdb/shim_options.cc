/* shim_options.cc - what is done to RocksDB's options, and its listener; see shim.h and shim.cc. */
#include "shim.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
#if __has_include(<rocksdb/advanced_cache.h>) /* from 8.0 on */
#include <rocksdb/advanced_cache.h>
#endif
#include <rocksdb/cache.h>
#include <rocksdb/comparator.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#pragma GCC visibility pop

namespace rocks = ROCKSDB_NAMESPACE;

namespace {

/* What this thread is about to write, and whose it is. */
struct Building {
	const void *listener;
	uint64_t file;
};

thread_local Building building = {nullptr, 0};

/* All listeners of ours, so that they can be told from others' without type information. A
 * name would tell, too, but RocksDB writes it to the OPTIONS file, and then a RocksDB without
 * winnow refuses that file. */
class Listener;
std::mutex listeners_lock;
Listener *listeners = nullptr;

class Listener final : public rocks::EventListener {
public:
	Listener(const struct wn__listener_calls *calls, void *listener)
		: calls_(calls), listener_(listener)
	{
		const std::lock_guard<std::mutex> guard(listeners_lock);

		next_ = listeners;
		listeners = this;
	}

	~Listener() override
	{
		calls_->release(listener_);

		const std::lock_guard<std::mutex> guard(listeners_lock);
		Listener **at = &listeners;

		while (*at != this)
			at = &(*at)->next_;
		*at = next_;
	}

	static bool is_one(const rocks::EventListener *other)
	{
		const std::lock_guard<std::mutex> guard(listeners_lock);
		const Listener *at = listeners;

		while (at != nullptr && at != other)
			at = at->next_;
		return at != nullptr;
	}

	Listener(const Listener &) = delete;
	Listener &operator=(const Listener &) = delete;

	void OnTableFileCreationStarted(const rocks::TableFileCreationBriefInfo &info) override
	{
		if (is_own(info.db_name))
			building = {listener_, wn__shim_file_number(info.file_path.c_str())};
	}

	/* A table that came to nothing is removed without a word. */
	void OnTableFileCreated(const rocks::TableFileCreationInfo &info) override
	{
		building = {nullptr, 0};
		if (!info.status.ok())
			report_end(info.db_name, info.file_path);
	}

	void OnTableFileDeleted(const rocks::TableFileDeletionInfo &info) override
	{
		report_end(info.db_name, info.file_path);
	}

private:
	bool is_own(const std::string &database) const
	{
		return calls_->is_own(listener_, database.c_str());
	}

	void report_end(const std::string &database, const std::string &path)
	{
		const uint64_t file = wn__shim_file_number(path.c_str());

		if (file != 0 && is_own(database))
			calls_->deleted(listener_, file);
	}

	const struct wn__listener_calls *const calls_;
	void *const listener_;
	Listener *next_;
};

/* Built for memtables, and of use for any memory: without a limit of its own it does nothing
 * but reserve room in the cache. */
class Charge final {
public:
	explicit Charge(const std::shared_ptr<rocks::Cache> &cache) : manager_(0, cache)
	{
	}

	~Charge()
	{
		set(0);
	}

	Charge(const Charge &) = delete;
	Charge &operator=(const Charge &) = delete;

	void set(size_t bytes)
	{
		const std::lock_guard<std::mutex> guard(lock_);

		if (bytes > charged_)
			manager_.ReserveMem(bytes - charged_);
		else if (bytes < charged_)
			manager_.FreeMem(charged_ - bytes);
		charged_ = bytes;
	}

private:
	std::mutex lock_;
	rocks::WriteBufferManager manager_;
	size_t charged_ = 0;
};

/* In RocksDB's C API a rocksdb_options_t is an Options. */
rocks::Options *options_of(rocksdb_options_t *options)
{
	return reinterpret_cast<rocks::Options *>(options);
}

/* nullptr: its tables are not block-based, or not cached. */
std::shared_ptr<rocks::Cache> cache_of(const rocksdb_options_t *options)
{
	const auto *table = options_of(const_cast<rocksdb_options_t *>(options))
				    ->table_factory->GetOptions<rocks::BlockBasedTableOptions>();

	return table != nullptr ? table->block_cache : nullptr;
}

void replace_listener(std::vector<std::shared_ptr<rocks::EventListener>> *all,
		      const std::shared_ptr<rocks::EventListener> &listener)
{
	all->reserve(all->size() + 1);
	all->erase(std::remove_if(all->begin(), all->end(),
				  [](const std::shared_ptr<rocks::EventListener> &other) {
					  return Listener::is_one(other.get());
				  }),
		   all->end());
	all->push_back(listener);
}

enum wn__shim_result change_options(rocks::Options *options,
				    std::unique_ptr<const rocks::FilterPolicy> policy,
				    const std::shared_ptr<rocks::EventListener> &listener)
{
	const auto *old = options->table_factory->GetOptions<rocks::BlockBasedTableOptions>();

	if (old == nullptr)
		return WN__SHIM_NOT_BLOCK_BASED;

	rocks::BlockBasedTableOptions table = *old;

	table.filter_policy = std::move(policy);

	std::shared_ptr<rocks::TableFactory> factory(rocks::NewBlockBasedTableFactory(table));

	if (listener != nullptr)
		replace_listener(&options->listeners, listener);
	options->table_factory = std::move(factory);
	return WN__SHIM_OK;
}

} // namespace

uint64_t wn__shim_file_number(const char *path)
{
	const char *name = strrchr(path, '/');

	return strtoull(name != nullptr ? name + 1 : path, nullptr, 10);
}

uint64_t wn__shim_building(const void *listener)
{
	return building.listener == listener ? building.file : 0;
}

enum wn__shim_result wn__shim_change_options(rocksdb_options_t *options,
					     rocksdb_filterpolicy_t *policy,
					     const struct wn__listener_calls *calls,
					     void *listener)
{
	/* In RocksDB's C API a rocksdb_filterpolicy_t is a FilterPolicy. */
	std::unique_ptr<const rocks::FilterPolicy> policy_owner(
		reinterpret_cast<const rocks::FilterPolicy *>(policy));
	std::unique_ptr<Listener> owner;

	if (calls != nullptr) {
		owner.reset(new (std::nothrow) Listener(calls, listener));
		if (owner == nullptr) {
			calls->release(listener);
			return WN__SHIM_NO_MEMORY;
		}
	}
	try {
		return change_options(options_of(options), std::move(policy_owner),
				      std::move(owner));
	} catch (...) {
		return WN__SHIM_NO_MEMORY;
	}
}

namespace {

/* It compares bytes, and says that different ones may be equal because of the timestamps behind
 * them. Not every version has both, or declares them. */
bool is_builtin_with_times(const rocks::Comparator *comparator)
{
	for (const char *name :
	     {"leveldb.BytewiseComparator.u64ts", "rocksdb.ReverseBytewiseComparator.u64ts"}) {
		const rocks::Comparator *builtin = nullptr;
		const rocks::Status status = rocks::Comparator::CreateFromString(
			rocks::ConfigOptions(), name, &builtin);

		if (status.ok() && builtin == comparator)
			return true;
	}
	return false;
}

} // namespace

bool wn__shim_tells_bytes_apart(const rocksdb_options_t *options)
{
	const rocks::Comparator *comparator =
		options_of(const_cast<rocksdb_options_t *>(options))->comparator;

	if (comparator == nullptr)
		return false;
	try {
		return !comparator->CanKeysWithDifferentByteContentsBeEqual() ||
		       is_builtin_with_times(comparator);
	} catch (...) {
		return false;
	}
}

void wn__shim_empty_cache(const rocksdb_options_t *options)
{
	const std::shared_ptr<rocks::Cache> cache = cache_of(options);

	if (cache != nullptr)
		cache->EraseUnRefEntries();
}

void *wn__shim_create_charge(const rocksdb_options_t *options)
{
	const std::shared_ptr<rocks::Cache> cache = cache_of(options);

	try {
		return cache != nullptr ? new Charge(cache) : nullptr;
	} catch (...) {
		return nullptr;
	}
}

void wn__shim_destroy_charge(void *charge)
{
	delete static_cast<Charge *>(charge);
}

void wn__shim_charge(void *charge, uint64_t bytes)
{
	try {
		static_cast<Charge *>(charge)->set(bytes);
	} catch (...) {
		/* No memory: the next call tries again. */
	}
}

namespace {

/* For tables of winnow's own. */
rocks::BlockBasedTableOptions own_tables()
{
	rocks::BlockBasedTableOptions own;

	own.index_shortening =
		rocks::BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
	return own;
}

} // namespace

void wn__shim_share_cache(const rocksdb_options_t *from, rocksdb_options_t *to)
{
	const std::shared_ptr<rocks::Cache> cache = cache_of(from);

	if (cache == nullptr)
		return;
	try {
		rocks::BlockBasedTableOptions own = own_tables();

		own.block_cache = cache;
		options_of(to)->table_factory.reset(rocks::NewBlockBasedTableFactory(own));
	} catch (...) {
		/* Then it has a cache of its own. */
	}
}

void wn__shim_index_whole_keys(rocksdb_options_t *options)
{
	try {
		options_of(options)->table_factory.reset(
			rocks::NewBlockBasedTableFactory(own_tables()));
	} catch (...) {
		/* Then a lookup reads two pages now and then. */
	}
}

namespace {

/* Until 7.x or so true by default; some day the option will be gone. */
template <typename Options>
auto leave_unchanged(Options *options, int) -> decltype(options->write_global_seqno, void())
{
	options->write_global_seqno = false;
}

template <typename Options> void leave_unchanged(Options *, long)
{
}

} // namespace

void wn__shim_ingest_unchanged(rocksdb_ingestexternalfileoptions_t *options)
{
	leave_unchanged(reinterpret_cast<rocks::IngestExternalFileOptions *>(options), 0);
}
