/* bench_worker.c - see bench_worker.h. */
#include "bench_worker.h"

#include <string.h>
#include <time.h>

#include "bench/bench_util.h"
#include "bench_cold.h"

static const struct engine_kind *engine_of(const struct worker *worker)
{
	return worker->bench->options->engine;
}

static bool fail_worker(struct worker *worker)
{
	worker->failed = true;
	return false;
}

/* ---- reads -------------------------------------------------------------- */

static bool look_up(struct worker *worker, size_t key_size, struct look *lookp)
{
	const size_t room = (size_t)worker->bench->options->value_size;

	if (!engine_of(worker)->get(worker->session, worker->key, key_size, worker->answer, room,
				    lookp, &worker->failure))
		return fail_worker(worker);
	return true;
}

/* Of the tables that said "maybe", one was right if the key was found in a table. */
static uint64_t count_look(struct worker *worker, size_t key_size, const struct look *look,
			   uint64_t start, uint64_t end, unsigned interval)
{
	const uint64_t wrong = look->positives - (look->found && look->positives > 0);

	worker->reads++;
	worker->found += look->found;
	worker->queries += look->queries;
	worker->positives += look->positives;
	worker->block_reads += look->block_reads;
	worker->false_positives += wrong;
	worker->curve[interval] += wrong;
	if (wrong > 0 && !look->found &&
	    id_set_add(&worker->bench->mistakes, key_number(worker->key, key_size), start, end))
		worker->repeated += wrong;
	return wrong;
}

static bool get_stored(struct worker *worker, uint64_t index, unsigned interval)
{
	struct bench *bench = worker->bench;
	const size_t key_size = keyspace_stored(bench->keyspace, index, worker->key);
	const unsigned before = truth_version(&bench->truth, index);
	const uint64_t start = bench_now();
	struct look look;
	uint64_t end;

	if (!look_up(worker, key_size, &look))
		return false;
	end = bench_now();
	histogram_add(&worker->latency, end - start);
	count_look(worker, key_size, &look, start, end, interval);
	worker->wrong += !truth_allows(&bench->truth, index, before, look.found, worker->answer,
				       look.size);
	return true;
}

static bool get_absent(struct worker *worker, const struct op *op, unsigned interval)
{
	const size_t key_size = keyspace_absent(worker->bench->keyspace, op->number, worker->key);
	const uint64_t start = bench_now();
	struct look look;
	uint64_t end;

	if (!look_up(worker, key_size, &look))
		return false;
	end = bench_now();
	histogram_add(&worker->latency, end - start);
	/* An adversary sees which answers were slow; this one never errs about it. */
	if (count_look(worker, key_size, &look, start, end, interval) > 0 && !op->repeated)
		stream_false_positive(&worker->stream, op->number);
	worker->wrong += look.found;
	return true;
}

/* ---- writes ------------------------------------------------------------- */

/* The truth about the key is locked meanwhile. */
static bool write_value(struct worker *worker, uint64_t index)
{
	struct bench *bench = worker->bench;
	const size_t key_size = keyspace_stored(bench->keyspace, index, worker->key);
	const size_t size = (size_t)bench->options->value_size;

	if (!engine_of(worker)->put(worker->session, worker->key, key_size, worker->value, size,
				    &worker->failure))
		return fail_worker(worker);
	worker->writes++;
	return true;
}

static bool put_stored(struct worker *worker, uint64_t index)
{
	struct bench *bench = worker->bench;
	const unsigned version = truth_begin_write(&bench->truth, index);
	uint64_t start;
	bool good;

	keyspace_value(bench->keyspace, index, version, worker->value,
		       (size_t)bench->options->value_size);
	start = bench_now();
	good = write_value(worker, index);
	histogram_add(&worker->latency, bench_now() - start);
	truth_end_write(&bench->truth, index, version, good);
	return good;
}

static bool modify_stored(struct worker *worker, uint64_t index, unsigned interval)
{
	struct bench *bench = worker->bench;
	const size_t key_size = keyspace_stored(bench->keyspace, index, worker->key);
	const unsigned version = truth_begin_write(&bench->truth, index);
	const unsigned before = truth_version(&bench->truth, index);
	const uint64_t start = bench_now();
	struct look look;
	bool good = look_up(worker, key_size, &look);

	if (good) {
		count_look(worker, key_size, &look, start, bench_now(), interval);
		worker->wrong += !truth_allows(&bench->truth, index, before, look.found,
					       worker->answer, look.size);
		keyspace_value(bench->keyspace, index, version, worker->value,
			       (size_t)bench->options->value_size);
		good = write_value(worker, index);
		histogram_add(&worker->latency, bench_now() - start);
	}
	truth_end_write(&bench->truth, index, version, good);
	return good;
}

