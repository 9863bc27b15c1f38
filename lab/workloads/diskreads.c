/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads a block of a file again and again, past the page cache: a disk request, an interrupt and two switches for each
 * round trip, at the highest rate that the disk can do with a single request at a time.
 *
 *     diskreads ROUNDS
 *
 * Prints the rate of rate.h. Assumes a disk under $TMPDIR or /var/tmp.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "rate.h"
#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK 4096

int main(int argc, char **argv)
{
	long rounds = argc == 2 ? atol(argv[1]) : 0;

	if (rounds <= 0) {
		fprintf(stderr, "usage: diskreads ROUNDS\n");
		return 2;
	}
	char *memory = scratch_memory(BLOCK);
	int file = scratch_file(0);
	if (pwrite(file, memory, BLOCK, 0) != BLOCK || fsync(file))
		die("cannot write the scratch file");
	int direct = scratch_file_again(file, O_DIRECT);
	if (direct < 0)
		die("cannot read past the page cache");
	pin_to_interrupts_of(file);
	static struct rate rate;
	rate_begin(&rate, 500);
	for (long i = 0; i < rounds; i++) {
		if (pread(direct, memory, BLOCK, 0) != BLOCK)
			die("cannot read the scratch file");
		rate_trip(&rate);
	}
	rate_print(&rate, "diskreads");
	return 0;
}
