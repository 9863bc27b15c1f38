// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Functions that are hard to drill into:
 *
 *     targets [PLUGIN]
 *
 * `folded` is inlined into its caller, `never` is not called, `stays` is called once when a line comes, and does not return.
 * With a library, its `plugged` is called all the time: one call in ten is slow, mostly in `inner`. A line
 * `unload` unloads the library, `move` loads it again at another place. Prints its process number first; ends with its input.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

static char line[64];
static atomic_int asked; /* lines that have come */

static inline __attribute__((always_inline)) long folded(long x)
{
	KEEP(x);
	return x * 3;
}

PROBED long never(long x)
{
	KEEP(x);
	return x + 1;
}

PROBED long stays(long x)
{
	for (;;) {
		KEEP(x);
		pause();
		/* The function could return. */
		if (x == 77)
			return x;
	}
}

static void sleep_for(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void *load(const char *path, long (**plugged)(int))
{
	void *library = dlopen(path, RTLD_NOW);

	*plugged = library ? (long (*)(int))dlsym(library, "plugged") : NULL;
	if (!*plugged) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return library;
}

/* Fills the gap left by the library, so that it gets another place. */
static void *load_elsewhere(const char *path, long (**plugged)(int), void *before)
{
	char *page = (char *)((unsigned long)before & ~4095ul) - (16 << 12);

	for (int i = 0; i < 64; i++)
		mmap(page + (i << 12), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return load(path, plugged);
}

static void *work(void *path)
{
	long (*plugged)(int) = NULL;
	int seen = 0;
	void *library = path ? load(path, &plugged) : NULL;

	for (long i = 0;; i++) {
		if (atomic_load(&asked) != seen) {
			seen = atomic_load(&asked);
			if (!library)
				stays(i);
			void *before = (void *)plugged;

			dlclose(library);
			plugged = NULL;
			library = NULL;
			if (!strncmp(line, "move", 4))
				library = load_elsewhere(path, &plugged, before);
		}
		if (plugged)
			plugged(i % 10 == 9);
		sleep_for(500000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t worker;
	long x = argc;

	printf("%d\n", getpid());
	fflush(stdout);
	if (folded(x) == 0)
		never(x);
	pthread_create(&worker, NULL, work, argc > 1 ? argv[1] : NULL);
	while (fgets(line, sizeof(line), stdin))
		atomic_fetch_add(&asked, 1);
	return 0;
}
