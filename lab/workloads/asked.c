/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls functions as its standard input asks, and prints how long they took: for the cost of probes.
 *
 *     asked [cpu=N] [priority=N] [file=PATH]
 *
 * Prints its process number first, and whether FILE is read `direct`, past the page cache, or its pages are `dropped` before
 * each read. Then each line `all NAME CALLS NS` makes it call a function so often, and print how long that took, in ns.
 * With `each` for `all` it takes stamps around each call, and prints behind that time `BUCKET:CALLS` for each power of
 * two of ns that calls took. It ends with its standard input.
 *
 *     nothing                an empty function
 *     many                   calls 32 times `child`, which is empty, and computes for NS
 *     one, nine              call one and nine empty functions (`one_1`; `nine_1` to `nine_9`), and compute for NS
 *     tree2, tree4, tree8    a tree of 8 levels: on each, a function calls 2, 4 or 8 on the next level, where the first
 *                            goes on; the last that goes on computes for NS. `t8_3_1` is tree8's second function on level 3
 *     examine                calls `ask`, which calls stat(), and `weigh`, which is empty
 *     read_block             calls `choose`, and `fetch`, which reads 4096 bytes at a random place of FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Neither folded into its callers nor taken to have no effect; it begins by pushing the frame pointer. */
#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum { BLOCK = 4096, CHILDREN = 32, BUCKETS = 64 };

static uint64_t steps_per_ms;
static const char *path = "/proc/self/exe";
static int file = -1;
static bool is_dropped;
static uint64_t blocks;
static char block[BLOCK] __attribute__((aligned(BLOCK)));

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Always inlined: the time is the caller's own. */
static inline __attribute__((always_inline)) uint64_t run_steps(uint64_t steps)
{
	uint64_t x = steps;

	while (steps--) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		KEEP(x);
	}
	return x;
}

static inline __attribute__((always_inline)) uint64_t compute(uint64_t ns)
{
	return run_steps(ns * steps_per_ms / 1000000);
}

/* The fastest of several: what else the machine does makes it slower. */
static void calibrate(void)
{
	for (int i = 0; i < 50; i++) {
		uint64_t steps = 100000, from = now_ns(), x = run_steps(steps), ns = now_ns() - from;

		KEEP(x);
		if (steps * 1000000 / ns > steps_per_ms)
			steps_per_ms = steps * 1000000 / ns;
	}
}

/* `ns` is for computing functions: an empty function has it for its callers' sake. */
#define EMPTY(name)                         \
	PROBED uint64_t name(uint64_t ns)   \
	{                                   \
		KEEP(ns);                   \
		return ns + 1;              \
	}

EMPTY(nothing)
EMPTY(child)

PROBED uint64_t many(uint64_t ns)
{
	uint64_t x = 0;

	for (int i = 0; i < CHILDREN; i++)
		x += child(i);
	x += compute(ns);
	KEEP(x);
	return x;
}

EMPTY(one_1)
EMPTY(nine_1)
EMPTY(nine_2)
EMPTY(nine_3)
EMPTY(nine_4)
EMPTY(nine_5)
EMPTY(nine_6)
EMPTY(nine_7)
EMPTY(nine_8)
EMPTY(nine_9)

PROBED uint64_t one(uint64_t ns)
{
	uint64_t x = one_1(ns) + compute(ns);

	KEEP(x);
	return x;
}

PROBED uint64_t nine(uint64_t ns)
{
	uint64_t x = nine_1(ns) + nine_2(ns) + nine_3(ns) + nine_4(ns) + nine_5(ns) + nine_6(ns) + nine_7(ns) + nine_8(ns) +
		     nine_9(ns) + compute(ns);

	KEEP(x);
	return x;
}

/* t F _ LEVEL _ NUMBER: number 0 goes on. */
#define CALL2(f, level) t##f##_##level##_0(ns) + t##f##_##level##_1(ns)
#define CALL4(f, level) CALL2(f, level) + t##f##_##level##_2(ns) + t##f##_##level##_3(ns)
#define CALL8(f, level)                                                                            \
	CALL4(f, level) + t##f##_##level##_4(ns) + t##f##_##level##_5(ns) + t##f##_##level##_6(ns) \
		+ t##f##_##level##_7(ns)

