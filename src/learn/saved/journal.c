/* journal.c - see journal.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/lock.h"
#include "journal.h"

/* The journal may become this long, and twice as long as the files it will be merged into. */
#define JOURNAL_ROOM ((uint64_t)1 << 20)

struct wn__journal {
	struct wn__journal_state state;
	char *directory;
	int fd; /* of the journal itself, at its end */
	bool incomplete; /* changes are missing in the journal: only a merge has them all */
	uint64_t size;
	uint64_t merged_size; /* of the files beside it */
	struct wn__journal_stats stats; /* for atomic access: who asks must not wait for a disk */
	pthread_mutex_t lock;         /* held while writing, fsync included */
};

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- what is saved ------------------------------------------------------ */

static int save_lessons(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__registry_save(state->registry, bytesp, sizep);
}

static int take_lessons(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__registry_take_changes(state->registry, bytesp, sizep);
}

static int load_lessons(const struct wn__journal_state *state, const void *bytes, size_t size,
			size_t *usedp)
{
	return wn__registry_load_record(state->registry, bytes, size, usedp);
}

static int load_all_lessons(const struct wn__journal_state *state, const void *bytes, size_t size)
{
	return wn__registry_load(state->registry, bytes, size);
}

static int save_negatives(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__negatives_save(state->negatives, bytesp, sizep, NULL);
}

static int take_negatives(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__negatives_take_changes(state->negatives, bytesp, sizep);
}

static int load_negatives(const struct wn__journal_state *state, const void *bytes, size_t size,
			  size_t *usedp)
{
	return wn__negatives_load_first(state->negatives, bytes, size, usedp);
}

static int load_all_negatives(const struct wn__journal_state *state, const void *bytes,
			      size_t size)
{
	return wn__negatives_load(state->negatives, bytes, size);
}

static int save_missing(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__missing_save(state->missing, bytesp, sizep);
}

static int take_missing(const struct wn__journal_state *state, void **bytesp, size_t *sizep)
{
	return wn__missing_take_changes(state->missing, bytesp, sizep);
}

static int load_missing(const struct wn__journal_state *state, const void *bytes, size_t size,
			size_t *usedp)
{
	return wn__missing_load_first(state->missing, bytes, size, usedp);
}

static int load_all_missing(const struct wn__journal_state *state, const void *bytes, size_t size)
{
	size_t used;

	return wn__missing_load_first(state->missing, bytes, size, &used);
}

/* Of the three, those that there are. */
struct part {
	const char *name, *new_name;
	int (*save)(const struct wn__journal_state *state, void **bytesp, size_t *sizep);
	int (*take)(const struct wn__journal_state *state, void **bytesp, size_t *sizep);
	/* A piece of the journal; a whole file. */
	int (*load)(const struct wn__journal_state *state, const void *bytes, size_t size,
		    size_t *usedp);
	int (*load_all)(const struct wn__journal_state *state, const void *bytes, size_t size);
};

#define PARTS 3

static const struct part parts[PARTS] = {
	{"lessons", "lessons.new", save_lessons, take_lessons, load_lessons, load_all_lessons},
	{"negatives", "negatives.new", save_negatives, take_negatives, load_negatives,
	 load_all_negatives},
	{"missing", "missing.new", save_missing, take_missing, load_missing, load_all_missing},
};

static bool has_part(const struct wn__journal_state *state, unsigned part)
{
	return part == 0 || (part == 1 ? (const void *)state->negatives : state->missing);
}

/* ---- reading files ------------------------------------------------------ */

/* NULL: it cannot be read. *missingp: because it is not there. */
static void *read_file(const char *directory, const char *name, size_t *sizep, bool *missingp)
{
	char *path = wn__join_path(directory, name);
	void *bytes = NULL;
	int err = ENOMEM;

	*sizep = 0;
	if (path)
		err = wn__file_read(AT_FDCWD, path, &bytes, sizep);
	*missingp = err == ENOENT;
	free(path);
	return bytes;
}

/* ---- loading ------------------------------------------------------------ */

/* Damage is an error; that some of it is of no use here is none. */
static bool is_damage(int err)
{
	return err == WN_ERR_CORRUPT || err == WN_ERR_VERSION;
}

static size_t load_piece(const struct wn__journal_state *state, const unsigned char *bytes,
			 size_t size)
{
	size_t used = 0;

	for (unsigned part = 0; part < PARTS && !used; part++) {
		if (has_part(state, part))
			parts[part].load(state, bytes, size, &used);
	}
	return used;
}

