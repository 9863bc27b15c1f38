// cause: four megabytes are written to a file and synced through io_uring, forty times
// size: $long s
// ask: record -- $0
// who: wal
// says: disk
// says: fsync
// json: rows code=disk text~wal
// json: contributors kind=block_device call~fsync
#include <dirent.h>
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
/* The program's threads' time on a CPU and waiting for it, without the main thread's running, s. */
static double on_cpus(void)
{
	double sum = 0;
	DIR *threads = opendir("/proc/self/task");
	for (struct dirent *thread; (thread = readdir(threads));) {
		char path[300];
		double ran = 0, waited = 0;
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", thread->d_name);
		FILE *schedule = thread->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!schedule)
			continue;
		fscanf(schedule, "%lf %lf", &ran, &waited);
		fclose(schedule);
		sum += waited + (atoi(thread->d_name) == getpid() ? 0 : ran);
	}
	closedir(threads);
	return sum / 1e9;
}
/* Waits until the ring's thread is at rest: its last work for a finished request is no part in the next request's time. */
static void let_the_ring_rest(void)
{
	char path[300], state = 0;
	DIR *threads = opendir("/proc/self/task");
	for (struct dirent *thread; (thread = readdir(threads));) {
		if (thread->d_name[0] == '.' || atoi(thread->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread->d_name);
		for (state = 'R'; state == 'R';) {
			FILE *stat = fopen(path, "r");
			if (!stat)
				break;
			fscanf(stat, "%*d (%*[^)]) %c", &state);
			fclose(stat);
			if (state == 'R')
				usleep(100);
		}
	}
	closedir(threads);
}
/* The time in which none of the program's threads ran or waited for a CPU: the ring's thread does the request. */
static double blocked(void)
{
	for (;;) {
		double before = on_cpus();
		double rest = seconds(CLOCK_MONOTONIC) - seconds(CLOCK_THREAD_CPUTIME_ID);
		/* Once more, if it lost its CPU between two readings. */
		if (on_cpus() == before)
			return rest - before;
	}
}
int main(void)
{
	static char block[4 << 20];
	struct io_uring_params p = {0};
	FILE *planted = fopen(getenv("PLANTED"), "a");
	int ring = syscall(SYS_io_uring_setup, 4, &p), file = open("wal", O_CREAT | O_RDWR, 0644);
	if (ring < 0)
		return fprintf(planted, "lacks io_uring\n"), 1;
	char *sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, p.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *head = (unsigned *)(cq + p.cq_off.head);
	unsigned mask = *(unsigned *)(sq + p.sq_off.ring_mask);
	double long_s = 0;
	for (int i = 0; i < 40; i++) {
		memset(block, i, sizeof(block));
		write(file, block, sizeof(block));
		// The twin asks for nothing.
		entries[*tail & mask] = (struct io_uring_sqe){.opcode = getenv("TWIN") ? IORING_OP_NOP : IORING_OP_FSYNC, .fd = file};
		((unsigned *)(sq + p.sq_off.array))[*tail & mask] = *tail & mask;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		let_the_ring_rest();
		double began = blocked();
		syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		long_s += blocked() - began;
		__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	}
	fprintf(planted, "long %f\ntwin %f\n", long_s, long_s);
	if (getenv("TWIN"))
		usleep(300000);
}
