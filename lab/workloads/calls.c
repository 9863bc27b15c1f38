/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes calls whose number it knows, to count latencies against.
 *
 *     calls [threads=N] [syscalls=N] [functions=N] [short=N] [long=N] [nested=N] [left=N] [stepped=N]
 *           [brief=N] [again=N] [forks=N] [moved=N] [open]
 *     calls held | replaced
 *
 * Each thread makes a call of getpgid before it takes a name, and then this number of getcpu (both as system calls);
 * of the functions `counted` and `stepped`; sleeps of 1 ms and of 30 ms, by turns; calls of `nested`, each five
 * deep in itself; of `left`, every other of which leaves by longjmp, and of `leaves`, all of which do. `brief`
 * threads, in turn, make a call each of getcpu and of seven others. `again` processes, which have the
 * same number (root), make a getcpu call each; `forks` processes, in turn, do nothing. `moves` is entered `moved` times on the first CPU and
 * left on the last. With `open` a last call of `stays` is never over. At the end it prints what it counted, how long the calls
 * of getcpu and of `counted` took in all, and how long its threads waited for a CPU by the scheduler's own account:
 * a line `NAME COUNT` each.
 *
 * Or another thread than the first makes a call that does not return: of `held`, which waits for good, or
 * of `replaced`, in which the process becomes /bin/true.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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
	      { "long", 0 },    { "nested", 0 },   { "left", 0 },   { "stepped", 0 }, { "brief", 0 },
	      { "again", 0 },  { "forks", 0 },  { "moved", 0 } };
enum { THREADS, SYSCALLS, FUNCTIONS, SHORT, LONG, NESTED, LEFT, STEPPED, BRIEF, AGAIN, FORKS, MOVED, FLAGS };

struct made {
	uint64_t syscalls, functions, sleeps, nested, left, stepped, waited_ns, syscalls_ns, functions_ns;
};

enum { MOST = 64 };
static struct made all_made[MOST];

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

/* Returns when a signal comes, and none does. */
PROBED void held(uint64_t value)
{
	KEEP(value);
	pause();
}

PROBED void replaced(uint64_t value)
{
	KEEP(value);
	execl("/bin/true", "true", NULL);
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
	uint64_t began, between;
	char name[16];

	syscall(SYS_getpgid, 0);
	/* Names that are a terminal's commands, except for the number that distinguishes the threads. */
	snprintf(name, sizeof(name), "\033[7m%d", (int)(made - all_made) % MOST);
	prctl(PR_SET_NAME, name);
	began = now();
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

static void *hold(void *argument)
{
	held((uint64_t)(uintptr_t)argument);
	return NULL;
}

static void *replace(void *argument)
{
	replaced((uint64_t)(uintptr_t)argument);
	return NULL;
}

static void *call_once(void *argument)
{
	static const long calls[] = { SYS_getcpu,     SYS_getsid, SYS_getpriority, SYS_sched_getscheduler,
				      SYS_getitimer, SYS_times,  SYS_sysinfo,     SYS_getrusage };
	struct made *made = argument;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		syscall(calls[i], NULL, NULL, NULL);
	made->syscalls++;
	return NULL;
}

/* A process that makes a call. With a nonzero number it takes that number; otherwise its number is stored there. */
static int call_once_as(pid_t *number)
{
	struct clone_args arguments = {
		.exit_signal = SIGCHLD,
		.set_tid = *number ? (uintptr_t)number : 0,
		.set_tid_size = *number ? 1 : 0,
	};
	pid_t child;

	/* After numbers begin anew, another process may have it for a while. */
	for (int tries = 0; tries < 1000; tries++) {
		child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
		if (child >= 0 || errno != EEXIST)
			break;
		sleep_for(10000000);
	}
	if (!child) {
		syscall(SYS_getcpu, NULL, NULL, NULL);
		_exit(0);
	}
	*number = child;
	return child < 0 || waitpid(child, NULL, 0) != child;
}

static int fork_once(void)
{
	const pid_t child = vfork();

	if (!child)
		_exit(0);
	return child < 0 || waitpid(child, NULL, 0) != child;
}

static void go_to(int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	sched_setaffinity(0, sizeof(only), &only);
}

PROBED void moves(uint64_t *cycles, int to)
{
	const uint64_t began = __builtin_ia32_rdtsc();

	KEEP(to);
	go_to(to);
	*cycles += __builtin_ia32_rdtsc() - began;
}

/* Cycles as they are counted within the calls, and around them. */
static void move(void)
{
	const int last = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	uint64_t within = 0, around = 0;

	for (long i = 0; i < flags[MOVED].value; i++) {
		uint64_t began;

		go_to(0);
		began = __builtin_ia32_rdtsc();
		moves(&within, last);
		around += __builtin_ia32_rdtsc() - began;
	}
	printf("within_cycles %lu\naround_cycles %lu\n", within, around);
}

static void *stay(void *argument)
{
	stays((uint64_t)(uintptr_t)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MOST], other;
	struct made all = { 0 };
	long open = 0;
	pid_t number = 0;

	for (int i = 1; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		int flag = 0;

		if (!strcmp(argv[i], "open")) {
			open = 1;
			continue;
		}
		if (!strcmp(argv[i], "held") || !strcmp(argv[i], "replaced")) {
			if (pthread_create(&other, NULL, *argv[i] == 'h' ? hold : replace, NULL))
				return 1;
			return pthread_join(other, NULL);
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
		if (pthread_create(&threads[i], NULL, make, &all_made[i]))
			return 1;
	for (long i = 0; i < flags[BRIEF].value; i++)
		if (pthread_create(&other, NULL, call_once, &all) || pthread_join(other, NULL))
			return 1;
	for (long i = 0; i < flags[THREADS].value; i++) {
		pthread_join(threads[i], NULL);
		all.syscalls += all_made[i].syscalls;
		all.functions += all_made[i].functions;
		all.sleeps += all_made[i].sleeps;
		all.nested += all_made[i].nested;
		all.left += all_made[i].left;
		all.stepped += all_made[i].stepped;
		all.waited_ns += all_made[i].waited_ns;
		all.syscalls_ns += all_made[i].syscalls_ns;
		all.functions_ns += all_made[i].functions_ns;
	}
	for (long i = 0; i < flags[AGAIN].value; i++, all.syscalls++)
		if (call_once_as(&number))
			return 1;
	for (long i = 0; i < flags[FORKS].value; i++)
		if (fork_once())
			return 1;
	all.waited_ns += waited();
	if (flags[MOVED].value)
		move();
	printf("syscalls %lu\nfunctions %lu\nsleeps %lu\nnested %lu\nleft %lu\nstepped %lu\nwaited_ns %lu\n", all.syscalls,
	       all.functions, all.sleeps, all.nested, all.left, all.stepped, all.waited_ns);
	printf("syscalls_ns %lu\nfunctions_ns %lu\n", all.syscalls_ns, all.functions_ns);
	return 0;
}
