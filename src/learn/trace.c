/* trace.c - the positives of one lookup, by thread. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "trace.h"

struct frame {
	size_t first; /* its entries are from here to the trace's count */
	uint64_t lost;
	uint64_t began;
	bool asked; /* for the hash below */
	uint32_t secret_id;
	struct wn_hash hash;
};

struct trace {
	size_t count;
	struct frame frames[WN__TRACE_DEPTH];
	struct wn__trace_entry entries[WN__TRACE_ENTRIES];
};

/* The depth lives outside: it counts frames for which there is no memory too. */
static _Thread_local struct trace *trace;
static _Thread_local unsigned depth;

/* ---- the clock ---------------------------------------------------------- */

/* Read by every lookup, written by those that learn: on a line of its own. */
static struct {
	_Alignas(64) atomic_uint_fast64_t now;
} tick_count;

uint64_t wn__trace_clock(void)
{
	return atomic_load_explicit(&tick_count.now, memory_order_acquire);
}

uint64_t wn__trace_tick(void)
{
	return atomic_fetch_add_explicit(&tick_count.now, 1, memory_order_acq_rel) + 1;
}

/* ---- a trace for each thread -------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

/* The thread ends. Whatever else ends with it may still make lookups: without a
 * trace they are not noted. */
static void free_trace(void *memory)
{
	trace = NULL;
	free(memory);
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, free_trace) == 0;
}

/* The key belongs to code that may be unloaded. */
static void __attribute__((destructor)) delete_key(void)
{
	if (have_key)
		pthread_key_delete(key);
}

static int make_trace(void)
{
	struct trace *new;
	int err;

	pthread_once(&once, make_key);
	if (!have_key)
		return ENOMEM;
	new = wn__calloc(1, sizeof(*new));
	if (!new)
		return ENOMEM;
	err = pthread_setspecific(key, new);
	if (err) {
		free(new);
		return err;
	}
	trace = new;
	return 0;
}

/* ---- frames ------------------------------------------------------------- */

/* NULL: no lookup, or one that is not traced. */
static struct frame *current(void)
{
	if (!trace || depth == 0 || depth > WN__TRACE_DEPTH)
		return NULL;
	return &trace->frames[depth - 1];
}

int wn__trace_begin(void)
{
	int err = 0;

	/* Frames that were opened without a trace stay so: a trace that appears in
	 * their midst would find nothing in them. */
	if (!trace && depth == 0)
		err = make_trace();
	else if (!trace)
		err = ENOMEM;
	if (++depth > WN__TRACE_DEPTH && !err)
		err = WN_ERR_FULL;
	if (!err)
		*current() = (struct frame){.first = trace->count, .began = wn__trace_clock()};
	return err;
}

void wn__trace_end(void)
{
	struct frame *frame = current();

	if (frame)
		trace->count = frame->first;
	if (depth > 0)
		depth--;
}

unsigned wn__trace_depth(void)
{
	return depth;
}

void wn__trace_clear(void)
{
	struct frame *frame = current();

	if (!frame)
		return;
	trace->count = frame->first;
	frame->lost = 0;
	frame->asked = false;
}

/* ---- entries ------------------------------------------------------------ */

void wn__trace_note(const struct wn__keylist *filter, struct wn_hash hash,
		    const struct wn_match *match)
{
	struct frame *frame = current();
	struct wn__trace_entry *entry;

	if (!frame)
		return;
	if (trace->count == WN__TRACE_ENTRIES) {
		frame->lost++;
		return;
	}
	entry = &trace->entries[trace->count++];
	*entry = (struct wn__trace_entry){*filter, hash, *match, frame->began};
}

void wn__trace_ask(uint32_t secret_id, struct wn_hash hash)
{
	struct frame *frame = current();

	if (!frame)
		return;
	frame->asked = true;
	frame->secret_id = secret_id;
	frame->hash = hash;
}

bool wn__trace_asked(uint32_t *secret_idp, struct wn_hash *hashp)
{
	const struct frame *frame = current();

	*secret_idp = 0;
	*hashp = (struct wn_hash){0, 0};
	if (!frame || !frame->asked)
		return false;
	*secret_idp = frame->secret_id;
	*hashp = frame->hash;
	return true;
}

const struct wn__trace_entry *wn__trace_entries(size_t *countp, uint64_t *lostp)
{
	const struct frame *frame = current();

	*countp = frame ? trace->count - frame->first : 0;
	if (lostp)
		*lostp = frame ? frame->lost : 0;
	return frame ? &trace->entries[frame->first] : NULL;
}
