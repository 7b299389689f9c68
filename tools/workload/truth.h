/* truth.h - what a database must answer: which keys are stored, in which version.
 *
 * A byte a key: 0 if it was never written, else its version, 1 to 255 and round again.
 * Writers of one key wait for each other; a reader takes the version before and after
 * its lookup, and what it found must lie between them, or be the one that is being
 * written now.
 *
 * Thread safety: any thread. */
#ifndef TRUTH_H
#define TRUTH_H

#include <pthread.h>
#include <stdatomic.h>

#include "keyspace.h"

#define TRUTH_LOCKS 256

struct truth {
	const struct keyspace *keyspace; /* borrowed */
	size_t value_size;
	atomic_uchar *versions;
	pthread_mutex_t locks[TRUTH_LOCKS];
};

bool truth_init(struct truth *truth, const struct keyspace *keyspace, size_t value_size);
void truth_fini(struct truth *truth);

/* The version that is stored for sure; 0: none. */
unsigned truth_version(struct truth *truth, uint64_t index);

/* To write a key: begin, make the value of the version it says, write, and end. */
unsigned truth_begin_write(struct truth *truth, uint64_t index);
void truth_end_write(struct truth *truth, uint64_t index, unsigned version, bool written);

/* Is this what a lookup may answer? `before` is truth_version() from before it. */
bool truth_allows(struct truth *truth, uint64_t index, unsigned before, bool found,
		  const void *value, size_t size);

/* A value found in a database from before: note its version. False if it is none. */
bool truth_adopt(struct truth *truth, uint64_t index, const void *value, size_t size);

#endif /* TRUTH_H */
