/* aqf_lock.h - how threads share a living filter.
 *
 * The slots are divided into regions of 4,096 (section 6.3 of the paper). Each
 * region has one word, odd while a writer holds it: the writer's lock and the
 * readers' version in one. A writer takes the region of its quotient, then
 * further ones upward as a run or a shift reaches them; always upward, so two
 * writers cannot wait for each other.
 *
 * A reader takes nothing. It notes the versions of the regions it is going to
 * read, reads, and looks at the versions again: if one was odd or has changed,
 * what it read may be torn, and it starts over. After WN__READ_TRIES rounds it
 * gives up and says "maybe": a reader never waits for a writer that the system
 * has put to sleep, and never answers "no" in doubt.
 *
 * Regions protect the slots during one call. What is remembered between calls, a
 * rank, is protected by a stamp: a number per group of miniruns, odd while a thread
 * changes filter and reverse map together, and raised by every removal. It is raised
 * before the fingerprint is removed, and compared with the region held: so while a
 * match has the present stamp, its rank and what the map says about it are as they
 * were when the match was made. Stamps are apart from the regions because a thread
 * holds one for as long as the map takes, and regions must not wait for that. */
#ifndef WN_LIVING_AQF_LOCK_H
#define WN_LIVING_AQF_LOCK_H

#include <sched.h>

#include "base/bits.h"

#define WN__REGION_SHIFT 12
#define WN__READ_TRIES 4096

/* 16 bytes: none lies in two cache lines. */
struct wn__region {
	_Alignas(16) uint32_t version;
	/* The rest belongs to the region's writer. */
	int32_t pending;      /* kept slots not yet added to the filter's total */
	/* The difference made by this region's writers; a fingerprint counts where its
	 * quotient is. */
	int32_t fingerprints;
};

WN__INLINE void wn__cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static inline void wn__region_lock(struct wn__region *region)
{
	for (unsigned spins = 1;; spins++) {
		uint32_t version = __atomic_load_n(&region->version, __ATOMIC_RELAXED);

		if (!(version & 1) &&
		    __atomic_compare_exchange_n(&region->version, &version, version + 1, true,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		if (spins % 64)
			wn__cpu_relax();
		else
			sched_yield();
	}
	/* The odd version is seen before any word written under it. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void wn__region_unlock(struct wn__region *region)
{
	uint32_t version = __atomic_load_n(&region->version, __ATOMIC_RELAXED);

	__atomic_store_n(&region->version, version + 1, __ATOMIC_RELEASE);
}

/* ---- stamps ------------------------------------------------------------- */

#define WN__NO_STAMP 0

/* The stamp for a match; none while filter and map are being changed. */
WN__INLINE uint64_t wn__stamp_read(const uint64_t *stamp)
{
	uint64_t now = __atomic_load_n(stamp, __ATOMIC_ACQUIRE);

	return now & 1 ? WN__NO_STAMP : now;
}

WN__INLINE bool wn__stamp_is(const uint64_t *stamp, uint64_t known)
{
	return __atomic_load_n(stamp, __ATOMIC_ACQUIRE) == known;
}

/* Make it odd; the result. */
static inline uint64_t wn__stamp_lock(uint64_t *stamp)
{
	for (unsigned spins = 1;; spins++) {
		uint64_t now = __atomic_load_n(stamp, __ATOMIC_RELAXED);

		if (!(now & 1) && __atomic_compare_exchange_n(stamp, &now, now + 1, true,
							      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return now + 1;
		if (spins % 64)
			wn__cpu_relax();
		else
			sched_yield();
	}
}

static inline void wn__stamp_unlock(uint64_t *stamp, uint64_t locked)
{
	__atomic_store_n(stamp, locked + 1, __ATOMIC_RELEASE);
}

/* Ranks are about to change. False if `known` is not the present stamp. Whoever has
 * made it odd need not raise it again. */
static inline bool wn__stamp_raise(uint64_t *stamp, uint64_t known)
{
	if (known & 1)
		return wn__stamp_is(stamp, known);
	return __atomic_compare_exchange_n(stamp, &known, known + 2, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* ---- versions ----------------------------------------------------------- */

/* The sum of the versions from `low` to `high`, or an odd number while one is
 * held. Versions only rise, so an equal sum means that none has changed. */
static inline uint64_t wn__regions_begin(const struct wn__region *regions, uint64_t low,
					 uint64_t high)
{
	uint64_t sum = 0;

	for (uint64_t at = low; at <= high; at++) {
		uint32_t version = __atomic_load_n(&regions[at].version, __ATOMIC_ACQUIRE);

		if (version & 1)
			return 1;
		sum += version;
	}
	return sum;
}

static inline bool wn__regions_unchanged(const struct wn__region *regions, uint64_t low,
					 uint64_t high, uint64_t begun)
{
	uint64_t sum = 0;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (uint64_t at = low; at <= high; at++)
		sum += __atomic_load_n(&regions[at].version, __ATOMIC_RELAXED);
	return sum == begun;
}

#endif /* WN_LIVING_AQF_LOCK_H */
