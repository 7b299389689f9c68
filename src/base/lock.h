/* lock.h - all locks of the library and its adapters, and their order.
 *
 * A thread may take a lock only of a higher level than those it holds, so no two threads can wait
 * for each other. Builds that assert abort where this is broken.
 *
 *	level    lock                     of what                  under it
 *	JOURNAL  wn__journal.lock         the journal's files      LISTS, LAST
 *	LISTS    wn__missing.list_lock    sorted missing keys      what a comparator takes
 *	STORE    store.lock               the column family in     CHANGE, LEARN, LAST
 *	         (adapters/rocksdb)       use, or its end
 *	CHANGE   wn__family_map.change    puts and drops           LEARN, wn__family_map.lock
 *	         sidecar.change           renames and removals     wn__keylist_files.lock
 *	LEARN    wn__learn.lock           the worker's queues      registry
 *	NAMES    named_lock               registries with a name   registry
 *	LAST     wn__registry.lock        lessons                  none
 *	         wn__negatives.lock       known missing keys       none
 *	         wn__missing.lock         their changes            none
 *	         homes_lock               locked directories       none; held over fork()
 *	         memory_runs.lock         key lists in memory      none
 *	         wn__keylist_files.lock   open files               none
 *	         wn__family_map.lock      known key lists          none
 *	         wn__policy.lock          its `learn`              none
 *	         lock (page_map.c)        the making of leaves     none
 *
 * Under STORE and CHANGE the storage engine is called, and it may call back: RocksDB says of the
 * table that a drop removed that it is gone, which takes LEARN. No thread of the host's may wait
 * for the worker while it builds a table or says such a thing.
 *
 * Three others are not taken with these functions. The words of a living filter's regions
 * (living/aqf_lock.h) have an order of their own, and nothing is taken under them. Of the mutexes
 * of adapters/rocksdb/shim_options.cc the one of a Charge is taken under none of these, and
 * readers that the cache gives up take the registry's under it; nothing is taken under the other,
 * of the listeners. */
#ifndef WN_BASE_LOCK_H
#define WN_BASE_LOCK_H

#include <pthread.h>

#include "assert.h"
#include "bits.h"

enum wn__lock_level {
	WN__LOCK_JOURNAL = 1,
	WN__LOCK_LISTS,
	WN__LOCK_STORE,
	WN__LOCK_CHANGE,
	WN__LOCK_LEARN,
	WN__LOCK_NAMES,
	WN__LOCK_LAST
};

/* For the functions below: is it its turn? Then this thread has it. */
void wn__lock_note(const void *lock, enum wn__lock_level level);
void wn__lock_forget(const void *lock);

WN__INLINE void wn__lock(pthread_mutex_t *mutex, enum wn__lock_level level)
{
	if (WN__ASSERTS)
		wn__lock_note(mutex, level);
	pthread_mutex_lock(mutex);
}

WN__INLINE void wn__unlock(pthread_mutex_t *mutex)
{
	if (WN__ASSERTS)
		wn__lock_forget(mutex);
	pthread_mutex_unlock(mutex);
}

WN__INLINE void wn__lock_to_read(pthread_rwlock_t *lock, enum wn__lock_level level)
{
	if (WN__ASSERTS)
		wn__lock_note(lock, level);
	pthread_rwlock_rdlock(lock);
}

WN__INLINE void wn__lock_to_write(pthread_rwlock_t *lock, enum wn__lock_level level)
{
	if (WN__ASSERTS)
		wn__lock_note(lock, level);
	pthread_rwlock_wrlock(lock);
}

WN__INLINE void wn__unlock_shared(pthread_rwlock_t *lock)
{
	if (WN__ASSERTS)
		wn__lock_forget(lock);
	pthread_rwlock_unlock(lock);
}

#endif /* WN_BASE_LOCK_H */
