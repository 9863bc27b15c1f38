// cause: a process dies of SIGKILL while it has a mutex in shared memory; another one waits for it until a time-out
// size: 1.5 s
// ask: record -- $0
// who: vault
// says: SIGKILL
// short: time-out
// short: lock
// never: sleeping
// json: segments call=futex
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
struct shared {
	pthread_mutex_t lock;
	int has_it;
};
static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}
int main(void)
{
	pthread_mutexattr_t attributes;
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &attributes);
	pid_t vault = fork();
	if (vault == 0) {
		prctl(PR_SET_NAME, "vault");
		pthread_mutex_lock(&shared->lock);
		if (getenv("TWIN"))
			pthread_mutex_unlock(&shared->lock);
		shared->has_it = 1;
		pause();
	}
	while (!__atomic_load_n(&shared->has_it, __ATOMIC_ACQUIRE))
		usleep(1000);
	if (fork() == 0) {
		prctl(PR_SET_NAME, "janitor");
		usleep(100000);
		kill(vault, SIGKILL);
		_exit(0);
	}
	struct timespec until;
	double began = seconds(CLOCK_MONOTONIC);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 500000000;
	until.tv_sec += 1 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_timedlock(&shared->lock, &until);
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "twin %f\n", seconds(CLOCK_MONOTONIC) - began);
	fclose(planted);
	while (getenv("TWIN") && seconds(CLOCK_PROCESS_CPUTIME_ID) < 0.6)
		;
}
