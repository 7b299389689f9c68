/* journal.c - see saved.h. */
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
#include "journal.h"

/* The journal may become this long, and twice as long as the files it will be merged into. */
#define JOURNAL_ROOM ((uint64_t)1 << 20)

struct wn__saved {
	struct wn__registry *registry;
	struct wn__negatives *negatives;
	char *directory;
	int journal; /* at its end */
	bool incomplete; /* changes are missing in the journal: only a merge has them all */
	uint64_t journal_size;
	uint64_t merged_size; /* of lessons and negatives */
	struct wn__saved_stats stats; /* for atomic access: who asks must not wait for a disk */
	pthread_mutex_t lock;         /* held while writing, fsync included */
};

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static char *join_path(const char *directory, const char *name)
{
	size_t size = strlen(directory) + strlen(name) + 2;
	char *path = wn__alloc(size);

	if (path)
		snprintf(path, size, "%s/%s", directory, name);
	return path;
}

/* ---- the secret --------------------------------------------------------- */

int wn__saved_secret(const char *directory, struct wn_secret **secretp, bool *newp)
{
	char *path = join_path(directory, "secret");
	int err = path ? wn_secret_load(path, secretp) : ENOMEM;

	*newp = false;
	if (path && err) {
		*newp = true;
		err = wn_secret_create_random(secretp);
	}
	free(path);
	return err;
}

int wn__save_secret(const char *directory, const struct wn_secret *secret)
{
	char *path = join_path(directory, "secret");
	int err = path ? wn_secret_save(secret, path) : ENOMEM;

	free(path);
	return err;
}

/* ---- reading files ------------------------------------------------------ */

static void *read_rest(int fd, size_t size)
{
	char *bytes = wn__alloc(size ? size : 1);
	size_t done = 0;

	while (bytes && done < size) {
		ssize_t got = read(fd, bytes + done, size - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			free(bytes);
			return NULL;
		}
		done += (size_t)got;
	}
	return bytes;
}

/* NULL: it cannot be read. *missingp: because it is not there. */
static void *read_file(const char *directory, const char *name, size_t *sizep, bool *missingp)
{
	char *path = join_path(directory, name);
	void *bytes = NULL;
	struct stat info;
	int fd = -1, err = path ? wn__file_open_read(AT_FDCWD, path, &fd) : ENOMEM;

	*missingp = err == ENOENT;
	*sizep = 0;
	if (fd >= 0 && fstat(fd, &info) == 0) {
		*sizep = (size_t)info.st_size;
		bytes = read_rest(fd, *sizep);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	return bytes;
}

/* ---- loading ------------------------------------------------------------ */

/* Damage is an error; that some of it is of no use here is none. */
static bool is_damage(int err)
{
	return err == WN_ERR_CORRUPT || err == WN_ERR_VERSION;
}

/* Load the pieces of a journal; the length of those that are whole. */
static size_t load_pieces(struct wn__registry *registry, struct wn__negatives *negatives,
			  const unsigned char *bytes, size_t size)
{
	size_t at = 0, used;

	while (at < size) {
		wn__registry_load_record(registry, bytes + at, size - at, &used);
		if (!used)
			wn__negatives_load_first(negatives, bytes + at, size - at, &used);
		if (!used)
			break;
		at += used;
	}
	return at;
}

/* All three files. *goodp: how much of the journal is whole. */
static void load_files(const char *directory, struct wn__registry *registry,
		       struct wn__negatives *negatives, struct wn__saved_stats *statsp,
		       size_t *goodp)
{
	size_t size;
	bool missing;
	void *bytes = read_file(directory, "lessons", &size, &missing);

	*goodp = 0;
	if (bytes ? is_damage(wn__registry_load(registry, bytes, size)) : !missing)
		statsp->damaged++;
	statsp->bytes += size;
	free(bytes);
	bytes = read_file(directory, "negatives", &size, &missing);
	if (bytes ? is_damage(wn__negatives_load(negatives, bytes, size)) : !missing)
		statsp->damaged++;
	statsp->bytes += size;
	free(bytes);
	bytes = read_file(directory, "journal", &size, &missing);
	if (bytes)
		*goodp = load_pieces(registry, negatives, bytes, size);
	if (bytes ? *goodp != size : !missing)
		statsp->damaged++;
	free(bytes);
}

void wn__saved_load(const char *directory, struct wn__registry *registry,
		    struct wn__negatives *negatives)
{
	struct wn__saved_stats unwanted = {0};
	size_t good;

	load_files(directory, registry, negatives, &unwanted, &good);
}

/* ---- writing ------------------------------------------------------------ */

static int write_new(const char *path, const void *bytes, size_t size)
{
	int fd;
	int err = wn__file_create(AT_FDCWD, path, &fd);

	if (err)
		return err;
	err = wn__write_all(fd, bytes, size);
	if (!err && fsync(fd) != 0)
		err = errno;
	if (close(fd) != 0 && !err)
		err = errno;
	return err;
}

/* Whole or not at all. */
static int write_file(const char *directory, const char *name, const char *new_name,
		      const void *bytes, size_t size)
{
	char *path = join_path(directory, name);
	char *new_path = join_path(directory, new_name);
	int err = path && new_path ? write_new(new_path, bytes, size) : ENOMEM;

	if (!err && rename(new_path, path) != 0)
		err = errno;
	if (err && new_path)
		unlink(new_path);
	free(new_path);
	free(path);
	return err;
}

/* The new names, before anything that relies on them. */
static int sync_directory(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd) != 0)
		err = errno;
	close(fd);
	return err;
}

