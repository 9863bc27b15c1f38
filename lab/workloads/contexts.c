/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that say which span they work for, in OpenTelemetry's thread-context record (OTEP 4947), and that log when they
 * said what: a reader of the record can be held against the log at each task switch.
 *
 *     nested      a span in a span in a span, with sleeps in each
 *     alone       the same by a record that it writes in place, with `valid` cleared meanwhile
 *     giver       begins a span and hands it to `taker`, for which it waits
 *     taker       works for the spans that it is handed
 *     busy        a thousand spans between two sleeps
 *     none        never has a context
 *     torn        sleeps while its record is being written: its context is not known
 *     wild        points to memory that is not there: not known either
 *     holder      has a lock in a span of its own, while...
 *     waiter      ...waits for it in another span
 *
 * This source makes both the program and, with -DWORD_ONLY, the library with the word. The program has the word itself, or
 * with -DWORD_IN_LIBRARY uses that of a library that is there at its start, or with -DWORD_LOADED loads it.
 *
 * The log (--log FILE) has a line for each change: tid, the monotonic clock before and after it, and the ids, `none` or
 * `unknown`. The spans (--spans FILE) are OTLP in JSON. With --wait it begins when a line comes.
 */
#define _GNU_SOURCE
#include <stdint.h>

#ifndef WORD_LOADED
#ifndef WORD_IN_LIBRARY
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;
__attribute__((visibility("default"))) void word_set(void *record)
{
	otel_thread_ctx_v1 = record;
}
#else
void word_set(void *record);
#endif
#endif

#ifndef WORD_ONLY
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef WORD_LOADED
static void (*word_set)(void *);
#endif

#define MAX_CHANGES 20000
#define MAX_SPANS 20000
#define MS 1000000ull

struct record {
	uint8_t trace[16], span[8];
	volatile uint8_t valid;
	uint8_t flags;
	uint16_t attributes;
} __attribute__((packed));

enum state { NONE, SPAN, UNKNOWN };

struct change {
	uint64_t before, after;
	enum state state;
	uint64_t trace, span;
};

struct span {
	uint64_t trace, id, parent, from, to; /* times by the realtime clock */
	const char *name;
};

/* A thread, with its log. */
struct lane {
	const char *name;
	pid_t tid;
	long changes, spans;
	struct change *change;
	struct span *span;
	struct record records[2]; /* by turns, so that no record is written while it is attached */
	int turn;
	bool is_unsampled;
};

static atomic_ulong next_id = 1;
static long rounds = 20;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meet, handed, done, held;
static uint64_t handed_trace, handed_span;
static const char *left_out; /* the name for unsampled spans */

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void rest(uint64_t ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

static void fill(struct record *r, uint64_t trace, uint64_t span, uint8_t flags)
{
	memset(r->trace, 0xab, sizeof r->trace);
	memcpy(r->trace, &trace, sizeof trace);
	memcpy(r->span, &span, sizeof span);
	r->flags = flags;
}

static void publish(void *record)
{
	atomic_signal_fence(memory_order_seq_cst);
	word_set(record);
	atomic_signal_fence(memory_order_seq_cst);
}

static struct change *begin_change(struct lane *lane, enum state state, uint64_t trace, uint64_t span)
{
	if (lane->changes == MAX_CHANGES)
		abort();
	lane->change[lane->changes] = (struct change){ now(CLOCK_MONOTONIC), 0, state, trace, span };
	return &lane->change[lane->changes++];
}

static void end_change(struct change *change)
{
	change->after = now(CLOCK_MONOTONIC);
}

/* Swaps the pointer. */
static void attach(struct lane *lane, uint64_t trace, uint64_t span)
{
	struct record *r = &lane->records[lane->turn ^= 1];

	r->valid = 0;
	fill(r, trace, span, !lane->is_unsampled);
	r->valid = 1;
	struct change *change = begin_change(lane, SPAN, trace, span);
	publish(r);
	end_change(change);
}

static void detach(struct lane *lane)
{
	struct change *change = begin_change(lane, NONE, 0, 0);

	publish(NULL);
	end_change(change);
}

/* Writes the record in place. */
static void rewrite(struct lane *lane, uint64_t trace, uint64_t span)
{
	struct record *r = &lane->records[0];
	struct change *change = begin_change(lane, SPAN, trace, span);

	r->valid = 0;
	atomic_signal_fence(memory_order_seq_cst);
	fill(r, trace, span, !lane->is_unsampled);
	atomic_signal_fence(memory_order_seq_cst);
	r->valid = 1;
	publish(r);
	end_change(change);
}

static struct span *begin(struct lane *lane, uint64_t trace, uint64_t parent, const char *name)
{
	if (lane->spans == MAX_SPANS)
		abort();
	struct span *span = &lane->span[lane->spans++];

	*span = (struct span){ trace, next_id++, parent, now(CLOCK_REALTIME), 0, name };
	if (!trace)
		span->trace = span->id;
	return span;
}

static void end(struct span *span)
{
	span->to = now(CLOCK_REALTIME);
}

static void nest(struct lane *lane, void (*say)(struct lane *, uint64_t, uint64_t))
{
	for (long i = 0; i < rounds; i++) {
		struct span *root = begin(lane, 0, 0, "outer");
		say(lane, root->trace, root->id);
		rest(MS);
		struct span *middle = begin(lane, root->trace, root->id, "middle");
		say(lane, middle->trace, middle->id);
		rest(MS);
		struct span *inner = begin(lane, root->trace, middle->id, "inner");
		say(lane, inner->trace, inner->id);
		rest(MS);
		end(inner);
		say(lane, middle->trace, middle->id);
		rest(MS);
		end(middle);
		say(lane, root->trace, root->id);
		end(root);
		detach(lane);
		rest(MS);
	}
}

static void nested(struct lane *lane)
{
	nest(lane, attach);
}

static void alone(struct lane *lane)
{
	nest(lane, rewrite);
}

static void giver(struct lane *lane)
{
	for (long i = 0; i < rounds; i++) {
		struct span *root = begin(lane, 0, 0, "handed over");
		attach(lane, root->trace, root->id);
		rest(MS);
		handed_trace = root->trace;
		handed_span = root->id;
		pthread_barrier_wait(&handed);
		pthread_barrier_wait(&done);
		end(root);
		detach(lane);
	}
}

static void taker(struct lane *lane)
{
	for (long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&handed);
		attach(lane, handed_trace, handed_span);
		rest(MS);
		struct span *part = begin(lane, handed_trace, handed_span, "part");
		attach(lane, part->trace, part->id);
		rest(MS);
		end(part);
		attach(lane, handed_trace, handed_span);
		rest(MS);
		detach(lane);
		pthread_barrier_wait(&done);
	}
}

