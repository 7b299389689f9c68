/* assert.h - invariants of the library's own, checked while it is tested.
 *
 * Configured with --enable-assert, or with sanitizers, a condition that does not hold writes a
 * line to standard error and aborts. Otherwise conditions are compiled and never evaluated. They
 * are about what the library itself has done: bytes, arguments and results of the host or of the
 * system may be anything, and are errors instead. */
#ifndef WN_BASE_ASSERT_H
#define WN_BASE_ASSERT_H

#include <stdbool.h>

#ifdef WN_ASSERT
#define WN__ASSERTS 1
#else
#define WN__ASSERTS 0
#endif

__attribute__((noreturn)) void wn__assert_failed(const char *file, unsigned line,
						  const char *what);
/* Does this thread hold the lock? See lock.h. */
bool wn__lock_is_held(const void *lock);

#if WN__ASSERTS
#define wn__assert(condition)                                                                     \
	((condition) ? (void)0 : wn__assert_failed(__FILE__, __LINE__, #condition))
#else
#define wn__assert(condition) ((void)sizeof(!(condition)))
#endif

/* A mutex, or a lock for readers and writers held for either. */
#define wn__assert_locked(lock) wn__assert(wn__lock_is_held(lock))

#endif /* WN_BASE_ASSERT_H */
