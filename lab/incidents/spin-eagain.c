// cause: a program reads a pipe without waiting, again and again, until another process writes after 800 ms
// size: $long s
// ask: record -- $0
// ask: record --failed-calls -- $0
// who: spin-eagain
// says: read
// says: EAGAIN
// short: running
// json: contributors kind=running comm=spin-eagain
// twin: EAGAIN
// twin: running
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	char byte;
	int ends[2];
	pipe2(ends, O_NONBLOCK);
	if (getenv("TWIN")) {
		usleep(800000);
		write(ends[1], "1", 1);
	} else if (fork() == 0) {
		prctl(PR_SET_NAME, "producer");
		usleep(800000);
		write(ends[1], "1", 1);
		_exit(0);
	}
	clock_t began = clock();
	while (read(ends[0], &byte, 1) < 0)
		;
	double long_s = (double)(clock() - began) / CLOCKS_PER_SEC;
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "long %f\ntwin %f\n", long_s, long_s);
}
