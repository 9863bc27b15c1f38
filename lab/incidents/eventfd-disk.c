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
static void *sync_all(void *unused)
{
	static char block[1 << 20];
	uint64_t one = 1;
	pthread_setname_np(pthread_self(), "writer");
	double synced = 0;
	for (int i = 0; i < 60; i++) {
		write(file, block, sizeof(block));
		double began = seconds(CLOCK_MONOTONIC) - seconds(CLOCK_THREAD_CPUTIME_ID);
		if (!twin)
			fdatasync(file);
		synced += seconds(CLOCK_MONOTONIC) - seconds(CLOCK_THREAD_CPUTIME_ID) - began;
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
