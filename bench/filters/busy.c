/* busy.c - see busy.h. */
#define _GNU_SOURCE
#include "busy.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench_util.h"

#define MAX_SPINNERS 1024

static pid_t spinners[MAX_SPINNERS];
static long spinner_count;

__attribute__((noreturn))
static void spin(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0); /* it died before */
	for (volatile unsigned i = 0;; i++)
		;
}

void busy_start(void)
{
	const long wanted = sysconf(_SC_NPROCESSORS_ONLN);
	const pid_t parent = getpid();

	while (spinner_count < wanted && spinner_count < MAX_SPINNERS) {
		const pid_t child = fork();

		if (child == 0)
			spin(parent);
		if (child < 0)
			bench_die("cannot start a process");
		spinners[spinner_count++] = child;
	}
}

void busy_stop(void)
{
	while (spinner_count > 0) {
		const pid_t child = spinners[--spinner_count];

		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}