#define SIBLINGS2(f, level) EMPTY(t##f##_##level##_1)
#define SIBLINGS4(f, level)  \
	SIBLINGS2(f, level)  \
	EMPTY(t##f##_##level##_2) \
	EMPTY(t##f##_##level##_3)
#define SIBLINGS8(f, level)  \
	SIBLINGS4(f, level)  \
	EMPTY(t##f##_##level##_4) \
	EMPTY(t##f##_##level##_5) \
	EMPTY(t##f##_##level##_6) \
	EMPTY(t##f##_##level##_7)

#define GOES_ON(name, f, below)           \
	PROBED uint64_t name(uint64_t ns) \
	{                                 \
		uint64_t x = CALL##f(f, below); \
                                          \
		KEEP(x);                  \
		return x;                 \
	}
#define LEVEL(f, level, below) \
	SIBLINGS##f(f, level)  \
	GOES_ON(t##f##_##level##_0, f, below)
#define LAST_LEVEL(f, level)                              \
	SIBLINGS##f(f, level)                             \
	PROBED uint64_t t##f##_##level##_0(uint64_t ns)   \
	{                                                 \
		uint64_t x = compute(ns);                 \
                                                          \
		KEEP(x);                                  \
		return x;                                 \
	}
#define TREE(f)            \
	LAST_LEVEL(f, 8)   \
	LEVEL(f, 7, 8)     \
	LEVEL(f, 6, 7)     \
	LEVEL(f, 5, 6)     \
	LEVEL(f, 4, 5)     \
	LEVEL(f, 3, 4)     \
	LEVEL(f, 2, 3)     \
	LEVEL(f, 1, 2)     \
	GOES_ON(tree##f, f, 1)

TREE(2)
TREE(4)
TREE(8)

EMPTY(weigh)

PROBED uint64_t ask(uint64_t x)
{
	struct stat found;

	KEEP(x);
	if (stat(path, &found)) {
		perror(path);
		exit(1);
	}
	return x + found.st_size;
}

PROBED uint64_t examine(uint64_t ns)
{
	uint64_t x = ask(ns);

	x += weigh(x);
	KEEP(x);
	return x;
}

PROBED uint64_t choose(uint64_t x)
{
	static uint64_t state = 88172645463325252ull;

	KEEP(x);
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % blocks * BLOCK;
}

PROBED uint64_t fetch(uint64_t from)
{
	KEEP(from);
	if (is_dropped)
		posix_fadvise(file, from, BLOCK, POSIX_FADV_DONTNEED);
	if (pread(file, block, BLOCK, from) != BLOCK) {
		perror("pread");
		exit(1);
	}
	return block[0];
}

PROBED uint64_t read_block(uint64_t ns)
{
	uint64_t x = fetch(choose(ns));

	KEEP(x);
	return x;
}

typedef uint64_t function(uint64_t);

#define LEVELS(f)                                                                                     \
	{ "tree" #f, tree##f }, { "t" #f "_1_1", t##f##_1_1 }, { "t" #f "_2_1", t##f##_2_1 },         \
		{ "t" #f "_3_1", t##f##_3_1 }, { "t" #f "_4_1", t##f##_4_1 },                         \
		{ "t" #f "_5_1", t##f##_5_1 }, { "t" #f "_6_1", t##f##_6_1 },                         \
		{ "t" #f "_7_1", t##f##_7_1 }, { "t" #f "_8_1", t##f##_8_1 }

static const struct {
	const char *name;
	function *call;
} functions[] = { { "nothing", nothing },
		  { "many", many },
		  { "child", child },
		  { "one", one },
		  { "one_1", one_1 },
		  { "nine", nine },
		  { "nine_1", nine_1 },
		  LEVELS(2),
		  LEVELS(4),
		  LEVELS(8),
		  { "examine", examine },
		  { "weigh", weigh },
		  { "read_block", read_block },
		  { "choose", choose } };

static function *named(const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		if (!strcmp(functions[i].name, name))
			return functions[i].call;
	}
	return NULL;
}

static void call_all(function *called, uint64_t calls, uint64_t ns)
{
	uint64_t from = now_ns(), x = 0;

	for (uint64_t i = 0; i < calls; i++)
		x += called(ns);
	KEEP(x);
	printf("%llu\n", (unsigned long long)(now_ns() - from));
}

static void call_each(function *called, uint64_t calls, uint64_t ns)
{
	uint64_t counts[BUCKETS] = { 0 }, sum = 0;

	for (uint64_t i = 0; i < calls; i++) {
		uint64_t from = now_ns(), x = called(ns), took = now_ns() - from;

		KEEP(x);
		sum += took;
		counts[63 - __builtin_clzll(took | 1)]++;
	}
	printf("%llu", (unsigned long long)sum);
	for (int i = 0; i < BUCKETS; i++) {
		if (counts[i])
			printf(" %d:%llu", i, (unsigned long long)counts[i]);
	}
	printf("\n");
}

static void open_file(const char *name)
{
	struct stat found;

	path = name;
	file = open(name, O_RDONLY | O_DIRECT);
	if (file < 0 && errno == EINVAL) {
		is_dropped = true;
		file = open(name, O_RDONLY);
	}
	if (file < 0 || fstat(file, &found)) {
		perror(name);
		exit(1);
	}
	blocks = found.st_size / BLOCK;
}

int main(int argc, char **argv)
{
	char line[256];

	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "cpu=", 4)) {
			cpu_set_t cpus;

			CPU_ZERO(&cpus);
			CPU_SET(atoi(argv[i] + 4), &cpus);
			if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
				perror("sched_setaffinity");
				return 1;
			}
		} else if (!strncmp(argv[i], "priority=", 9)) {
			if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = atoi(argv[i] + 9) })) {
				perror("sched_setscheduler");
				return 1;
			}
		} else if (!strncmp(argv[i], "file=", 5)) {
			open_file(argv[i] + 5);
		} else {
			fprintf(stderr, "usage: asked [cpu=N] [priority=N] [file=PATH]\n");
			return 2;
		}
	}
	calibrate();
	printf("%d %s\n", getpid(), is_dropped ? "dropped" : "direct");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char how[8], name[32];
		unsigned long long calls, ns;
		function *called = NULL;

		if (sscanf(line, "%7s %31s %llu %llu", how, name, &calls, &ns) == 4)
			called = named(name);
		if (!called || (called == read_block && !blocks) || (strcmp(how, "all") && strcmp(how, "each"))) {
			fprintf(stderr, "asked: not understood: %s", line);
			return 2;
		}
		(!strcmp(how, "all") ? call_all : call_each)(called, calls, ns);
		fflush(stdout);
	}
	return 0;
}