static void busy(struct lane *lane)
{
	for (long i = 0; i < 5; i++) {
		for (int n = 0; n < 1000; n++) {
			struct span *span = begin(lane, 0, 0, "quick");
			attach(lane, span->trace, span->id);
			end(span);
			detach(lane);
		}
		rest(MS);
	}
}

static void none(struct lane *lane)
{
	for (long i = 0; i < rounds; i++)
		rest(MS);
	(void)lane;
}

static void torn(struct lane *lane)
{
	struct record *r = &lane->records[0];

	for (long i = 0; i < rounds; i++) {
		struct span *span = begin(lane, 0, 0, "torn");
		attach(lane, span->trace, span->id);
		rest(MS);
		struct change *change = begin_change(lane, UNKNOWN, 0, 0);
		r = &lane->records[lane->turn];
		r->valid = 0;
		atomic_signal_fence(memory_order_seq_cst);
		end_change(change);
		rest(MS);
		end(span);
		detach(lane);
		rest(MS);
	}
}

static void wild(struct lane *lane)
{
	void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (gone == MAP_FAILED)
		abort();
	munmap(gone, 4096);
	void *pointers[] = { gone, (void *)8, (void *)0xffff888000000000ull, (void *)0x8000000000000000ull };
	for (long i = 0; i < rounds; i++) {
		struct change *change = begin_change(lane, UNKNOWN, 0, 0);
		publish(pointers[i % 4]);
		end_change(change);
		rest(MS);
		detach(lane);
		rest(MS);
	}
}

static void holder(struct lane *lane)
{
	for (long i = 0; i < rounds; i++) {
		/* The waiter has given the lock back. */
		pthread_barrier_wait(&held);
		struct span *root = begin(lane, 0, 0, "PUT /stock");
		lane->is_unsampled = left_out && !strcmp(left_out, root->name);
		attach(lane, root->trace, root->id);
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&held);
		rest(20 * MS);
		pthread_mutex_unlock(&lock);
		end(root);
		detach(lane);
		rest(5 * MS);
	}
}

static void waiter(struct lane *lane)
{
	for (long i = 0; i < rounds; i++) {
		pthread_barrier_wait(&held);
		pthread_barrier_wait(&held);
		rest(MS / 2);
		struct span *root = begin(lane, 0, 0, "GET /cart");
		attach(lane, root->trace, root->id);
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		end(root);
		detach(lane);
	}
}

static const struct {
	const char *name;
	void (*run)(struct lane *);
} kinds[] = { { "nested", nested }, { "alone", alone }, { "giver", giver }, { "taker", taker },   { "busy", busy },
	      { "none", none },	    { "torn", torn },	{ "wild", wild },   { "holder", holder }, { "waiter", waiter } };