static int write_merged(struct wn__saved *saved, uint64_t *sizep)
{
	void *bytes;
	size_t size;
	int err = wn__registry_save(saved->registry, &bytes, &size);

	if (!err) {
		err = write_file(saved->directory, "lessons", "lessons.new", bytes, size);
		*sizep = size;
		free(bytes);
	}
	if (!err)
		err = wn__negatives_save(saved->negatives, &bytes, &size, NULL);
	if (!err) {
		err = write_file(saved->directory, "negatives", "negatives.new", bytes, size);
		*sizep += size;
		free(bytes);
	}
	return err ? err : sync_directory(saved->directory);
}

static int cut_journal(struct wn__saved *saved, uint64_t size)
{
	if (ftruncate(saved->journal, (off_t)size) != 0 ||
	    lseek(saved->journal, (off_t)size, SEEK_SET) < 0)
		return errno;
	saved->journal_size = size;
	return 0;
}

/* Everything anew. What is learned meanwhile is in the next list of changes, too. */
static int merge(struct wn__saved *saved)
{
	int err;

	saved->incomplete = true;
	err = write_merged(saved, &saved->merged_size);
	if (err)
		return err;
	saved->incomplete = false;
	return cut_journal(saved, 0);
}

/* ---- syncing ------------------------------------------------------------ */

struct changes {
	void *bytes[2];
	size_t sizes[2];
};

static bool take_changes(struct wn__saved *saved, struct changes *changes)
{
	int lessons = wn__registry_take_changes(saved->registry, &changes->bytes[0],
					       &changes->sizes[0]);
	int negatives = wn__negatives_take_changes(saved->negatives, &changes->bytes[1],
						   &changes->sizes[1]);

	return !lessons && !negatives;
}

/* What was written in part is taken back: pieces behind it would not be found. */
static int append_changes(struct wn__saved *saved, const struct changes *changes)
{
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++)
		err = wn__write_all(saved->journal, changes->bytes[i], changes->sizes[i]);
	if (!err && fdatasync(saved->journal) != 0)
		err = errno;
	if (err)
		cut_journal(saved, saved->journal_size);
	else
		saved->journal_size += changes->sizes[0] + changes->sizes[1];
	return err;
}

static int sync_changes(struct wn__saved *saved)
{
	struct changes changes;
	bool wrote = false;
	int err = 0;

	if (!take_changes(saved, &changes))
		saved->incomplete = true;
	if (saved->incomplete) {
		err = merge(saved);
		wrote = true;
	} else if (changes.sizes[0] + changes.sizes[1] > 0) {
		err = append_changes(saved, &changes);
		saved->incomplete = err;
		wrote = true;
	}
	if (wrote && !err)
		count(&saved->stats.syncs);
	free(changes.bytes[0]);
	free(changes.bytes[1]);
	if (!err && saved->journal_size > JOURNAL_ROOM + 2 * saved->merged_size)
		err = merge(saved);
	if (err)
		count(&saved->stats.failures);
	return err;
}

