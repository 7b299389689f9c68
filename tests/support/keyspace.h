/* keyspace.h - a small keyspace. */
#ifndef WN_TESTS_KEYSPACE_H
#define WN_TESTS_KEYSPACE_H

#include "tools/workload/keyspace.h"

static inline void init_keyspace(struct keyspace *keyspace, uint64_t count)
{
	*keyspace = (struct keyspace){ .seed = 1, .key_size = 16, .count = count,
				       .inserts = 10, .absent = 10 * count };
}

#endif /* WN_TESTS_KEYSPACE_H */
