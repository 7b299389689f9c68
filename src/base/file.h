/* file.h - files that the library writes.
 *
 * A name in a directory of ours may lead to somebody else's file: a hard link that an
 * interrupted move left behind, a copy made of links, a symbolic link. To open such a name
 * with truncation destroys that file. So a new file is always a new inode, and what is
 * written in place has no second name.
 *
 * Thread safety: any thread, any time; what two threads do to one name is for them to know. */
#ifndef WN_BASE_FILE_H
#define WN_BASE_FILE_H

#include <winnow/common.h>

WN_BEGIN_DECLS

/* A new and empty file to write to, mode 0600; what had the name before loses it and is not
 * touched otherwise. `directory` is an open directory, or AT_FDCWD. An errno; *fdp is -1 then. */
int wn__file_create(int directory, const char *name, int *fdp);

/* A regular file to read; a symbolic link to one will do. Whatever else has the name is not
 * waited for, as open() waits for the other end of a FIFO: EISDIR, EINVAL. An errno; *fdp is -1
 * then. */
int wn__file_open_read(int directory, const char *name, int *fdp);

/* A file to read and to write in place, made if it is not there. EMLINK: it has another name,
 * too; ELOOP: it is a symbolic link; EINVAL: it is not a regular file. Nothing was changed
 * then, and *fdp is -1. */
int wn__file_open_own(const char *path, int *fdp);

/* All bytes, at the file's position. An errno; some may have been written. */
int wn__write_all(int fd, const void *bytes, size_t size);

/* Up to `size` bytes from the file's position; fewer only at its end. An errno. */
int wn__read_all(int fd, void *bytes, size_t size, size_t *gotp);

/* All `size` bytes from `at`. WN_ERR_CORRUPT: the file ends before; or an errno. */
int wn__pread_all(int fd, void *bytes, size_t size, uint64_t at);

/* Have what was written on disk, if `sync`, and close the file. `err` is what went wrong before:
 * it is returned then, or else the first errno. */
int wn__file_finish(int fd, int err, bool sync);

/* ---- whole files ------------------------------------------------------- */

/* `directory` and `name` as in wn__file_open_read(), here and below. */

/* The first `room` bytes of a file, or all if it is shorter. An errno; *sizep is 0 then. */
int wn__file_read_some(int directory, const char *name, void *bytes, size_t room, size_t *sizep);

/* All of a file; free() the bytes. An errno; *bytesp is NULL then and *sizep 0. */
int wn__file_read(int directory, const char *name, void **bytesp, size_t *sizep);

/* The file `name` has these bytes, on disk, or it is as it was. They are written to `temporary`
 * and renamed: a crash may leave that name behind. Two who write at the same time need different
 * ones, of the same directory as `name`. An errno. If only the sync of the directory fails, the
 * file is there and whole, and a crash of the machine may bring back the old one. */
int wn__file_replace(int directory, const char *name, const char *temporary, const void *bytes,
		     size_t size);

/* ---- directories -------------------------------------------------------- */

/* "directory/name"; to be freed. NULL: no memory. */
char *wn__join_path(const char *directory, const char *name);

/* Have the names in the directory on disk. 0 also where a file system has nothing to sync in a
 * directory; or an errno. `path` is relative to `directory`. */
int wn__sync_directory(int directory, const char *path);

/* May this process make and remove files in the directory? 0 or an errno. */
int wn__directory_is_ours(const char *path);

WN_END_DECLS

#endif /* WN_BASE_FILE_H */
