/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests through three services, each a process, with a planted cause of known size in each:
 *
 *     lock      `store` holds a mutex for a time; requests that come meanwhile wait for those that have it
 *     queue     a reader of `store` hands the request to a pool, whose workers work for others
 *     disk      `store` writes to a file and waits for fsync
 *     limit     `store` computes under the CPU limit of a cgroup
 *     remote    `store` calls `back`, which sleeps
 *
 *     front    =|.............................|=      a lane for each client, one request after the other
 *     store       =|.....lock.....|==hold==|=         a thread for each lane; and a reader with its pool
 *     back                            (remote)        a thread for each lane of store
 *
 * The books of a request lie in memory that all three share. Each service writes there when it waited, and for how long it had
 * the lock or the worker; the main process finds in them the requests for which another one waited, and writes the truth:
 * for each request the parts of its time that were planted, with the blocking request where there is one. A part is what
 * its thread's clocks say: wall, less its CPU time, less the time for which it was runnable without a CPU.
 *
 * Spans go to OTEL_EXPORTER_OTLP_ENDPOINT. Each thread shows the span that it works for.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "lane.h"
#include "limit.h"
#include "spans.h"
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define MAX_CLIENTS 16
#define WORKERS 2

enum plant { LOCK, QUEUE, DISK, LIMIT, REMOTE, PLANTS };

static const char *const names[PLANTS] = { "lock", "queue", "disk", "limit", "remote" };

/* The books of one request. Times are those of the monotonic clock. */
struct book {
	uint64_t trace, from, to;
	enum plant plant;
	uint64_t wait_from, wait_to; /* it waited for the keeper */
	uint64_t had_from, had_to; /* it had the keeper: the lock, or a worker by number */
	int keeper;
	uint64_t ns; /* the planted time that is its own */
};

/* A request as it goes to `store`, or on to `back`. */
struct message {
	uint64_t book, trace, parent, size;
	enum plant plant;
};

struct shared {
	atomic_int ready;
	atomic_bool go;
	struct book books[];
};

static struct shared *shared;
static long clients = 6, each = 60, only = PLANTS, parse_us = 50;
static const struct flag flags[] = {
	{ "clients", &clients, false, "requests at once" },
	{ "each", &each, false, "requests of each client" },
	{ "only", &only, false, "plant this cause alone: 0 lock, 1 queue, 2 disk, 3 limit, 4 remote" },
	{ 0 },
};

/* --- time and bytes --------------------------------------------------------------------------- */

struct reading {
	uint64_t wall, cpu, delay;
};

static struct reading read_clocks(void)
{
	return (struct reading){ now(), cpu_time(), delay_time() };
}

/* The time since then that the thread neither ran nor was runnable. */
static uint64_t blocked_since(struct reading then)
{
	struct reading at = read_clocks();
	uint64_t wall = at.wall - then.wall, other = at.cpu - then.cpu + at.delay - then.delay;

	return wall > other ? wall - other : 0;
}

static void compute(uint64_t ns)
{
	for (uint64_t end = cpu_time() + ns; cpu_time() < end;)
		;
}

static uint64_t sleep_for(uint64_t ns)
{
	struct reading begin = read_clocks();
	struct timespec t = { .tv_sec = ns / (1000 * MS), .tv_nsec = ns % (1000 * MS) };

	nanosleep(&t, NULL);
	return blocked_since(begin);
}

