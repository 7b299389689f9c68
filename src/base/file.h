/* file.h - files that the library writes.
 *
 * A name in a directory of ours may lead to somebody else's file: a hard link that an
 * interrupted move left behind, a copy made of links, a symbolic link. To open such a name
 * with truncation destroys that file. So a new file is always a new inode, and what is
 * written in place has no second name. */
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

/* May this process make and remove files in the directory? 0 or an errno. */
int wn__directory_is_ours(const char *path);

WN_END_DECLS

#endif /* WN_BASE_FILE_H */
