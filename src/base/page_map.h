/* page_map.h - whose is a page of memory? From any address to the object that owns its page, for
 * code that is handed pointers into memory of its own, and others.
 *
 * Two levels of tables, by the address's bits: a leaf for each gigabyte in which pages have an
 * owner. Leaves are never freed, so readers need no lock: two loads.
 *
 * Thread safety: any thread, any time. An owner must not go while its pages may be asked for. */
#ifndef WN_BASE_PAGE_MAP_H
#define WN_BASE_PAGE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "bits.h"

#define WN__PAGE_BITS 12
#define WN__OWNED_PAGE ((size_t)1 << WN__PAGE_BITS)
#define WN__PAGE_LEAF_BITS 18
#define WN__PAGE_ROOT_BITS 18

struct wn__page_leaf {
	void *owners[1 << WN__PAGE_LEAF_BITS];
};

extern struct wn__page_leaf *wn__page_root[1 << WN__PAGE_ROOT_BITS];

/* NULL: nobody's. */
WN__INLINE void *wn__page_owner(const void *address)
{
	uintptr_t page = (uintptr_t)address >> WN__PAGE_BITS;
	const struct wn__page_leaf *leaf;

	if (page >> (WN__PAGE_LEAF_BITS + WN__PAGE_ROOT_BITS) != 0)
		return NULL;
	leaf = __atomic_load_n(&wn__page_root[page >> WN__PAGE_LEAF_BITS], __ATOMIC_ACQUIRE);
	if (!leaf)
		return NULL;
	return __atomic_load_n(&leaf->owners[page & ((1 << WN__PAGE_LEAF_BITS) - 1)],
			       __ATOMIC_ACQUIRE);
}

/* Memory for `size` bytes in pages of its own, with this owner. NULL: no memory, or it lies where
 * no owner can be noted. */
void *wn__owned_alloc(size_t size, void *owner);
void wn__owned_free(void *memory, size_t size); /* NULL is fine */

#endif /* WN_BASE_PAGE_MAP_H */
