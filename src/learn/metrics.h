/* metrics.h - the counters behind winnow/stats.h.
 *
 * Every lookup counts something, on any number of threads. A thread has a stripe of the counters
 * to itself, and adds to it without a locked instruction (two of them were 4% of a lookup in
 * LevelDB); threads beyond the number of stripes share the first. A new counter is one line in
 * WN_STATS; whoever counts it names it: wn__count(metrics, lookups, 1).
 *
 * Thread safety: any thread, any time. */
#ifndef WN_LEARN_METRICS_H
#define WN_LEARN_METRICS_H

#include <stdatomic.h>
#include <stddef.h>

#include <winnow/stats.h>

#define WN__METRICS (offsetof(struct wn_stats, reserved) / sizeof(uint64_t))
#define WN__STRIPES 32
#define WN__SHARED_STRIPE 1

struct wn__stripe {
	_Alignas(64) atomic_uint_fast64_t counts[WN__METRICS];
};

/* All zero is a new one. It wants memory of wn__alloc_table(), for the alignment. */
struct wn__metrics {
	struct wn__stripe stripes[WN__STRIPES];
};

/* This thread's, from 1 on; 0: none yet. */
extern _Thread_local unsigned wn__own_stripe __attribute__((tls_model("initial-exec")));
unsigned wn__take_stripe(void);

/* A stripe that is this thread's alone; NULL: it has none, or not yet. */
static inline struct wn__stripe *wn__stripe_of(struct wn__metrics *metrics)
{
	unsigned stripe = wn__own_stripe;

	return stripe > WN__SHARED_STRIPE ? &metrics->stripes[stripe - 1] : NULL;
}

/* Add to a number of such a stripe. */
static inline void wn__stripe_add(struct wn__stripe *stripe, size_t metric, uint64_t more)
{
	atomic_uint_fast64_t *count = &stripe->counts[metric];

	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

static inline void wn__metrics_add(struct wn__metrics *metrics, size_t metric, uint64_t more)
{
	unsigned stripe = wn__own_stripe ? wn__own_stripe : wn__take_stripe();
	atomic_uint_fast64_t *count = &metrics->stripes[stripe - 1].counts[metric];

	if (stripe == WN__SHARED_STRIPE)
		atomic_fetch_add_explicit(count, more, memory_order_relaxed);
	else
		wn__stripe_add(&metrics->stripes[stripe - 1], metric, more);
}

#define wn__metric(name) (offsetof(struct wn_stats, name) / sizeof(uint64_t))

#define wn__count(metrics, name, more)                                                             \
	wn__metrics_add(metrics, wn__metric(name), more)

/* Add what was counted to the numbers. */
void wn__metrics_sum(const struct wn__metrics *metrics, struct wn_stats *statsp);

/* The numbers as text: property "winnow.stats", a line each, or "winnow.prometheus", in its text
 * format. free() it; NULL: another property, or no memory. */
char *wn__stats_text(const struct wn_stats *stats, const char *property);

#endif /* WN_LEARN_METRICS_H */
