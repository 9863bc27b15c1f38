/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Futex waits that may be for a lock with an owner, and the place of the owner beside the lock word. */
#ifndef WAKEPATH_FUTEX_H
#define WAKEPATH_FUTEX_H

#include "types.h"

enum { SYS_futex = 202 };
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_LOCK_PI2 = 13 };
/* The operation without its flags; a glibc mutex's value with waiters; the same bit in robust mutexes. */
enum { FUTEX_COMMAND = 0x7f, FUTEX_PRIVATE = 0x80, CONTENDED = 2 };
#define FUTEX_WAITERS 0x80000000u

enum lock_shape {
	NO_LOCK,
	OWNER_IN_WORD, /* priority inheritance: the kernel keeps the owner in the word */
	OWNER_BESIDE,  /* glibc's mutex: two words on. Only waits for a contended lock expect these values. */
};

/*
 * `expected`: the word's value as the caller expects it; the kernel has compared it. `timed`: the wait has a
 * time-out. A timed wait for a glibc mutex uses the bit-set operation, as do condition variables, semaphores and
 * Rust's locks, which have no time-out or seldom these values.
 */
static inline __attribute__((always_inline)) enum lock_shape lock_shape(__u32 operation, __u32 expected, _Bool timed)
{
	switch (operation & FUTEX_COMMAND) {
	case FUTEX_WAIT_BITSET:
		if (!timed)
			return NO_LOCK;
		/* fall through */
	case FUTEX_WAIT:
		return expected == CONTENDED || (expected & FUTEX_WAITERS) ? OWNER_BESIDE : NO_LOCK;
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return OWNER_IN_WORD;
	}
	return NO_LOCK;
}

/* Whether only threads of its own process end the wait. */
static inline __attribute__((always_inline)) _Bool waits_privately(__u32 operation, _Bool timed)
{
	__u32 command = operation & FUTEX_COMMAND;

	return operation & FUTEX_PRIVATE && !timed && (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET);
}

/* The value that Rust's parked threads expect; no lock has it. */
#define PARKED 0xffffffffu

/*
 * Whether the wait is for a lock, judged by the expected value: glibc, Rust, Go and others write one of these values
 * into a lock with waiters. Another word may have the same value by chance.
 */
static inline __attribute__((always_inline)) _Bool waits_for_lock(__u32 operation, __u32 expected)
{
	switch (operation & FUTEX_COMMAND) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		return expected == CONTENDED || (expected & FUTEX_WAITERS && expected != PARKED);
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return 1;
	}
	return 0;
}

#endif
