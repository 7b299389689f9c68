/* workload.c - see workload.h. */
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench_util.h"

#define HOT_SHARE 0.9
#define MAX_SCAN 100
#define LATEST_EXPONENT 0.99

/* ---- distributions ------------------------------------------------------ */

static bool refuse_dist(const char *text, const char *why, char *message, size_t size)
{
	snprintf(message, size,
		 "'%s' is no distribution%s; there are uniform, latest, zipfian:EXPONENT, "
		 "hotset:FRACTION[:SHARE] and adversarial:FRACTION",
		 text, why);
	return false;
}

/* The number behind a colon, in (above, up to]. */
static bool read_parameter(const char **textp, double above, double up_to, double *valuep)
{
	char *end;

	if (**textp != ':')
		return false;
	*valuep = strtod(*textp + 1, &end);
	if (end == *textp + 1 || !(*valuep > above && *valuep <= up_to))
		return false;
	*textp = end;
	return true;
}

static bool take_word(const char **textp, const char *word)
{
	const size_t length = strlen(word);

	if (strncmp(*textp, word, length) != 0 ||
	    ((*textp)[length] != '\0' && (*textp)[length] != ':'))
		return false;
	*textp += length;
	return true;
}

bool dist_parse(const char *text, struct dist *distp, char *message, size_t size)
{
	const char *at = text;
	const char *why = "";
	bool good = true;

	*distp = (struct dist){ .type = DIST_UNIFORM };
	if (take_word(&at, "uniform")) {
		distp->type = DIST_UNIFORM;
	} else if (take_word(&at, "latest")) {
		*distp = (struct dist){ DIST_LATEST, LATEST_EXPONENT, 0.0 };
	} else if (take_word(&at, "zipfian")) {
		distp->type = DIST_ZIPFIAN;
		good = read_parameter(&at, 0.0, 20.0, &distp->parameter);
		why = ": an exponent above 0 and up to 20 belongs behind the colon";
	} else if (take_word(&at, "hotset")) {
		distp->type = DIST_HOTSET;
		distp->share = HOT_SHARE;
		good = read_parameter(&at, 0.0, 1.0, &distp->parameter) &&
		       (*at == '\0' || read_parameter(&at, 0.0, 1.0, &distp->share));
		why = ": shares above 0 and up to 1 belong behind the colon";
	} else if (take_word(&at, "adversarial")) {
		distp->type = DIST_ADVERSARIAL;
		good = read_parameter(&at, 0.0, 1.0, &distp->parameter);
		why = ": a share above 0 and up to 1 belongs behind the colon";
	} else {
		good = false;
	}
	if (!good || *at != '\0')
		return refuse_dist(text, why, message, size);
	return true;
}

void dist_print(const struct dist *dist, char *textp, size_t size)
{
	switch (dist->type) {
	case DIST_UNIFORM:
		snprintf(textp, size, "uniform");
		break;
	case DIST_ZIPFIAN:
		snprintf(textp, size, "zipfian:%g", dist->parameter);
		break;
	case DIST_HOTSET:
		snprintf(textp, size, "hotset:%g:%g", dist->parameter, dist->share);
		break;
	case DIST_ADVERSARIAL:
		snprintf(textp, size, "adversarial:%g", dist->parameter);
		break;
	case DIST_LATEST:
		snprintf(textp, size, "latest");
		break;
	}
}

/* ---- pickers ------------------------------------------------------------ */

bool picker_init(struct picker *picker, const struct dist *dist, uint64_t count, bool ranked,
		 uint64_t seed)
{
	const bool has_exponent = dist->type == DIST_ZIPFIAN || dist->type == DIST_LATEST;

	picker->dist = *dist;
	picker->count = count;
	picker->ranked = ranked;
	picker->hot = (uint64_t)ceil(dist->parameter * (double)count);
	if (picker->hot < 1)
		picker->hot = 1;
	if (picker->hot > count)
		picker->hot = count;
	/* The others use the permutation only. */
	return zipf_init(&picker->zipf, count, has_exponent ? dist->parameter : 1.0, seed);
}

static double draw_unit(uint64_t *state)
{
	return (double)(bench_random(state) >> 11) * 0x1p-53;
}

static uint64_t number_of_rank(const struct picker *picker, uint64_t rank)
{
	return picker->ranked ? rank - 1 : zipf_item(&picker->zipf, rank);
}

