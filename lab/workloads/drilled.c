/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls `serve` again and again; a tenth of the calls is slow, and it is known which function makes it slow.
 *
 *     drilled CULPRIT [ms=N] [threads=N]
 *
 * `serve` calls `parse`, `look_up`, `answer` and `resend`, and goes to `unpack`; `look_up` calls `find`, which calls `compare` in a loop, and `fetch`, which
 * calls `read_block` by a pointer and `unpack`. The culprit of slow calls, for N ms (default 4):
 *
 *     compute    read_block computes
 *     sleep      read_block sleeps
 *     lock       unpack waits for a mutex that another thread holds
 *     loop       find calls compare 20,000 times
 *     itself     fetch computes itself
 *     tail       answer jumps to send_all, which computes
 *     jump       resend jumps to send_again, whose address it reads from a table, which computes
 *     cheap      fetch computes itself, behind 1,000 calls of compare that take next to nothing
 *
 * Behind an `r` on its standard input, a hundredth of the calls is slow.
 *
 * Prints its process number first, and `SLOW CALLS` at the end, which comes with its standard input's.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Neither folded into its callers nor taken to have no effect; it begins by pushing the frame pointer. */
#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum { LOOPS = 20000 };
enum culprit { COMPUTE, SLEEP, LOCK, LOOP, ITSELF, TAIL, JUMP, CHEAP, CULPRITS };
static const char *const names[CULPRITS] = { "compute", "sleep", "lock", "loop", "itself", "tail", "jump", "cheap" };

static enum culprit culprit;
static uint64_t slow_ns = 4000000;
static atomic_uint_fast64_t slow_calls, all_calls;
static atomic_bool over, rare;
static volatile uint64_t served;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held, wanted;

static uint64_t steps_per_ms;

/* Always inlined: the time is the caller's own. */
static inline __attribute__((always_inline)) uint64_t compute(uint64_t steps)
{
	uint64_t x = steps;

	while (steps--) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		KEEP(x);
	}
	return x;
}

/* The fastest of several: what else the machine does makes it slower. */
static void calibrate(void)
{
	for (int i = 0; i < 20; i++) {
		struct timespec from, to;
		uint64_t ns, steps = 1000000, x;

		clock_gettime(CLOCK_MONOTONIC, &from);
		x = compute(steps);
		clock_gettime(CLOCK_MONOTONIC, &to);
		KEEP(x);
		ns = (to.tv_sec - from.tv_sec) * 1000000000ull + to.tv_nsec - from.tv_nsec;
		if (steps * 1000000 / ns > steps_per_ms)
			steps_per_ms = steps * 1000000 / ns;
	}
}

PROBED static uint64_t compare(uint64_t steps)
{
	uint64_t x = compute(steps);

	KEEP(x);
	return x;
}

PROBED static uint64_t find(int slow)
{
	uint64_t x = 0;
	int is_long = slow && culprit == LOOP, times = is_long ? LOOPS : 5;

	for (int i = 0; i < times; i++)
		x += compare(is_long ? slow_ns / 1000000 * steps_per_ms / LOOPS : 1);
	KEEP(x);
	return x;
}

PROBED static uint64_t read_block(int slow)
{
	uint64_t x = slow;

	KEEP(x);
	if (slow && culprit == COMPUTE)
		x += compute(slow_ns / 1000000 * steps_per_ms);
	if (slow && culprit == SLEEP)
		nanosleep(&(struct timespec){ .tv_nsec = slow_ns }, NULL);
	KEEP(x);
	return x;
}

/* The other thread holds the lock for the time of a slow call. */
static void *hold(void *unused)
{
	for (;;) {
		pthread_barrier_wait(&wanted);
		if (atomic_load(&over))
			return unused;
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&held);
		nanosleep(&(struct timespec){ .tv_nsec = slow_ns }, NULL);
		pthread_mutex_unlock(&lock);
	}
}