/* The length of the pieces that are whole. */
static size_t load_pieces(const struct wn__journal_state *state, const unsigned char *bytes,
			  size_t size)
{
	size_t at = 0, used;

	while (at < size && (used = load_piece(state, bytes + at, size - at)))
		at += used;
	return at;
}

/* *goodp: how much of the journal is whole. */
static void load_files(const char *directory, const struct wn__journal_state *state,
		       struct wn__journal_stats *statsp, size_t *goodp)
{
	size_t size;
	bool missing;
	void *bytes;

	*goodp = 0;
	for (unsigned part = 0; part < PARTS; part++) {
		if (!has_part(state, part))
			continue;
		bytes = read_file(directory, parts[part].name, &size, &missing);
		if (bytes ? is_damage(parts[part].load_all(state, bytes, size)) : !missing)
			statsp->damaged++;
		statsp->bytes += size;
		free(bytes);
	}
	bytes = read_file(directory, "journal", &size, &missing);
	if (bytes)
		*goodp = load_pieces(state, bytes, size);
	if (bytes ? *goodp != size : !missing)
		statsp->damaged++;
	free(bytes);
}

void wn__journal_load(const char *directory, const struct wn__journal_state *state)
{
	struct wn__journal_stats unwanted = {0};
	size_t good;

	load_files(directory, state, &unwanted, &good);
}

/* ---- writing ------------------------------------------------------------ */

/* Whole or not at all. */
static int write_file(const char *directory, const char *name, const char *new_name,
		      const void *bytes, size_t size)
{
	char *path = wn__join_path(directory, name);
	char *new_path = wn__join_path(directory, new_name);
	int err = path && new_path ?
			  wn__file_replace(AT_FDCWD, path, new_path, bytes, size) :
			  ENOMEM;

	free(new_path);
	free(path);
	return err;
}

static int write_part(const struct wn__journal *journal, const struct part *part,
		      uint64_t *sizep)
{
	void *bytes;
	size_t size;
	int err = part->save(&journal->state, &bytes, &size);

	if (err)
		return err;
	err = write_file(journal->directory, part->name, part->new_name, bytes, size);
	*sizep += size;
	free(bytes);
	return err;
}

static int write_merged(struct wn__journal *journal, uint64_t *sizep)
{
	int err = 0;

	*sizep = 0;
	for (unsigned part = 0; part < PARTS && !err; part++) {
		if (has_part(&journal->state, part))
			err = write_part(journal, &parts[part], sizep);
	}
	return err;
}

static int cut_journal(struct wn__journal *journal, uint64_t size)
{
	if (ftruncate(journal->fd, (off_t)size) != 0 ||
	    lseek(journal->fd, (off_t)size, SEEK_SET) < 0)
		return errno;
	journal->size = size;
	return 0;
}

/* Everything anew. What is learned meanwhile is in the next list of changes, too. */
static int merge(struct wn__journal *journal)
{
	int err;

	journal->incomplete = true;
	err = write_merged(journal, &journal->merged_size);
	if (err)
		return err;
	journal->incomplete = false;
	return cut_journal(journal, 0);
}

/* ---- syncing ------------------------------------------------------------ */

struct changes {
	void *bytes[PARTS];
	size_t sizes[PARTS];
	size_t all;
};

/* False: some are lost. */
static bool take_changes(struct wn__journal *journal, struct changes *changes)
{
	bool good = true;

	wn__assert_locked(&journal->lock);
	*changes = (struct changes){0};
	for (unsigned part = 0; part < PARTS; part++) {
		if (!has_part(&journal->state, part))
			continue;
		if (parts[part].take(&journal->state, &changes->bytes[part],
				     &changes->sizes[part]))
			good = false;
		changes->all += changes->sizes[part];
	}
	return good;
}

static void free_changes(struct changes *changes)
{
	for (unsigned part = 0; part < PARTS; part++)
		free(changes->bytes[part]);
}

/* What was written in part is taken back: pieces behind it would not be found. */
static int append_changes(struct wn__journal *journal, const struct changes *changes)
{
	int err = 0;

	wn__assert_locked(&journal->lock);
	for (unsigned part = 0; part < PARTS && !err; part++)
		err = wn__write_all(journal->fd, changes->bytes[part], changes->sizes[part]);
	if (!err && fdatasync(journal->fd) != 0)
		err = errno;
	if (err)
		cut_journal(journal, journal->size);
	else
		journal->size += changes->all;
	return err;
}

