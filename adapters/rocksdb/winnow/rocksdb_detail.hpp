/* rocksdb_detail.hpp - what winnow/rocksdb.hpp is made of: between C and C++. Not to be included by
 * itself, and not to be relied upon. */
#ifndef WINNOW_ROCKSDB_DETAIL_HPP
#define WINNOW_ROCKSDB_DETAIL_HPP

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

#if defined(__cpp_exceptions)
#include <stdexcept>
#endif

#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/version.h>

#include <winnow/error.h>
#include <winnow/rocksdb.h>
#include <winnow/rocksdb_embed.h>

#define WINNOW_ROCKSDB_VERSION (ROCKSDB_MAJOR * 1000 + ROCKSDB_MINOR)

/* A RocksDB that was built without run-time type information has none of its classes. It is never
 * asked for, but what is derived from one refers to it. */
#if defined(__GXX_RTTI) && defined(__ELF__)
__asm__(".weak _ZTIN7rocksdb2DBE");
#endif

namespace winnow {

namespace rocks = ROCKSDB_NAMESPACE;

namespace detail {

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

} // namespace detail
} // namespace winnow

#endif /* WINNOW_ROCKSDB_DETAIL_HPP */
