/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread which names its span in the word of a library, then unloads and reloads this library: the word then has another address. Prints the time
 * (monotonic clock, ns) from which and until which it works for the second span, and whether the word has moved.
 *
 *     reload LIBRARY OTHER [again]      `again`: in the end the process executes the program anew
 *
 * The other library has a word of the same size in each thread, which takes the first library's room. This source makes the program and, with
 * -DWORD_ONLY and -DOTHER_ONLY, the libraries.
 */
#define _GNU_SOURCE
#ifdef OTHER_ONLY
__attribute__((visibility("default"))) __thread void *others;

__attribute__((visibility("default"))) void *word_set(void *record)
{
	others = record;
	return &others;
}
#else
#include "wakepath_context.h"

#ifdef WORD_ONLY
__attribute__((visibility("default"))) void *word_set(struct wakepath_record *record)
{
	wakepath_show(record);
	return &otel_thread_ctx_v1;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void rest(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	nanosleep(&t, NULL);
}

static void *load(const char *path, void *(**set)(struct wakepath_record *))
{
	void *library = dlopen(path, RTLD_NOW);

	if (library)
		*(void **)set = dlsym(library, "word_set");
	if (!library || !*set)
		exit(3);
	return library;
}

int main(int argc, char **argv)
{
	static struct wakepath_record records[2];
	void *(*set)(struct wakepath_record *), *(*set_other)(struct wakepath_record *), *library, *first, *second;
	uint8_t ids[16];

	if (argc < 3)
		return 2;
	for (int i = 0; i < 2; i++) {
		memset(ids, i + 1, sizeof ids);
		wakepath_fill(&records[i], ids, ids, 1);
	}
	load(argv[2], &set_other);
	library = load(argv[1], &set);
	first = set(&records[0]);
	/* Until the recorder knows where the word is. */
	for (int i = 0; i < 20; i++)
		rest(20);
	set(NULL);
	dlclose(library);
	load(argv[1], &set);
	/* Frees the thread's memory for the first library, and takes memory for the other. */
	set_other((void *)0xeeeeeeee);
	second = set(NULL);
	rest(200);
	set(&records[1]);
	printf("%llu ", now());
	for (int i = 0; i < 40; i++)
		rest(1);
	printf("%llu %s\n", now(), first == second ? "stayed" : "moved");
	set(NULL);
	fflush(stdout);
	if (argc > 3)
		execl("/proc/self/exe", argv[0], argv[1], argv[2], NULL);
	return 0;
}
#endif
#endif
