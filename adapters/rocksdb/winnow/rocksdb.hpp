/* rocksdb.hpp - filters that learn, for programs that use RocksDB's C++ interface.
 *
 *	rocksdb::DB *db;
 *	rocksdb::Status status = winnow::Open(options, path, &db); // was: rocksdb::DB::Open
 *
 * The database is RocksDB's own with a layer above it, a StackableDB: Get(), MultiGet(), GetEntity(),
 * MultiGetEntity() and KeyMayExist() do what RocksDB's do, and the filters learn from them; all else
 * passes through. Asynchronous lookups (GetAsync(), MultiGetAsync()), iterators, GetMergeOperands()
 * and the lookups of Transaction objects benefit from what was learned and teach nothing; but see
 * winnow::Lookup.
 *
 * winnow::NewFilterPolicy() is for those who only want the filters, which then do not learn.
 *
 * This file is all there is: it is compiled with the program, needs C++17 (C++20 where RocksDB does),
 * and works with exceptions and run-time type information on or off. Link with what
 * "pkg-config --libs winnow-rocksdb" says. Programs that include this file know winnow's filter
 * policies in RocksDB's options strings and OPTIONS files, too.
 *
 * Thread safety: as RocksDB's. */
#ifndef WINNOW_ROCKSDB_HPP
#define WINNOW_ROCKSDB_HPP

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/utilities/stackable_db.h>
#include <rocksdb/version.h>

#include <winnow/error.h>
#include <winnow/filter.h>
#include <winnow/rocksdb.h>
#include <winnow/rocksdb_embed.h>

#define WINNOW_ROCKSDB_VERSION (ROCKSDB_MAJOR * 1000 + ROCKSDB_MINOR)

/* Of a RocksDB that was built without run-time type information: it is never asked for, but the class
 * below refers to it. */
#if defined(__GXX_RTTI) && defined(__ELF__)
__asm__(".weak _ZTIN7rocksdb2DBE");
#endif

namespace winnow {

/* ---- options ------------------------------------------------------------ */

/* Where the hashes of stored keys are kept: see winnow/rocksdb.h. */
enum class Store {
	kColumnFamily = WN_ROCKSDB_COLUMN_FAMILY,
	kSidecar = WN_ROCKSDB_SIDECAR,
	kMemory = WN_ROCKSDB_MEMORY
};

/* As struct wn_rocksdb_options, where each is explained. */
struct Options {
	/* "aqf", "aqf:bits_per_key=12", "sscf". Empty: "aqf". Without a size filters are as large
	 * as those that the table options ask for, if they ask for any. */
	std::string filter;
	Store store = Store::kColumnFamily;
	std::string sidecar_directory; /* empty: the database's path with ".winnow" behind it */
	bool background = false;
	size_t learned_bytes = 0;
	size_t queue_length = 0;
	unsigned save_ms = 0;
	bool equal_keys_are_identical = false;
	wn_canonical_fn *canonical = nullptr;
	void *canonical_arg = nullptr;
};

using Stats = struct wn_stats;

namespace detail {

namespace rocks = ROCKSDB_NAMESPACE;

/* A library of which nothing is called is dropped by the linker. */
inline const int registered = wn_rocksdb_register();

inline rocks::Status make_status(int error, const std::string &message)
{
	switch (error) {
	case 0:
		return rocks::Status::OK();
	case ENOMEM:
		return rocks::Status::MemoryLimit(message);
	case EBUSY:
		return rocks::Status::Busy(message);
	case WN_ERR_INVALID:
	case WN_ERR_OPTION:
	case WN_ERR_MISMATCH:
		return rocks::Status::InvalidArgument(message);
	default:
		return error > 0 ? rocks::Status::IOError(message) :
				   rocks::Status::Aborted(message);
	}
}

/* The text is the C interface's, or nullptr, and is freed. */
inline std::string take_text(char *text)
{
	const std::string copy = text != nullptr ? text : "";

	free(text);
	return copy;
}

/* A call that reports by a message alone. */
inline rocks::Status take_error(char *message, int error = WN_ERR_INVALID)
{
	return message != nullptr ? make_status(error, take_text(message)) : rocks::Status::OK();
}

inline rocks::Status check_versions()
{
	char message[128];
	const int error = wn_rocksdb_fits(ROCKSDB_MAJOR, ROCKSDB_MINOR, message, sizeof(message));

	return make_status(error, message);
}

/* In RocksDB's C interface these are the C++ classes. */
inline const rocksdb_options_t *to_c(const rocks::Options &options)
{
	return reinterpret_cast<const rocksdb_options_t *>(&options);
}

inline rocksdb_options_t *to_c(rocks::Options *options)
{
	return reinterpret_cast<rocksdb_options_t *>(options);
}

inline const rocks::Options &to_cxx(const rocksdb_options_t *options)
{
	return *reinterpret_cast<const rocks::Options *>(options);
}

inline enum wn_rocksdb_outcome outcome_of(const rocks::ReadOptions &options,
					  const rocks::Status &status)
{
	/* What must not read from disk must not learn either, which may read. */
	if (options.read_tier == rocks::kBlockCacheTier)
		return WN_ROCKSDB_NO_ANSWER;
	if (status.ok())
		return WN_ROCKSDB_FOUND;
	return status.IsNotFound() ? WN_ROCKSDB_MISSING : WN_ROCKSDB_NO_ANSWER;
}

/* Ended once, also when the lookup leaves by an exception. Without a winnow it does nothing. */
class LookupFrame {
public:
	LookupFrame(struct wn_rocksdb *wn, const rocks::Slice &key) : open_(wn != nullptr)
	{
		if (open_)
			wn_rocksdb_lookup_begin(wn, &frame_, key.data(), key.size());
	}

