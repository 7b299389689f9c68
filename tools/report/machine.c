/* machine.c - what a benchmark ran on; see bench_result.h. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <winnow/version.h>

#ifdef HAVE_LEVELDB
#include <leveldb/c.h>
#endif

#include "tools/bench/bench_result.h"
#include "bench/rocksdb_filters.h"

void machine_add(struct machine *machine, const char *name, const char *format, ...)
{
	char *text;
	va_list args;

	if (machine->count == MACHINE_FACTS)
		return;
	text = machine->text[machine->count];
	va_start(args, format);
	vsnprintf(text, sizeof(machine->text[0]), format, args);
	va_end(args);
	machine->facts[machine->count][0] = name;
	machine->facts[machine->count][1] = text;
	machine->count++;
}

/* The value of the first line "name   : value" of a file of /proc. */
static bool read_line(const char *path, const char *name, char *valuep, size_t size)
{
	FILE *file = fopen(path, "r");
	char line[512];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, name, strlen(name)) != 0 || !colon)
			continue;
		colon++;
		colon += strspn(colon, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(valuep, size, "%.*s", (int)size - 1, colon);
		found = true;
	}
	if (file)
		fclose(file);
	return found;
}

static const char *file_system(long type)
{
	static const struct {
		long type;
		const char *name;
	} names[] = {
		{ 0xef53, "ext4" },         { 0x58465342, "xfs" },
		{ 0x9123683e, "btrfs" },    { 0x01021994, "tmpfs" },
		{ 0x794c7630, "overlayfs" }, { 0x2fc12fc1, "zfs" },
		{ 0x6969, "nfs" },          { 0x01021997, "9p" },
		{ 0x65735546, "fuse" },     { 0xf2f52010, "f2fs" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].type == type)
			return names[i].name;
	return NULL;
}

void machine_describe(struct machine *machine, const char *db)
{
	char text[128];
	struct utsname system;
	struct statfs disk;

	machine->count = 0;
	if (read_line("/proc/cpuinfo", "model name", text, sizeof(text)))
		machine_add(machine, "processor", "%s", text);
	machine_add(machine, "processors", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	if (read_line("/proc/meminfo", "MemTotal", text, sizeof(text)))
		machine_add(machine, "memory", "%.1f GiB", strtod(text, NULL) / 1048576.0);
	if (uname(&system) == 0)
		machine_add(machine, "kernel", "%s %s", system.sysname, system.release);
	if (db && statfs(db, &disk) == 0) {
		const char *name = file_system((long)disk.f_type);

		if (name)
			machine_add(machine, "file system", "%s", name);
		else
			machine_add(machine, "file system", "type %lx", (long)disk.f_type);
	}
	machine_add(machine, "winnow", "%s", WN_VERSION_STRING);
	machine_add(machine, "RocksDB", "%s", rf_version());
#ifdef HAVE_LEVELDB
	machine_add(machine, "LevelDB", "%d.%d", leveldb_major_version(), leveldb_minor_version());
#endif
}
