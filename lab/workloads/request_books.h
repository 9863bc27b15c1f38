/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The books of the requests of services.c, and the truth that follows from them. */
#ifndef WORKLOADS_REQUEST_BOOKS_H
#define WORKLOADS_REQUEST_BOOKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum plant { LOCK, LOCK_DISK, LOCK_REMOTE, CHAIN, LEDGER, QUEUE, DISK, LIMIT, REMOTE, PLANTS };

/* The keepers that a request has at a time, while others wait: the locks, the reader and the workers. */
enum keeper { STOCK, LEDGERS, READER, WORKER };

/* A wait for a keeper, and the time in which the request had it. */
struct turn {
	bool is_taken;
	int keeper;
	uint64_t wait_from, wait_to, had_from, had_to;
	uint64_t got; /* of a lock: when the thread ran with it */
};

/* A request's books. Times are by the monotonic clock. */
struct book {
	uint64_t trace, from, to;
	/* From here the front waits for the answer, or `store` for that of `back`; before, it ran or was runnable, whatever the others did. */
	_Atomic uint64_t asked;
	uint64_t called;
	enum plant plant;
	struct turn turns[2]; /* in order of time, or the second within the first */
	uint64_t pool_from, pool_to; /* the reader had the mutex of the pool, to put the request into its queue */
	uint64_t own_from, own_to, ns; /* the planted time that is its own: `ns` of this, the first part where it sleeps */
};

/* The planted causes' names. */
extern const char *const plants[PLANTS];

/* All requests' books, in memory shared by the services. */
struct books {
	long count;
	struct book book[];
};

/* Writes the truth to where --truth wants it: for each request its planted parts, and the requests for which it waited. */
void books_write(struct books *books, const pid_t services[3]);

#endif
