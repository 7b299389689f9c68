/* bench_paper.c - one command per table or figure of the paper; see bench_paper.h. */
#include "bench_paper.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "table2", run_table2, "space at a given number of slots" },
	{ "table5", run_table5, "inserts, merging two filters, sorting and bulk loading" },
	{ "fig7", run_fig7, "false-positive rate and space over time, Zipfian queries" },
	{ "fig9", run_fig9, "space of static YES/NO lists against the lower bound" },
};

static void print_usage(FILE *file)
{
	fputs("usage: bench_paper COMMAND [--option=value...]\n"
	      "The tables and figures of the AdaptiveQF paper, measured with winnow.\n", file);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].help);
	fputs("COMMAND --help lists the options.\n", file);
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
		print_usage(stdout);
		return 0;
	}
	for (size_t i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	if (argc >= 2)
		fprintf(stderr, "bench_paper: there is no command '%s'\n", argv[1]);
	print_usage(stderr);
	return 2;
}