/* Is the journal still the file of that name? Whoever removes or replaces the directory under
 * a running database leaves an open file that nobody will ever read. */
static int check_journal(const struct wn__saved *saved)
{
	char *path = join_path(saved->directory, "journal");
	struct stat open_file, named_file;
	int err = 0;

	if (!path)
		return ENOMEM;
	if (fstat(saved->journal, &open_file) != 0 || stat(path, &named_file) != 0)
		err = errno;
	else if (open_file.st_dev != named_file.st_dev || open_file.st_ino != named_file.st_ino)
		err = ENOENT;
	free(path);
	return err;
}

int wn__saved_sync(struct wn__saved *saved)
{
	int err;

	pthread_mutex_lock(&saved->lock);
	err = check_journal(saved);
	if (err)
		count(&saved->stats.failures);
	else
		err = sync_changes(saved);
	__atomic_store_n(&saved->stats.bytes, saved->journal_size + saved->merged_size,
			 __ATOMIC_RELAXED);
	pthread_mutex_unlock(&saved->lock);
	return err;
}

static uint64_t read_counter(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void wn__saved_describe(const struct wn__saved *saved, struct wn__saved_stats *statsp)
{
	*statsp = (struct wn__saved_stats){
		.syncs = read_counter(&saved->stats.syncs),
		.failures = read_counter(&saved->stats.failures),
		.bytes = read_counter(&saved->stats.bytes),
		.damaged = read_counter(&saved->stats.damaged),
	};
}

/* ---- open and close ----------------------------------------------------- */

static void free_saved(struct wn__saved *saved)
{
	if (saved->journal >= 0)
		close(saved->journal);
	pthread_mutex_destroy(&saved->lock);
	free(saved->directory);
	free(saved);
}

/* A journal that has another name, too, belongs to a copy that was made of links: that one
 * keeps it, and a new one begins here. What is in the old one was loaded, and goes into the files
 * that the next sync writes. */
static int replace_journal(struct wn__saved *saved, const char *path, size_t *goodp)
{
	*goodp = 0;
	saved->incomplete = true;
	return wn__file_create(AT_FDCWD, path, &saved->journal);
}

static int open_journal(struct wn__saved *saved, size_t good)
{
	char *path = join_path(saved->directory, "journal");
	int err = path ? wn__file_open_own(path, &saved->journal) : ENOMEM;

	if (err == EMLINK)
		err = replace_journal(saved, path, &good);
	free(path);
	return err ? err : cut_journal(saved, good);
}

int wn__saved_open(const char *directory, struct wn__registry *registry,
		   struct wn__negatives *negatives, struct wn__saved **savedp)
{
	struct wn__saved *saved = wn__calloc(1, sizeof(*saved));
	size_t good;
	int err;

	*savedp = NULL;
	if (!saved)
		return ENOMEM;
	saved->journal = -1;
	saved->registry = registry;
	saved->negatives = negatives;
	if (pthread_mutex_init(&saved->lock, NULL) != 0) {
		free(saved);
		return ENOMEM;
	}
	saved->directory = wn__alloc(strlen(directory) + 1);
	if (!saved->directory) {
		free_saved(saved);
		return ENOMEM;
	}
	strcpy(saved->directory, directory);
	if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
		err = errno;
	} else {
		load_files(directory, registry, negatives, &saved->stats, &good);
		saved->merged_size = saved->stats.bytes;
		err = open_journal(saved, good);
	}
	if (err) {
		free_saved(saved);
		return err;
	}
	wn__registry_track(registry);
	wn__negatives_track(negatives);
	*savedp = saved;
	return 0;
}

void wn__saved_close(struct wn__saved *saved)
{
	if (!saved)
		return;
	/* First to the journal: it wants less room on a disk that is full. Nothing is written
	 * to a directory that took the place of the one that was opened. */
	wn__saved_sync(saved);
	if ((saved->incomplete || saved->journal_size) && check_journal(saved) == 0)
		merge(saved);
	wn__registry_untrack(saved->registry);
	free_saved(saved);
}
