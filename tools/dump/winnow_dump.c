/* winnow_dump.c - winnow-dump: look into the filter of an SSTable.
 *
 * Exit: 0 good, 1 damaged or not to be read, 2 called in a wrong way. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <winnow/error.h>
#include <winnow/version.h>

#include "dump.h"

enum { GOOD = 0, DAMAGED = 1, USAGE = 2 };

struct arguments {
	struct dump_options options;
	bool json;
	const char *secret_path;
};

static const char help[] =
	"usage: winnow-dump [--json] [--verify] [--secret=FILE] FILE...\n"
	"Say what filter a table of RocksDB (.sst) or LevelDB (.ldb) has, and whether every\n"
	"byte of it is right.\n"
	"  --json         one JSON object a file\n"
	"  --verify       read every block of the table, and ask the filter for every key\n"
	"  --secret=FILE  the secret of filters that do not carry it (LevelDB's), if it is\n"
	"                 not in a file winnow.secret beside the table\n"
	"  --help, --version\n"
	"Exit status: 0 all is good, 1 damaged or unreadable, 2 wrong usage.\n";

/* ---- files -------------------------------------------------------------- */

static int map_file(const char *path, struct span *filep)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat info;
	void *bytes = NULL;
	int err = 0;

	*filep = (struct span){ NULL, 0 };
	if (fd < 0)
		return errno;
	if (fstat(fd, &info) != 0)
		err = errno;
	else if (S_ISDIR(info.st_mode))
		err = EISDIR;
	else if (!S_ISREG(info.st_mode))
		err = EINVAL;
	if (!err && info.st_size > 0) {
		bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			err = errno;
		else
			*filep = (struct span){ bytes, (size_t)info.st_size };
	}
	close(fd);
	return err;
}

/* A LevelDB that was opened through winnow keeps its secret beside its tables. NULL if
 * there is none. */
static struct wn_secret *secret_beside(const char *path)
{
	static const char name[] = "winnow.secret";
	const char *slash = strrchr(path, '/');
	size_t directory = slash ? (size_t)(slash + 1 - path) : 0;
	char *secret_path = malloc(directory + sizeof(name));
	struct wn_secret *secret = NULL;

	if (!secret_path)
		return NULL;
	memcpy(secret_path, path, directory);
	memcpy(secret_path + directory, name, sizeof(name));
	if (wn_secret_load(secret_path, &secret) != 0)
		secret = NULL;
	free(secret_path);
	return secret;
}

static int dump_file(const char *path, const struct arguments *arguments)
{
	static struct dump dump;
	struct dump_options options = arguments->options;
	struct wn_secret *beside = NULL;
	struct span file;
	int err = map_file(path, &file);
	int status;

	if (err) {
		fprintf(stderr, "winnow-dump: %s: %s\n", path,
			err == EINVAL ? "Not a regular file" : strerror(err));
		return DAMAGED;
	}
	if (!options.secret)
		options.secret = beside = secret_beside(path);
	dump_read(&dump, file, &options);
	if (arguments->json)
		dump_print_json(&dump, path, stdout);
	else
		dump_print_text(&dump, path, stdout);
	status = dump.problems.count > 0 ? DAMAGED : GOOD;
	/* For those who look at nothing but what went wrong. */
	if (status != GOOD) {
		fflush(stdout);
		fprintf(stderr, "winnow-dump: %s: offset %llu: %s\n", path,
			(unsigned long long)dump.problems.list[0].offset,
			dump.problems.list[0].text);
	}
	dump_release(&dump);
	wn_secret_destroy(beside);
	if (file.at)
		munmap((void *)(uintptr_t)file.at, file.size);
	return status;
}

/* ---- the command line --------------------------------------------------- */

static int parse(int argc, char **argv, struct arguments *arguments)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "verify", no_argument, NULL, 'v' },
						 { "secret", required_argument, NULL, 's' },
						 { "help", no_argument, NULL, 'h' },
						 { "version", no_argument, NULL, 'V' },
						 { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'j':
			arguments->json = true;
			break;
		case 'v':
			arguments->options.verify = true;
			break;
		case 's':
			arguments->secret_path = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			exit(GOOD);
		case 'V':
			puts("winnow-dump " WN_VERSION_STRING);
			exit(GOOD);
		default:
			fputs("Try winnow-dump --help.\n", stderr);
			return USAGE;
		}
	}
	if (optind == argc) {
		fputs("winnow-dump: no file is named. Try winnow-dump --help.\n", stderr);
		return USAGE;
	}
	return GOOD;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct wn_secret *secret = NULL;
	int status = parse(argc, argv, &arguments);

	if (status != GOOD)
		return status;
	if (arguments.secret_path) {
		int err = wn_secret_load(arguments.secret_path, &secret);

		if (err) {
			fprintf(stderr, "winnow-dump: --secret=%s: %s\n", arguments.secret_path,
				err > 0 ? strerror(err) : wn_strerror(err));
			return USAGE;
		}
		arguments.options.secret = secret;
	}
	for (int i = optind; i < argc; i++) {
		if (i > optind && !arguments.json)
			putchar('\n');
		if (dump_file(argv[i], &arguments) != GOOD)
			status = DAMAGED;
	}
	wn_secret_destroy(secret);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "winnow-dump: cannot write: %s\n", strerror(errno));
		return DAMAGED;
	}
	return status;
}