static int sync_changes(struct wn__journal *journal)
{
	struct changes changes;
	bool wrote = false;
	int err = 0;

	wn__assert_locked(&journal->lock);
	if (!take_changes(journal, &changes))
		journal->incomplete = true;
	if (journal->incomplete) {
		err = merge(journal);
		wrote = true;
	} else if (changes.all > 0) {
		err = append_changes(journal, &changes);
		journal->incomplete = err;
		wrote = true;
	}
	if (wrote && !err)
		count(&journal->stats.syncs);
	free_changes(&changes);
	if (!err && journal->size > JOURNAL_ROOM + 2 * journal->merged_size)
		err = merge(journal);
	if (err)
		count(&journal->stats.failures);
	return err;
}

/* Is the journal still the file of that name? Whoever removes or replaces the directory under
 * a running database leaves an open file that nobody will ever read. */
static int check_journal(const struct wn__journal *journal)
{
	char *path = wn__join_path(journal->directory, "journal");
	struct stat open_file, named_file;
	int err = 0;

	if (!path)
		return ENOMEM;
	if (fstat(journal->fd, &open_file) != 0 || stat(path, &named_file) != 0)
		err = errno;
	else if (open_file.st_dev != named_file.st_dev || open_file.st_ino != named_file.st_ino)
		err = ENOENT;
	free(path);
	return err;
}

int wn__journal_sync(struct wn__journal *journal)
{
	int err;

	wn__lock(&journal->lock, WN__LOCK_JOURNAL);
	err = check_journal(journal);
	if (err)
		count(&journal->stats.failures);
	else
		err = sync_changes(journal);
	__atomic_store_n(&journal->stats.bytes, journal->size + journal->merged_size,
			 __ATOMIC_RELAXED);
	wn__unlock(&journal->lock);
	return err;
}

static uint64_t read_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void wn__journal_describe(const struct wn__journal *journal, struct wn__journal_stats *statsp)
{
	*statsp = (struct wn__journal_stats){
		.syncs = read_counter(&journal->stats.syncs),
		.failures = read_counter(&journal->stats.failures),
		.bytes = read_counter(&journal->stats.bytes),
		.damaged = read_counter(&journal->stats.damaged),
	};
}

/* ---- open and close ----------------------------------------------------- */

static void free_journal(struct wn__journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	pthread_mutex_destroy(&journal->lock);
	free(journal->directory);
	free(journal);
}

/* A journal that has another name, too, belongs to a copy that was made of links: that one
 * keeps it, and a new one begins here. What is in the old one was loaded, and goes into the files
 * that the next sync writes. */
static int replace_journal(struct wn__journal *journal, const char *path, size_t *goodp)
{
	*goodp = 0;
	journal->incomplete = true;
	return wn__file_create(AT_FDCWD, path, &journal->fd);
}

static int open_journal(struct wn__journal *journal, size_t good)
{
	char *path = wn__join_path(journal->directory, "journal");
	int err = path ? wn__file_open_own(path, &journal->fd) : ENOMEM;

	if (err == EMLINK)
		err = replace_journal(journal, path, &good);
	free(path);
	return err ? err : cut_journal(journal, good);
}

static void track(const struct wn__journal_state *state)
{
	wn__registry_track(state->registry);
	if (state->negatives)
		wn__negatives_track(state->negatives);
	if (state->missing)
		wn__missing_track(state->missing);
}

int wn__journal_open(const char *directory, const struct wn__journal_state *state,
		     struct wn__journal **journalp)
{
	struct wn__journal *journal = wn__calloc(1, sizeof(*journal));
	size_t good;
	int err;

	*journalp = NULL;
	if (!journal)
		return ENOMEM;
	journal->fd = -1;
	journal->state = *state;
	if (pthread_mutex_init(&journal->lock, NULL) != 0) {
		free(journal);
		return ENOMEM;
	}
	journal->directory = wn__alloc(strlen(directory) + 1);
	if (!journal->directory) {
		free_journal(journal);
		return ENOMEM;
	}
	strcpy(journal->directory, directory);
	if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
		err = errno;
	} else {
		load_files(directory, state, &journal->stats, &good);
		journal->merged_size = journal->stats.bytes;
		err = open_journal(journal, good);
	}
	if (err) {
		free_journal(journal);
		return err;
	}
	track(state);
	*journalp = journal;
	return 0;
}

void wn__journal_close(struct wn__journal *journal)
{
	if (!journal)
		return;
	/* First to the journal: it wants less room on a disk that is full. Nothing is written
	 * to a directory that took the place of the one that was opened. */
	wn__journal_sync(journal);
	if ((journal->incomplete || journal->size) && check_journal(journal) == 0)
		merge(journal);
	wn__registry_untrack(journal->state.registry);
	free_journal(journal);
}
