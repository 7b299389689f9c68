/* filter_bits.h - the two classes that RocksDB keeps to itself.
 *
 * Since version 7.0 RocksDB names FilterBitsBuilder and FilterBitsReader in its headers and
 * keeps their members inside. A filter of one's own, and the direct use of a built-in one,
 * needs them; they are declared here with their virtual functions in RocksDB's order, which
 * is all that the two sides share. The reader has been the same since then, the builder has
 * had three shapes ("families"):
 *
 *	1   7.5 to 9.5     (earlier ones are not supported: see m4/winnow.m4)
 *	2   9.6 to 10.8    AddKeyAndAlt() behind AddKey()
 *	3   10.9 on        CalculateSpace() and EstimatedFpRate() at the end
 *
 * configure chooses the family by RocksDB's version and runs probe.cc to prove it.
 *
 * The classes' own virtual tables, should the compiler emit them, are hidden, and in use only
 * while an object is made or unmade: that ours say "pure" where RocksDB's have a default
 * does not matter. */
#ifndef WN_ADAPTERS_ROCKSDB_FILTER_BITS_H
#define WN_ADAPTERS_ROCKSDB_FILTER_BITS_H

#include <cstddef>
#include <memory>

#include <rocksdb/slice.h>
#include <rocksdb/status.h>

#if !defined(WN_ROCKSDB_FAMILY) || WN_ROCKSDB_FAMILY < 1 || WN_ROCKSDB_FAMILY > 3
#error "WN_ROCKSDB_FAMILY is 1, 2 or 3, and configure knows which"
#endif

namespace ROCKSDB_NAMESPACE {

class FilterBitsBuilder {
public:
	virtual ~FilterBitsBuilder() = default;

	virtual void AddKey(const Slice &key) = 0;
#if WN_ROCKSDB_FAMILY >= 2
	/* A key and its prefix; either may have come just before. */
	virtual void AddKeyAndAlt(const Slice &key, const Slice &alt) = 0;
#endif
	virtual size_t EstimateEntriesAdded() = 0;
	/* The builder is then empty again; with partitioned filters more keys follow. What
	 * the slice shows is owned by *ownerp, or by nobody. */
	virtual Slice Finish(std::unique_ptr<const char[]> *ownerp) = 0;
	virtual Slice Finish(std::unique_ptr<const char[]> *ownerp, Status *statusp) = 0;
	virtual Status MaybePostVerify(const Slice &block) = 0;
	virtual size_t ApproximateNumEntries(size_t bytes) = 0;
#if WN_ROCKSDB_FAMILY >= 3
	virtual size_t CalculateSpace(size_t entries) = 0;
	virtual double EstimatedFpRate(size_t entries, size_t bytes) = 0;
#endif
};

class FilterBitsReader {
public:
	virtual ~FilterBitsReader() = default;

	virtual bool MayMatch(const Slice &key) = 0;
	virtual void MayMatch(int count, Slice **keys, bool *answersp) = 0;
};

} // namespace ROCKSDB_NAMESPACE

#endif /* WN_ADAPTERS_ROCKSDB_FILTER_BITS_H */
