/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads which publish their span in memory and, beside it, some span attributes; the process publishes the attribute names. `cart` waits for a
 * lock held by `stock`, whose spans are not sampled.
 *
 *     busy SPANS [late]      `late`: the attribute names are published while it runs
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "wakepath_context.h"
#include "wakepath_process.h"

#define ROUNDS 5
#define ROOM 512

static const char *const keys[] = { "user.name", "http.route", "http.request.method", "db.system" };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int held, served;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void rest(uint64_t ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

struct roomy {
	struct wakepath_record record;
	char room[ROOM];
};

static struct wakepath_record *span_of(struct roomy *to, uint8_t trace, int round, uint8_t flags)
{
	uint8_t ids[16];

	memset(ids, trace, sizeof(ids));
	ids[0] = round + 1;
	wakepath_fill(&to->record, ids, ids, flags);
	return &to->record;
}

static int add(struct roomy *to, uint8_t key, const char *value)
{
	return wakepath_add(&to->record, ROOM, key, value, strlen(value));
}

static void *stock(void *unused)
{
	static char longest[256];
	struct roomy roomy;

	memset(longest, 'x', 200);
	for (int round = 0; round < ROUNDS; round++) {
		span_of(&roomy, 0xcc, round, 0);
		/* A secret, and an earlier value. */
		if (!add(&roomy, 0, "alice") || !add(&roomy, 1, "/early"))
			abort();
		wakepath_show(&roomy.record);
		rest(1);
		/* The same span again: the effective value, a key without a name, a long value. */
		wakepath_show(NULL);
		if (!add(&roomy, 1, "/stock/{id}") || !add(&roomy, 77, "nameless") || !add(&roomy, 2, "PUT") ||
		    (round == 4 && !add(&roomy, 3, longest)))
			abort();
		wakepath_show(&roomy.record);
		/* A thread's record is read when it leaves its CPU. */
		rest(1);
		pthread_mutex_lock(&lock);
		atomic_store(&held, round + 1);
		rest(20);
		pthread_mutex_unlock(&lock);
		wakepath_show(NULL);
		while (atomic_load(&served) <= round)
			rest(1);
	}
	return unused;
}

static void cart(FILE *spans)
{
	struct roomy roomy;

	fprintf(spans, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
		       "\"shop\"}},{\"key\":\"process.pid\",\"value\":{\"intValue\":%d}}]},\"scopeSpans\":[{\"spans\":[", getpid());
	for (int round = 0; round < ROUNDS; round++) {
		while (atomic_load(&held) <= round)
			rest(1);
		uint64_t from = now();

		wakepath_show(span_of(&roomy, 0xaa, round, 1));
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		rest(1);
		wakepath_show(NULL);
		fprintf(spans, "%s{\"traceId\":\"%02x", round ? "," : "", round + 1);
		for (int i = 1; i < 16; i++)
			fprintf(spans, "aa");
		fprintf(spans, "\",\"spanId\":\"%02xaaaaaaaaaaaaaa\",\"name\":\"GET /cart\",\"kind\":2,", round + 1);
		fprintf(spans, "\"startTimeUnixNano\":\"%lu\",\"endTimeUnixNano\":\"%lu\"}", from, now());
		rest(1);
		atomic_store(&served, round + 1);
	}
	fprintf(spans, "]}]}]}\n");
}

int main(int argc, char **argv)
{
	FILE *spans = argc > 1 ? fopen(argv[1], "w") : NULL;
	_Bool late = argc > 2;
	pthread_t other;

	if (!spans)
		return 2;
	alarm(60);
	/* Later names are added to the earlier ones. */
	if (!wakepath_publish("shop", late ? NULL : "shop-7", keys, late ? 1 : 4))
		return 3;
	rest(400);
	if (late && !wakepath_publish("shop", "shop-7", keys, 4))
		return 3;
	/* The recorder looks for changes once a second. */
	rest(1800);
	if (pthread_create(&other, NULL, stock, NULL))
		return 4;
	cart(spans);
	fclose(spans);
	pthread_join(other, NULL);
	/* The recorder may look once more. */
	rest(200);
	return 0;
}
