/* bench_sscf_trial.c - keys, negatives and their costs, and filters made of them. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_sscf.h"

/* ---- data --------------------------------------------------------------- */

uint64_t seeds = 5;
double vulnerable_share = 0.06;
static uint64_t key_count = 106087, negative_count = 98989;
static const char *key_file, *negative_file;

const struct bench_option bench_sscf_options[] = {
	{"num", BENCH_INTEGER, &key_count, 100, 1e9, "keys, if they are generated"},
	{"num_negatives", BENCH_INTEGER, &negative_count, 100, 1e9, "likewise"},
	{"keys", BENCH_TEXT, &key_file, 0, 0, "a file with a key a line"},
	{"negatives", BENCH_TEXT, &negative_file, 0, 0, "likewise, the costliest first"},
	{"vulnerable", BENCH_REAL, &vulnerable_share, 0, 10, "vulnerable keys, by number of keys"},
	{"seeds", BENCH_INTEGER, &seeds, 1, 1000, "hash functions to take the mean over"},
	{NULL, BENCH_INTEGER, NULL, 0, 0, NULL},
};

struct list {
	char **lines;
	size_t count;
};

static struct list key_list, negative_list;

static struct list read_list(const char *path)
{
	struct list list = {NULL, 0};
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, capacity = 0;
	ssize_t length;

	if (!file)
		bench_die("cannot read %s", path);
	while ((length = getline(&line, &room, file)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		if (list.count == capacity) {
			capacity = capacity ? capacity * 2 : 1024;
			list.lines = realloc(list.lines, capacity * sizeof(*list.lines));
		}
		if (!list.lines || !(list.lines[list.count++] = strdup(line)))
			bench_die("no memory");
	}
	free(line);
	fclose(file);
	return list;
}

static struct list generate_list(const char *prefix, size_t count)
{
	struct list list = {bench_alloc(count, sizeof(*list.lines)), count};

	for (size_t i = 0; i < count; i++)
		if (asprintf(&list.lines[i], "%s%016llx", prefix,
			     (unsigned long long)bench_mix(i + 1)) < 0)
			bench_die("no memory");
	return list;
}

void make_lists(bool generated)
{
	key_list = key_file && !generated ? read_list(key_file) : generate_list("user", key_count);
	negative_list = negative_file && !generated ? read_list(negative_file) :
						      generate_list("guest", negative_count);
	printf("%zu keys%s%s, %zu negatives%s%s, vulnerable %.0f%% of the keys, mean of %llu "
	       "seeds\n", key_list.count, key_file && !generated ? " of " : " (generated)",
	       key_file && !generated ? key_file : "", negative_list.count,
	       negative_file && !generated ? " of " : " (generated)",
	       negative_file && !generated ? negative_file : "", vulnerable_share * 100,
	       (unsigned long long)seeds);
}

static struct wn_hash *hash_list(const struct wn_secret *secret, const struct list *list)
{
	struct wn_hash *hashes = bench_alloc(list->count, sizeof(*hashes));

	for (size_t i = 0; i < list->count; i++)
		hashes[i] = wn_hash_key(secret, list->lines[i], strlen(list->lines[i]));
	return hashes;
}

struct trial make_trial(uint64_t seed, double skew, double share)
{
	struct trial trial = {.secret = bench_secret(seed + 1),
			      .key_count = key_list.count, .negative_count = negative_list.count};

	trial.keys = hash_list(trial.secret, &key_list);
	trial.negatives = hash_list(trial.secret, &negative_list);
	trial.costs = bench_alloc(trial.negative_count, sizeof(*trial.costs));
	trial.vulnerable = (size_t)(share * (double)trial.key_count);
	if (trial.vulnerable > trial.negative_count)
		trial.vulnerable = trial.negative_count;
	for (size_t i = 0; i < trial.negative_count; i++) {
		trial.costs[i] = pow((double)(i + 1), -skew);
		trial.total += trial.costs[i];
		if (i < trial.vulnerable)
			trial.vulnerable_cost += trial.costs[i];
	}
	return trial;
}

void end_trial(struct trial *trial)
{
	free(trial->keys);
	free(trial->negatives);
	free(trial->costs);
	wn_secret_destroy(trial->secret);
}

/* ---- filters ------------------------------------------------------------ */

struct trial_rates measure(const struct trial *trial, query_fn *query, const void *filter)
{
	struct trial_rates result = {0};
	double cost = 0;

