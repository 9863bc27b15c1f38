// cause: two threads wait for each other's mutex; Ctrl-C ends the program after 2 s
// size: 2 s
// ask: record -- $0
// signal: INT after 2 s
// who: ledger
// says: SIGINT
// never: clock_nanosleep
// json: killed signal.name=SIGINT lock.owner.comm=ledger
// json: deadlocks comm=ledger
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER, accounts = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static void *ledger(void *nothing) {
	prctl(PR_SET_NAME, "ledger");
	pthread_mutex_lock(&accounts);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&orders);
	return nothing;
}
int main(void) {
	pthread_t thread;
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, ledger, NULL);
	pthread_mutex_lock(&orders);
	pthread_barrier_wait(&both);
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fputs("ready\n", planted);
	fclose(planted);
	pthread_mutex_lock(&accounts);
}
