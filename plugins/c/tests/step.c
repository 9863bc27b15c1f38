/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stops a process behind each instruction of `act` (spans.c) and reads its record, as a reader outside does. Prints the number
 * of stops, and of wrong records among them: not whole, or neither of the two spans allowed there.
 *
 *   step            `act` is in this program
 *   step LIBRARY    `act` is in a library that is loaded now
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct allowed {
	volatile uint8_t before, after;
};

#pragma weak act
#pragma weak where
void act(struct allowed *allowed);
void *where(void);

/* The parent reads the address of the child's variable. */
struct meeting {
	struct allowed allowed;
	void *volatile variable;
};

static void die(const char *what)
{
	fprintf(stderr, "step: %s: %s\n", what, errno ? strerror(errno) : dlerror());
	exit(2);
}

static int read_child(pid_t child, const void *from, void *to, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)from, bytes};

	return process_vm_readv(child, &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* The child's shown span: 0 for none, -1 for an incomplete record. */
static int shown(pid_t child, const void *variable)
{
	uint8_t *record, bytes[28];

	if (!read_child(child, variable, &record, sizeof record))
		return -1;
	if (!record)
		return 0;
	if (!read_child(child, record, bytes, sizeof bytes) || bytes[24] != 1 || bytes[26] || bytes[27])
		return -1;
	for (size_t at = 1; at < 24; at++)
		if (bytes[at] != bytes[0])
			return -1;
	return bytes[25] == bytes[0] && bytes[0] ? bytes[0] : -1;
}

int main(int count, char **arguments)
{
	struct meeting *meeting =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();

	if (child < 0 || meeting == MAP_FAILED)
		die("fork");
	if (child == 0) {
		void *library = NULL;
		void (*acts)(struct allowed *) = act;
		void *(*variable)(void) = where;

		if (count > 1) {
			library = dlopen(arguments[1], RTLD_NOW);
			if (!library)
				die("dlopen");
			acts = (void (*)(struct allowed *))dlsym(library, "act");
			variable = (void *(*)(void))dlsym(library, "where");
		}
		/* A reader finds it by its name. */
		void *named = dlsym(library ? library : RTLD_DEFAULT, "otel_thread_ctx_v1");

		if (!named || named != variable())
			die("otel_thread_ctx_v1 is no dynamic symbol, or another one");
		meeting->variable = named;
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		acts(&meeting->allowed);
		_exit(0);
	}

	long stops = 0, with_span = 0, wrong = 0;
	int status;

	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		if (meeting->variable && stops++) {
			uint8_t before = meeting->allowed.before, after = meeting->allowed.after;
			int now = shown(child, meeting->variable);

			with_span += now > 0;
			if (now != before && now != after && wrong++ < 5)
				printf("at stop %ld: %d, not %d or %d\n", stops, now, before, after);
		}
		if (ptrace(PTRACE_SINGLESTEP, child, 0, 0))
			die("ptrace");
	}
	printf("stops %ld with_span %ld wrong %ld\n", stops, with_span, wrong);
	return !(WIFEXITED(status) && WEXITSTATUS(status) == 0 && wrong == 0);
}
