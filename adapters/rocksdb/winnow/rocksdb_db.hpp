/* rocksdb_db.hpp - the database that winnow/rocksdb.hpp opens: a layer above RocksDB's. */
#ifndef WINNOW_ROCKSDB_DB_HPP
#define WINNOW_ROCKSDB_DB_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/utilities/stackable_db.h>

#include <winnow/rocksdb_detail.hpp>

namespace winnow {

using Stats = struct wn_stats;

namespace detail {
class Opening;
}

/* ---- the database -------------------------------------------------------- */

/* What Open() makes. Delete it as any rocksdb::DB, after its column families' handles. */
class DB : public rocks::StackableDB {
public:
	~DB() override
	{
		leave();
	}

	DB(const DB &) = delete;
	DB &operator=(const DB &) = delete;

	/* Saves what was learned, and closes the database. */
	rocks::Status Close() override
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

	rocks::Status SyncLessons()
	{
		const int error = wn_ != nullptr ? wn_rocksdb_sync(wn_) : 0;

		return detail::make_status(error, wn_strerror(error));
	}

	/* This key will be asked for and is not there: see wn_rocksdb_add_negative(). */
	rocks::Status AddNegative(const rocks::Slice &key, double cost = 1)
	{
		const int error = wn_ != nullptr ? wn_rocksdb_add_negative(wn_, key.data(),
									   key.size(), cost) :
						   0;

		return detail::make_status(error, wn_strerror(error));
	}

