/* bench_engine.c - what all engines share; see bench_engine.h. */
#include "bench_engine.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <winnow/error.h>
#include <winnow/filter.h>

#include "bench/bench_util.h"
#include "bench/rocksdb_filters.h"

bool fail(struct failure *failure, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return false;
}

const struct engine_kind *bench_engine_find(const char *name, struct failure *failure)
{
	if (strcmp(name, "memory") == 0)
		return &engine_memory;
	if (strcmp(name, "rocksdb") == 0) {
#ifdef HAVE_ROCKSDB
		return &engine_rocksdb;
#else
		fail(failure, "this winnow-bench was built without RocksDB: install "
			      "librocksdb-dev, configure and build again");
		return NULL;
#endif
	}
	if (strcmp(name, "leveldb") == 0) {
#ifdef HAVE_LEVELDB
		return &engine_leveldb;
#else
		fail(failure, "this winnow-bench was built without LevelDB: install "
			      "libleveldb-dev, configure and build again");
		return NULL;
#endif
	}
	fail(failure, "there is no engine '%s'; there are memory, rocksdb and leveldb", name);
	return NULL;
}

/* ---- filters by name ---------------------------------------------------- */

/* "bloom" or "bloom:bits_per_key=12.8" */
static bool choose_stock(const char *options, struct filter_choice *choicep,
			 struct failure *failure)
{
	static const char option[] = "bits_per_key=";
	char *end;

	choicep->bits_per_key = STOCK_BITS_PER_KEY;
	if (*options == '\0')
		return true;
	if (strncmp(options, option, sizeof(option) - 1) != 0)
		return fail(failure, "the options '%s' are unknown: a Bloom or Ribbon filter has "
				     "bits_per_key alone", options);
	options += sizeof(option) - 1;
	choicep->bits_per_key = strtod(options, &end);
	if (end == options || *end != '\0' ||
	    !(choicep->bits_per_key >= 1.0 && choicep->bits_per_key <= 100.0))
		return fail(failure, "bits_per_key cannot be '%s': a number from 1 to 100",
			    options);
	return true;
}

bool filter_choose(const char *text, struct filter_choice *choicep, struct failure *failure)
{
	const size_t length = strcspn(text, ":");
	const char *options = text[length] == ':' ? text + length + 1 : "";
	char message[400] = "";
	struct wn_config *config;

	choicep->bits_per_key = 0.0;
	if (length == 5 && memcmp(text, "bloom", 5) == 0) {
		choicep->family = FILTER_BLOOM;
		return choose_stock(options, choicep, failure);
	}
	if (length == 6 && memcmp(text, "ribbon", 6) == 0) {
		choicep->family = FILTER_RIBBON;
		return choose_stock(options, choicep, failure);
	}
	if (length == 4 && memcmp(text, "none", 4) == 0) {
		choicep->family = FILTER_NONE;
		return *options == '\0' || fail(failure, "the filter 'none' has no options");
	}
	choicep->family = FILTER_WINNOW;
	if (wn_config_parse(text, message, sizeof(message), &config))
		return fail(failure, "the filter '%s' cannot be had: %s%s", text,
			    message[0] ? message : "no memory",
			    strstr(message, "the kinds are") ?
			    "; and, of the storage engines' own, bloom, ribbon and none" : "");
	wn_config_destroy(config);
	return true;
}

double ribbon_parameter(double bits_per_key)
{
	const size_t keys = 16384;
	struct bench_key *sample = bench_keys(1, BENCH_STORED, 0, keys);
	double low = bits_per_key, high = 2.0 * bits_per_key;

	for (int i = 0; i < 12; i++) {
		const double middle = (low + high) / 2.0;
		struct rf_filter *filter = rf_build(RF_RIBBON, middle, sample, BENCH_KEY_SIZE,
						    keys);
		const bool larger = filter &&
				    8.0 * (double)rf_size(filter) > bits_per_key * (double)keys;

		if (filter)
			rf_free(filter);
		if (larger)
			high = middle;
		else
			low = middle;
	}
	free(sample);
	return low;
}
