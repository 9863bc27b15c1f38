#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__clang__)
#define PROBED __attribute__((noinline))
#else
#define PROBED __attribute__((noipa))
#endif
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum { computes, sleeps, locks, reads, syncs, appends, opens, MANY = 4 << 20 };

struct call {
	unsigned long number;
	int is_slow;
	int culprit; /* the number of the culprit that the way leads to; 0: none */
	const int *way; /* at each level, the place at which a callee goes on */
	int at_random[16];
	long sum;
};

static const int ways[2][16] = WAYS;

static long steps_per_ms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t wanted, held;
static int pipe_of[2];
/* A file that is written to, and a name with as many components as the kernel takes. */
static int file;
static char page[4096], long_name[4096], much[MANY];

static inline __attribute__((always_inline)) long work(long steps)
{
	unsigned long x = steps;

	while (steps-- > 0) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		KEEP(x);
	}
	return x;
}

static inline __attribute__((always_inline)) void pause_for(long ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&t, NULL);
}

/* Whether the callee at this place of f0 goes on, and which way. */
static inline __attribute__((always_inline)) int enters(struct call *c, int place)
{
	for (int i = 0; c->is_slow && i < NUMBER_OF_WAYS; i++) {
		if (ways[i][0] == place) {
			c->way = ways[i];
			c->culprit = i + 1;
			return 1;
		}
	}
	if (c->is_slow || c->at_random[0] != place)
		return 0;
	c->way = c->at_random;
	c->culprit = 0;
	return 1;
}

/* Part of the function that is the culprit. */
static inline __attribute__((always_inline)) long take_time(void)
{
	char byte = 0;

	switch (CULPRIT) {
	case computes:
		return work(steps_per_ms * MS);
	case sleeps:
		pause_for(MS * 1000000l);
		return 0;
	case locks:
		pthread_barrier_wait(&wanted);
		pthread_barrier_wait(&held);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		return 0;
	case reads:
		pthread_barrier_wait(&wanted);
		return read(pipe_of[0], &byte, 1);
	case syncs:
		return pwrite(file, page, sizeof(page), 0) + fsync(file);
	case appends:
		pthread_barrier_wait(&wanted);
		pthread_barrier_wait(&held);
		/* The other thread is in its write by then. */
		pause_for(300000);
		return write(file, page, 16);
	case opens:
		return close(open(long_name, O_RDONLY));
	}
	return 0;
}