/* A key that was not there before; when they are used up, an update. */
static bool insert_new(struct worker *worker, uint64_t otherwise)
{
	const struct keyspace *keyspace = worker->bench->keyspace;
	const uint64_t number = atomic_fetch_add(&worker->bench->inserted, 1);

	if (number >= keyspace->inserts) {
		atomic_fetch_sub(&worker->bench->inserted, 1);
		return put_stored(worker, otherwise);
	}
	return put_stored(worker, keyspace->count + number);
}

/* ---- scans -------------------------------------------------------------- */

struct scan {
	struct worker *worker;
	uint64_t next; /* the smallest index that may come; only where keys are made */
	size_t seen;
	bool wrong;
};

/* Keys that are made are in the order of their indexes: those passed over must not have
 * been there when the scan began. Of lines of a file only the values are checked. */
static bool check_pair(void *arg, const void *key, size_t key_size, const void *value,
		       size_t value_size)
{
	struct scan *scan = arg;
	struct bench *bench = scan->worker->bench;
	const struct keyspace *keyspace = bench->keyspace;
	uint64_t index;

	scan->seen++;
	if (!keyspace_find(keyspace, key, key_size, &index)) {
		scan->wrong = true;
		return true;
	}
	if (keyspace->keys.count == 0 && keyspace->extras.count == 0) {
		scan->wrong = scan->wrong || index < scan->next;
		for (; scan->next < index && scan->next < keyspace->count; scan->next++)
			scan->wrong = scan->wrong || truth_version(&bench->truth, scan->next) != 0;
		scan->next = index + 1;
	}
	/* Its version from before is not known: any that the key has had will do. */
	scan->wrong = scan->wrong ||
		      !truth_allows(&bench->truth, index, 1, true, value, value_size);
	return true;
}

static bool scan_stored(struct worker *worker, const struct op *op)
{
	const size_t key_size = keyspace_stored(worker->bench->keyspace, op->number, worker->key);
	struct scan scan = { .worker = worker, .next = op->number };
	const uint64_t start = bench_now();

	if (!engine_of(worker)->scan(worker->session, worker->key, key_size, op->length, check_pair,
				     &scan, &worker->failure))
		return fail_worker(worker);
	histogram_add(&worker->latency, bench_now() - start);
	worker->scanned += scan.seen;
	worker->found += scan.seen > 0;
	worker->wrong += scan.wrong ||
			 (scan.seen == 0 && truth_version(&worker->bench->truth, op->number) != 0);
	return true;
}

/* ---- all of it ---------------------------------------------------------- */

static bool make_op(struct worker *worker, const struct op *op, unsigned interval)
{
	switch (op->type) {
	case OP_GET:
		return get_stored(worker, op->number, interval);
	case OP_GET_ABSENT:
		return get_absent(worker, op, interval);
	case OP_UPDATE:
		return put_stored(worker, op->number);
	case OP_INSERT:
		return insert_new(worker, op->number);
	case OP_SCAN:
		return scan_stored(worker, op);
	case OP_MODIFY:
		return modify_stored(worker, op->number, interval);
	case OP_TYPES:
		break;
	}
	return false;
}

static uint64_t cpu_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Off the clock. Once before the first operation, then every so many. */
static void keep_cold(struct worker *worker, uint64_t done)
{
	const struct bench *bench = worker->bench;
	uint64_t start, cpu;

	if (done % COLD_INTERVAL != 0 || !bench->options->cold ||
	    !bench_kind_reads(worker->stream.workload->kind))
		return;
	start = bench_now();
	cpu = cpu_now();
	cold_drop(bench->engine_options.path, bench->options->engine->maps_tables, done == 0);
	worker->off += bench_now() - start;
	worker->cpu_off += cpu_now() - cpu;
}

void worker_run(struct worker *worker, const atomic_bool *stop)
{
	const uint64_t share = worker->stream.end - worker->first;
	const uint64_t stored = worker->bench->keyspace->count;
	struct op op;
	uint64_t done = 0;

	worker->started = bench_now();
	worker->cpu = cpu_now();
	while (!atomic_load_explicit(stop, memory_order_relaxed) && *worker->bench->stop == 0 &&
	       stream_next(&worker->stream, stored + atomic_load_explicit(&worker->bench->inserted,
									  memory_order_relaxed),
			   &op)) {
		const unsigned interval =
			(unsigned)((unsigned __int128)done * worker->curve_count / share);

		keep_cold(worker, done);
		if (!make_op(worker, &op, interval))
			break;
		atomic_store_explicit(&worker->done, ++done, memory_order_relaxed);
	}
	worker->ended = bench_now() - worker->off;
	worker->cpu = cpu_now() - worker->cpu - worker->cpu_off;
}