static void give(int to, const void *bytes, size_t count)
{
	if (send(to, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
		die("cannot send a message");
}

/* False at the end of the connection. */
static bool take(int from, void *bytes, size_t count)
{
	return recv(from, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

static int listener(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof at;
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 64) ||
	    getsockname(s, (struct sockaddr *)&at, &length))
		die("cannot listen on loopback");
	*port = ntohs(at.sin_port);
	return s;
}

static int at_once(int s)
{
	int one = 1;

	if (s < 0 || setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
		die("cannot connect on loopback");
	return s;
}

static int caller(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_STREAM, 0);

	if (s >= 0 && connect(s, (struct sockaddr *)&to, sizeof to))
		die("cannot reach a service");
	return at_once(s);
}

static void start(void *(*run)(void *), long argument, pthread_t *thread)
{
	pthread_t dropped;

	if (pthread_create(thread ? thread : &dropped, NULL, run, (void *)argument))
		die("cannot start a thread");
}

static void name_thread(const char *what, long number)
{
	char name[16];

	snprintf(name, sizeof name, "%.10s-%ld", what, number);
	pthread_setname_np(pthread_self(), name);
}

/* A span that is the answer to this message. */
static struct span *answers(const struct message *m, const char *name)
{
	return span_begins(name, SERVER, m->trace, m->parent);
}

/* --- back ------------------------------------------------------------------------------------- */

static int back_port, store_port, pool_port;
static int back_listens, store_listens, pool_listens;

static void *back_serves(void *argument)
{
	int connection = (long)argument;
	struct message m;

	name_thread("back", connection);
	while (take(connection, &m, sizeof m)) {
		struct span *span = answers(&m, "look up");
		span_attach(span);
		shared->books[m.book].ns = sleep_for(m.size);
		span_ends(span);
		give(connection, "", 1);
		span_detach(span);
	}
	return NULL;
}

/* --- store ------------------------------------------------------------------------------------ */

struct item {
	struct item *next;
	int connection;
	struct message m;
	struct span *span;
};

static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER, pool = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t items = PTHREAD_COND_INITIALIZER;
static struct item *first_item, **last_item = &first_item;

static void hold_lock(struct book *book, uint64_t size)
{
	struct reading begin = read_clocks();

	book->wait_from = begin.wall;
	pthread_mutex_lock(&stock);
	/* Runnable time at its end is no wait for the lock. */
	uint64_t got = now(), delay = delay_time() - begin.delay;
	book->wait_to = got - delay > begin.wall ? got - delay : begin.wall;
	book->had_from = got;
	book->ns = sleep_for(size);
	book->had_to = now();
	pthread_mutex_unlock(&stock);
}

static void write_file(struct book *book, uint64_t size)
{
	static _Thread_local int file;
	static _Thread_local char *memory;

	if (!memory) {
		memory = scratch_memory(8 << 20);
		file = scratch_file(0);
	}
	struct reading begin = read_clocks();
	if (pwrite(file, memory, size, 0) != (ssize_t)size || fsync(file))
		die("cannot write the scratch file");
	book->ns = blocked_since(begin);
}

/* One at a time: the group's own clock is for all that are in it. */
static void compute_limited(struct book *book, uint64_t size)
{
	const char *failed = limit_enter();

	if (failed)
		die(failed);
	uint64_t before = limit_throttled();
	compute(size);
	if ((failed = limit_leave()))
		die(failed);
	book->ns = limit_throttled() - before;
}

static void call_back(int back, const struct message *m, const struct span *span)
{
	struct span *call = span_begins("call back", CLIENT, m->trace, span->id);
	struct message on = *m;
	char answer;

	span_attach(call);
	on.parent = call->id;
	give(back, &on, sizeof on);
	if (!take(back, &answer, 1))
		die("back did not answer");
	span_detach(call);
	span_ends(call);
}

static void *store_serves(void *argument)
{
	int connection = (long)argument, back = caller(back_port);
	struct message m;

	name_thread("store", connection);
	while (take(connection, &m, sizeof m)) {
		struct span *span = answers(&m, names[m.plant]);
		struct book *book = &shared->books[m.book];
		span_attach(span);
		compute(parse_us * US);
		switch (m.plant) {
		case LOCK:
			hold_lock(book, m.size);
			break;
		case DISK:
			write_file(book, m.size);
			break;
		case LIMIT:
			compute_limited(book, m.size);
			break;
		default:
			call_back(back, &m, span);
		}
		span_ends(span);
		give(connection, "", 1);
		span_detach(span);
	}
	return NULL;
}

/* Reads what comes on all connections, and hands it to the pool. */
static void *store_reads(void *argument)
{
	struct pollfd open[MAX_CLIENTS + 1] = { { .fd = pool_listens, .events = POLLIN } };
	int count = 1;

	(void)argument;
	name_thread("store-reads", 0);
	for (;;) {
		if (poll(open, count, -1) < 0)
			die("cannot wait for requests");
		if (open[0].revents & POLLIN && count <= MAX_CLIENTS)
			open[count++] = (struct pollfd){ .fd = at_once(accept(pool_listens, NULL, NULL)), .events = POLLIN };
		for (int i = 1; i < count; i++) {
			struct item *item;
			if (!open[i].revents)
				continue;
			if (!(item = calloc(1, sizeof *item)))
				die("cannot get memory for an item");
			if (!take(open[i].fd, &item->m, sizeof item->m)) {
				free(item);
				open[i].fd = -1;
				continue;
			}
			item->connection = open[i].fd;
			item->span = answers(&item->m, names[QUEUE]);
			span_attach(item->span);
			compute(parse_us * US);
			pthread_mutex_lock(&pool);
			shared->books[item->m.book].wait_from = now();
			*last_item = item;
			last_item = &item->next;
			pthread_cond_signal(&items);
			pthread_mutex_unlock(&pool);
			span_detach(item->span);
		}
	}
	return NULL;
}

static void *store_works(void *argument)
{
	long number = (long)argument;

	name_thread("store-works", number);
	for (;;) {
		pthread_mutex_lock(&pool);
		while (!first_item)
			pthread_cond_wait(&items, &pool);
		struct item *item = first_item;
		if (!(first_item = item->next))
			last_item = &first_item;
		pthread_mutex_unlock(&pool);
		struct book *book = &shared->books[item->m.book];
		span_attach(item->span);
		book->keeper = number;
		book->wait_to = book->had_from = now();
		book->ns = sleep_for(item->m.size);
		span_ends(item->span);
		book->had_to = now();
		give(item->connection, "", 1);
		span_detach(item->span);
		free(item);
	}
	return NULL;
}

/* --- front ------------------------------------------------------------------------------------ */

static uint64_t size_of(enum plant plant, unsigned *random)
{
	uint64_t part = rand_r(random) % 1000;

	switch (plant) {
	case DISK:
		return (1 + part % 4) << 20;
	case LIMIT:
		return 4 * MS + 6 * US * part;
	default:
		return 2 * MS + 6 * US * part;
	}
}

static void *front_asks(void *argument)
{
	long lane = (long)argument;
	unsigned random = 7 + lane;
	int store = caller(store_port), to_pool = caller(pool_port);

	name_thread("front", lane);
	while (!shared->go)
		usleep(1000);
	for (long i = 0; i < each; i++) {
		struct message m = { .book = lane * each + i, .plant = only };
		struct book *book = &shared->books[m.book];
		/* A limit is for one request at a time, so the first lane alone plants it. */
		if (only == PLANTS)
			m.plant = lane == 0 && rand_r(&random) % 2 ? LIMIT :
				  (const enum plant[]){ LOCK, QUEUE, DISK, REMOTE }[rand_r(&random) % 4];
		m.size = size_of(m.plant, &random);
		m.trace = book->trace = m.book + 1;
		book->plant = m.plant;
		struct span *root = span_begins(names[m.plant], SERVER, m.trace, 0);
		book->from = now();
		span_attach(root);
		compute(parse_us * US);
		struct span *call = span_begins("call store", CLIENT, m.trace, root->id);
		span_attach(call);
		m.parent = call->id;
		char answer;
		int to = m.plant == QUEUE ? to_pool : store;
		give(to, &m, sizeof m);
		if (!take(to, &answer, 1))
			die("store did not answer");
		span_detach(call);
		span_ends(call);
		compute(parse_us * US);
		span_detach(root);
		span_ends(root);
		book->to = now();
		usleep(rand_r(&random) % 2000);
	}
	return NULL;
}

/* --- the processes ---------------------------------------------------------------------------- */

/* Serves until it is told to end, then sends its spans. */
static pid_t serve(const char *name, int number, void (*begin)(void), void (*close)(void))
{
	pid_t child = fork();

	if (child < 0)
		die("cannot fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_setname_np(pthread_self(), name);
	spans_of(name, number, 2 * clients * each);
	begin();
	shared->ready++;
	sigset_t end;
	int signal;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigwait(&end, &signal);
	spans_send();
	close();
	_exit(0);
}

static void *accepts_all(void *argument)
{
	int listens = *(int *)argument;
	void *(*serves)(void *) = listens == back_listens ? back_serves : store_serves;

	for (;;)
		start(serves, at_once(accept(listens, NULL, NULL)), NULL);
	return NULL;
}

static void back_begins(void)
{
	start(accepts_all, (long)&back_listens, NULL);
}

static void back_ends(void)
{
}

static void store_begins(void)
{
	const char *failed = limit_make("services", A_THREAD, 2 * MS, 10 * MS);

	if (failed)
		die(failed);
	start(accepts_all, (long)&store_listens, NULL);
	start(store_reads, 0, NULL);
	for (long i = 1; i <= WORKERS; i++)
		start(store_works, i, NULL);
}

static pthread_t lanes_of_front[MAX_CLIENTS];

static void front_begins(void)
{
	for (long i = 0; i < clients; i++)
		start(front_asks, i, &lanes_of_front[i]);
}

/* The main process is the front. */
static void front_runs(void)
{
	spans_of("front", 1, 2 * clients * each);
	front_begins();
	/* Until it is known where the threads' contexts are. */
	usleep(500000);
	shared->go = true;
	for (long i = 0; i < clients; i++)
		pthread_join(lanes_of_front[i], NULL);
	spans_send();
}

static uint64_t overlap(const struct book *book, const struct book *other)
{
	uint64_t from = book->wait_from > other->had_from ? book->wait_from : other->had_from;
	uint64_t to = book->wait_to < other->had_to ? book->wait_to : other->had_to;

	return from < to ? to - from : 0;
}

static void write_truth(const pid_t services[2])
{
	static const char *const kinds[PLANTS] = { "timer", "timer", "block_device", "throttled", "timer" };
	long all = clients * each;
	FILE *f = fopen(truth_file, "we");
	char trace[33];

	if (!f)
		die(truth_file);
	fprintf(f, "{\"schema\":\"wakepath.requests-truth/1\",\"pids\":[%d,%d,%d],\"requests\":[", getpid(), services[0], services[1]);
	for (long i = 0; i < all; i++) {
		const struct book *book = &shared->books[i];
		trace_id_as_text(book->trace, trace);
		fprintf(f, "%s\n{\"trace_id\":\"%s\",\"planted\":\"%s\",\"window_ns\":%llu,\"parts\":[{\"kind\":\"%s\",\"ns\":%llu}",
			i ? "," : "", trace, names[book->plant], (unsigned long long)(book->to - book->from), kinds[book->plant],
			(unsigned long long)book->ns);
		for (long j = 0; j < all && (book->plant == LOCK || book->plant == QUEUE); j++) {
			const struct book *other = &shared->books[j];
			uint64_t ns = i != j && other->plant == book->plant && other->keeper == book->keeper ? overlap(book, other) : 0;
			if (!ns)
				continue;
			trace_id_as_text(other->trace, trace);
			fprintf(f, ",{\"kind\":\"blocked\",\"by\":\"%s\",\"ns\":%llu}", trace, (unsigned long long)ns);
		}
		fputs("]}", f);
	}
	fputs("]}\n", f);
	if (fclose(f))
		die("cannot write the truth");
}

int main(int argc, char **argv)
{
	workload_name = "services";
	flags_read(argc, argv, flags, "requests through three services, each with a planted cause");
	if (clients < 1 || clients > MAX_CLIENTS || each < 1 || only < 0 || only > PLANTS)
		die("1 to 16 clients, and a cause from 0 to 4");
	alarm(60);
	size_t size = sizeof *shared + clients * each * sizeof *shared->books;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("cannot get memory");
	memset(shared, 0, size);
	back_listens = listener(&back_port);
	store_listens = listener(&store_port);
	pool_listens = listener(&pool_port);
	sigset_t end;
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigprocmask(SIG_BLOCK, &end, NULL);
	pid_t services[] = { serve("back", 3, back_begins, back_ends), serve("store", 2, store_begins, limit_remove) };
	while (shared->ready < 2)
		usleep(1000);
	front_runs();
	int failed = 0;
	for (int i = 1; i >= 0; i--) {
		int status;
		kill(services[i], SIGTERM);
		failed |= waitpid(services[i], &status, 0) != services[i] || status;
	}
	if (failed)
		die("a service failed");
	if (truth_file)
		write_truth(services);
	return 0;
}