PROBED static uint64_t unpack(int slow)
{
	uint64_t x = slow;

	KEEP(x);
	if (slow && culprit == LOCK) {
		pthread_barrier_wait(&wanted);
		pthread_barrier_wait(&held);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	KEEP(x);
	return x;
}

static uint64_t (*volatile reader)(int) = read_block;

PROBED static uint64_t fetch(int slow)
{
	uint64_t x = reader(slow);

	for (int i = 0; slow && culprit == CHEAP && i < 1000; i++)
		x += compare(1);
	if (slow && (culprit == ITSELF || culprit == CHEAP))
		x += compute(slow_ns / 1000000 * steps_per_ms);
	x += unpack(slow);
	KEEP(x);
	return x;
}

PROBED static uint64_t look_up(int slow)
{
	uint64_t x = find(slow);

	x += fetch(slow);
	KEEP(x);
	return x;
}

PROBED static uint64_t parse(int slow)
{
	uint64_t x = slow;

	KEEP(x);
	return x + 1;
}

PROBED uint64_t send_all(int slow)
{
	uint64_t x = slow;

	KEEP(x);
	if (slow && culprit == TAIL)
		x += compute(slow_ns / 1000000 * steps_per_ms);
	KEEP(x);
	return x;
}

/* In place of a call and a return. */
PROBED uint64_t answer(int slow);
__asm__(".text\n.type answer, @function\nanswer:\n\tpush %rbp\n\tpop %rbp\n\tjmp send_all\n.size answer, .-answer\n");

PROBED uint64_t send_again(int slow)
{
	uint64_t x = slow;

	KEEP(x);
	if (slow && culprit == JUMP)
		x += compute(slow_ns / 1000000 * steps_per_ms);
	KEEP(x);
	return x;
}

/* The same to an address read from memory, as a virtual function in the last place. */
uint64_t (*volatile senders[])(int) = { send_all, send_again };
PROBED uint64_t resend(int slow);
__asm__(".type resend, @function\nresend:\n\tpush %rbp\n\tpop %rbp\n"
	"\tlea senders(%rip), %rax\n\tjmp *8(%rax)\n.size resend, .-resend\n");

PROBED uint64_t serve(int slow)
{
	uint64_t x = parse(slow);

	x += look_up(slow);
	x += answer(slow);
	x += resend(slow);
	served += x;
	/* A compiler that may makes this a jump, into a function that is also called elsewhere. */
	return unpack(0);
}

static void *work(void *unused)
{
	while (!atomic_load(&over)) {
		uint64_t call = atomic_fetch_add(&all_calls, 1);
		int slow = call % (atomic_load(&rare) ? 100 : 10) == 9;

		serve(slow);
		atomic_fetch_add(&slow_calls, slow);
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int threads = 1;
	pthread_t workers[64], holder;

	for (culprit = 0; argc > 1 && culprit < CULPRITS && strcmp(argv[1], names[culprit]); culprit++)
		;
	for (int i = 2; i < argc; i++) {
		if (!strncmp(argv[i], "ms=", 3))
			slow_ns = strtoull(argv[i] + 3, NULL, 10) * 1000000;
		else if (!strncmp(argv[i], "threads=", 8))
			threads = atoi(argv[i] + 8);
	}
	if (argc < 2 || culprit == CULPRITS || threads < 1 || threads > 64 || slow_ns >= 1000000000) {
		fprintf(stderr, "usage: drilled compute|sleep|lock|loop|itself|tail|cheap [ms=N] [threads=N]\n");
		return 2;
	}
	/* With a lock, a single thread at a time is slow. */
	if (culprit == LOCK)
		threads = 1;
	pthread_barrier_init(&held, NULL, 2);
	pthread_barrier_init(&wanted, NULL, 2);
	calibrate();
	printf("%d\n", getpid());
	fflush(stdout);
	pthread_create(&holder, NULL, hold, NULL);
	for (int i = 0; i < threads; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	for (int c; (c = getchar()) != EOF;)
		if (c == 'r')
			atomic_store(&rare, true);
	atomic_store(&over, true);
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	pthread_barrier_wait(&wanted);
	pthread_join(holder, NULL);
	printf("%llu %llu\n", (unsigned long long)slow_calls, (unsigned long long)all_calls);
	return 0;
}