static uint64_t pick_hot(const struct picker *picker, uint64_t *state)
{
	const bool hot = draw_unit(state) < picker->dist.share || picker->hot == picker->count;
	const uint64_t rank = hot ? bench_random_below(state, picker->hot) :
			      picker->hot +
			      bench_random_below(state, picker->count - picker->hot);

	return number_of_rank(picker, rank + 1);
}

uint64_t picker_next(const struct picker *picker, uint64_t *state)
{
	switch (picker->dist.type) {
	case DIST_ZIPFIAN:
		return number_of_rank(picker, zipf_rank(&picker->zipf, state));
	case DIST_LATEST:
		return picker->count - zipf_rank(&picker->zipf, state);
	case DIST_HOTSET:
		return pick_hot(picker, state);
	case DIST_UNIFORM:
	case DIST_ADVERSARIAL:
		break;
	}
	return bench_random_below(state, picker->count);
}

/* ---- benchmarks --------------------------------------------------------- */

#define YCSB_DIST "zipfian:0.99"

const struct bench_kind bench_kinds[] = {
	{ "fillseq", WORK_FILL_SEQUENTIAL, { [OP_UPDATE] = 100 }, NULL },
	{ "fillrandom", WORK_FILL_RANDOM, { [OP_UPDATE] = 100 }, NULL },
	{ "overwrite", WORK_OPERATIONS, { [OP_UPDATE] = 100 }, NULL },
	{ "flush", WORK_FLUSH, { 0 }, NULL },
	{ "compact", WORK_COMPACT, { 0 }, NULL },
	{ "readrandom", WORK_OPERATIONS, { [OP_GET] = 100 }, NULL },
	{ "readmissing", WORK_OPERATIONS, { [OP_GET_ABSENT] = 100 }, NULL },
	{ "readmix", WORK_OPERATIONS, { [OP_GET] = 50, [OP_GET_ABSENT] = 50 }, NULL },
	{ "ycsba", WORK_OPERATIONS, { [OP_GET] = 50, [OP_UPDATE] = 50 }, YCSB_DIST },
	{ "ycsbb", WORK_OPERATIONS, { [OP_GET] = 95, [OP_UPDATE] = 5 }, YCSB_DIST },
	{ "ycsbc", WORK_OPERATIONS, { [OP_GET] = 100 }, YCSB_DIST },
	{ "ycsbd", WORK_OPERATIONS, { [OP_GET] = 95, [OP_INSERT] = 5 }, "latest" },
	{ "ycsbe", WORK_OPERATIONS, { [OP_SCAN] = 95, [OP_INSERT] = 5 }, YCSB_DIST },
	{ "ycsbf", WORK_OPERATIONS, { [OP_GET] = 50, [OP_MODIFY] = 50 }, YCSB_DIST },
	{ "reopen", WORK_REOPEN, { 0 }, NULL },
	{ "stats", WORK_STATS, { 0 }, NULL },
	{ "replay", WORK_REPLAY, { 0 }, NULL },
	{ .name = NULL },
};

const struct bench_kind *bench_kind_find(const char *name, size_t length)
{
	for (const struct bench_kind *kind = bench_kinds; kind->name; kind++)
		if (strlen(kind->name) == length && memcmp(kind->name, name, length) == 0)
			return kind;
	return NULL;
}

bool bench_kind_reads(const struct bench_kind *kind)
{
	return kind->type == WORK_REPLAY || kind->percent[OP_GET] > 0 ||
	       kind->percent[OP_GET_ABSENT] > 0 || kind->percent[OP_SCAN] > 0 ||
	       kind->percent[OP_MODIFY] > 0;
}

bool bench_kind_writes(const struct bench_kind *kind)
{
	return kind->type == WORK_REPLAY || kind->percent[OP_UPDATE] > 0 ||
	       kind->percent[OP_INSERT] > 0 || kind->percent[OP_MODIFY] > 0;
}

bool bench_kind_only_reads(const struct bench_kind *kind)
{
	return bench_kind_reads(kind) && !bench_kind_writes(kind);
}

bool workload_init(struct workload *workload)
{
	const struct keyspace *keyspace = workload->keyspace;
	const struct dist uniform = { .type = DIST_UNIFORM };
	const bool latest = workload->dist.type == DIST_LATEST;

	/* Seeded by the data's seed: benchmarks of one run have the same popular keys. */
	return picker_init(&workload->stored, &workload->dist, keyspace->count,
			   keyspace->keys.count > 0, keyspace->seed) &&
	       picker_init(&workload->absent, latest ? &uniform : &workload->dist,
			   keyspace->absent, keyspace->negatives.count > 0, keyspace->seed + 1);
}

