/* sidecar.h - the files of a sidecar directory, and which of them are open. */
#ifndef WN_REVERSEMAP_SIDECAR_H
#define WN_REVERSEMAP_SIDECAR_H

#include <pthread.h>

#include "list_format.h"

/* A key list's file is named after the filter's id: 32 hexadecimal digits and ".run".
 * While it is written it has a number and ".tmp" behind that. */
#define WN__KEYLIST_NAME_SIZE (2 * WN_BLOCK_ID_SIZE + 5)

void wn__keylist_name(const unsigned char *id, char *name);
/* Is it such a name? Then whose. */
bool wn__keylist_name_parse(const char *name, unsigned char *idp);
bool wn__keylist_name_is_temporary(const char *name);

/* An open key list. */
struct wn__keylist_file {
	struct wn__keylist_header header;
	int fd; /* -1: none */
	unsigned refs;
	bool kept;    /* in the table of open files */
	bool dropped; /* no longer the directory's: close it with the last reference */
	uint64_t last_use;
};

/* Open the file of a key list and check its header, its length and that it is the key list's
 * own. WN_ERR_NOT_FOUND if there is none; on failure fd is -1. */
int wn__keylist_file_open(int directory, const unsigned char *id, struct wn__keylist_file *file);

/* A table of open files, the least recently used one leaving when it is full. */
struct wn__keylist_files {
	int directory;
	pthread_mutex_t lock;
	struct wn__keylist_file *files;
	unsigned count;
	uint64_t clock;
	uint64_t drops; /* how many were forgotten: what was opened before one is in doubt */
};

int wn__keylist_files_init(struct wn__keylist_files *files, int directory, unsigned count);
void wn__keylist_files_fini(struct wn__keylist_files *files);

/* A key list's file, opened if it is not yet; `own` is the caller's room for one, in use
 * until release when the table has none. Releasing closes what is not kept. */
int wn__keylist_files_acquire(struct wn__keylist_files *files, const unsigned char *id,
			  struct wn__keylist_file *own, struct wn__keylist_file **filep);
void wn__keylist_files_release(struct wn__keylist_files *files, struct wn__keylist_file *file);

/* The key list was replaced or removed in the directory. */
void wn__keylist_files_forget(struct wn__keylist_files *files, const unsigned char *id);

#endif /* WN_REVERSEMAP_SIDECAR_H */
