/* Waits in a way that a stop could end early, and says what its calls returned. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* mmap fails from now on: no other call does. */
static int no_mmap(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static volatile sig_atomic_t came;
static volatile unsigned sent, is_over;

static void count_it(int signal)
{
	(void)signal;
	came++;
}

/* Signals of a kind of which none may be lost, to the process's first thread. */
static void *send_signals(void *first)
{
	union sigval value = { 0 };

	while (!is_over)
		if (sent - (unsigned)came < 64 && !pthread_sigqueue(*(pthread_t *)first, SIGRTMIN, value))
			sent++;
	return NULL;
}

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "";
	int got = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(how, "filtered") && no_mmap())
		return 2;
	printf("main %#lx\n", (unsigned long)main);
	if (!strcmp(how, "epoll")) {
		int set = epoll_create1(0);
		struct epoll_event event = { EPOLLIN, { .fd = 0 } };
		epoll_ctl(set, EPOLL_CTL_ADD, 0, &event);
		got = epoll_wait(set, &event, 1, -1);
	} else if (!strcmp(how, "poll")) {
		struct pollfd input = { 0, POLLIN, 0 };
		struct timespec began, ended;
		clock_gettime(CLOCK_MONOTONIC, &began);
		got = poll(&input, 1, 1500);
		clock_gettime(CLOCK_MONOTONIC, &ended);
		printf("took %ld\n", (ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000);
	} else if (!strcmp(how, "signals")) {
		struct pollfd input = { 0, POLLIN, 0 };
		pthread_t first = pthread_self(), sender;
		signal(SIGRTMIN, count_it);
		if (pthread_create(&sender, NULL, send_signals, &first))
			return 2;
		while (poll(&input, 1, 0) <= 0)
			;
		is_over = 1;
		pthread_join(sender, NULL);
		got = (unsigned)came == sent && sent > 1000 ? 1 : -1;
	} else if (!strcmp(how, "spin")) {
		struct pollfd input = { 0, POLLIN, 0 };
		double x[4] = { 1.5, 2.5, 3.5, 4.5 }, sum = 0;
		unsigned long rounds = 0;
		while (poll(&input, 1, 0) == 0)
			for (int i = 0; i < 100000; i++, rounds++)
				sum += x[i % 4];
		got = sum == rounds * 3.0 ? 1 : -1;
	} else {
		char byte;
		got = read(0, &byte, 1);
	}
	printf("got %d %s\n", got, got < 0 ? strerror(errno) : "");
	return 0;
}
