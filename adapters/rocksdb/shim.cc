/* shim.cc - see shim.h. The only file of the adapter that includes RocksDB's C++ headers.
 *
 * Compiled without run-time type information: a RocksDB built without it has no type
 * information to derive from, and one built with it never asks for ours.
 *
 * No exception leaves this file: RocksDB's threads would not catch it. */
#include "shim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

/* RocksDB's classes are RocksDB's: what they are made of must not be looked for here. */
#pragma GCC visibility push(default)
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/object_registry.h>
#include <rocksdb/version.h>
#include <rocksdb/write_buffer_manager.h>
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
	/* RocksDB frees with delete[] what was made with malloc(): hence the copy. */
	rocks::Slice hand_over(void *block, size_t size, std::unique_ptr<const char[]> *ownerp)
	{
		char *copy = block != nullptr ? new (std::nothrow) char[size] : nullptr;

		if (copy != nullptr)
			memcpy(copy, block, size);
		else if (block != nullptr)
			calls_->give_up(builder_);
		free(block);
		ownerp->reset(copy);
		return copy != nullptr ? rocks::Slice(copy, size) :
					 rocks::Slice(maybe_block, sizeof(maybe_block));
	}

	const struct wn__policy_calls *const calls_;
	void *const builder_;
	const bool verify_;
};

class Reader final : public rocks::FilterBitsReader {
public:
	Reader(const struct wn__policy_calls *calls, void *reader) : calls_(calls), reader_(reader)
	{
	}

	~Reader() override
	{
		calls_->close_reader(reader_);
	}

	Reader(const Reader &) = delete;
	Reader &operator=(const Reader &) = delete;

	bool MayMatch(const rocks::Slice &key) override
	{
		return calls_->query(reader_, bytes_of(key));
	}

	void MayMatch(int count, rocks::Slice **keys, bool *answersp) override
	{
		struct wn__bytes batch[WN__MAX_BATCH];
		size_t filled = 0;

		for (int i = 0; i < count; i++) {
			batch[filled++] = bytes_of(*keys[i]);
			if (filled < WN__MAX_BATCH && i + 1 < count)
				continue;
			calls_->query_batch(reader_, batch, filled, answersp);
			answersp += filled;
			filled = 0;
		}
	}

private:
	const struct wn__policy_calls *const calls_;
	void *const reader_;
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
		void *reader;
		Reader *shown;

		if (calls_->is_foreign(policy_, bytes_of(block)))
			return read_foreign(block);
		reader = calls_->open_reader(policy_, bytes_of(block));
		shown = new (std::nothrow) Reader(calls_, reader);
		if (shown == nullptr)
			calls_->close_reader(reader);
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

bool wn__shim_fits(void)
{
	int major = -1, minor = -1;

	try {
		const std::string version = rocks::GetRocksVersionAsString();

		sscanf(version.c_str(), "%d.%d", &major, &minor);
	} catch (...) {
		return false;
	}
	return major == ROCKSDB_MAJOR && minor == ROCKSDB_MINOR;
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
	std::unique_ptr<const rocks::FilterPolicy> policy_owner(from_c(policy));
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

void wn__shim_register(wn__make_policy_fn *make)
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
	} catch (...) {
		/* No memory while the library is loaded: options strings will not know it. */
	}
}
