/* sidecar.h - the files of a sidecar directory, and which of them are open. */
#ifndef WN_SIDECAR_H
#define WN_SIDECAR_H

#include <pthread.h>

#include "run_format.h"

/* A run's file is named after the filter's id: 32 hexadecimal digits and ".run".
 * While it is written it has a number and ".tmp" behind that. */
#define WN__RUN_NAME_SIZE (2 * WN_BLOCK_ID_SIZE + 5)

void wn__run_name(const unsigned char *id, char *name);
/* Is it such a name? Then whose. */
bool wn__run_name_parse(const char *name, unsigned char *idp);
bool wn__run_name_is_temporary(const char *name);

/* pread() of all `size` bytes: WN_ERR_CORRUPT if the file ends before, or an errno. */
int wn__pread_all(int fd, unsigned char *bytes, size_t size, uint64_t at);

/* An open run. */
struct wn__run_file {
	struct wn__run_header header;
	int fd; /* -1: none */
	unsigned refs;
	bool kept;    /* in the table of open files */
	bool dropped; /* no longer the directory's: close it with the last reference */
	uint64_t last_use;
};

/* Open the file of a run and check its header, its length and that it is the run's
 * own. WN_ERR_NOT_FOUND if there is none; on failure fd is -1. */
int wn__run_file_open(int directory, const unsigned char *id, struct wn__run_file *file);

/* A table of open files, the least recently used one leaving when it is full. */
struct wn__run_files {
	int directory;
	pthread_mutex_t lock;
	struct wn__run_file *files;
	unsigned count;
	uint64_t clock;
	uint64_t drops; /* how many were forgotten: what was opened before one is in doubt */
};

int wn__run_files_init(struct wn__run_files *files, int directory, unsigned count);
void wn__run_files_fini(struct wn__run_files *files);

/* A run's file, opened if it is not yet; `own` is the caller's room for one, in use
 * until release when the table has none. Releasing closes what is not kept. */
int wn__run_files_acquire(struct wn__run_files *files, const unsigned char *id,
			  struct wn__run_file *own, struct wn__run_file **filep);
void wn__run_files_release(struct wn__run_files *files, struct wn__run_file *file);

/* The run was replaced or removed in the directory. */
void wn__run_files_forget(struct wn__run_files *files, const unsigned char *id);

#endif /* WN_SIDECAR_H */
