/* processes.h - parts of a test that run in processes of their own. */
#ifndef WN_TESTS_PROCESSES_H
#define WN_TESTS_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <check.h>

#include "common.h"

typedef void process_fn(void *arg);

/* Zeroed memory that a process shares with those it starts. It is not given back. */
static inline void *share_memory(size_t size)
{
	/* cppcheck-suppress invalidFunctionArg ; -1 is how anonymous memory is asked for */
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

/* A process that has opened a LevelDB database has a thread that is not there in a child: it must
 * not start one that opens a database, too. */
static inline pid_t start_process(process_fn *body, void *arg)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		body(arg);
		_exit(0);
	}
	return child;
}

/* True: it came to its end. False: it was killed with SIGKILL. Anything else fails the test. */
static inline bool await_process(pid_t child)
{
	int status;

	expect(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return false;
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		      "a process ended with status %#x", (unsigned)status);
	return true;
}

static inline void run_process(process_fn *body, void *arg)
{
	expect(await_process(start_process(body, arg)));
}

/* ---- a word from one process to another ---------------------------------- */

struct signal_pipe {
	int ends[2];
};

static inline struct signal_pipe make_signal(void)
{
	struct signal_pipe made;

	ck_assert_int_eq(pipe(made.ends), 0);
	return made;
}

static inline void give_signal(struct signal_pipe *to)
{
	expect(write(to->ends[1], "!", 1) == 1);
}

static inline void await_signal(struct signal_pipe *from)
{
	char byte;

	expect(read(from->ends[0], &byte, 1) == 1);
}

static inline void close_signal(struct signal_pipe *signal)
{
	close(signal->ends[0]);
	close(signal->ends[1]);
}

#endif /* WN_TESTS_PROCESSES_H */
