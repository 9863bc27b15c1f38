/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server of many small requests with a thread for each client, and tracing of its own: a load for what recording costs such a service.
 *
 *     items ADDRESS:PORT
 *
 * GET /item/N answers with an item. WAKEPATH_TRACING chooses what each request does beside that:
 *
 *     none     nothing
 *     spans    a tenth of the requests sends a span, as OTLP (HTTP, JSON), to OTEL_EXPORTER_OTLP_ENDPOINT; so too without the variable
 *     context  so too, and the thread shows the ids of each request, sampled or not, in its memory (OTEP 4947)
 *     getpid   as `spans`, with a system call of no effect at the beginning and the end of each span that is sent, so that a tracer of
 *              the kernel sees for which request a thread works (L19 §4.4.1)
 */
#define _GNU_SOURCE
#include "../../plugins/c/wakepath_context.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ITEMS 1000
#define SAMPLED_OF 10
/* Spans that wait to be sent; more are dropped, as other exporters do. */
#define QUEUE 4096
/* Spans in a message, and how long fewer wait for it, ms. */
#define BATCH 512
#define DELAY_MS 200

static enum { NONE, SPANS, CONTEXT, GETPID } tracing = SPANS;

struct span {
	uint64_t trace[2], id, from, to;
	int tid, item;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct span spans[QUEUE];
	size_t count;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER };

static struct {
	pthread_mutex_t lock;
	long seen[ITEMS];
} store = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __attribute__((noreturn)) void die(const char *text)
{
	fprintf(stderr, "items: %s\n", text);
	exit(1);
}

static uint64_t realtime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Numbers without a pattern (xorshift), for ids. */
static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void parse(const char *text, struct sockaddr_in *address)
{
	char host[64];
	unsigned short port;

	if (sscanf(text, "%63[^:]:%hu", host, &port) != 2)
		die("no ADDRESS:PORT");
	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	if (inet_pton(AF_INET, host, &address->sin_addr) != 1)
		die("no such ADDRESS");
}

static bool send_all(int s, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t sent = send(s, bytes, length, MSG_NOSIGNAL);
		if (sent <= 0)
			return false;
		bytes += sent;
		length -= sent;
	}
	return true;
}

/* Takes what waits to be sent, when it is enough or old enough. */
static size_t taken(struct span *spans)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += DELAY_MS * 1000000;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&queue.lock);
	while (queue.count < BATCH && pthread_cond_timedwait(&queue.filled, &queue.lock, &end) == 0)
		;
	size_t count = queue.count < BATCH ? queue.count : BATCH;
	memcpy(spans, queue.spans, count * sizeof *spans);
	queue.count -= count;
	memmove(queue.spans, queue.spans + count, queue.count * sizeof *spans);
	pthread_mutex_unlock(&queue.lock);
	return count;
}

static void put(FILE *f, const struct span *spans, size_t count)
{
	fprintf(f,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"items\"}},"
		"{\"key\":\"process.pid\",\"value\":{\"intValue\":\"%d\"}}]},\"scopeSpans\":[{\"spans\":[",
		getpid());
	for (const struct span *s = spans; s < spans + count; s++)
		fprintf(f,
			"%s{\"traceId\":\"%016llx%016llx\",\"spanId\":\"%016llx\",\"name\":\"GET /item\",\"kind\":2,"
			"\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\",\"attributes\":["
			"{\"key\":\"http.request.method\",\"value\":{\"stringValue\":\"GET\"}},"
			"{\"key\":\"item\",\"value\":{\"intValue\":\"%d\"}},"
			"{\"key\":\"wakepath.tid\",\"value\":{\"intValue\":\"%d\"}}]}",
			s == spans ? "" : ",", (unsigned long long)s->trace[0], (unsigned long long)s->trace[1], (unsigned long long)s->id,
			(unsigned long long)s->from, (unsigned long long)s->to, s->item, s->tid);
	fputs("]}]}]}", f);
}

/* Sends spans as they come. A receiver that is not there, or not there any more, gets the next message. */
static void *exporter(void *unused)
{
	static struct span spans[BATCH];
	const char *url = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	struct sockaddr_in to;
	int s = -1;

	if (!url || strncmp(url, "http://", 7))
		die("OTEL_EXPORTER_OTLP_ENDPOINT is no http://ADDRESS:PORT");
	parse(url + 7, &to);
	for (;;) {
		char *body, head[256], answer[4096];
		size_t length, count = taken(spans);
		if (count == 0)
			continue;
		FILE *f = open_memstream(&body, &length);
		if (!f)
			die("cannot get memory for a message");
		put(f, spans, count);
		fclose(f);
		if (s < 0) {
			s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to)) {
				close(s);
				s = -1;
			}
		}
		int size = snprintf(head, sizeof head,
				    "POST /v1/traces HTTP/1.1\r\nHost: items\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
				    length);
		/* The answers of receivers are short: a single read takes all. */
		if (s >= 0 && !(send_all(s, head, size) && send_all(s, body, length) && recv(s, answer, sizeof answer, 0) > 0)) {
			close(s);
			s = -1;
		}
		free(body);
	}
	return unused;
}

