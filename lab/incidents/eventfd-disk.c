// cause: a thread waits on an eventfd for its writer thread, which syncs a megabyte 60 times
// size: $long s
// ask: record -- $0
// who: journal.bin
// says: disk
// json: rows code=disk
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
static int done, file, twin;
static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}
/* How long the thread was in queues for a CPU: the second number in its schedstat, ns. */
static double queued(int schedstat)
{
	char text[96] = "";
	unsigned long long ran, waited = 0;
	pread(schedstat, text, sizeof(text) - 1, 0);
	sscanf(text, "%llu %llu", &ran, &waited);
	return waited / 1e9;
}
/* How long the thread was blocked: neither on a CPU nor in a queue for one. Read again if it lost its CPU meanwhile. */
static double blocked(int schedstat)
{
	double before, now, ran;
	do {
		before = queued(schedstat);
		now = seconds(CLOCK_MONOTONIC);
		ran = seconds(CLOCK_THREAD_CPUTIME_ID);
	} while (queued(schedstat) != before);
	return now - ran - before;
}
static void *sync_all(void *unused)
{
	static char block[1 << 20];
	uint64_t one = 1;
	pthread_setname_np(pthread_self(), "writer");
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
	double synced = 0;
	for (int i = 0; i < 60; i++) {
		write(file, block, sizeof(block));
		double before = blocked(schedstat);
		if (!twin)
			fdatasync(file);
		synced += blocked(schedstat) - before;
	}
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "long %f\ntwin %f\n", synced, twin ? 0 : synced);
	fclose(planted);
	write(done, &one, sizeof(one));
	return unused;
}
int main(void)
{
	pthread_t writer;
	uint64_t count;
	twin = getenv("TWIN") != NULL;
	done = eventfd(0, 0);
	file = open("journal.bin", O_CREAT | O_WRONLY | O_TRUNC, 0644);
	pthread_create(&writer, NULL, sync_all, NULL);
	read(done, &count, sizeof(count));
	pthread_join(writer, NULL);
	while (twin && seconds(CLOCK_PROCESS_CPUTIME_ID) < 0.4)
		;
}
