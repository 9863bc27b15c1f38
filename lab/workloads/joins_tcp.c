/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests that come by TCP to a server whose spans say nothing of its threads, with a log of the request that each thread worked for.
 *
 *     joins_tcp FOLDER
 *
 *     own       each of three threads serves a connection of its own
 *     pool      a thread reads the requests of three connections and hands each to one of two workers, which answers it
 *     loop      a thread serves three connections at once, each request in three turns
 *
 * The client is the parent of the server. FOLDER/log has a line `TID FROM SHOWN LEAVES LEFT TRACE` for each stretch of work of the
 * server, by the monotonic clock, ns: the thread takes the request up between FROM and SHOWN, and leaves it between LEAVES and LEFT. A
 * request is taken up as it has been read, and left as it has been answered. FOLDER/spans.json has the spans: their times and no thread.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US 1000ull
#define CONNECTIONS 3
#define WORKERS 2
#define EACH 40
#define TURNS 3

struct request {
	const char *name;
	uint64_t trace, began, ended;
	int socket, turns;
};

static FILE *log_file, *spans_file;
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static const char *comma = "";
static uint64_t last_trace;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
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

static void must(int is_right, const char *what)
{
	if (is_right)
		return;
	perror(what);
	exit(1);
}

/* A stretch of work: when the thread began to take it up, and when it had. */
struct stretch {
	uint64_t from, shown;
};

/* Waits for a request of a connection, and takes it up; returns 0 at the end of the connection. */
static int read_request(int socket, const char *name, struct request *r, struct stretch *stretch)
{
	char byte;
	ssize_t got = read(socket, &byte, 1);

	must(got >= 0, "read");
	if (!got)
		return 0;
	stretch->from = clock_ns(CLOCK_MONOTONIC);
	*r = (struct request){ .name = name, .socket = socket, .began = clock_ns(CLOCK_REALTIME) };
	r->trace = __atomic_add_fetch(&last_trace, 1, __ATOMIC_RELAXED);
	stretch->shown = clock_ns(CLOCK_MONOTONIC);
	return 1;
}

static void answer(struct request *r)
{
	must(write(r->socket, "a", 1) == 1, "write");
}

static void leave(struct request *r, struct stretch stretch, int ends)
{
	uint64_t leaves = clock_ns(CLOCK_MONOTONIC), left;

	if (ends)
		r->ended = clock_ns(CLOCK_REALTIME);
	left = clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&books);
	fprintf(log_file, "%ld %llu %llu %llu %llu %032llx\n", syscall(SYS_gettid), (unsigned long long)stretch.from,
		(unsigned long long)stretch.shown, (unsigned long long)leaves, (unsigned long long)left, (unsigned long long)r->trace);
	if (ends)
		fprintf(spans_file,
			"%s{\"traceId\":\"%032llx\",\"spanId\":\"%016llx\",\"name\":\"%s\",\"kind\":2,\"startTimeUnixNano\":\"%llu\","
			"\"endTimeUnixNano\":\"%llu\"}",
			comma, (unsigned long long)r->trace, (unsigned long long)r->trace, r->name,
			(unsigned long long)r->began, (unsigned long long)r->ended);
	if (ends)
		comma = ",\n";
	pthread_mutex_unlock(&books);
}

static void *own(void *argument)
{
	struct request r;
	struct stretch stretch;

	while (read_request((int)(intptr_t)argument, "own", &r, &stretch)) {
		busy(200 * US);
		rest(300 * US);
		busy(100 * US);
		answer(&r);
		leave(&r, stretch, 1);
	}
	return NULL;
}

static struct request queue[CONNECTIONS * EACH];
static int queued, taken, is_over;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_grew = PTHREAD_COND_INITIALIZER;

static void *worker(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&queue_lock);
		while (taken == queued && !is_over)
			pthread_cond_wait(&queue_grew, &queue_lock);
		int number = taken == queued ? -1 : taken++;
		pthread_mutex_unlock(&queue_lock);
		if (number < 0)
			return unused;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		struct stretch stretch = { .from = now, .shown = now };

		busy(200 * US);
		rest(300 * US);
		busy(100 * US);
		answer(&queue[number]);
		leave(&queue[number], stretch, 1);
	}
}

static void add_to_queue(struct request *r)
{
	pthread_mutex_lock(&queue_lock);
	queue[queued++] = *r;
	pthread_cond_signal(&queue_grew);
	pthread_mutex_unlock(&queue_lock);
}

/* Waits until a connection has data or has ended; returns at once with `is_idle` unset. */
static void wait_for_any(struct pollfd *all, int is_idle)
{
	must(poll(all, CONNECTIONS, is_idle ? -1 : 0) >= 0, "poll");
}

