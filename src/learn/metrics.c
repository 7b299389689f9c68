/* metrics.c - counters, and numbers as text; see metrics.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "metrics.h"

/* The attribute once more: gcc takes the definition's. */
_Thread_local unsigned wn__own_stripe __attribute__((tls_model("initial-exec")));

/* Bit k: stripe k + 1 is a thread's, or shared. */
static atomic_uint_fast32_t taken = 1u << (WN__SHARED_STRIPE - 1);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

_Static_assert(WN__STRIPES <= 32, "a bit for each stripe");

/* The thread ends: whoever comes next goes on where it was. */
static void give_back(void *stripe)
{
	wn__own_stripe = 0;
	atomic_fetch_and_explicit(&taken, ~(UINT32_C(1) << ((uintptr_t)stripe - 1)),
				  memory_order_release);
}

static void make_key(void)
{
	have_key = pthread_key_create(&key, give_back) == 0;
}

/* The key belongs to code that may be unloaded. */
static void __attribute__((destructor)) delete_key(void)
{
	if (have_key)
		pthread_key_delete(key);
}

/* WN__SHARED_STRIPE if all others are taken. */
static unsigned take_free(void)
{
	uint_fast32_t before = atomic_load_explicit(&taken, memory_order_relaxed), bit;

	do {
		bit = ~before & (before + 1);
		if (!bit || bit > UINT32_C(1) << (WN__STRIPES - 1))
			return WN__SHARED_STRIPE;
	} while (!atomic_compare_exchange_weak_explicit(&taken, &before, before | bit,
							memory_order_acquire,
							memory_order_relaxed));
	return 1 + (unsigned)__builtin_ctzll(bit);
}

unsigned wn__take_stripe(void)
{
	unsigned stripe = WN__SHARED_STRIPE;

	pthread_once(&once, make_key);
	if (have_key)
		stripe = take_free();
	if (stripe != WN__SHARED_STRIPE && pthread_setspecific(key, (void *)(uintptr_t)stripe)) {
		give_back((void *)(uintptr_t)stripe);
		stripe = WN__SHARED_STRIPE;
	}
	wn__own_stripe = stripe;
	return stripe;
}

static uint64_t sum_of(const struct wn__metrics *metrics, size_t metric)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WN__STRIPES; i++)
		sum += atomic_load_explicit(&metrics->stripes[i].counts[metric],
					    memory_order_relaxed);
	return sum;
}

void wn__metrics_sum(const struct wn__metrics *metrics, struct wn_stats *statsp)
{
	uint64_t numbers[WN__METRICS];

	memcpy(numbers, statsp, sizeof(numbers));
	for (size_t metric = 0; metric < WN__METRICS; metric++)
		numbers[metric] += sum_of(metrics, metric);
	memcpy(statsp, numbers, sizeof(numbers));
}

/* ---- text --------------------------------------------------------------- */

struct field {
	const char *name, *help;
	bool rises;
};

static const struct field fields[] = {
#define COUNTER(name, help) {#name, help, true},
#define GAUGE(name, help) {#name, help, false},
	WN_STATS(COUNTER, GAUGE)
#undef COUNTER
#undef GAUGE
};

_Static_assert(sizeof(fields) / sizeof(fields[0]) == WN__METRICS,
	       "all members are uint64_t, and reserved[] is the last");

/* Either form's lines of one field: the name four times, the help, a number. */
#define FIELD_ROOM 384

static int put_plain(char *text, const struct field *field, uint64_t value)
{
	return snprintf(text, FIELD_ROOM, "%s: %" PRIu64 "\n", field->name, value);
}

/* By Prometheus's convention the names of counters end in "_total". */
static int put_prometheus(char *text, const struct field *field, uint64_t value)
{
	const char *end = field->rises ? "_total" : "";

	return snprintf(text, FIELD_ROOM,
			"# HELP winnow_%s%s %s.\n# TYPE winnow_%s%s %s\nwinnow_%s%s %" PRIu64 "\n",
			field->name, end, field->help, field->name, end,
			field->rises ? "counter" : "gauge", field->name, end, value);
}

char *wn__stats_text(const struct wn_stats *stats, const char *property)
{
	bool plain = strcmp(property, "winnow.stats") == 0;
	uint64_t numbers[WN__METRICS];
	size_t used = 0;
	char *text;

	if (!plain && strcmp(property, "winnow.prometheus") != 0)
		return NULL;
	text = wn__alloc(WN__METRICS * FIELD_ROOM);
	if (!text)
		return NULL;
	memcpy(numbers, stats, sizeof(numbers));
	for (size_t i = 0; i < WN__METRICS; i++) {
		int size =
			(plain ? put_plain : put_prometheus)(text + used, &fields[i], numbers[i]);

		used += size > 0 && size < FIELD_ROOM ? (size_t)size : 0;
	}
	return text;
}