	~LookupFrame()
	{
		end(WN_ROCKSDB_NO_ANSWER);
	}

	LookupFrame(const LookupFrame &) = delete;
	LookupFrame &operator=(const LookupFrame &) = delete;

	void end(enum wn_rocksdb_outcome outcome)
	{
		if (open_)
			wn_rocksdb_lookup_end(&frame_, outcome);
		open_ = false;
	}

private:
	struct wn_rocksdb_frame frame_;
	bool open_;
};

class BatchFrame {
public:
	explicit BatchFrame(struct wn_rocksdb *wn) : there_(wn != nullptr), open_(there_)
	{
		if (open_)
			wn_rocksdb_batch_begin(wn, &frame_);
	}

	~BatchFrame()
	{
		end();
	}

	BatchFrame(const BatchFrame &) = delete;
	BatchFrame &operator=(const BatchFrame &) = delete;

	/* Then tell() of each key. */
	void end()
	{
		if (open_)
			wn_rocksdb_batch_end(&frame_);
		open_ = false;
	}

	void tell(const rocks::Slice &key, enum wn_rocksdb_outcome outcome)
	{
		if (there_)
			wn_rocksdb_batch_tell(&frame_, key.data(), key.size(), outcome);
	}

private:
	struct wn_rocksdb_frame frame_;
	const bool there_;
	bool open_;
};

class Opening;

} // namespace detail

/* ---- the database -------------------------------------------------------- */

/* What Open() makes. Delete it as any rocksdb::DB, after its column families' handles. */
class DB : public ROCKSDB_NAMESPACE::StackableDB {
public:
	~DB() override
	{
		leave();
	}

	DB(const DB &) = delete;
	DB &operator=(const DB &) = delete;

	/* Saves what was learned, and closes the database. */
	ROCKSDB_NAMESPACE::Status Close() override
	{
		if (wn_ == nullptr)
			return db_->Close();
		leave();
		return link_->closed;
	}

	/* ---- winnow's own ---- */

	/* Zeros once it is closed. */
	Stats GetStats() const
	{
		Stats stats = {};

		if (wn_ != nullptr)
			wn_rocksdb_stats(wn_, &stats);
		return stats;
	}

	/* Wait until all that is queued has been stored and learned; and have it on disk, too. */
	void DrainLessons()
	{
		if (wn_ != nullptr)
			wn_rocksdb_drain(wn_);
	}

	ROCKSDB_NAMESPACE::Status SyncLessons()
	{
		const int error = wn_ != nullptr ? wn_rocksdb_sync(wn_) : 0;

		return detail::make_status(error, wn_strerror(error));
	}

	/* This key will be asked for and is not there: see wn_rocksdb_add_negative(). */
	ROCKSDB_NAMESPACE::Status AddNegative(const ROCKSDB_NAMESPACE::Slice &key, double cost = 1)
	{
		const int error = wn_ != nullptr ? wn_rocksdb_add_negative(wn_, key.data(),
									   key.size(), cost) :
						   0;

		return detail::make_status(error, wn_strerror(error));
	}

	/* "winnow.stats" and "winnow.prometheus" are text, "winnow.stats" is a map, too, and each
	 * number ("winnow.false_positives") an integer. */
	using StackableDB::GetProperty;
	bool GetProperty(ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
			 const ROCKSDB_NAMESPACE::Slice &property, std::string *value) override
	{
		if (!property.starts_with("winnow."))
			return db_->GetProperty(family, property, value);
		if (property == "winnow.struct") { /* for GetStats() through other layers */
			const Stats stats = GetStats();

			value->assign(reinterpret_cast<const char *>(&stats), sizeof(stats));
			return true;
		}
		char *text = wn_ != nullptr ?
				     wn_rocksdb_property(wn_, property.ToString().c_str()) :
				     nullptr;
		const bool known = text != nullptr;

		*value = detail::take_text(text);
		return known;
	}

	using StackableDB::GetMapProperty;
	bool GetMapProperty(ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
			    const ROCKSDB_NAMESPACE::Slice &property,
			    std::map<std::string, std::string> *value) override
	{
		if (property != "winnow.stats")
			return db_->GetMapProperty(family, property, value);
		const Stats stats = GetStats();

		value->clear();
#define WINNOW_PUT_STAT(name, help) (*value)[#name] = std::to_string(stats.name);
		WN_STATS(WINNOW_PUT_STAT, WINNOW_PUT_STAT)
#undef WINNOW_PUT_STAT
		return true;
	}

	using StackableDB::GetIntProperty;
	bool GetIntProperty(ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
			    const ROCKSDB_NAMESPACE::Slice &property, uint64_t *value) override
	{
		if (!property.starts_with("winnow."))
			return db_->GetIntProperty(family, property, value);
		const Stats stats = GetStats();

#define WINNOW_GET_STAT(name, help)                                                                \
	if (property == "winnow." #name) {                                                         \
		*value = stats.name;                                                               \
		return true;                                                                       \
	}
		WN_STATS(WINNOW_GET_STAT, WINNOW_GET_STAT)
#undef WINNOW_GET_STAT
		return false;
	}

	/* ---- lookups that teach ---- */

