// cause: six threads of the program compute on two CPUs; the main thread waits for one of them, which waits for a CPU
// size: $long s
// ask: record -- $0
// who: own-threads
// says: waiting for a CPU
// says: threads of its own
// short: waiting for a CPU
// json: contributors kind=runnable
// twin: of its own
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}
static void *compute(void *delayed)
{
	double began = seconds(CLOCK_MONOTONIC);
	while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.5)
		;
	*(double *)delayed = seconds(CLOCK_MONOTONIC) - began - 0.5;
	return NULL;
}
int main(void)
{
	cpu_set_t two;
	CPU_ZERO(&two);
	CPU_SET(0, &two);
	CPU_SET(1, &two);
	sched_setaffinity(0, sizeof(two), &two);
	double delayed[6];
	pthread_t threads[6];
	int count = getenv("TWIN") ? 1 : 6;
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, compute, &delayed[i]);
	pthread_join(threads[0], NULL);
	FILE *planted = fopen(getenv("PLANTED"), "a");
	// In the twin the program has no other thread that could have the CPU.
	fprintf(planted, "long %f\ntwin %f\n", delayed[0], count == 1 ? 0 : delayed[0]);
	fclose(planted);
	_exit(0);
}
