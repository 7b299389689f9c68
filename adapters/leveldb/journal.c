/* journal.c - see journal.h; the bytes are in doc/formats.md. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_CLOEXEC */
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "journal.h"
#include "base/secret.h"

#define MAGIC "WNLDBJ1\n"
enum { HEAD_SIZE = 16, RECORD_SIZE = 28 };
/* In a record: sum, key size, zero, id, index; then the key. */
enum { KEY_SIZE_AT = 4, ZERO_AT = 6, ID_AT = 8, INDEX_AT = 24 };

#define MAX_WAITING ((size_t)16 << 20)
#define LONG_BYTES ((uint64_t)4 << 20)

struct wn__journal {
	char *path, *new_path;
	uint64_t secret_sum;
	int fd;
	uint64_t good;      /* bytes of the file that make sense */
	uint64_t rewritten; /* its length when it was last written anew */
	pthread_mutex_t lock;
	unsigned char *waiting;
	size_t waiting_size, waiting_room;
};

static uint32_t sum_record(const struct wn__journal *journal, const unsigned char *record,
			   size_t key_size)
{
	return (uint32_t)XXH3_64bits_withSeed(record + KEY_SIZE_AT,
					      RECORD_SIZE - KEY_SIZE_AT + key_size,
					      journal->secret_sum);
}

/* ---- reading ------------------------------------------------------------ */