	using StackableDB::Get;
	ROCKSDB_NAMESPACE::Status Get(const ROCKSDB_NAMESPACE::ReadOptions &options,
				      ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
				      const ROCKSDB_NAMESPACE::Slice &key,
				      ROCKSDB_NAMESPACE::PinnableSlice *value,
				      std::string *timestamp) override
	{
		return look_up(options, key, [&] {
			return db_->Get(options, family, key, value, timestamp);
		});
	}

#if WINNOW_ROCKSDB_VERSION < 9000
	ROCKSDB_NAMESPACE::Status Get(const ROCKSDB_NAMESPACE::ReadOptions &options,
				      ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
				      const ROCKSDB_NAMESPACE::Slice &key,
				      ROCKSDB_NAMESPACE::PinnableSlice *value) override
	{
		return look_up(options, key, [&] { return db_->Get(options, family, key, value); });
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 7006
	using StackableDB::GetEntity;
	ROCKSDB_NAMESPACE::Status GetEntity(const ROCKSDB_NAMESPACE::ReadOptions &options,
					    ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
					    const ROCKSDB_NAMESPACE::Slice &key,
					    ROCKSDB_NAMESPACE::PinnableWideColumns *columns) override
	{
		return look_up(options, key,
			       [&] { return db_->GetEntity(options, family, key, columns); });
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8009
	ROCKSDB_NAMESPACE::Status
	GetEntity(const ROCKSDB_NAMESPACE::ReadOptions &options,
		  const ROCKSDB_NAMESPACE::Slice &key,
		  ROCKSDB_NAMESPACE::PinnableAttributeGroups *result) override
	{
		detail::BatchFrame frame(wn_);
		ROCKSDB_NAMESPACE::Status status = db_->GetEntity(options, key, result);

		frame.end();
		if (status.ok())
			frame.tell(key, outcome_of_groups(options, *result));
		return status;
	}
#endif

	using StackableDB::KeyMayExist;
	bool KeyMayExist(const ROCKSDB_NAMESPACE::ReadOptions &options,
			 ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
			 const ROCKSDB_NAMESPACE::Slice &key, std::string *value,
			 bool *value_found) override
	{
		return look_up_maybe(key, value_found, [&](bool *foundp) {
			return db_->KeyMayExist(options, family, key, value, foundp);
		});
	}

	bool KeyMayExist(const ROCKSDB_NAMESPACE::ReadOptions &options,
			 ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
			 const ROCKSDB_NAMESPACE::Slice &key, std::string *value,
			 std::string *timestamp, bool *value_found) override
	{
		return look_up_maybe(key, value_found, [&](bool *foundp) {
			return db_->KeyMayExist(options, family, key, value, timestamp, foundp);
		});
	}

	using StackableDB::MultiGet;
	void MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options, const size_t count,
		      ROCKSDB_NAMESPACE::ColumnFamilyHandle **families,
		      const ROCKSDB_NAMESPACE::Slice *keys,
		      ROCKSDB_NAMESPACE::PinnableSlice *values, std::string *timestamps,
		      ROCKSDB_NAMESPACE::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, count, families, keys, values, timestamps, statuses,
				      sorted);
		});
	}

