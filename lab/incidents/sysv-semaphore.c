// cause: a process waits for a System V semaphore; its holder sleeps
// size: $long s
// ask: record -- $0
// who: ledger
// says: sleeping
// json: contributors kind=timer comm=ledger
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}
int main(void)
{
	int twin = getenv("TWIN") != NULL, set = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600), ready[2];
	struct sembuf give = {0, 1, 0}, take = {0, -1, 0};
	char byte;
	semop(set, &give, 1);
	pipe(ready);
	if (!fork()) {
		prctl(PR_SET_NAME, "ledger");
		semop(set, &take, 1);
		write(ready[1], "x", 1);
		if (!twin)
			usleep(1200000);
		semop(set, &give, 1);
		_exit(0);
	}
	read(ready[0], &byte, 1);
	double began = now();
	semop(set, &take, 1);
	double took = now() - began;
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "long %f\ntwin %f\n", took, took);
	fclose(planted);
	for (began = now(); twin && now() - began < 0.4;)
		;
	semctl(set, 0, IPC_RMID);
	wait(NULL);
}