static unsigned char *read_file(const char *path, size_t *sizep)
{
	unsigned char *bytes = NULL;
	struct stat status;
	size_t size = 0;
	int fd;

	if (wn__file_open_read(AT_FDCWD, path, &fd) == 0 && fstat(fd, &status) == 0)
		bytes = wn__alloc((size_t)status.st_size + 1);
	while (bytes && size < (size_t)status.st_size) {
		ssize_t got = read(fd, bytes + size, (size_t)status.st_size - size);

		if (got <= 0)
			break;
		size += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	*sizep = size;
	return bytes;
}

static size_t take_record(const struct wn__journal *journal, const unsigned char *record,
			  size_t left, wn__journal_fn *each, void *arg)
{
	size_t key_size;

	if (left < RECORD_SIZE)
		return 0;
	key_size = get_le16(record + KEY_SIZE_AT);
	if (key_size > left - RECORD_SIZE ||
	    get_le32(record) != sum_record(journal, record, key_size))
		return 0;
	each(arg, (struct wn__small_id){get_le64(record + ID_AT), get_le64(record + ID_AT + 8)},
	     get_le32(record + INDEX_AT), (const char *)record + RECORD_SIZE, key_size);
	return RECORD_SIZE + key_size;
}

void wn__journal_load(struct wn__journal *journal, wn__journal_fn *each, void *arg)
{
	size_t size, at = HEAD_SIZE, step;
	unsigned char *bytes = read_file(journal->path, &size);

	if (bytes && size >= HEAD_SIZE && memcmp(bytes, MAGIC, 8) == 0 &&
	    get_le64(bytes + 8) == journal->secret_sum) {
		while ((step = take_record(journal, bytes + at, size - at, each, arg)))
			at += step;
		journal->good = at;
		journal->rewritten = at / 2;
	}
	free(bytes);
}

/* ---- adding ------------------------------------------------------------- */

static bool make_room(struct wn__journal *journal, size_t more)
{
	size_t room = journal->waiting_room ? journal->waiting_room : 4096;
	unsigned char *waiting;

	if (journal->waiting_size + more <= journal->waiting_room)
		return true;
	while (room < journal->waiting_size + more)
		room *= 2;
	if (room > MAX_WAITING)
		return false;
	waiting = wn__realloc(journal->waiting, room);
	if (!waiting)
		return false;
	journal->waiting = waiting;
	journal->waiting_room = room;
	return true;
}

void wn__journal_add(struct wn__journal *journal, struct wn__small_id id, uint32_t index,
		     const char *key, size_t size)
{
	if (size > UINT16_MAX)
		size = 0;
	pthread_mutex_lock(&journal->lock);
	if (make_room(journal, RECORD_SIZE + size)) {
		unsigned char *record = journal->waiting + journal->waiting_size;

		put_le16(record + KEY_SIZE_AT, (uint16_t)size);
		put_le16(record + ZERO_AT, 0);
		put_le64(record + ID_AT, id.lo);
		put_le64(record + ID_AT + 8, id.hi);
		put_le32(record + INDEX_AT, index);
		if (size)
			memcpy(record + RECORD_SIZE, key, size);
		put_le32(record, sum_record(journal, record, size));
		journal->waiting_size += RECORD_SIZE + size;
	}
	pthread_mutex_unlock(&journal->lock);
}

/* ---- writing ------------------------------------------------------------ */

static int write_at(int fd, const unsigned char *bytes, size_t size, uint64_t at)
{
	while (size) {
		ssize_t done = pwrite(fd, bytes, size, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		bytes += done;
		size -= (size_t)done;
		at += (uint64_t)done;
	}
	return 0;
}

static int write_head(struct wn__journal *journal, int fd)
{
	unsigned char head[HEAD_SIZE];

	memcpy(head, MAGIC, 8);
	put_le64(head + 8, journal->secret_sum);
	journal->good = HEAD_SIZE;
	return write_at(fd, head, sizeof(head), 0);
}

/* What a crash cut off goes. */
static int open_file(struct wn__journal *journal)
{
	int err;

	if (journal->fd >= 0)
		return 0;
	err = wn__file_open_own(journal->path, &journal->fd);
	if (err)
		return err;
	if (ftruncate(journal->fd, (off_t)journal->good) < 0)
		err = errno;
	if (!err && journal->good == 0)
		err = write_head(journal, journal->fd);
	if (err) {
		close(journal->fd);
		journal->fd = -1;
	}
	return err;
}

static unsigned char *take_waiting(struct wn__journal *journal, size_t *sizep)
{
	unsigned char *waiting;

	pthread_mutex_lock(&journal->lock);
	waiting = journal->waiting;
	*sizep = journal->waiting_size;
	journal->waiting = NULL;
	journal->waiting_size = journal->waiting_room = 0;
	pthread_mutex_unlock(&journal->lock);
	return waiting;
}

int wn__journal_flush(struct wn__journal *journal, bool sync)
{
	size_t size;
	unsigned char *waiting = take_waiting(journal, &size);
	int err = 0;

	if (waiting)
		err = open_file(journal);
	if (waiting && !err)
		err = write_at(journal->fd, waiting, size, journal->good);
	if (waiting && !err)
		journal->good += size;
	free(waiting);
	if (sync && !err && size && fdatasync(journal->fd) < 0)
		err = errno;
	return err;
}

bool wn__journal_is_long(struct wn__journal *journal)
{
	return journal->good > 2 * journal->rewritten + LONG_BYTES;
}

int wn__journal_rewrite(struct wn__journal *journal, void (*all)(void *arg), void *arg)
{
	size_t size;
	unsigned char *waiting;
	int fd, err = wn__file_create(AT_FDCWD, journal->new_path, &fd);
	uint64_t good = journal->good;

	if (err)
		return err;
	free(take_waiting(journal, &size));
	all(arg);
	waiting = take_waiting(journal, &size);
	err = write_head(journal, fd);
	if (!err && waiting)
		err = write_at(fd, waiting, size, HEAD_SIZE);
	free(waiting);
	if (!err && (fsync(fd) < 0 || rename(journal->new_path, journal->path) < 0))
		err = errno;
	if (err) {
		close(fd);
		unlink(journal->new_path);
		journal->good = good;
		return err;
	}
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = fd;
	journal->good = journal->rewritten = HEAD_SIZE + size;
	return 0;
}

/* ---- life --------------------------------------------------------------- */

int wn__journal_create(const char *directory, uint64_t secret_sum, struct wn__journal **journalp)
{
	struct wn__journal *journal = wn__calloc(1, sizeof(*journal));
	size_t size = strlen(directory) + sizeof("/learned.new");

	*journalp = NULL;
	if (!journal)
		return ENOMEM;
	journal->fd = -1;
	journal->secret_sum = secret_sum;
	journal->path = wn__alloc(size);
	journal->new_path = wn__alloc(size);
	pthread_mutex_init(&journal->lock, NULL);
	if (!journal->path || !journal->new_path) {
		wn__journal_destroy(journal);
		return ENOMEM;
	}
	snprintf(journal->path, size, "%s/learned", directory);
	snprintf(journal->new_path, size, "%s/learned.new", directory);
	*journalp = journal;
	return 0;
}

void wn__journal_destroy(struct wn__journal *journal)
{
	if (!journal)
		return;
	if (journal->fd >= 0)
		close(journal->fd);
	free(journal->waiting);
	free(journal->path);
	free(journal->new_path);
	pthread_mutex_destroy(&journal->lock);
	free(journal);
}