/* ---- streams ------------------------------------------------------------ */

static uint64_t share_of(uint64_t ops, unsigned thread, unsigned threads)
{
	return (uint64_t)((unsigned __int128)ops * thread / threads);
}

void stream_init(struct stream *stream, const struct workload *workload, unsigned thread,
		 unsigned threads)
{
	*stream = (struct stream){
		.workload = workload,
		.state = bench_mix(workload->seed + bench_mix(thread + 1)),
		.next = share_of(workload->ops, thread, threads),
		.end = share_of(workload->ops, thread + 1, threads),
	};
}

void stream_fini(struct stream *stream)
{
	free(stream->found);
	stream->found = NULL;
}

static enum op_type draw_type(const struct workload *workload, uint64_t *state)
{
	const unsigned *percent = workload->kind->percent;
	const double dice = draw_unit(state);
	unsigned sum = 0;

	if (percent[OP_GET] > 0 && percent[OP_GET_ABSENT] > 0)
		return dice < workload->absent_share ? OP_GET_ABSENT : OP_GET;
	for (unsigned type = 0; type < OP_TYPES; type++) {
		sum += percent[type];
		if (dice * 100.0 < sum)
			return (enum op_type)type;
	}
	return OP_GET;
}

/* A single Zipfian client would show luck: half of the queries may be for one key, which is a
 * false positive or is not. Many clients, each with popular keys of his own, show the mean. */
static uint64_t draw_absent(struct stream *stream, bool *repeatedp)
{
	const struct workload *workload = stream->workload;
	const uint64_t client = bench_random_below(&stream->state, workload->clients);
	const uint64_t number = picker_next(&workload->absent, &stream->state) +
				client * workload->absent.count;
	const double dice = draw_unit(&stream->state);

	/* What the adversary repeats is not drawn from the stream: the other queries are the
	 * same for every filter. */
	*repeatedp = workload->dist.type == DIST_ADVERSARIAL && stream->found_count > 0 &&
		     dice < workload->dist.parameter;
	return *repeatedp ? stream->found[bench_mix(stream->state) % stream->found_count] : number;
}

static uint64_t draw_stored(struct stream *stream, uint64_t newest)
{
	const struct workload *workload = stream->workload;
	const uint64_t number = picker_next(&workload->stored, &stream->state);

	/* The newest keys are those inserted last. */
	if (workload->dist.type == DIST_LATEST && newest > workload->stored.count)
		return number + (newest - workload->stored.count);
	return number;
}

bool stream_next(struct stream *stream, uint64_t newest, struct op *opp)
{
	const struct workload *workload = stream->workload;

	if (stream->next >= stream->end)
		return false;
	switch (workload->kind->type) {
	case WORK_FILL_SEQUENTIAL:
		*opp = (struct op){ .type = OP_UPDATE, .number = stream->next };
		break;
	case WORK_FILL_RANDOM:
		*opp = (struct op){ .type = OP_UPDATE,
				    .number = zipf_item(&workload->stored.zipf, stream->next + 1) };
		break;
	case WORK_REPLAY:
		*opp = workload->trace[stream->next];
		break;
	default:
		*opp = (struct op){ .type = draw_type(workload, &stream->state) };
		opp->number = opp->type == OP_GET_ABSENT ? draw_absent(stream, &opp->repeated) :
							   draw_stored(stream, newest);
		opp->length = opp->type != OP_SCAN ? 0 :
			      1 + (unsigned)bench_random_below(&stream->state, MAX_SCAN);
		break;
	}
	stream->next++;
	return true;
}

void stream_false_positive(struct stream *stream, uint64_t number)
{
	if (stream->workload->dist.type != DIST_ADVERSARIAL)
		return;
	if (stream->found_count == stream->found_room) {
		const size_t room = stream->found_room > 0 ? 2 * stream->found_room : 256;
		uint64_t *larger = wn__realloc(stream->found, room * sizeof(*larger));

		if (!larger)
			return;
		stream->found = larger;
		stream->found_room = room;
	}
	stream->found[stream->found_count++] = number;
}