#if WINNOW_ROCKSDB_VERSION < 9000
	void MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options, const size_t count,
		      ROCKSDB_NAMESPACE::ColumnFamilyHandle **families,
		      const ROCKSDB_NAMESPACE::Slice *keys,
		      ROCKSDB_NAMESPACE::PinnableSlice *values,
		      ROCKSDB_NAMESPACE::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, count, families, keys, values, statuses, sorted);
		});
	}

	void MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options,
		      ROCKSDB_NAMESPACE::ColumnFamilyHandle *family, const size_t count,
		      const ROCKSDB_NAMESPACE::Slice *keys,
		      ROCKSDB_NAMESPACE::PinnableSlice *values,
		      ROCKSDB_NAMESPACE::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, family, count, keys, values, statuses, sorted);
		});
	}

	void MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options,
		      ROCKSDB_NAMESPACE::ColumnFamilyHandle *family, const size_t count,
		      const ROCKSDB_NAMESPACE::Slice *keys,
		      ROCKSDB_NAMESPACE::PinnableSlice *values, std::string *timestamps,
		      ROCKSDB_NAMESPACE::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, family, count, keys, values, timestamps, statuses,
				      sorted);
		});
	}

	std::vector<ROCKSDB_NAMESPACE::Status>
	MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options,
		 const std::vector<ROCKSDB_NAMESPACE::ColumnFamilyHandle *> &families,
		 const std::vector<ROCKSDB_NAMESPACE::Slice> &keys,
		 std::vector<std::string> *values) override
	{
		return look_up_listed(options, keys, [&] {
			return db_->MultiGet(options, families, keys, values);
		});
	}

	std::vector<ROCKSDB_NAMESPACE::Status>
	MultiGet(const ROCKSDB_NAMESPACE::ReadOptions &options,
		 const std::vector<ROCKSDB_NAMESPACE::ColumnFamilyHandle *> &families,
		 const std::vector<ROCKSDB_NAMESPACE::Slice> &keys,
		 std::vector<std::string> *values, std::vector<std::string> *timestamps) override
	{
		return look_up_listed(options, keys, [&] {
			return db_->MultiGet(options, families, keys, values, timestamps);
		});
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8000
	using StackableDB::MultiGetEntity;
	void MultiGetEntity(const ROCKSDB_NAMESPACE::ReadOptions &options,
			    ROCKSDB_NAMESPACE::ColumnFamilyHandle *family, size_t count,
			    const ROCKSDB_NAMESPACE::Slice *keys,
			    ROCKSDB_NAMESPACE::PinnableWideColumns *results,
			    ROCKSDB_NAMESPACE::Status *statuses, bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGetEntity(options, family, count, keys, results, statuses,
					    sorted);
		});
	}

	void MultiGetEntity(const ROCKSDB_NAMESPACE::ReadOptions &options, size_t count,
			    ROCKSDB_NAMESPACE::ColumnFamilyHandle **families,
			    const ROCKSDB_NAMESPACE::Slice *keys,
			    ROCKSDB_NAMESPACE::PinnableWideColumns *results,
			    ROCKSDB_NAMESPACE::Status *statuses, bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGetEntity(options, count, families, keys, results, statuses,
					    sorted);
		});
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8008
	void MultiGetEntity(const ROCKSDB_NAMESPACE::ReadOptions &options, size_t count,
			    const ROCKSDB_NAMESPACE::Slice *keys,
			    ROCKSDB_NAMESPACE::PinnableAttributeGroups *results) override
	{
		detail::BatchFrame frame(wn_);

		db_->MultiGetEntity(options, count, keys, results);
		frame.end();
		for (size_t i = 0; i < count; i++)
			frame.tell(keys[i], outcome_of_groups(options, results[i]));
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 11008
	/* They may be suspended between a filter's answer and what it comes to, and other lookups
	 * go on meanwhile on the same thread: there is no frame for them, and they teach nothing. */
	using StackableDB::GetAsync;
	void GetAsync(const ROCKSDB_NAMESPACE::ReadOptions &options,
		      ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
		      const ROCKSDB_NAMESPACE::Slice &key, ROCKSDB_NAMESPACE::PinnableSlice *value,
		      std::string *timestamp, ROCKSDB_NAMESPACE::Status &status,
		      AsyncCallback &callback) override
	{
		db_->GetAsync(options, family, key, value, timestamp, status, callback);
	}

	using StackableDB::MultiGetAsync;
	void MultiGetAsync(const ROCKSDB_NAMESPACE::ReadOptions &options, const size_t count,
			   ROCKSDB_NAMESPACE::ColumnFamilyHandle **families,
			   const ROCKSDB_NAMESPACE::Slice *keys,
			   ROCKSDB_NAMESPACE::PinnableSlice *values, std::string *timestamps,
			   ROCKSDB_NAMESPACE::Status *statuses, const bool sorted,
			   AsyncCallback &callback) override
	{
		db_->MultiGetAsync(options, count, families, keys, values, timestamps, statuses,
				   sorted, callback);
	}
#endif

	/* ---- column families, with winnow's filters ---- */

	using StackableDB::CreateColumnFamily;
	ROCKSDB_NAMESPACE::Status
	CreateColumnFamily(const ROCKSDB_NAMESPACE::ColumnFamilyOptions &options,
			   const std::string &name,
			   ROCKSDB_NAMESPACE::ColumnFamilyHandle **handle) override
	{
		ROCKSDB_NAMESPACE::ColumnFamilyOptions own;
		ROCKSDB_NAMESPACE::Status status = prepare(options, &own);

		return status.ok() ? db_->CreateColumnFamily(own, name, handle) : status;
	}

	using StackableDB::CreateColumnFamilies;
	ROCKSDB_NAMESPACE::Status CreateColumnFamilies(
		const ROCKSDB_NAMESPACE::ColumnFamilyOptions &options,
		const std::vector<std::string> &names,
		std::vector<ROCKSDB_NAMESPACE::ColumnFamilyHandle *> *handles) override
	{
		ROCKSDB_NAMESPACE::ColumnFamilyOptions own;
		ROCKSDB_NAMESPACE::Status status = prepare(options, &own);

		return status.ok() ? db_->CreateColumnFamilies(own, names, handles) : status;
	}

	ROCKSDB_NAMESPACE::Status CreateColumnFamilies(
		const std::vector<ROCKSDB_NAMESPACE::ColumnFamilyDescriptor> &families,
		std::vector<ROCKSDB_NAMESPACE::ColumnFamilyHandle *> *handles) override
	{
		std::vector<ROCKSDB_NAMESPACE::ColumnFamilyDescriptor> own = families;

		for (size_t i = 0; i < own.size(); i++) {
			ROCKSDB_NAMESPACE::Status status =
				prepare(families[i].options, &own[i].options);

			if (!status.ok())
				return status;
		}
		return db_->CreateColumnFamilies(own, handles);
	}

	using StackableDB::CreateColumnFamilyWithImport;
	ROCKSDB_NAMESPACE::Status CreateColumnFamilyWithImport(
		const ROCKSDB_NAMESPACE::ColumnFamilyOptions &options, const std::string &name,
		const ROCKSDB_NAMESPACE::ImportColumnFamilyOptions &import,
		const ROCKSDB_NAMESPACE::ExportImportFilesMetaData &files,
		ROCKSDB_NAMESPACE::ColumnFamilyHandle **handle) override
	{
		ROCKSDB_NAMESPACE::ColumnFamilyOptions own;
		ROCKSDB_NAMESPACE::Status status = prepare(options, &own);

		return status.ok() ?
			       db_->CreateColumnFamilyWithImport(own, name, import, files, handle) :
			       status;
	}

	/* ---- what StackableDB of some versions does not pass on ---- */

	using StackableDB::DeleteRange;
	ROCKSDB_NAMESPACE::Status
	DeleteRange(const ROCKSDB_NAMESPACE::WriteOptions &options,
		    ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
		    const ROCKSDB_NAMESPACE::Slice &begin, const ROCKSDB_NAMESPACE::Slice &end,
		    const ROCKSDB_NAMESPACE::Slice &timestamp) override
	{
		return db_->DeleteRange(options, family, begin, end, timestamp);
	}

	using StackableDB::Merge;
	ROCKSDB_NAMESPACE::Status Merge(const ROCKSDB_NAMESPACE::WriteOptions &options,
					ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
					const ROCKSDB_NAMESPACE::Slice &key,
					const ROCKSDB_NAMESPACE::Slice &timestamp,
					const ROCKSDB_NAMESPACE::Slice &value) override
	{
		return db_->Merge(options, family, key, timestamp, value);
	}

	ROCKSDB_NAMESPACE::Status Resume() override
	{
		return db_->Resume();
	}

	void GetAllColumnFamilyMetaData(
		std::vector<ROCKSDB_NAMESPACE::ColumnFamilyMetaData> *metadata) override
	{
		db_->GetAllColumnFamilyMetaData(metadata);
	}

	ROCKSDB_NAMESPACE::Status GetStatsHistory(
		uint64_t from, uint64_t to,
		std::unique_ptr<ROCKSDB_NAMESPACE::StatsHistoryIterator> *iterator) override
	{
		return db_->GetStatsHistory(from, to, iterator);
	}

#if WINNOW_ROCKSDB_VERSION >= 9004
	ROCKSDB_NAMESPACE::Status
	WriteWithCallback(const ROCKSDB_NAMESPACE::WriteOptions &options,
			  ROCKSDB_NAMESPACE::WriteBatch *updates,
			  ROCKSDB_NAMESPACE::UserWriteCallback *callback) override
	{
		return db_->WriteWithCallback(options, updates, callback);
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 9010 && WINNOW_ROCKSDB_VERSION < 10001
	ROCKSDB_NAMESPACE::Status GetPropertiesOfTablesForLevels(
		ROCKSDB_NAMESPACE::ColumnFamilyHandle *family,
		std::vector<std::unique_ptr<ROCKSDB_NAMESPACE::TablePropertiesCollection>> *levels)
		override
	{
		return db_->GetPropertiesOfTablesForLevels(family, levels);
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 10002
	ROCKSDB_NAMESPACE::Status IngestWriteBatchWithIndex(
		const ROCKSDB_NAMESPACE::WriteOptions &options,
		std::shared_ptr<ROCKSDB_NAMESPACE::WriteBatchWithIndex> batch) override
	{
		return db_->IngestWriteBatchWithIndex(options, std::move(batch));
	}
#endif

private:
	friend class detail::Opening;
	friend class Lookup;

	/* What opening and closing tell each other through C. */
	struct Link {
		const void *opener = nullptr;
		const std::string *path = nullptr;
		ROCKSDB_NAMESPACE::DB *db = nullptr;
		ROCKSDB_NAMESPACE::Status opened, closed;
	};

	DB(std::unique_ptr<Link> link, struct wn_rocksdb *wn)
		: StackableDB(link->db), link_(std::move(link)), wn_(wn)
	{
	}

	/* Ends with a call of Close() for the database below. */
	void leave()
	{
		if (wn_ != nullptr)
			wn_rocksdb_close(wn_);
		wn_ = nullptr;
	}

	ROCKSDB_NAMESPACE::Status prepare(const ROCKSDB_NAMESPACE::ColumnFamilyOptions &options,
					  ROCKSDB_NAMESPACE::ColumnFamilyOptions *ownp) const
	{
		ROCKSDB_NAMESPACE::Options all(ROCKSDB_NAMESPACE::DBOptions(), options);
		char *error = nullptr;

		if (wn_ != nullptr)
			wn_rocksdb_prepare_family(wn_, detail::to_c(&all), &error);
		if (error == nullptr)
			*ownp = ROCKSDB_NAMESPACE::ColumnFamilyOptions(all);
		return detail::take_error(error);
	}

	template <typename Call>
	ROCKSDB_NAMESPACE::Status look_up(const ROCKSDB_NAMESPACE::ReadOptions &options,
					  const ROCKSDB_NAMESPACE::Slice &key, const Call &call)
	{
		detail::LookupFrame frame(wn_, key);
		ROCKSDB_NAMESPACE::Status status = call();

		frame.end(detail::outcome_of(options, status));
		return status;
	}

	/* It reads no data from disk, so "maybe" with no value comes to nothing. "no" is certain. */
	template <typename Call>
	bool look_up_maybe(const ROCKSDB_NAMESPACE::Slice &key, bool *value_found, const Call &call)
	{
		detail::LookupFrame frame(wn_, key);
		bool found = false;
		const bool may = call(&found);

		if (value_found != nullptr)
			*value_found = found;
		if (!may)
			frame.end(WN_ROCKSDB_MISSING);
		else
			frame.end(found ? WN_ROCKSDB_FOUND : WN_ROCKSDB_NO_ANSWER);
		return may;
	}

	template <typename Call>
	void look_up_many(const ROCKSDB_NAMESPACE::ReadOptions &options, size_t count,
			  const ROCKSDB_NAMESPACE::Slice *keys,
			  const ROCKSDB_NAMESPACE::Status *statuses, const Call &call)
	{
		detail::BatchFrame frame(wn_);

		call();
		frame.end();
		for (size_t i = 0; i < count; i++)
			frame.tell(keys[i], detail::outcome_of(options, statuses[i]));
	}

	template <typename Call>
	std::vector<ROCKSDB_NAMESPACE::Status>
	look_up_listed(const ROCKSDB_NAMESPACE::ReadOptions &options,
		       const std::vector<ROCKSDB_NAMESPACE::Slice> &keys, const Call &call)
	{
		detail::BatchFrame frame(wn_);
		std::vector<ROCKSDB_NAMESPACE::Status> statuses = call();

		frame.end();
		for (size_t i = 0; i < keys.size() && i < statuses.size(); i++)
			frame.tell(keys[i], detail::outcome_of(options, statuses[i]));
		return statuses;
	}

#if WINNOW_ROCKSDB_VERSION >= 8008
	/* One key in several families: a "maybe" of one cannot be told from that of another, so
	 * something is learned only if the key is in none. */
	static enum wn_rocksdb_outcome
	outcome_of_groups(const ROCKSDB_NAMESPACE::ReadOptions &options,
			  const ROCKSDB_NAMESPACE::PinnableAttributeGroups &groups)
	{
		for (const auto &group : groups)
			if (detail::outcome_of(options, group.status()) != WN_ROCKSDB_MISSING)
				return WN_ROCKSDB_NO_ANSWER;
		return WN_ROCKSDB_MISSING;
	}
#endif

	const std::unique_ptr<Link> link_;
	struct wn_rocksdb *wn_;
};

/* ---- lookups in other ways ----------------------------------------------- */

/* A lookup that goes past the database's own functions, and teaches all the same:
 *
 *	winnow::Lookup lookup(db, key);
 *	status = transaction->Get(options, key, &value);
 *	lookup.Found(options, status);
 *
 * In between, this thread looks up this key and does nothing else. */
class Lookup {
public:
	Lookup(DB *db, const ROCKSDB_NAMESPACE::Slice &key) : frame_(db->wn_, key)
	{
	}

	void Found(const ROCKSDB_NAMESPACE::ReadOptions &options,
		   const ROCKSDB_NAMESPACE::Status &status)
	{
		frame_.end(detail::outcome_of(options, status));
	}

private:
	detail::LookupFrame frame_;
};

/* ---- open ---------------------------------------------------------------- */

using Families = std::vector<ROCKSDB_NAMESPACE::ColumnFamilyDescriptor>;
using Handles = std::vector<ROCKSDB_NAMESPACE::ColumnFamilyHandle *>;

namespace detail {

/* One database that is being opened: what it is to be opened with, as the C interface takes it. */
class Opening {
public:
	Opening(const rocks::DBOptions &options, const std::string &path, const Families &families,
		const Options &given)
		: path_(path), filter_(given.filter), directory_(given.sidecar_directory),
		  families_(families)
	{
		given_.filter = filter_.empty() ? nullptr : filter_.c_str();
		given_.store = static_cast<enum wn_rocksdb_store>(given.store);
		given_.sidecar_directory = directory_.empty() ? nullptr : directory_.c_str();
		given_.background = given.background;
		given_.learned_bytes = given.learned_bytes;
		given_.queue_length = given.queue_length;
		given_.save_ms = given.save_ms;
		given_.equal_keys_are_identical = given.equal_keys_are_identical;
		given_.canonical = given.canonical;
		given_.canonical_arg = given.canonical_arg;
		own_.reset(new rocks::Options(options, families.empty() ?
							       rocks::ColumnFamilyOptions() :
							       families[0].options));
		for (const rocks::ColumnFamilyDescriptor &family : families_) {
			all_.emplace_back(new rocks::Options(options, family.options));
			names_.push_back(family.name.c_str());
			options_.push_back(to_c(*all_.back()));
		}
	}

	Opening(const Opening &) = delete;
	Opening &operator=(const Opening &) = delete;

	/* `opener` is called once. */
	template <typename Opener>
	rocks::Status run(const Opener &opener, Handles *handles, std::unique_ptr<DB> *dbp)
	{
		rocks::Status status = check_versions();

		if (!status.ok())
			return status;
		if (names_.empty())
			return rocks::Status::InvalidArgument("winnow: no column families");

		const int count = static_cast<int>(names_.size());
		std::unique_ptr<DB::Link> link(new DB::Link);
		std::vector<void *> bare(names_.size());
		struct wn_rocksdb_opener calls;
		struct wn_rocksdb *wn = nullptr;
		char *message = nullptr;

		calls.open = open<Opener>;
		calls.close = close;
		calls.arg = link.get();
		const Bound<Opener> bound = {opener};

		link->opener = &bound;
		link->path = &path_;

		const int error = wn_rocksdb_open_by(&calls, to_c(*own_), path_.c_str(), count,
						     names_.data(), options_.data(), bare.data(),
						     &given_, &wn, &message);
		const std::string sentence = take_text(message);

		if (error != 0) {
			delete link->db;
			return error == WN_ERR_NOT_FOUND ? link->opened :
							   make_status(error, sentence);
		}
		take_handles(bare, handles);
		dbp->reset(new DB(std::move(link), wn));
		return status;
	}

private:
	/* An opener may be a function, whose address is no const void *. */
	template <typename Opener> struct Bound {
		const Opener &opener;
	};

	static void take_handles(const std::vector<void *> &bare, Handles *handles)
	{
		Handles all;

		for (void *handle : bare)
			all.push_back(static_cast<rocks::ColumnFamilyHandle *>(handle));
		if (handles != nullptr)
			handles->swap(all);
		else
			delete all[0]; /* the default family's: RocksDB keeps its own */
	}

	template <typename Opener>
	static rocks::Status call(const DB::Link &link, const rocksdb_options_t *options,
				  const Families &families, Handles *handles, rocks::DB **dbp)
	{
		const Bound<Opener> &bound = *static_cast<const Bound<Opener> *>(link.opener);

		return bound.opener(rocks::DBOptions(to_cxx(options)), *link.path, families,
				    handles, dbp);
	}

	/* No exception may pass through C. */
	template <typename Opener>
	static void *open(void *arg, const rocksdb_options_t *options, int count,
			  const char *const *names, const rocksdb_options_t *const *family_options,
			  void **handlesp) noexcept
	{
		DB::Link *link = static_cast<DB::Link *>(arg);
		Families families;
		Handles handles;

		for (int i = 0; i < count; i++)
			families.emplace_back(names[i], rocks::ColumnFamilyOptions(
								to_cxx(family_options[i])));
#if defined(__cpp_exceptions)
		try {
			link->opened = call<Opener>(*link, options, families, &handles, &link->db);
		} catch (const std::exception &exception) {
			link->opened = rocks::Status::Aborted(exception.what());
		} catch (...) {
			link->opened = rocks::Status::Aborted("an exception");
		}
#else
		link->opened = call<Opener>(*link, options, families, &handles, &link->db);
#endif
		if (!link->opened.ok() || link->db == nullptr) {
			link->db = nullptr;
			return nullptr;
		}
		for (size_t i = 0; i < handles.size(); i++)
			handlesp[i] = handles[i];
		return link->db;
	}

	static void close(void *arg, void *db) noexcept
	{
		static_cast<DB::Link *>(arg)->closed = static_cast<rocks::DB *>(db)->Close();
	}

	const std::string path_, filter_, directory_;
	const Families families_;
	struct wn_rocksdb_options given_ = {};
	std::unique_ptr<rocks::Options> own_;
	std::vector<std::unique_ptr<rocks::Options>> all_;
	std::vector<const char *> names_;
	std::vector<const rocksdb_options_t *> options_;
};

template <typename T> void hand_over(std::unique_ptr<DB> db, T **dbp)
{
	*dbp = db.release();
}

template <typename T> void hand_over(std::unique_ptr<DB> db, std::unique_ptr<T> *dbp)
{
	*dbp = std::move(db);
}

/* RocksDB's own ways to open. */
struct Open {
	rocks::Status operator()(const rocks::DBOptions &options, const std::string &path,
				 const Families &families, Handles *handles, rocks::DB **dbp) const
	{
#if WINNOW_ROCKSDB_VERSION >= 11000
		std::unique_ptr<rocks::DB> db;
		rocks::Status status = rocks::DB::Open(options, path, families, handles, &db);

		*dbp = db.release();
		return status;
#else
		return rocks::DB::Open(options, path, families, handles, dbp);
#endif
	}
};

struct OpenForReadOnly {
	bool error_if_wal_file_exists;

	rocks::Status operator()(const rocks::DBOptions &options, const std::string &path,
				 const Families &families, Handles *handles, rocks::DB **dbp) const
	{
#if WINNOW_ROCKSDB_VERSION >= 11000
		std::unique_ptr<rocks::DB> db;
		rocks::Status status = rocks::DB::OpenForReadOnly(
			options, path, families, handles, &db, error_if_wal_file_exists);

		*dbp = db.release();
		return status;
#else
		return rocks::DB::OpenForReadOnly(options, path, families, handles, dbp,
						  error_if_wal_file_exists);
#endif
	}
};

template <typename Opener, typename Pointer>
ROCKSDB_NAMESPACE::Status open_by(const Opener &opener, const rocks::DBOptions &options,
				  const std::string &path, const Families &families,
				  Handles *handles, const Options &given, Pointer *dbp)
{
	std::unique_ptr<DB> db;
	Opening opening(options, path, families, given);
	rocks::Status status = opening.run(opener, handles, &db);

	hand_over(std::move(db), dbp);
	return status;
}

inline Families only_default(const rocks::ColumnFamilyOptions &options)
{
	return {rocks::ColumnFamilyDescriptor(rocks::kDefaultColumnFamilyName, options)};
}

} // namespace detail

/* As rocksdb::DB::Open(), with filters that learn. *dbp is a rocksdb::DB *, StackableDB * or
 * winnow::DB *, or a std::unique_ptr to one of them; nullptr on failure. */
template <typename Pointer>
ROCKSDB_NAMESPACE::Status Open(const ROCKSDB_NAMESPACE::Options &options, const std::string &path,
			       const Options &given, Pointer *dbp)
{
	return detail::open_by(detail::Open(), options, path, detail::only_default(options),
			       nullptr, given, dbp);
}

template <typename Pointer>
ROCKSDB_NAMESPACE::Status Open(const ROCKSDB_NAMESPACE::Options &options, const std::string &path,
			       Pointer *dbp)
{
	return Open(options, path, Options(), dbp);
}

/* The same with column families. */
template <typename Pointer>
ROCKSDB_NAMESPACE::Status Open(const ROCKSDB_NAMESPACE::DBOptions &options,
			       const std::string &path, const Families &families, Handles *handles,
			       const Options &given, Pointer *dbp)
{
	return detail::open_by(detail::Open(), options, path, families, handles, given, dbp);
}

template <typename Pointer>
ROCKSDB_NAMESPACE::Status Open(const ROCKSDB_NAMESPACE::DBOptions &options,
			       const std::string &path, const Families &families, Handles *handles,
			       Pointer *dbp)
{
	return Open(options, path, families, handles, Options(), dbp);
}

/* To read only: what was learned helps, and nothing is written anywhere. */
template <typename Pointer>
ROCKSDB_NAMESPACE::Status
OpenForReadOnly(const ROCKSDB_NAMESPACE::Options &options, const std::string &path,
		const Options &given, Pointer *dbp, bool error_if_wal_file_exists = false)
{
	return detail::open_by(detail::OpenForReadOnly{error_if_wal_file_exists}, options, path,
			       detail::only_default(options), nullptr, given, dbp);
}

template <typename Pointer>
ROCKSDB_NAMESPACE::Status
OpenForReadOnly(const ROCKSDB_NAMESPACE::DBOptions &options, const std::string &path,
		const Families &families, Handles *handles, const Options &given, Pointer *dbp,
		bool error_if_wal_file_exists = false)
{
	return detail::open_by(detail::OpenForReadOnly{error_if_wal_file_exists}, options, path,
			       families, handles, given, dbp);
}

/* For databases with a layer of their own (TransactionDB, OptimisticTransactionDB, DBWithTTL), or
 * that are opened in another way: `opener` is called once, with options that winnow has changed and
 * the families to open, which may be one more than were given:
 *
 *	rocksdb::TransactionDB *transactions;
 *	status = winnow::OpenBy(
 *		[&](const rocksdb::DBOptions &options, const std::string &path,
 *		    const winnow::Families &families, winnow::Handles *handles, rocksdb::DB **db) {
 *			rocksdb::Status status = rocksdb::TransactionDB::Open(
 *				options, {}, path, families, handles, &transactions);
 *			*db = transactions;
 *			return status;
 *		},
 *		options, path, families, &handles, {}, &db);
 *
 * *dbp stands above what `opener` opened, and owns it. A layer that changes values, as DBWithTTL
 * does, wants Store::kSidecar. (TransactionDB::WrapDB() of what Open() returned works, too.) */
template <typename Opener, typename Pointer>
ROCKSDB_NAMESPACE::Status
OpenBy(const Opener &opener, const ROCKSDB_NAMESPACE::DBOptions &options, const std::string &path,
       const Families &families, Handles *handles, const Options &given, Pointer *dbp)
{
	return detail::open_by(opener, options, path, families, handles, given, dbp);
}

/* ---- statistics, and the end ---------------------------------------------- */

/* What the filters of a database did, also when other layers stand above winnow's. false: it was
 * not opened by winnow. */
inline bool GetStats(ROCKSDB_NAMESPACE::DB *db, Stats *statsp)
{
	std::string bytes;

	*statsp = {};
	if (!db->GetProperty("winnow.struct", &bytes) || bytes.size() != sizeof(*statsp))
		return false;
	memcpy(statsp, bytes.data(), sizeof(*statsp));
	return true;
}

/* As rocksdb::DestroyDB(), with what winnow left beside the database. */
inline ROCKSDB_NAMESPACE::Status DestroyDB(const std::string &path,
					   const ROCKSDB_NAMESPACE::Options &options)
{
	char *error = nullptr;

	wn_rocksdb_destroy(detail::to_c(options), path.c_str(), &error);
	return detail::take_error(error, EIO);
}

/* Take winnow out of a database that nobody has open: see wn_rocksdb_uninstall(). */
inline ROCKSDB_NAMESPACE::Status Uninstall(const std::string &path)
{
	char *error = nullptr;

	wn_rocksdb_uninstall(path.c_str(), &error);
	return detail::take_error(error, EIO);
}

/* ---- filters alone -------------------------------------------------------- */

namespace detail {

/* nullptr with a status on failure. */
inline const rocks::FilterPolicy *make_policy(const std::string &options, rocks::Status *statusp)
{
	rocksdb_filterpolicy_t *policy = nullptr;
	struct wn_config *config = nullptr;
	char message[256] = "";

	*statusp = check_versions();
	if (!statusp->ok())
		return nullptr;

	int error = wn_config_parse(options.c_str(), message, sizeof(message), &config);

	if (error == 0)
		error = wn_rocksdb_filterpolicy(options.c_str(), nullptr, &policy);
	wn_config_destroy(config);
	*statusp = make_status(error, message[0] != '\0' ? message : wn_strerror(error));
	/* In RocksDB's C interface it is the C++ class. */
	return reinterpret_cast<const rocks::FilterPolicy *>(policy);
}

[[noreturn]] inline void refuse(const std::string &sentence)
{
#if defined(__cpp_exceptions)
	throw std::invalid_argument(sentence);
#else
	fprintf(stderr, "winnow: %s\n", sentence.c_str());
	abort();
#endif
}

} // namespace detail

/* A filter policy for BlockBasedTableOptions, from "aqf", "aqf:bits_per_key=10" or the like. Its
 * filters do not learn. On failure *policyp is empty: with that RocksDB makes tables without
 * filters. */
inline ROCKSDB_NAMESPACE::Status
NewFilterPolicy(const std::string &options,
		std::shared_ptr<const ROCKSDB_NAMESPACE::FilterPolicy> *policyp)
{
	ROCKSDB_NAMESPACE::Status status;

	policyp->reset(detail::make_policy(options, &status));
	return status;
}

/* The same to be used as rocksdb::NewBloomFilterPolicy(), and never nullptr: options that cannot be
 * understood throw std::invalid_argument, or end the program, with a sentence, where there are no
 * exceptions. */
inline const ROCKSDB_NAMESPACE::FilterPolicy *NewFilterPolicy(const std::string &options = "aqf")
{
	ROCKSDB_NAMESPACE::Status status;
	const ROCKSDB_NAMESPACE::FilterPolicy *policy = detail::make_policy(options, &status);

	if (policy == nullptr)
		detail::refuse(status.ToString());
	return policy;
}

} // namespace winnow

#endif /* WINNOW_ROCKSDB_HPP */
