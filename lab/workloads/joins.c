/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests that move between threads and take turns in a thread, with a log of the request that each thread worked for.
 *
 *     joins FOLDER
 *
 *     pool      a thread takes requests and hands each to one of two workers, which works for it with sleeps; a part of it is a
 *               span of its own. The span begins in the first thread, and has the time at which it was queued (`wakepath.queued_ns`)
 *     task      four requests at once take turns in a thread, which sleeps in each turn; each notes its turns (`wakepath.turns`)
 *     turn      the same, with a span for each turn: the thread works for the outer spans in none, and these note so
 *     busy      a thread serves forty requests between two sleeps
 *
 * FOLDER/log has a line `TID FROM SHOWN LEAVES LEFT TRACE` for each stretch of work, by the monotonic clock, ns: the thread takes
 * the request up between FROM and SHOWN, and leaves it between LEAVES and LEFT. FOLDER/spans.json has the spans, with the thread in which each began as
 * `wakepath.tid`. The program joins-hidden is the same with the word of the contexts where no reader finds it.
 */
#define _GNU_SOURCE
#include "../../plugins/c/wakepath_context.h"
#include "../../plugins/c/wakepath_turns.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define US 1000ull
#define REQUESTS 100
#define WORKERS 2
#define TASKS 4
#define TURNS 3
#define SERVED 40

struct request {
	uint64_t trace, span, began, ended, queued;
	const char *name;
	int tid;
	struct wakepath_record record;
	/* The turns, where they are noted. */
	struct wakepath_turns *turns;
	uint64_t turned;
};

/* A stretch of work: when the thread began to take it up, and when it had. */
struct stretch {
	uint64_t from, shown;
};

static FILE *log_file, *spans_file;
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static const char *comma = "";
static _Atomic uint64_t next_id = 1;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void note(FILE *file, const char *format, ...)
{
	va_list words;

	pthread_mutex_lock(&books);
	if (file == spans_file)
		fputs(comma, file);
	va_start(words, format);
	vfprintf(file, format, words);
	va_end(words);
	if (file == spans_file)
		comma = ",\n";
	pthread_mutex_unlock(&books);
}

static void begin(struct request *r, const char *name, uint64_t trace)
{
	uint8_t ids[16] = { 0 };

	r->queued = 0;
	r->turns = NULL;
	r->turned = 0;
	r->span = next_id++;
	r->trace = trace ? trace : r->span;
	r->name = name;
	r->tid = syscall(SYS_gettid);
	for (int i = 0; i < 8; i++)
		ids[8 + i] = r->span >> (56 - 8 * i);
	uint8_t span[8];
	memcpy(span, ids + 8, 8);
	for (int i = 0; i < 8; i++)
		ids[8 + i] = r->trace >> (56 - 8 * i);
	wakepath_fill(&r->record, ids, span, 1);
	r->began = clock_ns(CLOCK_REALTIME);
}

static void end(struct request *r)
{
	r->ended = clock_ns(CLOCK_REALTIME);
}

static void write_span(const struct request *r, uint64_t parent)
{
	char above[64] = "", queued[96] = "", turns[WAKEPATH_TURNS_BYTES] = "", key[96] = "";

	if (parent)
		snprintf(above, sizeof above, "\"parentSpanId\":\"%016llx\",", (unsigned long long)parent);
	if (r->queued)
		snprintf(queued, sizeof queued, ",{\"key\":\"wakepath.queued_ns\",\"value\":{\"intValue\":\"%llu\"}}",
			 (unsigned long long)r->queued);
	if (r->turns && wakepath_write_turns(r->turns, r->began, turns))
		snprintf(key, sizeof key, ",{\"key\":\"wakepath.turns\",\"value\":{\"stringValue\":\"");
	note(spans_file,
	     "{\"traceId\":\"%032llx\",\"spanId\":\"%016llx\",%s\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%llu\","
	     "\"endTimeUnixNano\":\"%llu\",\"attributes\":[{\"key\":\"wakepath.tid\",\"value\":{\"intValue\":%d}}%s%s%s%s]}",
	     (unsigned long long)r->trace, (unsigned long long)r->span, above, r->name, parent ? 1 : 2,
	     (unsigned long long)r->began, (unsigned long long)r->ended, r->tid, queued, key, turns, *key ? "\"}}" : "");
}

static void busy(uint64_t ns)
{
	for (uint64_t end = clock_ns(CLOCK_MONOTONIC) + ns; clock_ns(CLOCK_MONOTONIC) < end;)
		;
}

static void rest(uint64_t ns)
{
	struct timespec t = { .tv_nsec = (long)ns };

	nanosleep(&t, NULL);
}

/* Works for a request from here on; it began to take it up at `from`. */
static struct stretch take_up(struct request *r, uint64_t from)
{
	wakepath_show(&r->record);
	r->turned = clock_ns(CLOCK_REALTIME);
	return (struct stretch){ .from = from, .shown = clock_ns(CLOCK_MONOTONIC) };
}

enum leave { PAUSE, QUEUE, END };

