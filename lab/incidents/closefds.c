// cause: each child closes half a million descriptors that are not open, before it runs its program
// size: $long s
// ask: record -- $0
// ask: record --failed-calls -- $0
// who: closefds
// says: close failed
// says: EBADF
// short: running
// json: contributors kind=running comm=closefds
// twin: close failed
// twin: EBADF
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	double *long_s = mmap(NULL, sizeof(*long_s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int child = 0; child < 12; child++) {
		if (fork() == 0) {
			clock_t began = clock();
			for (int i = 3; i < 500000 && !getenv("TWIN"); i++)
				close(i);
			*long_s += (double)(clock() - began) / CLOCKS_PER_SEC;
			execl("/bin/true", "true", NULL);
		}
		wait(NULL);
	}
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "long %f\ntwin %f\n", *long_s, *long_s);
	fclose(planted);
	if (getenv("TWIN"))
		usleep(600000);
}
