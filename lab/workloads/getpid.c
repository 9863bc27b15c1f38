/*
 * The time of a system call that does nothing, in a process that is not asked about: the median of 300 loops, ns a call. Beside
 * a recorder it shows the cost for the whole machine, as in docs/failed-calls.md. With the word `lock`: of a call for a file lock.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOPS = 300, CALLS = 5000 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	struct flock lock = { .l_len = 1 };
	int file = count > 1 && !strcmp(words[1], "lock") ? open("locked", O_CREAT | O_RDWR, 0600) : -1;
	double loops[LOOPS];

	for (int i = 0; i < LOOPS; i++) {
		double began = now_ns();

		for (int k = 0; k < CALLS; k++) {
			lock.l_type = k % 2 ? F_UNLCK : F_WRLCK;
			if (file >= 0)
				fcntl(file, F_SETLK, &lock);
			else
				syscall(SYS_getpid);
		}
		loops[i] = (now_ns() - began) / CALLS;
	}
	qsort(loops, LOOPS, sizeof(*loops), order);
	printf("%.0f\n", loops[LOOPS / 2]);
	return 0;
}
