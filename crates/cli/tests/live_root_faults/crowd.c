/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A crowd of threads. Half of them wait on one condition variable, the others sleep a millisecond and
 * end. When all have begun, the waiting half is held for a while, then woken all at once.
 *
 *     crowd THREADS HELD_MS
 *
 * Prints `held` when all wait, and at the end how many threads it could start.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER, waiting = PTHREAD_COND_INITIALIZER;
static long waiters;
static int open;

static void *waits(void *unused)
{
	pthread_mutex_lock(&mutex);
	waiters++;
	pthread_cond_signal(&waiting);
	while (!open)
		pthread_cond_wait(&opened, &mutex);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *sleeps(void *unused)
{
	usleep(1000);
	return unused;
}

int main(int argc, char **argv)
{
	long threads = argc > 1 ? atol(argv[1]) : 10000, held_ms = argc > 2 ? atol(argv[2]) : 0, begun = 0;
	pthread_t *ids = calloc((size_t)threads, sizeof *ids);
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	while (begun < threads && pthread_create(&ids[begun], &small, begun % 2 ? sleeps : waits, NULL) == 0)
		begun++;
	pthread_mutex_lock(&mutex);
	while (waiters < (begun + 1) / 2)
		pthread_cond_wait(&waiting, &mutex);
	pthread_mutex_unlock(&mutex);
	printf("held\n");
	fflush(stdout);
	usleep((useconds_t)held_ms * 1000);
	pthread_mutex_lock(&mutex);
	open = 1;
	pthread_cond_broadcast(&opened);
	pthread_mutex_unlock(&mutex);
	for (long i = 0; i < begun; i++)
		pthread_join(ids[i], NULL);
	printf("%ld\n", begun);
	return 0;
}
