/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits for kernel threads: fsync (the file system's journal, where it has a journal) and syncfs (a
 * writeback worker, on every file system), by turns, each after some new data.
 *
 *     fsync              ==f.....|==s............|==     `f` fsync, `s` syncfs
 *     jbd2, kworker          ==-^     =-==--=---^        kernel threads; `-` the disk
 *
 * Truth: the time in each call that main neither ran nor was runnable is the disk's and the kernel
 * threads'; how they share it is the kernel's affair. syncfs waits for what others have dirtied too.
 *
 * Assumes a disk under $TMPDIR or /var/tmp.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "truth.h"

#include <unistd.h>

static long rounds = 12, mib = 24, own_ms = 25;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "calls of either kind" },
	{ "mib", &mib, false, "MiB written before each" },
	{ "own-ms", &own_ms, false, "CPU time of main before each" },
	{ 0 },
};

/* In small calls, for the reason in ioburst.c. */
#define SMALL ((size_t)512 << 10)

static char *memory;

static void write_all(lane_t lane, int file)
{
	for (off_t at = 0; at < (off_t)mib << 20; at += (off_t)SMALL) {
		wait_begins(lane, "pwrite64");
		if (pwrite(file, memory, SMALL, at) != (ssize_t)SMALL)
			die("cannot write the scratch file");
		wait_ends_by(lane, BY_DISK);
	}
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("fsync");
	flags_read(argc, argv, flags, "waits for kernel threads");
	memory = scratch_memory(SMALL);
	wait_begins(lane, "openat");
	int file = scratch_file(0);
	wait_ends_by(lane, BY_DISK);
	wait_begins(lane, "pwrite64");
	pin_to_interrupts_of(file);
	wait_ends_by(lane, BY_DISK);
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		write_all(lane, file);
		wait_begins(lane, i % 2 ? "syncfs" : "fsync");
		if (i % 2 ? syncfs(file) : fsync(file))
			die("cannot wait for the disk");
		wait_ends_by(lane, BY_DISK);
	}
	window_close();
	return 0;
}
