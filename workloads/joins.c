/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests that move between threads and take turns in one, with a log of the request that each thread worked for.
 *
 *     joins FOLDER
 *
 *     pool      one thread takes requests and hands each to one of two workers, which works for it with sleeps; a part of it is a
 *               span of its own. The span begins in the first thread
 *     tasks     four requests at once take turns in one thread, which sleeps in each turn
 *     busy      one thread serves forty requests between two sleeps
 *
 * FOLDER/log has a line `TID FROM TO TRACE` for each stretch of work, by the monotonic clock; FOLDER/spans.json has the spans, with the thread
 * in which each began as `wakepath.tid`. The program joins-hidden is the same with the word of the contexts where no reader finds it.
 */
#define _GNU_SOURCE
#include "../plugins/c/wakepath_context.h"

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
#define SERVED 40

struct request {
	uint64_t trace, span, began;
	const char *name;
	int tid;
	struct wakepath_record record;
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

static void end(const struct request *r, uint64_t parent)
{
	uint64_t ended = clock_ns(CLOCK_REALTIME);
	char above[64] = "";

	if (parent)
		snprintf(above, sizeof above, "\"parentSpanId\":\"%016llx\",", (unsigned long long)parent);
	note(spans_file,
	     "{\"traceId\":\"%032llx\",\"spanId\":\"%016llx\",%s\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%llu\","
	     "\"endTimeUnixNano\":\"%llu\",\"attributes\":[{\"key\":\"wakepath.tid\",\"value\":{\"intValue\":%d}}]}",
	     (unsigned long long)r->trace, (unsigned long long)r->span, above, r->name, parent ? 1 : 2,
	     (unsigned long long)r->began, (unsigned long long)ended, r->tid);
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

/* Works for a request from here on; returns when that began. */
static uint64_t take_up(struct request *r)
{
	uint64_t at = clock_ns(CLOCK_MONOTONIC);

	wakepath_show(&r->record);
	return at;
}

static void leave(const struct request *r, uint64_t since)
{
	wakepath_show(NULL);
	note(log_file, "%ld %llu %llu %032llx\n", syscall(SYS_gettid), (unsigned long long)since,
	     (unsigned long long)clock_ns(CLOCK_MONOTONIC), (unsigned long long)r->trace);
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
		uint64_t since = take_up(r);

		busy(200 * US);
		rest(400 * US);
		begin(&part, "part", r->trace);
		wakepath_show(&part.record);
		busy(100 * US);
		rest(200 * US);
		wakepath_show(&r->record);
		end(&part, r->span);
		busy(50 * US);
		end(r, 0);
		leave(r, since);
	}
}

static void *pool(void *unused)
{
	pthread_t workers[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		pthread_create(&workers[i], NULL, worker, NULL);
	for (int i = 0; i < REQUESTS; i++) {
		begin(&pooled[i], "pool", 0);
		uint64_t since = take_up(&pooled[i]);
		busy(50 * US);
		leave(&pooled[i], since);
		sem_post(&queued);
		rest(900 * US);
	}
	for (int i = 0; i < WORKERS; i++)
		sem_post(&queued);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	return unused;
}

static void *tasks(void *unused)
{
	struct request turns[TASKS];

	for (int round = 0; round < REQUESTS / TASKS; round++) {
		for (int i = 0; i < TASKS; i++)
			begin(&turns[i], "task", 0);
		for (int turn = 0; turn < 3; turn++)
			for (int i = 0; i < TASKS; i++) {
				uint64_t since = take_up(&turns[i]);
				busy(100 * US);
				rest(200 * US);
				busy(20 * US);
				leave(&turns[i], since);
			}
		for (int i = 0; i < TASKS; i++)
			end(&turns[i], 0);
	}
	return unused;
}

static void *loop(void *unused)
{
	struct request r;

	for (int round = 0; round < REQUESTS; round++) {
		for (int i = 0; i < SERVED; i++) {
			begin(&r, "busy", 0);
			uint64_t since = take_up(&r);
			busy(20 * US);
			end(&r, 0);
			leave(&r, since);
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
