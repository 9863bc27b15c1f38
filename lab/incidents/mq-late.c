// cause: a process waits for a message in a POSIX queue; the sender computes for 0.8 s before it sends it
// size: $long s
// ask: record -- $0
// who: pricing
// says: running
// json: contributors kind=running comm=pricing
// twin: pricing
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}
int main(void)
{
	int twin = getenv("TWIN") != NULL;
	struct mq_attr room = {.mq_maxmsg = 4, .mq_msgsize = 64};
	char name[64], text[64];
	snprintf(name, sizeof(name), "/quotes-%d", getpid());
	mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &room);
	if (!fork()) {
		prctl(PR_SET_NAME, "pricing");
		while (!twin && seconds(CLOCK_PROCESS_CPUTIME_ID) < 0.8)
			;
		mq_send(queue, "7", 2, 0);
		_exit(0);
	}
	double began = seconds(CLOCK_MONOTONIC);
	mq_receive(queue, text, sizeof(text), NULL);
	double took = seconds(CLOCK_MONOTONIC) - began;
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "long %f\ntwin %f\n", took, took);
	fclose(planted);
	mq_unlink(name);
	while (twin && seconds(CLOCK_PROCESS_CPUTIME_ID) < 0.4)
		;
	wait(NULL);
}
