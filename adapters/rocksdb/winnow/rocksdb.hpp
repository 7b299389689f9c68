/* rocksdb.hpp - filters that learn, for programs that use RocksDB's C++ interface.
 *
 *	rocksdb::DB *db;
 *	rocksdb::Status status = winnow::Open(options, path, &db); // was: rocksdb::DB::Open
 *
 * The database is RocksDB's own with a layer above it, a StackableDB: Get(), MultiGet(),
 * GetEntity(), MultiGetEntity() and KeyMayExist() do what RocksDB's do, and the filters learn from
 * them; all else passes through. Asynchronous lookups (GetAsync(), MultiGetAsync()), iterators,
 * GetMergeOperands() and the lookups of Transaction objects benefit from what was learned and teach
 * nothing; but see winnow::Lookup.
 *
 * winnow::NewFilterPolicy() is for those who only want the filters, which then do not learn.
 *
 * The header is all there is: it is compiled with the program, needs C++17 (C++20 where RocksDB
 * does), and works with exceptions and run-time type information on or off. Link with what
 * "pkg-config --libs winnow-rocksdb" says. Programs that include this file know winnow's filter
 * policies in RocksDB's options strings and OPTIONS files, too.
 *
 * Thread safety: as RocksDB's. */
#ifndef WINNOW_ROCKSDB_HPP
#define WINNOW_ROCKSDB_HPP

#include <cstdio>
#include <cstdlib>
#include <cstring>
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
#include <rocksdb/status.h>

#include <winnow/filter.h>
#include <winnow/rocksdb.h>
#include <winnow/rocksdb_db.hpp>
#include <winnow/rocksdb_detail.hpp>

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

/* ---- open ---------------------------------------------------------------- */

using Families = std::vector<rocks::ColumnFamilyDescriptor>;
using Handles = std::vector<rocks::ColumnFamilyHandle *>;

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
		const Bound<Opener> bound = {opener};
		std::unique_ptr<DB::Link> link(new DB::Link);
		std::vector<void *> bare(names_.size());
		struct wn_rocksdb_opener calls = {};
		struct wn_rocksdb *wn = nullptr;
		char *message = nullptr;

		calls.open = open<Opener>;
		calls.close = close;
		calls.arg = link.get();
		link->opener = &bound;
		link->path = &path_;

		const int error =
			wn_rocksdb_open_by(&calls, to_c(*own_), path_.c_str(), count, names_.data(),
					   options_.data(), bare.data(), &given_, &wn, &message);
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
			families.emplace_back(
				names[i], rocks::ColumnFamilyOptions(to_cxx(family_options[i])));
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
		if (link->opened.ok() && link->db != nullptr &&
		    handles.size() == static_cast<size_t>(count)) {
			for (size_t i = 0; i < handles.size(); i++)
				handlesp[i] = handles[i];
			return link->db;
		}
		if (link->opened.ok())
			give_up(link, handles);
		link->db = nullptr;
		return nullptr;
	}

	/* It says OK, and is not what was asked for. */
	static void give_up(DB::Link *link, const Handles &handles)
	{
		for (rocks::ColumnFamilyHandle *handle : handles)
			delete handle;
		delete link->db;
		link->opened = rocks::Status::Aborted("winnow: the opener made no database, or "
						      "other handles than for the families");
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
		rocks::Status status = rocks::DB::OpenForReadOnly(options, path, families, handles,
								  &db, error_if_wal_file_exists);

		*dbp = db.release();
		return status;
#else
		return rocks::DB::OpenForReadOnly(options, path, families, handles, dbp,
						  error_if_wal_file_exists);
#endif
	}
};

template <typename Opener, typename Pointer>
rocks::Status open_by(const Opener &opener, const rocks::DBOptions &options,
		      const std::string &path, const Families &families, Handles *handles,
		      const Options &given, Pointer *dbp)
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
rocks::Status Open(const rocks::Options &options, const std::string &path, const Options &given,
		   Pointer *dbp)
{
	return detail::open_by(detail::Open(), options, path, detail::only_default(options),
			       nullptr, given, dbp);
}

template <typename Pointer>
rocks::Status Open(const rocks::Options &options, const std::string &path, Pointer *dbp)
{
	return Open(options, path, Options(), dbp);
}

/* The same with column families. */
template <typename Pointer>
rocks::Status Open(const rocks::DBOptions &options, const std::string &path,
		   const Families &families, Handles *handles, const Options &given, Pointer *dbp)
{
	return detail::open_by(detail::Open(), options, path, families, handles, given, dbp);
}

template <typename Pointer>
rocks::Status Open(const rocks::DBOptions &options, const std::string &path,
		   const Families &families, Handles *handles, Pointer *dbp)
{
	return Open(options, path, families, handles, Options(), dbp);
}

/* To read only: what was learned helps, and nothing is written anywhere. */
template <typename Pointer>
rocks::Status OpenForReadOnly(const rocks::Options &options, const std::string &path,
			      const Options &given, Pointer *dbp,
			      bool error_if_wal_file_exists = false)
{
	return detail::open_by(detail::OpenForReadOnly{error_if_wal_file_exists}, options, path,
			       detail::only_default(options), nullptr, given, dbp);
}

template <typename Pointer>
rocks::Status OpenForReadOnly(const rocks::DBOptions &options, const std::string &path,
			      const Families &families, Handles *handles, const Options &given,
			      Pointer *dbp, bool error_if_wal_file_exists = false)
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
rocks::Status OpenBy(const Opener &opener, const rocks::DBOptions &options, const std::string &path,
		     const Families &families, Handles *handles, const Options &given, Pointer *dbp)
{
	return detail::open_by(opener, options, path, families, handles, given, dbp);
}

/* ---- statistics, and the end ---------------------------------------------- */

/* What the filters of a database did, also when other layers stand above winnow's. false: it was
 * not opened by winnow. */
inline bool GetStats(rocks::DB *db, Stats *statsp)
{
	std::string bytes;

	*statsp = {};
	if (!db->GetProperty("winnow.struct", &bytes) || bytes.size() != sizeof(*statsp))
		return false;
	memcpy(statsp, bytes.data(), sizeof(*statsp));
	return true;
}

/* As rocksdb::DestroyDB(), with what winnow left beside the database. */
inline rocks::Status DestroyDB(const std::string &path, const rocks::Options &options)
{
	char *error = nullptr;

	wn_rocksdb_destroy(detail::to_c(options), path.c_str(), &error);
	return detail::take_error(error, EIO);
}

/* Take winnow out of a database that nobody has open: see wn_rocksdb_uninstall(). */
inline rocks::Status Uninstall(const std::string &path)
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
inline rocks::Status NewFilterPolicy(const std::string &options,
				     std::shared_ptr<const rocks::FilterPolicy> *policyp)
{
	rocks::Status status;

	policyp->reset(detail::make_policy(options, &status));
	return status;
}

/* The same to be used as rocksdb::NewBloomFilterPolicy(), and never nullptr: options that cannot be
 * understood throw std::invalid_argument, or end the program, with a sentence, where there are no
 * exceptions. */
inline const rocks::FilterPolicy *NewFilterPolicy(const std::string &options = "aqf")
{
	rocks::Status status;
	const rocks::FilterPolicy *policy = detail::make_policy(options, &status);

	if (policy == nullptr)
		detail::refuse(status.ToString());
	return policy;
}

} // namespace winnow

#endif /* WINNOW_ROCKSDB_HPP */
