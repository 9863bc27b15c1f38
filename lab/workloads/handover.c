/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads on the same CPU hand each other a token, and wait for it in a call of the asked kind: a load for what a
 * recorder reads at each wait and wake-up.
 *
 *     handover KIND ROUNDS      KIND is read, poll, poll16, select, epoll, condition or lock
 *
 * `read`, `poll`, `poll16` (16 descriptors), `select` and `epoll` wait for a descriptor; `condition` in a futex that is
 * no lock; `lock` in a futex with the value that a contended glibc mutex has. Prints `waits COUNT`, and the rate of rate.h.
 */
#define _GNU_SOURCE
#include "rate.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { READ, POLL, POLL16, SELECT, EPOLL, CONDITION, LOCK };
static const char *const kinds[] = { "read", "poll", "poll16", "select", "epoll", "condition", "lock" };
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))
#define POLLED 16

static int kind;
static long rounds;

static struct side {
	int token, set;
	struct pollfd polled[POLLED];
	_Atomic uint32_t word[4]; /* a lock's owner stands 8 bytes behind its word */
} sides[2];

static void open_side(struct side *side)
{
	struct epoll_event readable = { .events = EPOLLIN };

	side->token = eventfd(0, 0);
	side->set = epoll_create1(0);
	epoll_ctl(side->set, EPOLL_CTL_ADD, side->token, &readable);
	for (int i = 0; i < POLLED; i++)
		side->polled[i] = (struct pollfd){ i ? eventfd(0, 0) : side->token, POLLIN, 0 };
}

static void get_futex(struct side *side)
{
	uint32_t waits = kind == LOCK ? 2 : 1;

	while (atomic_load(&side->word[0]))
		syscall(SYS_futex, &side->word[0], FUTEX_WAIT_PRIVATE, waits, 0, 0, 0);
	atomic_store(&side->word[0], waits);
}

static void get(struct side *side)
{
	struct epoll_event ready;
	uint64_t tokens;
	fd_set set;

	switch (kind) {
	case POLL:
		poll(side->polled, 1, -1);
		break;
	case POLL16:
		poll(side->polled, POLLED, -1);
		break;
	case SELECT:
		FD_ZERO(&set);
		FD_SET(side->token, &set);
		select(side->token + 1, &set, 0, 0, 0);
		break;
	case EPOLL:
		epoll_wait(side->set, &ready, 1, -1);
		break;
	case CONDITION:
	case LOCK:
		get_futex(side);
		return;
	}
	if (read(side->token, &tokens, sizeof tokens) != sizeof tokens)
		exit(1);
}

static void put(struct side *side)
{
	uint64_t one = 1;

	if (kind == CONDITION || kind == LOCK) {
		atomic_store(&side->word[0], 0);
		syscall(SYS_futex, &side->word[0], FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	} else if (write(side->token, &one, sizeof one) != sizeof one) {
		exit(1);
	}
}

static void *peer(void *unused)
{
	for (long i = 0; i < rounds; i++) {
		get(&sides[1]);
		put(&sides[0]);
	}
	return unused;
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;
	pthread_t thread;

	for (kind = 0; argc == 3 && kind < KINDS && strcmp(argv[1], kinds[kind]); kind++)
		;
	rounds = argc == 3 ? atol(argv[2]) : 0;
	if (argc != 3 || kind == KINDS || rounds <= 0) {
		fprintf(stderr, "usage: handover KIND ROUNDS\n");
		return 2;
	}
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	for (int i = 0; i < 2; i++) {
		open_side(&sides[i]);
		atomic_store(&sides[i].word[0], kind == LOCK ? 2 : 1);
	}
	if (pthread_create(&thread, NULL, peer, NULL))
		return 1;
	static struct rate rate;
	rate_begin(&rate, 4000);
	for (long i = 0; i < rounds; i++) {
		put(&sides[1]);
		get(&sides[0]);
		rate_trip(&rate);
	}
	pthread_join(thread, NULL);
	printf("waits %ld\n", 2 * rounds);
	rate_print(&rate, "handover");
	return 0;
}
