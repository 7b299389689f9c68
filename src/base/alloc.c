/* alloc.c - the heap, with a switch for tests. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* madvise() */
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc.h"

#define LINE_SIZE ((size_t)64)
#define HUGE_PAGE_SIZE ((size_t)2 << 20)
#define HUGE_TABLE_SIZE (2 * HUGE_PAGE_SIZE)

/* Nobody counts until a test has asked for it: a counter that all threads
 * write would be a cache line that all threads fight for. */
static atomic_bool counting;
static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t fail_at;

void wn__alloc_fail_at(uint64_t nth)
{
	atomic_store(&calls, 0);
	atomic_store(&fail_at, nth);
	atomic_store(&counting, true);
}

uint64_t wn__alloc_calls(void)
{
	return atomic_load(&calls);
}

static bool must_fail(void)
{
	if (!atomic_load_explicit(&counting, memory_order_relaxed))
		return false;
	return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fail_at);
}

void *wn__alloc(size_t size)
{
	return must_fail() ? NULL : malloc(size ? size : 1);
}

void *wn__calloc(size_t count, size_t size)
{
	size_t product;

	/* calloc() sees it as well; sanitizers would end the program there. */
	if (must_fail() || __builtin_mul_overflow(count, size, &product))
		return NULL;
	return calloc(1, product ? product : 1);
}

void *wn__realloc(void *memory, size_t size)
{
	return must_fail() ? NULL : realloc(memory, size ? size : 1);
}

void *wn__alloc_aligned(size_t alignment, size_t size)
{
	void *memory;

	if (must_fail() || posix_memalign(&memory, alignment, size ? size : alignment))
		return NULL;
	return memory;
}

/* Only the huge pages that are wholly inside: what the others would reach beyond the table is
 * memory that nobody asked for. */
void wn__advise_large(void *memory, size_t size)
{
	size_t before = (HUGE_PAGE_SIZE - (uintptr_t)memory) & (HUGE_PAGE_SIZE - 1);

	/* Refused where there are none; then small ones do. */
	if (size >= HUGE_TABLE_SIZE)
		(void)madvise((char *)memory + before, (size - before) & ~(HUGE_PAGE_SIZE - 1),
			      MADV_HUGEPAGE);
}

void *wn__alloc_large(size_t size)
{
	bool huge = size >= HUGE_TABLE_SIZE;
	void *memory;

	if (must_fail() || size > PTRDIFF_MAX - LINE_SIZE)
		return NULL;
	size = size ? (size + LINE_SIZE - 1) & ~(LINE_SIZE - 1) : LINE_SIZE;
	if (posix_memalign(&memory, huge ? HUGE_PAGE_SIZE : LINE_SIZE, size))
		return NULL;
	wn__advise_large(memory, size);
	return memory;
}

void *wn__alloc_table(size_t size)
{
	void *memory = wn__alloc_large(size);

	return memory ? memset(memory, 0, size) : NULL;
}
