// cause: a file is read from the disk through io_uring, past the page cache
// size: $long s
// ask: record -- $program measure
// who: index.db
// says: disk
// json: contributors kind=block_device
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}
static double delayed(void)
{
	double delayed = 0;
	FILE *schedule = fopen("/proc/thread-self/schedstat", "r");
	fscanf(schedule, "%*f %lf", &delayed);
	fclose(schedule);
	return delayed / 1e9;
}
static double blocked(void)
{
	for (;;) {
		double before = delayed();
		double rest = seconds(CLOCK_MONOTONIC) - seconds(CLOCK_THREAD_CPUTIME_ID);
		/* Once more, if it lost its CPU between two readings. */
		if (delayed() == before)
			return rest - before;
	}
}
int main(int words, char **word)
{
	static char block[1 << 16] __attribute__((aligned(4096)));
	struct io_uring_params p = {0};
	FILE *planted = fopen(getenv("PLANTED"), "a");
	int ring = syscall(SYS_io_uring_setup, 4, &p), file = open("index.db", O_CREAT | O_RDWR | O_DIRECT, 0644);
	if (ring < 0)
		return fprintf(planted, "lacks io_uring\n"), 1;
	char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, p.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *head = (unsigned *)(cq + p.cq_off.head);
	unsigned mask = *(unsigned *)(sq + p.sq_off.ring_mask);
	double long_s = 0;
	if (words < 2) {
		char program[4096] = {0};
		readlink("/proc/self/exe", program, sizeof(program) - 1);
		for (int i = 0; i < 2000; i++)
			write(file, block, sizeof(block));
		fsync(file);
		fprintf(planted, "program %s\nready\n", program);
		fclose(planted);
		sleep(60);
	}
	for (int i = 0; i < 2000; i++) {
		// The twin asks for nothing.
		entries[*tail & mask] = (struct io_uring_sqe){.opcode = getenv("TWIN") ? IORING_OP_NOP : IORING_OP_READ, .fd = file, .addr = (unsigned long)block, .len = sizeof(block), .off = (unsigned long)i * sizeof(block)};
		((unsigned *)(sq + p.sq_off.array))[*tail & mask] = *tail & mask;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		double began = blocked();
		syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		long_s += blocked() - began;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	fprintf(planted, "long %f\ntwin %f\n", long_s, long_s);
	if (getenv("TWIN"))
		usleep(300000);
}
