// cause: two threads wait for each other's mutex; Ctrl-C ends the program after 2 s
// size: 2 s
// ask: record -- $0
// signal: INT after 2 s
// who: ledger
// says: SIGINT
// never: clock_nanosleep
// json: killed signal.name=SIGINT lock.owner.comm=ledger
// json: deadlocks comm=ledger
// twin: ledger
// twin: owns
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
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
	fputs("twin 0\nready\n", planted);
	fclose(planted);
	for (;;)
		getenv("TWIN") ? pause() : pthread_mutex_lock(&accounts);
}