static void keep(const struct span *span)
{
	pthread_mutex_lock(&queue.lock);
	if (queue.count < QUEUE)
		queue.spans[queue.count++] = *span;
	if (queue.count == BATCH)
		pthread_cond_signal(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

/* The item as JSON. */
static int look_up(int item, char *body, size_t size)
{
	pthread_mutex_lock(&store.lock);
	long seen = ++store.seen[item];
	pthread_mutex_unlock(&store.lock);
	return snprintf(body, size, "{\"number\":%d,\"name\":\"item %d\",\"seen\":%ld,\"tags\":[\"small\",\"blue\",\"new\"]}", item, item, seen);
}

static void bytes_of(uint64_t id, uint8_t *bytes)
{
	for (int i = 0; i < 8; i++)
		bytes[i] = id >> (56 - 8 * i);
}

/* The tracing of a request, from its beginning to its end. */
struct request {
	struct span span;
	struct wakepath_attached attached;
	bool is_sampled;
};

static void begins(struct request *request, uint64_t *ids, int tid, int item)
{
	struct span *span = &request->span;
	uint8_t trace[16], id[8];

	if (tracing == NONE)
		return;
	span->trace[0] = next(ids);
	span->trace[1] = next(ids);
	span->id = next(ids);
	request->is_sampled = span->trace[1] % SAMPLED_OF == 0;
	if (request->is_sampled) {
		span->tid = tid;
		span->item = item;
		span->from = realtime();
		if (tracing == GETPID)
			syscall(SYS_getpid, span->trace[0], span->trace[1], span->id, 1);
	}
	if (tracing == CONTEXT) {
		bytes_of(span->trace[0], trace);
		bytes_of(span->trace[1], trace + 8);
		bytes_of(span->id, id);
		wakepath_attach(&request->attached, trace, id, request->is_sampled);
	}
}

static void ends(struct request *request)
{
	if (tracing == CONTEXT)
		wakepath_detach(&request->attached);
	if (tracing == NONE || !request->is_sampled)
		return;
	if (tracing == GETPID)
		syscall(SYS_getpid, request->span.trace[0], request->span.trace[1], request->span.id, 2);
	request->span.to = realtime();
	keep(&request->span);
}

/* Serves a client until it closes the connection. */
static void *serve(void *of)
{
	int s = (int)(intptr_t)of, tid = syscall(SYS_gettid), item;
	uint64_t ids = realtime() * 2 + 1;
	char text[4096], body[256], answer[512];
	struct request request;
	size_t length = 0;
	ssize_t came;

	while ((came = recv(s, text + length, sizeof text - 1 - length, 0)) > 0) {
		length += came;
		text[length] = 0;
		if (!strstr(text, "\r\n\r\n"))
			continue;
		length = 0;
		if (sscanf(text, "GET /item/%d ", &item) != 1 || item < 0 || item >= ITEMS)
			break;
		begins(&request, &ids, tid, item);
		int size = look_up(item, body, sizeof body);
		size = snprintf(answer, sizeof answer,
				"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, body);
		bool is_sent = send_all(s, answer, size);
		ends(&request);
		if (!is_sent)
			break;
	}
	close(s);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *chosen = getenv("WAKEPATH_TRACING");
	struct sockaddr_in at;
	pthread_t thread;

	if (argc != 2) {
		fprintf(stderr, "usage: items ADDRESS:PORT\n");
		return 2;
	}
	if (chosen && !strcmp(chosen, "none"))
		tracing = NONE;
	if (chosen && !strcmp(chosen, "context"))
		tracing = CONTEXT;
	if (chosen && !strcmp(chosen, "getpid"))
		tracing = GETPID;
	parse(argv[1], &at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) ||
	    bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64))
		die("cannot listen there");
	if (tracing != NONE && pthread_create(&thread, NULL, exporter, NULL))
		die("cannot start a thread");
	for (;;) {
		int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (s < 0)
			die("cannot take a client");
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)s))
			die("cannot start a thread");
		pthread_detach(thread);
	}
}