static void read_for_pool(struct pollfd *all)
{
	struct request r;
	struct stretch stretch;

	for (int open = CONNECTIONS; open;) {
		wait_for_any(all, 1);
		for (int i = 0; i < CONNECTIONS; i++) {
			if (all[i].fd < 0 || !all[i].revents)
				continue;
			if (!read_request(all[i].fd, "pool", &r, &stretch)) {
				all[i].fd = -1;
				open--;
				continue;
			}
			busy(50 * US);
			leave(&r, stretch, 0);
			add_to_queue(&r);
		}
	}
	pthread_mutex_lock(&queue_lock);
	is_over = 1;
	pthread_cond_broadcast(&queue_grew);
	pthread_mutex_unlock(&queue_lock);
}

static void pool(struct pollfd *all)
{
	pthread_t workers[WORKERS];

	for (int i = 0; i < WORKERS; i++)
		must(!pthread_create(&workers[i], NULL, worker, NULL), "a thread");
	read_for_pool(all);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
}

static void *loop(void *argument)
{
	struct pollfd *all = argument;
	struct request open[CONNECTIONS] = { 0 };
	struct stretch stretch;
	int connections = CONNECTIONS, requests = 0;

	while (connections) {
		wait_for_any(all, !requests);
		for (int i = 0; i < CONNECTIONS; i++) {
			struct request *r = &open[i];

			if (r->turns) {
				uint64_t now = clock_ns(CLOCK_MONOTONIC);

				stretch = (struct stretch){ .from = now, .shown = now };
			} else if (all[i].fd < 0 || !all[i].revents) {
				continue;
			} else if (read_request(all[i].fd, "loop", r, &stretch)) {
				requests++;
			} else {
				all[i].fd = -1;
				connections--;
				continue;
			}
			busy(60 * US);
			rest(100 * US);
			busy(20 * US);
			int ends = ++r->turns == TURNS;
			if (ends)
				answer(r);
			leave(r, stretch, ends);
			if (ends) {
				r->turns = 0;
				requests--;
			}
		}
	}
	return NULL;
}

/* Sends a connection's requests, each behind the last answer. */
static void *ask(void *argument)
{
	int socket = (int)(intptr_t)argument;
	char byte;

	for (int i = 0; i < EACH; i++) {
		must(write(socket, "q", 1) == 1, "write");
		must(read(socket, &byte, 1) == 1, "read");
		rest((500 + 37 * (i % 11)) * US);
	}
	close(socket);
	return NULL;
}

static int listening(struct sockaddr_in *at)
{
	socklen_t size = sizeof *at;
	int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must(listens >= 0 && !bind(listens, (void *)at, size) && !listen(listens, CONNECTIONS), "listen");
	must(!getsockname(listens, (void *)at, &size), "getsockname");
	return listens;
}

static void serve(int number, int listens)
{
	pthread_t threads[CONNECTIONS];
	struct pollfd all[CONNECTIONS];
	int no_delay = 1;

	for (int i = 0; i < CONNECTIONS; i++) {
		all[i] = (struct pollfd){ .fd = accept(listens, NULL, NULL), .events = POLLIN };
		must(all[i].fd >= 0, "accept");
		setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
	}
	if (number == 1)
		return pool(all);
	int count = number == 0 ? CONNECTIONS : 1;
	for (int i = 0; i < count; i++)
		must(!pthread_create(&threads[i], NULL, number == 0 ? own : loop,
				     number == 0 ? (void *)(intptr_t)all[i].fd : all),
		     "a thread");
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void ask_all(const struct sockaddr_in *at)
{
	pthread_t threads[CONNECTIONS];

	for (int i = 0; i < CONNECTIONS; i++) {
		int ours = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		must(ours >= 0 && !connect(ours, (const void *)at, sizeof *at), "connect");
		must(!pthread_create(&threads[i], NULL, ask, (void *)(intptr_t)ours), "a thread");
	}
	for (int i = 0; i < CONNECTIONS; i++)
		pthread_join(threads[i], NULL);
}

static FILE *open_file(const char *folder, const char *name)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	must(file != NULL, path);
	return file;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at[3];
	int listens[3], status;

	if (argc != 2)
		return 2;
	for (int i = 0; i < 3; i++)
		listens[i] = listening(&at[i]);
	pid_t server = fork();

	must(server >= 0, "fork");
	if (server) {
		rest(200000 * US);
		for (int i = 0; i < 3; i++)
			ask_all(&at[i]);
		must(waitpid(server, &status, 0) == server, "waitpid");
		return status != 0;
	}
	log_file = open_file(argv[1], "log");
	spans_file = open_file(argv[1], "spans.json");
	fprintf(spans_file,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"joins\"}},"
		"{\"key\":\"process.pid\",\"value\":{\"intValue\":%d}}]},\"scopeSpans\":[{\"spans\":[",
		getpid());
	for (int i = 0; i < 3; i++)
		serve(i, listens[i]);
	rest(50000 * US);
	fputs("]}]}]}\n", spans_file);
	return fclose(spans_file) || fclose(log_file);
}
