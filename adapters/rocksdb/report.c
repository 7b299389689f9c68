/* report.c - what a database's filters did, in numbers and as text. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "database.h"

void wn_rocksdb_drain(struct wn_rocksdb *wn)
{
	wn__worker_drain(wn->learn);
}

void wn_rocksdb_stats(struct wn_rocksdb *wn, struct wn_rocksdb_stats *statsp)
{
	wn__policy_describe(wn->policy, statsp);
}

int wn_rocksdb_add_negative(struct wn_rocksdb *wn, const char *key, size_t size, double cost)
{
	return wn__learn_add_negative(wn->learn, wn->secret, wn_hash(wn->secret, key, size),
				       cost);
}

int wn_rocksdb_sync(struct wn_rocksdb *wn)
{
	wn__worker_drain(wn->learn);
	return wn__learn_sync(wn->learn);
}

/* ---- as text ------------------------------------------------------------ */

struct field {
	const char *name;
	size_t offset;
	bool rises; /* it only ever does: a counter, otherwise a gauge */
	const char *help;
};

#define COUNTER(name, help) {#name, offsetof(struct wn_rocksdb_stats, name), true, help}
#define GAUGE(name, help) {#name, offsetof(struct wn_rocksdb_stats, name), false, help}

static const struct field fields[] = {
	COUNTER(lookups, "Lookups that teach"),
	COUNTER(lookups_discarded, "Of these, lookups that taught nothing"),
	COUNTER(positives, "Filters that said maybe"),
	COUNTER(false_positives, "Of these, filters that were wrong"),
	COUNTER(repeated_false_positives, "Of these, filters wrong about the same key again"),
	COUNTER(adaptations, "False positives that will not come again"),
	COUNTER(unfixable, "Positives of keys that are in the filter, deleted ones mostly"),
	COUNTER(map_misses, "False positives whose stored key is not known"),
	COUNTER(queue_drops, "False positives that found the queue full"),
	COUNTER(carried_over, "Known false positives that new filters were built against"),
	GAUGE(lessons, "Lessons in memory"),
	GAUGE(learned_bytes, "Memory that lessons take"),
	COUNTER(lessons_dropped, "Lessons dropped for want of room"),
	GAUGE(negatives, "Known false positives"),
	GAUGE(map_runs, "Filters whose stored keys are known"),
	GAUGE(map_bytes, "What the stored keys take on disk"),
	COUNTER(map_reads, "Pages of stored keys that were read"),
	COUNTER(runs_stored, "Filters whose stored keys were stored"),
	COUNTER(runs_lost, "Filters whose stored keys were not stored"),
	COUNTER(runs_retired, "Filters whose stored keys were dropped with their table"),
	COUNTER(saves, "Times that lessons were saved"),
	COUNTER(save_failures, "Times that they could not be saved"),
	COUNTER(filters_built, "Filters built"),
	COUNTER(filter_keys, "Keys in filters built"),
	COUNTER(filter_bytes, "Bytes of filters built"),
	COUNTER(filters_given_up, "Filters not built for want of memory"),
	COUNTER(readers_opened, "Filters opened"),
	COUNTER(readers_foreign, "Filters of RocksDB opened"),
	COUNTER(readers_refused, "Filters that could not be read"),
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))
/* Either form's lines of one field: the name four times, the help, a number. */
#define FIELD_ROOM 320

static uint64_t value_of(const struct wn_rocksdb_stats *stats, const struct field *field)
{
	uint64_t value;

	memcpy(&value, (const char *)stats + field->offset, sizeof(value));
	return value;
}

static int put_plain(char *text, size_t room, const struct field *field, uint64_t value)
{
	return snprintf(text, room, "%s: %" PRIu64 "\n", field->name, value);
}

/* By Prometheus's convention the names of counters end in "_total". */
static int put_prometheus(char *text, size_t room, const struct field *field, uint64_t value)
{
	const char *end = field->rises ? "_total" : "";

	return snprintf(text, room,
			"# HELP winnow_%s%s %s.\n# TYPE winnow_%s%s %s\nwinnow_%s%s %" PRIu64 "\n",
			field->name, end, field->help, field->name, end,
			field->rises ? "counter" : "gauge", field->name, end, value);
}

char *wn_rocksdb_property(struct wn_rocksdb *wn, const char *name)
{
	bool plain = strcmp(name, "winnow.stats") == 0;
	struct wn_rocksdb_stats stats;
	char *text;
	size_t used = 0;

	if (!plain && strcmp(name, "winnow.prometheus") != 0)
		return NULL;
	text = wn__alloc(FIELDS * FIELD_ROOM);
	if (!text)
		return NULL;
	wn_rocksdb_stats(wn, &stats);
	for (size_t i = 0; i < FIELDS; i++) {
		uint64_t value = value_of(&stats, &fields[i]);
		int size = (plain ? put_plain : put_prometheus)(text + used, FIELD_ROOM,
								&fields[i], value);

		used += size > 0 && size < FIELD_ROOM ? (size_t)size : 0;
	}
	return text;
}
