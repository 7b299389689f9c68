/* alloc.h - the one door to the heap, so that tests can close it. */
#ifndef WN_BASE_ALLOC_H
#define WN_BASE_ALLOC_H

#include <winnow/common.h>

/* As malloc(), calloc(count, size) and realloc(): NULL when there is no memory
 * or the product overflows. Size 0 gives a unique pointer. Free with free()
 * (blocks handed to the user are free()d by him). */
void *wn__alloc(size_t size);
void *wn__calloc(size_t count, size_t size);
void *wn__realloc(void *memory, size_t size);

/* Memory for large arrays: 64-byte aligned, huge pages asked for where they help.
 * Free with free(). */
void *wn__alloc_large(size_t size);

/* The same, zeroed. */
void *wn__alloc_table(size_t size);

/* Ask for huge pages for memory from elsewhere, if it is large. */
void wn__advise_large(void *memory, size_t size);

/* Aligned as wanted, a power of two; `size` is a multiple of it. Free with free(). */
void *wn__alloc_aligned(size_t alignment, size_t size);

/* Let the nth call from now fail (1 is the next one), that one only; 0: none.
 * For tests; not thread-safe against allocating threads. */
void wn__alloc_fail_at(uint64_t nth);

/* Calls since the last wn__alloc_fail_at(). */
uint64_t wn__alloc_calls(void);

#endif /* WN_BASE_ALLOC_H */
