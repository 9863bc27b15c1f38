/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes calls whose number it knows, to count latencies against.
 *
 *     calls [threads=N] [syscalls=N] [functions=N] [short=N] [long=N] [nested=N] [left=N] [stepped=N] [open]
 *
 * Each thread makes so many calls of getcpu (as a system call); of the functions `counted` and `stepped`; sleeps of 1 ms and of 30 ms, by
 * turns; calls of `nested`, each five deep in itself; of `left`, every other of which leaves by longjmp, and
 * of `leaves`, all of which do. With `open` a last call of `stays` is never over. At the end it prints what it counted, how long the calls of getppid
 * and of `counted` took in all, and how long its threads waited for a CPU by the scheduler's own account: a
 * line `NAME COUNT` each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Neither folded into its callers nor taken to have no effect; it begins by pushing the frame pointer. */
#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

#define DEPTH 5

static struct {
	const char *name;
	long value;
} flags[] = { { "threads", 1 }, { "syscalls", 0 }, { "functions", 0 }, { "short", 0 },
	      { "long", 0 },    { "nested", 0 },   { "left", 0 },   { "stepped", 0 } };
enum { THREADS, SYSCALLS, FUNCTIONS, SHORT, LONG, NESTED, LEFT, STEPPED, FLAGS };

struct made {
	uint64_t syscalls, functions, sleeps, nested, left, stepped, waited_ns, syscalls_ns, functions_ns;
};

PROBED uint64_t counted(uint64_t value)
{
	KEEP(value);
	return value + 1;
}

/* Begins with what the kernel can only single-step. */
PROBED uint64_t stepped(uint64_t value)
{
	__asm__ volatile("lea 1(%0), %0" : "+r"(value));
	return value;
}

PROBED uint64_t nested(int depth, uint64_t value)
{
	KEEP(value);
	return depth > 1 ? nested(depth - 1, value + 1) + 0 * depth : value + 1;
}

static __thread jmp_buf way_out;

PROBED void left(uint64_t value)
{
	KEEP(value);
	if (value % 2)
		longjmp(way_out, 1);
}

PROBED _Noreturn void leaves(void)
{
	long value = 0;

	KEEP(value);
	longjmp(way_out, 1);
}

PROBED void stays(uint64_t value)
{
	KEEP(value);
	for (;;)
		pause();
}

/* Time that this thread waited for a CPU so far. */
static uint64_t waited(void)
{
	unsigned long long ran, waited = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (!file || fscanf(file, "%llu %llu", &ran, &waited) != 2)
		waited = 0;
	if (file)
		fclose(file);
	return waited;
}

static void sleep_for(long ns)
{
	const struct timespec time = { 0, ns };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void *make(void *argument)
{
	struct made *made = argument;
	uint64_t began = now(), between;

	for (long i = 0; i < flags[SYSCALLS].value; i++) {
		syscall(SYS_getcpu, NULL, NULL, NULL);
		made->syscalls++;
	}
	between = now();
	made->syscalls_ns = between - began;
	for (long i = 0; i < flags[FUNCTIONS].value; i++)
		made->functions = counted(made->functions);
	made->functions_ns = now() - between;
	for (long i = 0; i < flags[STEPPED].value; i++)
		made->stepped = stepped(made->stepped);
	for (long i = 0; i < flags[NESTED].value; i++)
		made->nested = nested(DEPTH, made->nested);
	for (volatile long i = 0; i < flags[LEFT].value; i++)
		if (!setjmp(way_out))
			left(made->left++);
	for (volatile long i = 0; i < flags[LEFT].value; i++)
		if (!setjmp(way_out))
			leaves();
	for (long i = 0; i < flags[SHORT].value || i < flags[LONG].value; i++) {
		if (i < flags[SHORT].value)
			sleep_for(1000000);
		if (i < flags[LONG].value)
			sleep_for(30000000);
		made->sleeps += (i < flags[SHORT].value) + (i < flags[LONG].value);
	}
	made->waited_ns = waited();
	return NULL;
}

static void *stay(void *argument)
{
	stays((uint64_t)(uintptr_t)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	enum { MOST = 64 };
	static struct made made[MOST];
	pthread_t threads[MOST], other;
	struct made all = { 0 };
	long open = 0;

	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		int flag = 0;

		if (!strcmp(argv[i], "open")) {
			open = 1;
			continue;
		}
		while (flag < FLAGS && (!value || strlen(flags[flag].name) != (size_t)(value - argv[i]) ||
					strncmp(flags[flag].name, argv[i], (size_t)(value - argv[i]))))
			flag++;
		if (flag == FLAGS) {
			fprintf(stderr, "calls: what is %s?\n", argv[i]);
			return 2;
		}
		flags[flag].value = atol(value + 1);
	}
	if (flags[THREADS].value < 1 || flags[THREADS].value > MOST)
		return 2;
	if (open && pthread_create(&other, NULL, stay, NULL))
		return 1;
	for (long i = 0; i < flags[THREADS].value; i++)
		if (pthread_create(&threads[i], NULL, make, &made[i]))
			return 1;
	for (long i = 0; i < flags[THREADS].value; i++) {
		pthread_join(threads[i], NULL);
		all.syscalls += made[i].syscalls;
		all.functions += made[i].functions;
		all.sleeps += made[i].sleeps;
		all.nested += made[i].nested;
		all.left += made[i].left;
		all.stepped += made[i].stepped;
		all.waited_ns += made[i].waited_ns;
		all.syscalls_ns += made[i].syscalls_ns;
		all.functions_ns += made[i].functions_ns;
	}
	all.waited_ns += waited();
	printf("syscalls %lu\nfunctions %lu\nsleeps %lu\nnested %lu\nleft %lu\nstepped %lu\nwaited_ns %lu\n", all.syscalls,
	       all.functions, all.sleeps, all.nested, all.left, all.stepped, all.waited_ns);
	printf("syscalls_ns %lu\nfunctions_ns %lu\n", all.syscalls_ns, all.functions_ns);
	return 0;
}
