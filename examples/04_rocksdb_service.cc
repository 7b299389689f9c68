/* 04_rocksdb_service.cc - a small service on RocksDB's C++ interface, moved over to winnow.
 *
 * It keeps sessions. Clients ask for sessions, and some of them, over and over, for ones that are
 * long gone. What differs from the service before are the two lines that are marked; the rest is
 * RocksDB. Its own statistics count how often a filter was wrong.
 *
 * usage: 04_rocksdb_service [DIRECTORY], where a database is made, and a directory beside it;
 * without one, in a temporary directory, and removed again. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <winnow/rocksdb.hpp> // moved: rocksdb/db.h

static const int session_count = 50000;

static void stop_on(const rocksdb::Status &status)
{
	if (status.ok())
		return;
	fprintf(stderr, "%s\n", status.ToString().c_str());
	exit(1);
}

class Sessions {
public:
	explicit Sessions(const std::string &path)
	{
		rocksdb::BlockBasedTableOptions table;

		table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
		options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
		options_.statistics = rocksdb::CreateDBStatistics();
		options_.create_if_missing = true;
		stop_on(winnow::Open(options_, path, &db_)); // moved: rocksdb::DB::Open
	}

	~Sessions()
	{
		stop_on(db_->Close());
		delete db_;
	}

	void Put(const std::string &id, const std::string &data)
	{
		stop_on(db_->Put(rocksdb::WriteOptions(), id, data));
	}

	void Flush()
	{
		stop_on(db_->Flush(rocksdb::FlushOptions()));
	}

	bool Get(const std::string &id, std::string *data)
	{
		const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), id, data);

		if (!status.IsNotFound())
			stop_on(status);
		return status.ok();
	}

	/* Of several at once, as RocksDB's MultiGet. */
	std::vector<rocksdb::Status> Get(const std::vector<std::string> &ids,
					 std::vector<std::string> *data)
	{
		const std::vector<rocksdb::Slice> keys(ids.begin(), ids.end());

		return db_->MultiGet(rocksdb::ReadOptions(), keys, data);
	}

	/* How often did a filter say "maybe" of a session that is not there? */
	uint64_t FalsePositives() const
	{
		const rocksdb::Statistics &counts = *options_.statistics;

		return counts.getTickerCount(rocksdb::BLOOM_FILTER_FULL_POSITIVE) -
		       counts.getTickerCount(rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
	}

private:
	Sessions(const Sessions &) = delete;
	Sessions &operator=(const Sessions &) = delete;

	rocksdb::Options options_;
	rocksdb::DB *db_ = nullptr;
};

/* Every second id is that of a session. */
static std::string id_of(int number)
{
	char text[32];

	snprintf(text, sizeof(text), "session-%010d", number);
	return text;
}

static void log_in(Sessions *sessions)
{
	for (int number = 0; number < 2 * session_count; number += 2)
		sessions->Put(id_of(number), "user " + std::to_string(number));
	sessions->Flush();
}

/* All sessions and as many that are gone; false: an answer was wrong. */
static bool serve(Sessions *sessions)
{
	for (int number = 0; number < 2 * session_count; number += 4) {
		std::vector<std::string> found;
		std::string data;

		if (!sessions->Get(id_of(number), &data) ||
		    data != "user " + std::to_string(number))
			return false;
		if (sessions->Get(id_of(number + 1), &data))
			return false;

		const auto statuses = sessions->Get({id_of(number + 2), id_of(number + 3)}, &found);

		if (!statuses[0].ok() || !statuses[1].IsNotFound())
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	char temporary[] = "winnow-example-XXXXXX";
	const std::string top = argc > 1 ? argv[1] : mkdtemp(temporary);
	const std::string path = argc > 1 ? top : top + "/db";
	uint64_t wrong[3];
	bool right;

	{
		Sessions sessions(path);

		log_in(&sessions);
		right = serve(&sessions);
		wrong[0] = sessions.FalsePositives();
		right = serve(&sessions) && right;
		wrong[1] = sessions.FalsePositives() - wrong[0];
	}
	{
		Sessions sessions(path);

		right = serve(&sessions) && right;
		wrong[2] = sessions.FalsePositives();
	}
	printf("%d lookups of sessions that are gone: %d false positives, again: %d, after a "
	       "restart: %d\n",
	       session_count, static_cast<int>(wrong[0]), static_cast<int>(wrong[1]),
	       static_cast<int>(wrong[2]));
	if (argc < 2)
		std::filesystem::remove_all(top);
	return right ? 0 : 1;
}
