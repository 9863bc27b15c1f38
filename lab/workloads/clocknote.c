/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Notes how the clocks of this machine lie to each other, and, in a guest, to its host's:
 *
 *     clocknote FOLDER
 *
 * FOLDER/clocks      three clocks at the same time, by name: the readings of the processor's counter
 *                    around it bound the error; two such notes give the speed of the clocks
 * FOLDER/0 .. 49     files that were written after `from` and before `to`, ns of CLOCK_MONOTONIC, which
 *                    FOLDER/written lists by number. Where FOLDER is shared by the host, its clock has
 *                    stamped them: each bounds how the two clocks lie
 *
 * Emulated guests count with the same counter, the host's, though each from a zero of its own.
 */
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 50
#define LOOKS 1000

static uint64_t counter(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	errno = ENOTSUP;
	die("no counter is known here");
#endif
}

static uint64_t raw(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static FILE *file(const char *folder, const char *name)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *opened = fopen(path, "w");
	if (!opened)
		die(path);
	return opened;
}

/* The shortest of many looks. */
static void note_clocks(const char *folder)
{
	uint64_t monotonic = 0, unsteered = 0, before = 0, took = UINT64_MAX;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t from = counter(), m = now(), r = raw(), to = counter();
		if (to - from < took) {
			took = to - from;
			before = from;
			monotonic = m;
			unsteered = r;
		}
	}
	FILE *out = file(folder, "clocks");
	fprintf(out, "{\"monotonic_ns\": %llu, \"raw_ns\": %llu, \"counter\": %llu, \"took\": %llu}\n",
		(unsigned long long)monotonic, (unsigned long long)unsteered, (unsigned long long)before,
		(unsigned long long)took);
	if (fclose(out))
		die("cannot write clocks");
}

static void note_files(const char *folder)
{
	uint64_t from[FILES], to[FILES];
	for (int i = 0; i < FILES; i++) {
		char name[12];
		snprintf(name, sizeof name, "%d", i);
		from[i] = now();
		FILE *out = file(folder, name);
		fputs("written\n", out);
		if (fclose(out))
			die("cannot write a file");
		to[i] = now();
		/* No multiple of any clock's tick, so that they come at all places within a tick. */
		usleep(3141);
	}
	FILE *out = file(folder, "written");
	for (int i = 0; i < FILES; i++)
		fprintf(out, "%d %llu %llu\n", i, (unsigned long long)from[i], (unsigned long long)to[i]);
	if (fclose(out))
		die("cannot write the list");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "clocknote FOLDER: note how this machine's clocks lie\n");
		return 2;
	}
	if (mkdir(argv[1], 0755) && errno != EEXIST)
		die(argv[1]);
	note_clocks(argv[1]);
	note_files(argv[1]);
	return 0;
}
