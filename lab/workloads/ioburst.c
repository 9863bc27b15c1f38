/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Bursts of disk I/O (G15 table 3.1 and §4.5.3, wk-ioburst): writes that return when the disk has the
 * data, writes that return at once, reads of what the page cache has lost and reads of what it has,
 * and reads past the cache.
 *
 *     ioburst    =..=..=..  ====   =..=..=..  ====      =...=...=...
 *                O_SYNC     async  cold read  hot read  O_DIRECT read
 *
 *     `=` runs, `.` waits for the disk
 *
 * Truth: the time in each call that main neither ran nor was runnable is the disk's, and of the
 * kernel threads that work for it (a journal, a writeback worker: which ones is the file system's
 * affair), since nobody else is in the chain.
 *
 * Assumes a disk under $TMPDIR or /var/tmp. Stays on the CPU of the disk's interrupts.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "truth.h"

#include <fcntl.h>
#include <unistd.h>

static long mib = 48;
static const struct flag flags[] = {
	{ "mib", &mib, false, "MiB in each burst" },
	{ 0 },
};

/*
 * Data goes through the page cache in small calls: while a call copies, the kernel may put off a
 * preemption, and its clock of the run queue then stands still at the moment of the wake-up that
 * asked for it. The thread runs on, and counts as runnable.
 */
#define SMALL ((size_t)256 << 10)
#define LARGE ((size_t)4 << 20)

static char *memory;

static void write_burst(lane_t lane, int file)
{
	for (off_t at = 0; at < (off_t)mib << 20; at += (off_t)SMALL) {
		wait_begins(lane, "pwrite64");
		if (pwrite(file, memory, SMALL, at) != (ssize_t)SMALL)
			die("cannot write the scratch file");
		wait_ends_by(lane, BY_DISK);
	}
}

static void read_burst(lane_t lane, int file, size_t size)
{
	for (off_t at = 0; at + (off_t)size <= (off_t)mib << 20; at += (off_t)size) {
		wait_begins(lane, "pread64");
		if (pread(file, memory, size, at) != (ssize_t)size)
			die("cannot read the scratch file");
		wait_ends_by(lane, BY_DISK);
	}
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("ioburst");
	flags_read(argc, argv, flags, "bursts of disk I/O");
	memory = scratch_memory(LARGE);
	wait_begins(lane, "openat");
	int file = scratch_file(0), sync = scratch_file_again(file, O_SYNC);
	int direct = scratch_file_again(file, O_DIRECT);
	if (sync < 0)
		die("cannot open the scratch file for synchronous writes");
	wait_ends_by(lane, BY_DISK);
	wait_begins(lane, "pwrite64");
	pin_to_interrupts_of(file);
	wait_ends_by(lane, BY_DISK);
	write_burst(lane, sync);
	write_burst(lane, file);
	wait_begins(lane, "fsync");
	fsync(file);
	wait_ends_by(lane, BY_DISK);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	read_burst(lane, file, SMALL);
	read_burst(lane, file, SMALL);
	for (int i = 0; direct >= 0 && i < 3; i++)
		read_burst(lane, direct, LARGE);
	window_close();
	return 0;
}