/* It began to leave it at `leaves`. */
static void leave_at(struct request *r, struct stretch stretch, enum leave how, uint64_t leaves)
{
	if (how == QUEUE)
		r->queued = clock_ns(CLOCK_REALTIME);
	if (how == END)
		end(r);
	/* It was shown itself, and not a part of it. */
	if (r->turns && r->turned)
		wakepath_note_turn(r->turns, r->turned, clock_ns(CLOCK_REALTIME), 0);
	wakepath_show(NULL);
	uint64_t left = clock_ns(CLOCK_MONOTONIC);

	note(log_file, "%ld %llu %llu %llu %llu %032llx\n", syscall(SYS_gettid), (unsigned long long)stretch.from,
	     (unsigned long long)stretch.shown, (unsigned long long)leaves, (unsigned long long)left, (unsigned long long)r->trace);
}

static void leave(struct request *r, struct stretch stretch, enum leave how)
{
	leave_at(r, stretch, how, clock_ns(CLOCK_MONOTONIC));
}

static struct request pooled[REQUESTS];
static sem_t queued;
static _Atomic int taken;

static void *worker(void *unused)
{
	for (;;) {
		sem_wait(&queued);
		int number = taken++;
		if (number >= REQUESTS)
			return unused;
		struct request *r = &pooled[number], part;
		struct stretch stretch = take_up(r, clock_ns(CLOCK_MONOTONIC));

		busy(200 * US);
		rest(400 * US);
		begin(&part, "part", r->trace);
		wakepath_show(&part.record);
		busy(100 * US);
		rest(200 * US);
		wakepath_show(&r->record);
		end(&part);
		write_span(&part, r->span);
		busy(50 * US);
		leave(r, stretch, END);
		write_span(r, 0);
	}
}

static void *pool(void *unused)
{
	pthread_t workers[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, worker, NULL);
	for (int i = 0; i < REQUESTS; i++) {
		uint64_t from = clock_ns(CLOCK_MONOTONIC);
		begin(&pooled[i], "pool", 0);
		struct stretch stretch = take_up(&pooled[i], from);
		busy(50 * US);
		leave(&pooled[i], stretch, QUEUE);
		sem_post(&queued);
		rest(900 * US);
	}
	for (int i = 0; i < WORKERS; i++)
		sem_post(&queued);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	return unused;
}

static void take_turns(const char *name, int has_spans)
{
	struct request tasks[TASKS], turn;
	struct wakepath_turns turns[TASKS];

	for (int round = 0; round < REQUESTS / TASKS; round++) {
		for (int i = 0; i < TASKS; i++) {
			begin(&tasks[i], name, 0);
			wakepath_begin_turns(&turns[i]);
			tasks[i].turns = &turns[i];
		}
		for (int number = 0; number < TURNS; number++)
			for (int i = 0; i < TASKS; i++) {
				struct request *r = &tasks[i];
				uint64_t from = clock_ns(CLOCK_MONOTONIC);

				if (has_spans)
					begin(&turn, "one turn", r->trace);
				struct stretch stretch = take_up(has_spans ? &turn : r, from);
				busy(100 * US);
				rest(200 * US);
				busy(20 * US);
				uint64_t leaves = clock_ns(CLOCK_MONOTONIC);
				if (has_spans)
					end(&turn);
				leave_at(r, stretch, number + 1 < TURNS ? PAUSE : END, leaves);
				if (has_spans)
					write_span(&turn, r->span);
			}
		for (int i = 0; i < TASKS; i++)
			write_span(&tasks[i], 0);
	}
}

static void *tasks(void *unused)
{
	take_turns("task", 0);
	take_turns("turn", 1);
	return unused;
}

static void *loop(void *unused)
{
	struct request r;

	for (int round = 0; round < REQUESTS; round++) {
		for (int i = 0; i < SERVED; i++) {
			uint64_t from = clock_ns(CLOCK_MONOTONIC);
			begin(&r, "busy", 0);
			struct stretch stretch = take_up(&r, from);
			busy(20 * US);
			leave(&r, stretch, END);
			write_span(&r, 0);
		}
		rest(500 * US);
	}
	return unused;
}

int main(int argc, char **argv)
{
	void *(*parts[])(void *) = { pool, tasks, loop };
	pthread_t threads[3];
	char name[4096];

	if (argc != 2)
		return 2;
	snprintf(name, sizeof name, "%s/log", argv[1]);
	log_file = fopen(name, "w");
	snprintf(name, sizeof name, "%s/spans.json", argv[1]);
	spans_file = fopen(name, "w");
	if (!log_file || !spans_file)
		return 1;
	fprintf(spans_file,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"joins\"}},"
		"{\"key\":\"process.pid\",\"value\":{\"intValue\":%d}}]},\"scopeSpans\":[{\"spans\":[",
		getpid());
	sem_init(&queued, 0, 0);
	/* The recorder finds the word of a new process within 20 ms. */
	rest(200000 * US);
	for (int i = 0; i < 3; i++) {
		pthread_create(&threads[i], NULL, parts[i], NULL);
		pthread_join(threads[i], NULL);
	}
	rest(50000 * US);
	fputs("]}]}]}\n", spans_file);
	return fclose(spans_file) || fclose(log_file);
}
