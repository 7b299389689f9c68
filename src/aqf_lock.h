/* aqf_lock.h - how threads share a living filter.
 *
 * The slots are divided into regions of 4,096 (section 6.3 of the paper). Each
 * region has one word, odd while a writer holds it: the writer's lock and the
 * readers' version in one. A writer takes the region of its quotient and the next
 * one, then further ones upward as a shift reaches them; always upward, so two
 * writers cannot wait for each other.
 *
 * A reader takes nothing. It notes the versions of the regions it is going to
 * read, reads, and looks at the versions again: if one was odd or has changed,
 * what it read may be torn, and it starts over. After WN__READ_TRIES rounds it
 * gives up and says "maybe": a reader never waits for a writer that the system
 * has put to sleep, and never answers "no" in doubt. */
#ifndef WN_AQF_LOCK_H
#define WN_AQF_LOCK_H

#include <sched.h>

#include "bits.h"

#define WN__REGION_SHIFT 12
#define WN__READ_TRIES 4096

struct wn__region {
	uint32_t version;
	/* The rest belongs to the region's writer. */
	int32_t pending;      /* used slots not yet added to the filter's total */
	int32_t fingerprints; /* differences made by this region's writers; a fingerprint */
	int32_t extensions;   /* counts where its quotient is */
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

#endif /* WN_AQF_LOCK_H */
