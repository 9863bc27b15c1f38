/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes a thread wait for locks, a given number of times, to compare counts with.
 *
 *     locks [user=N] [kernel=N] [signals=N]
 *
 * The thread `waiter` waits so often for a mutex; for the kernel's lock of a file; for a condition variable,
 * which is no lock. Each wait lasts at least 2 ms, and no lock is let go of before the waiter is seen to be
 * blocked. The file's lock is held by a write of a page that is not there until the waiter is blocked
 * (userfaultfd: root). At the end it prints how often the waiter waited, and for how long in all by its own
 * clock: lines `NAME COUNT`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum step { NOTHING, USER, KERNEL, SIGNAL, STEPS };
static const char *const names[STEPS] = { "", "user", "kernel", "signals" };

/* The waiter's next lock, and its last lock. */
static _Atomic int asked, writing;
static _Atomic pid_t waiter_tid;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int signalled, file;
static char *page;
static uint64_t waited_ns[STEPS];

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void sleep_for(long ns)
{
	const struct timespec time = { 0, ns };

	nanosleep(&time, NULL);
}

static void *wait_for(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "waiter");
	waiter_tid = (pid_t)syscall(SYS_gettid);
	for (;;) {
		int step = asked;
		uint64_t began = now();

		switch (step) {
		case NOTHING:
			sleep_for(100000);
			continue;
		case STEPS:
			return NULL;
		case USER:
			pthread_mutex_lock(&mutex);
			pthread_mutex_unlock(&mutex);
			break;
		case KERNEL:
			if (pwrite(file, "x", 1, 0) != 1)
				abort();
			break;
		case SIGNAL:
			pthread_mutex_lock(&mutex);
			while (!signalled)
				pthread_cond_wait(&cond, &mutex);
			signalled = 0;
			pthread_mutex_unlock(&mutex);
			break;
		}
		waited_ns[step] += now() - began;
		asked = NOTHING;
	}
}

/* Holds the file's lock from when its page is asked for until it is there. */
static void *write_pages(void *unused)
{
	(void)unused;
	for (;;) {
		switch (writing) {
		case 0:
			sleep_for(100000);
			continue;
		case 1:
			if (pwrite(file, page, 1, 0) != 1)
				abort();
			writing = 0;
			continue;
		default:
			return NULL;
		}
	}
}

/* Until the waiter is blocked in a system call. */
static void await_blocked(long call)
{
	char path[64], text[16] = "", wanted[16];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)waiter_tid);
	snprintf(wanted, sizeof(wanted), "%ld ", call);
	while (strncmp(text, wanted, strlen(wanted))) {
		int told = open(path, O_RDONLY);
		ssize_t length = read(told, text, sizeof(text) - 1);

		if (length < 0)
			abort();
		text[length] = 0;
		close(told);
		sleep_for(100000);
	}
	sleep_for(2000000);
}

static void make_wait(enum step step, int faults)
{
	struct uffdio_zeropage there = { .range = { (uintptr_t)page, 4096 } };
	struct uffd_msg fault;

	switch (step) {
	case USER:
		pthread_mutex_lock(&mutex);
		asked = USER;
		await_blocked(SYS_futex);
		pthread_mutex_unlock(&mutex);
		break;
	case KERNEL:
		madvise(page, 4096, MADV_DONTNEED);
		writing = 1;
		if (read(faults, &fault, sizeof(fault)) != sizeof(fault))
			abort();
		asked = KERNEL;
		await_blocked(SYS_pwrite64);
		if (ioctl(faults, UFFDIO_ZEROPAGE, &there))
			abort();
		break;
	default:
		asked = SIGNAL;
		await_blocked(SYS_futex);
		pthread_mutex_lock(&mutex);
		signalled = 1;
		pthread_mutex_unlock(&mutex);
		pthread_cond_signal(&cond);
	}
	while (asked != NOTHING || writing)
		sleep_for(100000);
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register whole = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t waiter, writer;
	int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	long times[STEPS] = { 0 };

	for (int i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=');
		int step = USER;

		while (step < STEPS && (!value || strlen(names[step]) != (size_t)(value - argv[i]) ||
					strncmp(names[step], argv[i], (size_t)(value - argv[i]))))
			step++;
		if (step == STEPS) {
			fprintf(stderr, "locks: what is %s?\n", argv[i]);
			return 2;
		}
		times[step] = atol(value + 1);
	}
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("locks", MFD_CLOEXEC);
	whole.range.start = (uintptr_t)page;
	whole.range.len = 4096;
	if (page == MAP_FAILED || file < 0 || (times[KERNEL] && faults < 0) ||
	    (faults >= 0 && (ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &whole)))) {
		perror("locks");
		return 1;
	}
	if (pthread_create(&waiter, NULL, wait_for, NULL) || pthread_create(&writer, NULL, write_pages, NULL))
		return 1;
	while (!waiter_tid)
		sleep_for(100000);
	for (int step = USER; step < STEPS; step++)
		for (long i = 0; i < times[step]; i++)
			make_wait(step, faults);
	asked = STEPS;
	writing = 2;
	pthread_join(waiter, NULL);
	pthread_join(writer, NULL);
	for (int step = USER; step < STEPS; step++)
		printf("%s %ld\n%s_ns %lu\n", names[step], times[step], names[step], waited_ns[step]);
	return 0;
}
