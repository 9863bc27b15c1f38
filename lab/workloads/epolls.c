/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Has the kernel call a function of its own that calls itself, a known number of times.
 *
 *     epolls ROUNDS
 *
 * Each round chains five epoll descriptors, each watched by the next, and so has the kernel look four times
 * whether a descriptor that is added leads back to who adds it: ep_loop_check_proc, which calls itself for
 * each descriptor below, so once, twice, three and four times. Prints `walks COUNT`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CHAIN 5

int main(int argc, char **argv)
{
	long rounds = argc == 2 ? atol(argv[1]) : 0;
	unsigned long walks = 0;

	for (long round = 0; round < rounds; round++) {
		int chain[CHAIN];

		for (int i = 0; i < CHAIN; i++) {
			struct epoll_event readable = { .events = EPOLLIN };

			chain[i] = epoll_create1(0);
			if (chain[i] < 0 || (i && epoll_ctl(chain[i], EPOLL_CTL_ADD, chain[i - 1], &readable)))
				return 1;
			walks += (unsigned long)i;
		}
		for (int i = 0; i < CHAIN; i++)
			close(chain[i]);
	}
	printf("walks %lu\n", walks);
	return 0;
}
