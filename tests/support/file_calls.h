/* file_calls.h - what the process asks of its files, seen before it is done.
 *
 * These definitions come before libc's, for the libraries as well, so one test program may include
 * this once. A test that wants to act at a certain point, such as "just before the lock is taken",
 * need not know who takes it, nor wait and hope. */
#ifndef WN_TESTS_FILE_CALLS_H
#define WN_TESTS_FILE_CALLS_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header"
#endif
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum file_call {
	FILE_RECORD_LOCK, /* fcntl(): LevelDB's lock */
	FILE_FLOCK,
	FILE_CREATE,
	FILE_RENAME, /* or a second name */
	FILE_REMOVE,
	FILE_WRITE,
	FILE_SYNC,
};

/* `path`: of the file, the new one where there are two; as it was given, or absolute. */
typedef void file_call_fn(enum file_call call, const char *path);

/* NULL: nobody watches. Any thread's calls are seen. */
static _Atomic(file_call_fn *) watch_file_calls;

enum { FILE_CALL_PATH = 4096 };

/* Where all else is hidden: shared libraries must see it. */
#define FILE_CALL __attribute__((visibility("default")))

static void report_file_call(enum file_call call, int directory, const char *name)
{
	static _Thread_local bool inside;
	file_call_fn *watch = watch_file_calls;
	char link[40], path[2 * FILE_CALL_PATH];
	long size = 0;

	if (!watch || inside)
		return;
	inside = true;
	if (!name || (name[0] != '/' && directory != AT_FDCWD)) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
		size = syscall(SYS_readlinkat, AT_FDCWD, link, path, FILE_CALL_PATH - 1);
		if (size < 0)
			size = 0;
	}
	path[size] = '\0';
	if (name)
		snprintf(path + size, FILE_CALL_PATH, "%s%s", size ? "/" : "", name);
	watch(call, path);
	inside = false;
}

static int call_openat(int directory, const char *name, int flags, unsigned mode)
{
	if (flags & O_CREAT)
		report_file_call(FILE_CREATE, directory, name);
	return (int)syscall(SYS_openat, directory, name, flags, mode);
}

FILE_CALL int open(const char *path, int flags, ...)
{
	unsigned mode;
	va_list more;

	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
	va_end(more);
	return call_openat(AT_FDCWD, path, flags, mode);
}

FILE_CALL int openat(int directory, const char *name, int flags, ...)
{
	unsigned mode;
	va_list more;

	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
	va_end(more);
	return call_openat(directory, name, flags, mode);
}

FILE_CALL int fcntl(int fd, int command, ...)
{
	void *value;
	va_list more;

	va_start(more, command);
	value = va_arg(more, void *);
	va_end(more);
	if (command == F_SETLK && ((struct flock *)value)->l_type != F_UNLCK)
		report_file_call(FILE_RECORD_LOCK, fd, NULL);
	return (int)syscall(SYS_fcntl, fd, command, value);
}

FILE_CALL int flock(int fd, int operation)
{
	if (!(operation & LOCK_UN))
		report_file_call(FILE_FLOCK, fd, NULL);
	return (int)syscall(SYS_flock, fd, operation);
}

FILE_CALL int rename(const char *from, const char *to)
{
	report_file_call(FILE_RENAME, AT_FDCWD, to);
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

FILE_CALL int renameat(int from_directory, const char *from, int to_directory,
		       const char *to)
{
	report_file_call(FILE_RENAME, to_directory, to);
	return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
}

FILE_CALL int linkat(int from_directory, const char *from, int to_directory, const char *to,
		     int flags)
{
	report_file_call(FILE_RENAME, to_directory, to);
	return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

FILE_CALL int unlink(const char *path)
{
	report_file_call(FILE_REMOVE, AT_FDCWD, path);
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

FILE_CALL int unlinkat(int directory, const char *name, int flags)
{
	report_file_call(FILE_REMOVE, directory, name);
	return (int)syscall(SYS_unlinkat, directory, name, flags);
}

FILE_CALL ssize_t write(int fd, const void *bytes, size_t size)
{
	report_file_call(FILE_WRITE, fd, NULL);
	return syscall(SYS_write, fd, bytes, size);
}

FILE_CALL ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	report_file_call(FILE_WRITE, fd, NULL);
	return syscall(SYS_pwrite64, fd, bytes, size, at);
}

FILE_CALL int fsync(int fd)
{
	report_file_call(FILE_SYNC, fd, NULL);
	return (int)syscall(SYS_fsync, fd);
}

FILE_CALL int fdatasync(int fd)
{
	report_file_call(FILE_SYNC, fd, NULL);
	return (int)syscall(SYS_fdatasync, fd);
}

#endif /* WN_TESTS_FILE_CALLS_H */