	/* "winnow.stats" and "winnow.prometheus" are text, "winnow.stats" is a map, too, and each
	 * number ("winnow.false_positives") an integer. */
	using StackableDB::GetProperty;
	bool GetProperty(rocks::ColumnFamilyHandle *family, const rocks::Slice &property,
			 std::string *value) override
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
	bool GetMapProperty(rocks::ColumnFamilyHandle *family, const rocks::Slice &property,
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
	bool GetIntProperty(rocks::ColumnFamilyHandle *family, const rocks::Slice &property,
			    uint64_t *value) override
	{
		if (!property.starts_with("winnow."))
			return db_->GetIntProperty(family, property, value);
		const Stats stats = GetStats();

#define WINNOW_GET_STAT(name, help)        \
	if (property == "winnow." #name) { \
		*value = stats.name;       \
		return true;               \
	}
		WN_STATS(WINNOW_GET_STAT, WINNOW_GET_STAT)
#undef WINNOW_GET_STAT
		return false;
	}

	/* ---- lookups that teach ---- */

	using StackableDB::Get;
	rocks::Status Get(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
			  const rocks::Slice &key, rocks::PinnableSlice *value,
			  std::string *timestamp) override
	{
		return look_up(options, key,
			       [&] { return db_->Get(options, family, key, value, timestamp); });
	}

#if WINNOW_ROCKSDB_VERSION < 9000
	rocks::Status Get(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
			  const rocks::Slice &key, rocks::PinnableSlice *value) override
	{
		return look_up(options, key, [&] { return db_->Get(options, family, key, value); });
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 7006
	using StackableDB::GetEntity;
	rocks::Status GetEntity(const rocks::ReadOptions &options,
				rocks::ColumnFamilyHandle *family, const rocks::Slice &key,
				rocks::PinnableWideColumns *columns) override
	{
		return look_up(options, key,
			       [&] { return db_->GetEntity(options, family, key, columns); });
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8009
	rocks::Status GetEntity(const rocks::ReadOptions &options, const rocks::Slice &key,
				rocks::PinnableAttributeGroups *result) override
	{
		detail::BatchFrame frame(wn_);
		rocks::Status status = db_->GetEntity(options, key, result);

		frame.end();
		if (status.ok())
			frame.tell(key, outcome_of_groups(options, *result));
		return status;
	}
#endif

	using StackableDB::KeyMayExist;
	bool KeyMayExist(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
			 const rocks::Slice &key, std::string *value, bool *value_found) override
	{
		return look_up_maybe(key, value_found, [&](bool *foundp) {
			return db_->KeyMayExist(options, family, key, value, foundp);
		});
	}

	bool KeyMayExist(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
			 const rocks::Slice &key, std::string *value, std::string *timestamp,
			 bool *value_found) override
	{
		return look_up_maybe(key, value_found, [&](bool *foundp) {
			return db_->KeyMayExist(options, family, key, value, timestamp, foundp);
		});
	}

	using StackableDB::MultiGet;
	void MultiGet(const rocks::ReadOptions &options, const size_t count,
		      rocks::ColumnFamilyHandle **families, const rocks::Slice *keys,
		      rocks::PinnableSlice *values, std::string *timestamps,
		      rocks::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, count, families, keys, values, timestamps, statuses,
				      sorted);
		});
	}

#if WINNOW_ROCKSDB_VERSION < 9000
	void MultiGet(const rocks::ReadOptions &options, const size_t count,
		      rocks::ColumnFamilyHandle **families, const rocks::Slice *keys,
		      rocks::PinnableSlice *values, rocks::Status *statuses,
		      const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, count, families, keys, values, statuses, sorted);
		});
	}

	void MultiGet(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
		      const size_t count, const rocks::Slice *keys, rocks::PinnableSlice *values,
		      rocks::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, family, count, keys, values, statuses, sorted);
		});
	}

	void MultiGet(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
		      const size_t count, const rocks::Slice *keys, rocks::PinnableSlice *values,
		      std::string *timestamps, rocks::Status *statuses, const bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGet(options, family, count, keys, values, timestamps, statuses,
				      sorted);
		});
	}

	std::vector<rocks::Status>
	MultiGet(const rocks::ReadOptions &options,
		 const std::vector<rocks::ColumnFamilyHandle *> &families,
		 const std::vector<rocks::Slice> &keys, std::vector<std::string> *values) override
	{
		return look_up_listed(options, keys, [&] {
			return db_->MultiGet(options, families, keys, values);
		});
	}

	std::vector<rocks::Status>
	MultiGet(const rocks::ReadOptions &options,
		 const std::vector<rocks::ColumnFamilyHandle *> &families,
		 const std::vector<rocks::Slice> &keys, std::vector<std::string> *values,
		 std::vector<std::string> *timestamps) override
	{
		return look_up_listed(options, keys, [&] {
			return db_->MultiGet(options, families, keys, values, timestamps);
		});
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8000
	using StackableDB::MultiGetEntity;
	void MultiGetEntity(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
			    size_t count, const rocks::Slice *keys,
			    rocks::PinnableWideColumns *results, rocks::Status *statuses,
			    bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGetEntity(options, family, count, keys, results, statuses,
					    sorted);
		});
	}

	void MultiGetEntity(const rocks::ReadOptions &options, size_t count,
			    rocks::ColumnFamilyHandle **families, const rocks::Slice *keys,
			    rocks::PinnableWideColumns *results, rocks::Status *statuses,
			    bool sorted) override
	{
		look_up_many(options, count, keys, statuses, [&] {
			db_->MultiGetEntity(options, count, families, keys, results, statuses,
					    sorted);
		});
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 8008
	void MultiGetEntity(const rocks::ReadOptions &options, size_t count,
			    const rocks::Slice *keys,
			    rocks::PinnableAttributeGroups *results) override
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
	 * go on meanwhile on the same thread: they have no frame, and teach nothing. */
	using StackableDB::GetAsync;
	void GetAsync(const rocks::ReadOptions &options, rocks::ColumnFamilyHandle *family,
		      const rocks::Slice &key, rocks::PinnableSlice *value, std::string *timestamp,
		      rocks::Status &status, AsyncCallback &callback) override
	{
		db_->GetAsync(options, family, key, value, timestamp, status, callback);
	}

	using StackableDB::MultiGetAsync;
	void MultiGetAsync(const rocks::ReadOptions &options, const size_t count,
			   rocks::ColumnFamilyHandle **families, const rocks::Slice *keys,
			   rocks::PinnableSlice *values, std::string *timestamps,
			   rocks::Status *statuses, const bool sorted,
			   AsyncCallback &callback) override
	{
		db_->MultiGetAsync(options, count, families, keys, values, timestamps, statuses,
				   sorted, callback);
	}
#endif

	/* ---- column families, with winnow's filters ---- */

	using StackableDB::CreateColumnFamily;
	rocks::Status CreateColumnFamily(const rocks::ColumnFamilyOptions &options,
					 const std::string &name,
					 rocks::ColumnFamilyHandle **handle) override
	{
		rocks::ColumnFamilyOptions own;
		rocks::Status status = prepare(options, &own);

		return status.ok() ? db_->CreateColumnFamily(own, name, handle) : status;
	}

	using StackableDB::CreateColumnFamilies;
	rocks::Status
	CreateColumnFamilies(const rocks::ColumnFamilyOptions &options,
			     const std::vector<std::string> &names,
			     std::vector<rocks::ColumnFamilyHandle *> *handles) override
	{
		rocks::ColumnFamilyOptions own;
		rocks::Status status = prepare(options, &own);

		return status.ok() ? db_->CreateColumnFamilies(own, names, handles) : status;
	}

	rocks::Status
	CreateColumnFamilies(const std::vector<rocks::ColumnFamilyDescriptor> &families,
			     std::vector<rocks::ColumnFamilyHandle *> *handles) override
	{
		std::vector<rocks::ColumnFamilyDescriptor> own = families;

		for (size_t i = 0; i < own.size(); i++) {
			rocks::Status status = prepare(families[i].options, &own[i].options);

			if (!status.ok())
				return status;
		}
		return db_->CreateColumnFamilies(own, handles);
	}

	using StackableDB::CreateColumnFamilyWithImport;
	rocks::Status CreateColumnFamilyWithImport(const rocks::ColumnFamilyOptions &options,
						   const std::string &name,
						   const rocks::ImportColumnFamilyOptions &import,
						   const rocks::ExportImportFilesMetaData &files,
						   rocks::ColumnFamilyHandle **handle) override
	{
		rocks::ColumnFamilyOptions own;
		rocks::Status status = prepare(options, &own);

		return status.ok() ?
			       db_->CreateColumnFamilyWithImport(own, name, import, files, handle) :
			       status;
	}

	/* ---- what StackableDB of some versions does not pass on ---- */

	using StackableDB::DeleteRange;
	rocks::Status DeleteRange(const rocks::WriteOptions &options,
				  rocks::ColumnFamilyHandle *family, const rocks::Slice &begin,
				  const rocks::Slice &end, const rocks::Slice &timestamp) override
	{
		return db_->DeleteRange(options, family, begin, end, timestamp);
	}

	using StackableDB::Merge;
	rocks::Status Merge(const rocks::WriteOptions &options, rocks::ColumnFamilyHandle *family,
			    const rocks::Slice &key, const rocks::Slice &timestamp,
			    const rocks::Slice &value) override
	{
		return db_->Merge(options, family, key, timestamp, value);
	}

	rocks::Status Resume() override
	{
		return db_->Resume();
	}

	void GetAllColumnFamilyMetaData(std::vector<rocks::ColumnFamilyMetaData> *metadata) override
	{
		db_->GetAllColumnFamilyMetaData(metadata);
	}

	rocks::Status
	GetStatsHistory(uint64_t from, uint64_t to,
			std::unique_ptr<rocks::StatsHistoryIterator> *iterator) override
	{
		return db_->GetStatsHistory(from, to, iterator);
	}

#if WINNOW_ROCKSDB_VERSION >= 9004
	rocks::Status WriteWithCallback(const rocks::WriteOptions &options,
					rocks::WriteBatch *updates,
					rocks::UserWriteCallback *callback) override
	{
		return db_->WriteWithCallback(options, updates, callback);
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 9010 && WINNOW_ROCKSDB_VERSION < 10001
	rocks::Status GetPropertiesOfTablesForLevels(
		rocks::ColumnFamilyHandle *family,
		std::vector<std::unique_ptr<rocks::TablePropertiesCollection>> *levels) override
	{
		return db_->GetPropertiesOfTablesForLevels(family, levels);
	}
#endif

#if WINNOW_ROCKSDB_VERSION >= 10002
	rocks::Status
	IngestWriteBatchWithIndex(const rocks::WriteOptions &options,
				  std::shared_ptr<rocks::WriteBatchWithIndex> batch) override
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
		rocks::DB *db = nullptr;
		rocks::Status opened, closed;
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

	rocks::Status prepare(const rocks::ColumnFamilyOptions &options,
			      rocks::ColumnFamilyOptions *ownp) const
	{
		rocks::Options all(rocks::DBOptions(), options);
		char *error = nullptr;

		if (wn_ != nullptr)
			wn_rocksdb_prepare_family(wn_, detail::to_c(&all), &error);
		if (error == nullptr)
			*ownp = rocks::ColumnFamilyOptions(all);
		return detail::take_error(error);
	}

	template <typename Call>
	rocks::Status look_up(const rocks::ReadOptions &options, const rocks::Slice &key,
			      const Call &call)
	{
		detail::LookupFrame frame(wn_, key);
		rocks::Status status = call();

		frame.end(detail::outcome_of(options, status));
		return status;
	}

	/* It reads no data from disk: "maybe" with no value comes to nothing. "no" is certain. */
	template <typename Call>
	bool look_up_maybe(const rocks::Slice &key, bool *value_found, const Call &call)
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
	void look_up_many(const rocks::ReadOptions &options, size_t count, const rocks::Slice *keys,
			  const rocks::Status *statuses, const Call &call)
	{
		detail::BatchFrame frame(wn_);

		call();
		frame.end();
		for (size_t i = 0; i < count; i++)
			frame.tell(keys[i], detail::outcome_of(options, statuses[i]));
	}

	template <typename Call>
	std::vector<rocks::Status> look_up_listed(const rocks::ReadOptions &options,
						  const std::vector<rocks::Slice> &keys,
						  const Call &call)
	{
		detail::BatchFrame frame(wn_);
		std::vector<rocks::Status> statuses = call();

		frame.end();
		for (size_t i = 0; i < keys.size() && i < statuses.size(); i++)
			frame.tell(keys[i], detail::outcome_of(options, statuses[i]));
		return statuses;
	}

#if WINNOW_ROCKSDB_VERSION >= 8008
	/* One key in several families: a "maybe" of one cannot be told from that of another, so
	 * something is learned only if the key is in none. */
	static enum wn_rocksdb_outcome
	outcome_of_groups(const rocks::ReadOptions &options,
			  const rocks::PinnableAttributeGroups &groups)
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
	Lookup(DB *db, const rocks::Slice &key) : frame_(db->wn_, key)
	{
	}

	void Found(const rocks::ReadOptions &options, const rocks::Status &status)
	{
		frame_.end(detail::outcome_of(options, status));
	}

private:
	detail::LookupFrame frame_;
};

} // namespace winnow

#endif /* WINNOW_ROCKSDB_DB_HPP */