	for (size_t i = 0; i < trial->key_count; i++)
		if (!query(filter, trial->keys[i]))
			bench_die("a key is missing");
	for (size_t i = 0; i < trial->negative_count; i++) {
		if (!query(filter, trial->negatives[i]))
			continue;
		cost += trial->costs[i];
		*(i < trial->vulnerable ? &result.listed : &result.unlisted) += 1;
	}
	result.cost_rate = cost / trial->total;
	if (trial->vulnerable)
		result.listed /= (double)trial->vulnerable;
	if (trial->negative_count > trial->vulnerable)
		result.unlisted /= (double)(trial->negative_count - trial->vulnerable);
	return result;
}

struct wn_sscf_options sscf_options(const struct trial *trial, double bits)
{
	return (struct wn_sscf_options){
		.capacity = trial->key_count,
		.bits_per_key = bits,
		.vulnerable = trial->vulnerable ? trial->vulnerable : 1,
		.vulnerable_cost = trial->vulnerable ? trial->vulnerable_cost / trial->total : 0.01,
	};
}

struct wn_sscf *make_sscf(const struct trial *trial, const struct wn_sscf_options *given)
{
	struct wn_sscf *sscf;

	bench_ok(wn_sscf_create(given, &sscf), "wn_sscf_create");
	for (size_t i = 0; i < trial->vulnerable; i++)
		bench_ok(wn_sscf_add_vulnerable(sscf, trial->negatives[i]), "a vulnerable key");
	return sscf;
}

struct trial_rates try_sscf(const struct trial *trial, const struct wn_sscf_options *given)
{
	struct wn_sscf *sscf = make_sscf(trial, given);
	struct trial_rates result;

	for (size_t i = 0; i < trial->key_count; i++)
		wn_sscf_insert(sscf, trial->keys[i]);
	result = measure(trial, query_sscf, sscf);
	wn_sscf_destroy(sscf);
	return result;
}

struct wn_filter *make_frozen(const struct trial *trial, double bits, bool listed,
				     void **blockp)
{
	double header = 141.0 * 8 / (double)trial->key_count;
	struct wn_builder *builder;
	struct wn_config *config;
	struct wn_filter *filter;
	char text[100];
	size_t size;

	snprintf(text, sizeof(text), "sscf:bits_per_key=%g;listed_share=%.6f", bits - header,
		 fmax(trial->vulnerable_cost / trial->total, 0.01));
	bench_ok(wn_config_parse(text, NULL, 0, &config), text);
	bench_ok(wn_builder_create(config, trial->secret, &builder), "wn_builder_create");
	wn_config_destroy(config);
	for (size_t i = 0; i < trial->key_count; i++)
		bench_ok(wn_builder_add_hash(builder, trial->keys[i]), "a key");
	for (size_t i = 0; i < trial->vulnerable && listed; i++)
		bench_ok(wn_builder_add_costly(builder, trial->negatives[i], trial->costs[i]),
			 "a negative");
	bench_ok(wn_builder_finish(builder, blockp, &size), "wn_builder_finish");
	wn_builder_destroy(builder);
	bench_ok(wn_filter_open(*blockp, size, WN_CHECK_HEADER, trial->secret, &filter, NULL),
		 "wn_filter_open");
	return filter;
}

struct trial_rates try_frozen(const struct trial *trial, double bits, bool listed)
{
	void *block;
	struct wn_filter *filter = make_frozen(trial, bits, listed, &block);
	struct trial_rates result = measure(trial, query_frozen, filter);

	wn_filter_close(filter);
	free(block);
	return result;
}

struct trial_rates try_cbf(const struct trial *trial, double bits)
{
	struct cbf *cbf = cbf_create(bits * (double)trial->key_count, (double)trial->key_count);
	struct trial_rates result;

	for (size_t i = 0; i < trial->key_count; i++)
		cbf_insert(cbf, trial->keys[i]);
	result = measure(trial, query_cbf, cbf);
	cbf_destroy(cbf);
	return result;
}

struct stacked *make_stacked(const struct trial *trial, double bits)
{
	struct stacked *stacked = stacked_create(bits * (double)trial->key_count,
						 (double)trial->key_count,
						 (double)(trial->vulnerable + 1));

	for (size_t i = 0; i < trial->vulnerable; i++)
		stacked_add_negative(stacked, trial->negatives[i]);
	return stacked;
}

struct trial_rates try_stacked(const struct trial *trial, double bits)
{
	struct stacked *stacked = make_stacked(trial, bits);
	struct trial_rates result;

	for (size_t i = 0; i < trial->key_count; i++)
		stacked_insert(stacked, trial->keys[i]);
	result = measure(trial, query_stacked, stacked);
	stacked_destroy(stacked);
	return result;
}

void add_result(struct trial_rates *sum, struct trial_rates result)
{
	sum->cost_rate += result.cost_rate / (double)seeds;
	sum->listed += result.listed / (double)seeds;
	sum->unlisted += result.unlisted / (double)seeds;
}
