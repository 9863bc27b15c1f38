/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes the same system call again and again; a tenth of the calls is slow, for a reason below it in the kernel.
 *
 *     below REASON [FILE]
 *
 *     zero       read of no bytes of FILE, which another process does too: never slow but for what interrupts it (Traeger 2008, section 7.1)
 *     pipe       read of a pipe: the byte comes 5 ms late
 *     append     write to the end of FILE: another process writes 4 MB there, and has the lock of the file's inode meanwhile
 *     fsync      fsync of FILE: there is something to be written
 *     crowd      the same by 32 threads, each of whose calls writes something
 *     list       getdents of the directory FILE: a tenth after its blocks were dropped (root only), half at its end, where
 *                there is nothing to be read (Traeger 2008, section 7.2)
 *
 * `call_kernel` makes the call, and `serve` calls that. Prints its process number first; ends with its standard input.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))

enum { MANY = 4 << 20, ONE_IN = 10, CROWD = 32 };
enum reason { ZERO, PIPE, APPEND, FSYNC, CROWDED, LIST, REASONS };
static const char *const names[REASONS] = { "zero", "pipe", "append", "fsync", "crowd", "list" };

static enum reason reason;
static int file, ends[2];
static char buffer[64 << 10];
static atomic_bool over;
/* Shared with the helper: the next call, and the call that the helper has begun to disturb. */
static struct turns {
	atomic_uint next, disturbed;
} *turns;

static void sleep_us(long us)
{
	struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

static bool is_slow(unsigned call)
{
	return call % ONE_IN == 0;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The process for slow calls. */
static void disturb(const char *path)
{
	int own = reason == APPEND ? open(path, O_WRONLY | O_APPEND) : ends[1];
	char *much = calloc(1, MANY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned call = 1; much; call++) {
		while (atomic_load(&turns->next) < call)
			sleep_us(50);
		if (reason == PIPE) {
			if (is_slow(call))
				sleep_us(5000);
			if (write(own, much, 1) != 1)
				exit(0);
		} else if (is_slow(call)) {
			atomic_store(&turns->disturbed, call);
			if (write(own, much, MANY) != MANY || ftruncate(own, 0))
				exit(0);
		}
	}
	exit(0);
}

PROBED long call_kernel(void)
{
	switch (reason) {
	case ZERO:
		return read(file, buffer, 0);
	case PIPE:
		return read(ends[0], buffer, 1);
	case APPEND:
		return write(file, buffer, 16);
	case FSYNC:
	case CROWDED:
		return fsync(file);
	default:
		return syscall(SYS_getdents64, file, buffer, sizeof(buffer));
	}
}

PROBED long serve(void)
{
	long done = call_kernel();

	__asm__ volatile("" : "+r"(done) : : "memory");
	return done;
}

static void drop_pages(void)
{
	int drop = open("/proc/sys/vm/drop_caches", O_WRONLY);

	if (drop < 0 || write(drop, "3", 1) != 1)
		fail("drop_caches");
	close(drop);
}

/* All work before a call, which makes it slow or not. */
static void prepare(unsigned call)
{
	atomic_store(&turns->next, call);
	if (reason == APPEND && is_slow(call)) {
		while (atomic_load(&turns->disturbed) < call)
			sched_yield();
		/* The other process is in its write by then. */
		sleep_us(200);
	} else if ((reason == CROWDED || (reason == FSYNC && is_slow(call))) &&
		   pwrite(file, buffer, 4096, call % 1000 * 4096) != 4096) {
		fail("pwrite");
	} else if (reason == LIST) {
		if (is_slow(call))
			drop_pages();
		/* At an odd call, where the last call ended. */
		if (call % 2 == 0 && lseek(file, 0, SEEK_SET))
			fail("lseek");
	}
}

static void *make_calls(void *unused)
{
	for (unsigned call = 1; !atomic_load(&over); call++) {
		prepare(call);
		if (serve() < 0)
			fail(names[reason]);
		/* Others get the lock, and the byte of the next call is not there yet. */
		if (reason == APPEND || reason == FSYNC)
			sleep_us(100);
	}
	return unused;
}

static void *watch_input(void *unused)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	atomic_store(&over, true);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t watcher;

	while (reason < REASONS && (argc < 2 || strcmp(argv[1], names[reason])))
		reason++;
	if (reason == REASONS || (reason != PIPE && argc < 3)) {
		fprintf(stderr, "below zero|pipe|append|fsync|crowd|list [FILE]\n");
		return 2;
	}
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (turns == MAP_FAILED || pipe(ends))
		fail("below");
	if (reason != PIPE) {
		int flags = reason == LIST ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT;

		file = open(argv[2], flags | (reason == APPEND ? O_APPEND : 0), 0600);
		if (file < 0)
			fail(argv[2]);
	}
	if ((reason == PIPE || reason == APPEND) && !fork())
		disturb(argv[2]);
	if (reason == ZERO && !fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			serve();
	}
	/* Unwritten blocks cannot be dropped. */
	if (reason == LIST)
		sync();
	pthread_create(&watcher, NULL, watch_input, NULL);
	printf("%d\n", getpid());
	fflush(stdout);
	for (int i = 1; reason == CROWDED && i < CROWD; i++) {
		pthread_t one;

		pthread_create(&one, NULL, make_calls, NULL);
	}
	make_calls(NULL);
	return 0;
}
