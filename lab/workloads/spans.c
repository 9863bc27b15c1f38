/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "spans.h"
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Spans in a message. */
#define BATCH 1000

static const char *service_name;
static struct span *spans;
static long most_spans;
static atomic_long count;
static uint64_t first_id;

static uint64_t realtime(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

void spans_of(const char *service, int number, long most)
{
	service_name = service;
	first_id = (uint64_t)number << 40;
	most_spans = most;
	/* Touched now, so that no span takes a page fault. */
	spans = calloc(most, sizeof *spans);
	if (!spans)
		die("cannot get memory for spans");
	memset(spans, 0, most * sizeof *spans);
}

/* The bytes are in the order of the text. */
static void bytes_of(uint64_t id, uint8_t bytes[8])
{
	for (int i = 0; i < 8; i++)
		bytes[i] = id >> (56 - 8 * i);
}

static void trace_bytes(uint64_t trace, uint8_t bytes[16])
{
	memset(bytes + 8, 0xab, 8);
	bytes_of(trace, bytes);
}

void trace_id_as_text(uint64_t trace, char text[33])
{
	snprintf(text, 33, "%016llxabababababababab", (unsigned long long)trace);
}

struct span *span_begins(const char *name, enum span_kind kind, uint64_t trace, uint64_t parent)
{
	long place = atomic_fetch_add(&count, 1);

	if (place >= most_spans)
		die("more spans than were expected");
	struct span *span = &spans[place];
	span->trace = trace;
	span->id = first_id + place + 1;
	span->parent = parent;
	span->kind = kind;
	span->name = name;
	span->tid = syscall(SYS_gettid);
	span->from = realtime();
	return span;
}

void span_ends(struct span *span)
{
	span->to = realtime();
}

void span_attach(struct span *span)
{
	uint8_t trace[16], id[8];

	trace_bytes(span->trace, trace);
	bytes_of(span->id, id);
	wakepath_attach(&span->attached, trace, id, 1);
}

void span_detach(struct span *span)
{
	if (!wakepath_detach(&span->attached))
		die("another span is the thread's");
}

static void put_span(FILE *f, const struct span *s)
{
	char trace[33];

	trace_id_as_text(s->trace, trace);
	fprintf(f, "{\"traceId\":\"%s\",\"spanId\":\"%016llx\"", trace, (unsigned long long)s->id);
	if (s->parent)
		fprintf(f, ",\"parentSpanId\":\"%016llx\"", (unsigned long long)s->parent);
	fprintf(f,
		",\"name\":\"%s\",\"kind\":%d,\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\",\"attributes\":["
		"{\"key\":\"wakepath.tid\",\"value\":{\"intValue\":\"%d\"}}",
		s->name, s->kind, (unsigned long long)s->from, (unsigned long long)s->to, s->tid);
	if (s->queued)
		fprintf(f, ",{\"key\":\"wakepath.queued_ns\",\"value\":{\"intValue\":\"%llu\"}}", (unsigned long long)s->queued);
	fputs("]}", f);
}

/* Sends a message and reads the head of the answer. */
static void post(const char *host, int port, const char *body, size_t length)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	char head[256], answer[64] = "";
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || s < 0 || connect(s, (struct sockaddr *)&to, sizeof to))
		die("cannot reach the receiver of spans");
	int size = snprintf(head, sizeof head,
			    "POST /v1/traces HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
			    "Content-Length: %zu\r\nConnection: close\r\n\r\n",
			    host, length);
	if (send(s, head, size, MSG_NOSIGNAL) != size)
		die("cannot send spans");
	for (size_t at = 0; at < length;) {
		ssize_t sent = send(s, body + at, length - at, MSG_NOSIGNAL);
		if (sent <= 0)
			die("cannot send spans");
		at += sent;
	}
	if (recv(s, answer, sizeof answer - 1, 0) <= 0 || strncmp(answer, "HTTP/1.1 200", 12))
		die("the receiver did not take the spans");
	close(s);
}

void spans_send(void)
{
	const char *url = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	char host[64];
	int port;

	if (!url)
		return;
	if (sscanf(url, "http://%63[^:]:%d", host, &port) != 2)
		die("OTEL_EXPORTER_OTLP_ENDPOINT is no http://ADDRESS:PORT");
	for (long at = 0, all = atomic_load(&count); at < all; at += BATCH) {
		char *body;
		size_t length;
		FILE *f = open_memstream(&body, &length);
		if (!f)
			die("cannot get memory for a message");
		fprintf(f,
			"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"%s\"}},"
			"{\"key\":\"process.pid\",\"value\":{\"intValue\":\"%d\"}}]},\"scopeSpans\":[{\"spans\":[",
			service_name, getpid());
		const char *comma = "";
		for (long i = at; i < all && i < at + BATCH; i++)
			if (spans[i].to) {
				fputs(comma, f);
				put_span(f, &spans[i]);
				comma = ",\n";
			}
		fputs("]}]}]}\n", f);
		fclose(f);
		post(host, port, body, length);
		free(body);
	}
}
