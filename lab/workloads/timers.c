/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chain of timers, each of another kind: sleeps, time-outs of waits for which nobody comes, a timer
 * descriptor, a signal; and a thread that main waits for while it sleeps itself.
 *
 *     timers         =--s--=--f--=--p--=--e--=--a--=--c--=|.........|=     a letter per kind
 *     timers-sleeper                                       =-------^
 *
 * Truth: every wait is a timer, main's own or, at the end, the sleeper's. No other contributor.
 *
 * Assumes nothing.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static long rounds = 4, sleep_ms = 12, own_ms = 3;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "chains" },
	{ "sleep-ms", &sleep_ms, false, "length of each wait" },
	{ "own-ms", &own_ms, false, "CPU time between them" },
	{ 0 },
};

static struct timespec length_of(clockid_t clock_to_add)
{
	struct timespec t = { 0 };
	if (clock_to_add >= 0)
		clock_gettime(clock_to_add, &t);
	t.tv_nsec += sleep_ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void timer_descriptor(void)
{
	struct itimerspec when = { .it_value = length_of(-1) };
	uint64_t expirations;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (fd < 0 || timerfd_settime(fd, 0, &when, NULL) || read(fd, &expirations, sizeof expirations) < 0)
		die("cannot use a timer descriptor");
	close(fd);
}

static void poll_for_nothing(void)
{
	poll(NULL, 0, (int)sleep_ms);
}

static void epoll_for_nothing(void)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		die("cannot make an epoll descriptor");
	epoll_wait(fd, &event, 1, (int)sleep_ms);
	close(fd);
}

static void semaphore_that_nobody_posts(void)
{
	struct timespec until = length_of(CLOCK_REALTIME);
	sem_t semaphore;
	sem_init(&semaphore, 0, 0);
	sem_timedwait(&semaphore, &until);
}

static sigset_t alarms;

static void alarm_signal(void)
{
	struct itimerspec when = { .it_value = length_of(-1) };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
		die("cannot set an alarm");
	sigwaitinfo(&alarms, NULL);
	timer_delete(timer);
}

static const struct {
	void (*wait)(void);
	const char *call;
} kinds[] = {
	{ timer_descriptor, "read" },
	{ poll_for_nothing, "poll" },
	{ epoll_for_nothing, "epoll_wait" },
	{ semaphore_that_nobody_posts, "futex" },
	{ alarm_signal, "rt_sigtimedwait" },
};

static void *sleeper(void *parent)
{
	rest(lane_open("timers-sleeper", *(lane_t *)parent), 2 * (uint64_t)sleep_ms * MS);
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("timers");
	flags_read(argc, argv, flags, "a chain of timers");
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		rest(lane, (uint64_t)sleep_ms * MS);
		for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
			work(lane, (uint64_t)own_ms * MS);
			wait_begins(lane, kinds[kind].call);
			kinds[kind].wait();
			wait_times_out(lane, (uint64_t)sleep_ms * MS);
		}
		pthread_t thread;
		forks(lane);
		if (pthread_create(&thread, NULL, sleeper, &lane))
			die("cannot start a thread");
		wait_begins(lane, "futex");
		pthread_join(thread, NULL);
		wait_ends(lane, lane_named("timers-sleeper", i));
	}
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}
