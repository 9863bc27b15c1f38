/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two processes which publish their service, in OpenTelemetry's process context (OTEP 4719), and their span: `shop` waits for a lock held by its
 * child `bank`. The child sends no spans.
 *
 *     two SPANS [silent]      `silent`: they do not publish their service
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 5
#define MS 1000000ull

__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

struct record {
	uint8_t trace[16], span[8], valid, flags;
	uint16_t attributes;
} __attribute__((packed));

struct context {
	char signature[8];
	uint32_t version, bytes;
	volatile uint64_t published;
	const void *volatile payload;
};
_Static_assert(sizeof(struct context) == 32, "context");

struct shared {
	pthread_mutex_t lock;
	atomic_int held, waits, served;
};

static struct context *context;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void rest(uint64_t ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS };

	nanosleep(&t, NULL);
}

/* A context with a service name: in a resource, an attribute with a key and a text value. */
static void publish(const char *service)
{
	static const char key[] = "service.name";
	size_t name = strlen(service), keys = sizeof(key) - 1, attribute = 2 + keys + 4 + name;
	uint8_t *payload = malloc(attribute + 4), *at = payload;

	*at++ = 0x0a, *at++ = attribute + 2;
	*at++ = 0x0a, *at++ = attribute;
	*at++ = 0x0a, *at++ = keys;
	at = (uint8_t *)mempcpy(at, key, keys);
	*at++ = 0x12, *at++ = name + 2;
	*at++ = 0x0a, *at++ = name;
	at = (uint8_t *)mempcpy(at, service, name);
	if (!context) {
		int file = memfd_create("OTEL_CTX", MFD_CLOEXEC);

		if (file < 0 || ftruncate(file, 4096))
			abort();
		context = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
		if (context == MAP_FAILED)
			abort();
		close(file);
		madvise(context, 4096, MADV_DONTFORK);
	}
	context->published = 0;
	atomic_thread_fence(memory_order_seq_cst);
	context->version = 2;
	context->bytes = at - payload;
	context->payload = payload;
	atomic_thread_fence(memory_order_seq_cst);
	context->published = now();
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(context->signature, "OTEL_CTX", 8);
}

static void attach(struct record *record, uint8_t trace, int round)
{
	memset(record, 0, sizeof(*record));
	memset(record->trace, trace, sizeof(record->trace));
	memset(record->span, trace, sizeof(record->span));
	record->trace[0] = record->span[0] = round + 1;
	record->valid = record->flags = 1;
	atomic_signal_fence(memory_order_seq_cst);
	otel_thread_ctx_v1 = record;
	atomic_signal_fence(memory_order_seq_cst);
}

static void detach(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	otel_thread_ctx_v1 = NULL;
	atomic_signal_fence(memory_order_seq_cst);
}

static void bank(struct shared *shared)
{
	struct record record;

	for (int round = 0; round < ROUNDS; round++) {
		attach(&record, 0xcc, round);
		pthread_mutex_lock(&shared->lock);
		atomic_store(&shared->held, round + 1);
		/* On a busy machine the other process comes late. */
		while (atomic_load(&shared->waits) <= round)
			rest(1);
		rest(20);
		pthread_mutex_unlock(&shared->lock);
		detach();
		while (atomic_load(&shared->served) <= round)
			rest(1);
	}
	/* The recorder may look at its context once more. */
	rest(200);
}

static void shop(struct shared *shared, FILE *spans)
{
	struct record record;

	fprintf(spans, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"
		       "\"shop\"}},{\"key\":\"process.pid\",\"value\":{\"intValue\":%d}}]},\"scopeSpans\":[{\"spans\":[", getpid());
	for (int round = 0; round < ROUNDS; round++) {
		while (atomic_load(&shared->held) <= round)
			rest(1);
		uint64_t from = now();

		attach(&record, 0xaa, round);
		atomic_store(&shared->waits, round + 1);
		pthread_mutex_lock(&shared->lock);
		pthread_mutex_unlock(&shared->lock);
		rest(1);
		detach();
		fprintf(spans, "%s{\"traceId\":\"%02x", round ? "," : "", round + 1);
		for (int i = 1; i < 16; i++)
			fprintf(spans, "aa");
		fprintf(spans, "\",\"spanId\":\"%02xaaaaaaaaaaaaaa\",\"name\":\"GET /cart\",\"kind\":2,", round + 1);
		fprintf(spans, "\"startTimeUnixNano\":\"%lu\",\"endTimeUnixNano\":\"%lu\"}", from, now());
		rest(1);
		atomic_store(&shared->served, round + 1);
	}
	fprintf(spans, "]}]}]}\n");
}

int main(int argc, char **argv)
{
	FILE *spans = argc > 1 ? fopen(argv[1], "w") : NULL;
	_Bool silent = argc > 2;
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;

	if (!spans || shared == MAP_FAILED)
		return 2;
	alarm(60);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &attributes);
	if (!silent)
		publish("shop");
	/* Until the recorder knows where the word is. */
	rest(200);
	pid_t child = fork();

	if (child < 0)
		return 3;
	if (child == 0) {
		context = NULL;
		if (!silent) {
			publish("teller");
			rest(400);
			/* It was another service before. */
			publish("bank");
		}
		/* The recorder looks for changes once a second. */
		rest(1800);
		bank(shared);
		_exit(0);
	}
	shop(shared, spans);
	fclose(spans);
	return waitpid(child, NULL, 0) == child ? 0 : 4;
}