#define LANES (sizeof kinds / sizeof *kinds)

static struct lane lanes[LANES];

static void *run(void *argument)
{
	long number = (long)argument;
	struct lane *lane = &lanes[number];

	lane->name = kinds[number].name;
	lane->tid = syscall(SYS_gettid);
	pthread_setname_np(pthread_self(), lane->name);
	lane->change = calloc(MAX_CHANGES, sizeof *lane->change);
	lane->span = calloc(MAX_SPANS, sizeof *lane->span);
	if (!lane->change || !lane->span)
		abort();
	pthread_barrier_wait(&meet);
	kinds[number].run(lane);
	return NULL;
}

static void write_log(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		abort();
	for (size_t l = 0; l < LANES; l++) {
		struct lane *lane = &lanes[l];
		fprintf(f, "thread %d %s\n", lane->tid, lane->name);
		for (long i = 0; i < lane->changes; i++) {
			struct change *c = &lane->change[i];
			fprintf(f, "change %d %llu %llu ", lane->tid, (unsigned long long)c->before,
				(unsigned long long)c->after);
			if (c->state == SPAN)
				fprintf(f, "%llu %llu\n", (unsigned long long)c->trace, (unsigned long long)c->span);
			else
				fprintf(f, "%s\n", c->state == NONE ? "none" : "unknown");
		}
	}
	if (fclose(f))
		abort();
}

static void write_hex(FILE *f, const char *key, uint64_t id, int filling)
{
	const uint8_t *bytes = (const uint8_t *)&id;

	fprintf(f, "\"%s\":\"", key);
	for (int i = 0; i < 8; i++)
		fprintf(f, "%02x", bytes[i]);
	for (int i = 0; i < filling; i++)
		fputs("ab", f);
	fputs("\"", f);
}

/* Spans with the name `left_out` were not sampled. */
static void write_spans(const char *path)
{
	FILE *f = fopen(path, "w");
	const char *comma = "";

	if (!f)
		abort();
	fprintf(f,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
		"\"contexts\"}},{\"key\":\"process.pid\",\"value\":{\"intValue\":%d}}]},\"scopeSpans\":[{\"spans\":[",
		getpid());
	for (size_t l = 0; l < LANES; l++)
		for (long i = 0; i < lanes[l].spans; i++) {
			struct span *s = &lanes[l].span[i];
			if (left_out && !strcmp(s->name, left_out))
				continue;
			fprintf(f, "%s{", comma);
			write_hex(f, "traceId", s->trace, 8);
			fputs(",", f);
			write_hex(f, "spanId", s->id, 0);
			if (s->parent) {
				fputs(",", f);
				write_hex(f, "parentSpanId", s->parent, 0);
			}
			fprintf(f,
				",\"name\":\"%s\",\"kind\":1,\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\"}",
				s->name, (unsigned long long)s->from, (unsigned long long)s->to);
			comma = ",\n";
		}
	fputs("]}]}]}\n", f);
	if (fclose(f))
		abort();
}

int main(int argc, char **argv)
{
	const char *log = NULL, *spans = NULL, *library = NULL;
	bool waits = false;
	pthread_t threads[LANES];
	char line[16];

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--wait"))
			waits = true;
		else if (!strcmp(argv[i], "--log") && i + 1 < argc)
			log = argv[++i];
		else if (!strcmp(argv[i], "--spans") && i + 1 < argc)
			spans = argv[++i];
		else if (!strcmp(argv[i], "--unsampled") && i + 1 < argc)
			left_out = argv[++i];
		else if (!strcmp(argv[i], "--library") && i + 1 < argc)
			library = argv[++i];
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			rounds = atol(argv[++i]);
		else
			return 2;
	}
#ifdef WORD_LOADED
	void *loaded = library ? dlopen(library, RTLD_NOW) : NULL;
	if (loaded)
		*(void **)&word_set = dlsym(loaded, "word_set");
	if (!word_set)
		return 3;
#else
	(void)library;
#endif
	alarm(60);
	if (waits) {
		puts("ready");
		fflush(stdout);
		if (!fgets(line, sizeof line, stdin))
			return 4;
	} else {
		/* Until it is known where the word is. */
		rest(200 * MS);
	}
	pthread_barrier_init(&meet, NULL, LANES);
	pthread_barrier_init(&handed, NULL, 2);
	pthread_barrier_init(&done, NULL, 2);
	pthread_barrier_init(&held, NULL, 2);
	for (long i = 0; i < (long)LANES; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			return 5;
	for (size_t i = 0; i < LANES; i++)
		pthread_join(threads[i], NULL);
	if (log)
		write_log(log);
	if (spans)
		write_spans(spans);
	return 0;
}
#endif
