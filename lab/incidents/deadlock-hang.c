// cause: two threads wait for each other's mutex; the recording ends after 1.5 s, the threads wait on
// size: 1.5 s
// ask: record -p $pid -d 1.5
// who: ledger
// says: deadlock:
// json: deadlocks comm=ledger
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER, accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *ledger(void *nothing) {
	prctl(PR_SET_NAME, "ledger");
	if (getenv("TWIN")) // takes them in the other thread's order
		pthread_barrier_wait(&both), pthread_mutex_lock(&orders);
	pthread_mutex_lock(&accounts);
	if (!getenv("TWIN"))
		pthread_barrier_wait(&both), pthread_mutex_lock(&orders);
	pthread_mutex_unlock(&orders);
	pthread_mutex_unlock(&accounts);
	return nothing;
}
int main(void) {
	pthread_t thread;
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, ledger, NULL);
	pthread_mutex_lock(&orders);
	pthread_barrier_wait(&both);
	if (getenv("TWIN")) {
		pthread_mutex_lock(&accounts);
		pthread_mutex_unlock(&accounts);
		pthread_mutex_unlock(&orders);
		pthread_join(thread, NULL);
	}
	FILE *planted = fopen(getenv("PLANTED"), "a");
	// In the twin both threads are through: the program has been joined.
	fprintf(planted, "twin 0\npid %d\nready\n", getpid());
	fclose(planted);
	for (;;)
		getenv("TWIN") ? pause() : pthread_mutex_lock(&accounts);
}
