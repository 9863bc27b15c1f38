// cause: a thread waits in slices of 50 ms for another one, which computes for 900 ms; a third one ticks every 20 ms
// size: 900 ms
// ask: record -- $0
// who: render
// says: running
// never: ticker
// json: contributors kind=running comm=render
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int done;
static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}
static void *ticker(void *nothing)
{
	prctl(PR_SET_NAME, "ticker");
	for (;;)
		usleep(20000), pthread_cond_broadcast(&changed);
	return nothing;
}
static void *render(void *nothing)
{
	prctl(PR_SET_NAME, "render");
	while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.9 && !getenv("TWIN"))
		;
	pthread_mutex_lock(&lock);
	done = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return nothing;
}
int main(void)
{
	pthread_t threads[2];
	pthread_create(&threads[0], NULL, ticker, NULL);
	pthread_create(&threads[1], NULL, render, NULL);
	if (getenv("TWIN"))
		usleep(900000);
	double began = seconds(CLOCK_MONOTONIC);
	pthread_mutex_lock(&lock);
	while (!done) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 50000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&changed, &lock, &until);
	}
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "twin %f\n", seconds(CLOCK_MONOTONIC) - began);
}
