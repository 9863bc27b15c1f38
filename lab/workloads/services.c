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
 *     front    =|.............................|=      a lane for each client, its requests in turn
 *     store       =|.....lock.....|==hold==|=         a thread for each lane; and a reader with its pool
 *     back                            (remote)        a thread for each lane of store
 *
 * The books of a request lie in memory that all three share. Each service writes there when it waited, and for how long it had
 * the lock or the worker; the main process finds in them the requests for which another request waited, and writes the truth:
 * for each request the parts of its time that were planted, with the blocking request if any. A part is what
 * its thread's clocks say: wall, less its CPU time, less the time for which it was runnable without a CPU.
 * Spans go to OTEL_EXPORTER_OTLP_ENDPOINT. Each thread shows the span that it works for.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "lane.h"
#include "limit.h"
#include "reading.h"
#include "request_books.h"
#include "spans.h"
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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

/* A request as it goes to `store`, or on to `back`. */
struct message {
	uint64_t book, trace, parent, size;
	enum plant plant;
};

struct shared {
	atomic_int ready;
	atomic_bool go;
	struct books books; /* the last */
};

static struct shared *shared;
static long clients = 6, each = 60, only = PLANTS, parse_us = 50;
static const struct flag flags[] = {
	{ "clients", &clients, false, "requests at once" },
	{ "each", &each, false, "requests of each client" },
	{ "only", &only, false, "plant this cause alone, by its number" },
	{ 0 },
};

static void book_own(struct book *book, struct reading begin, uint64_t ns)
{
	book->own_from = begin.wall;
	book->own_to = now();
	book->ns = ns;
}

static void sleep_for(struct book *book, uint64_t ns)
{
	struct reading begin = read_clocks();
	struct timespec t = { .tv_sec = ns / (1000 * MS), .tv_nsec = ns % (1000 * MS) };

	nanosleep(&t, NULL);
	book_own(book, begin, blocked_since(begin));
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

/* A span answering this message. */
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
		sleep_for(&shared->books.book[m.book], m.size);
		span_detach(span);
		span_ends(span);
		give(connection, "", 1);
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

static pthread_mutex_t locks[] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t items = PTHREAD_COND_INITIALIZER;
static struct item *first_item, **last_item = &first_item;

static void take_lock(struct book *book, int turn, enum keeper keeper)
{
	struct reading begin = read_clocks();

	pthread_mutex_lock(&locks[keeper]);
	/* Runnable time at its end is no wait for the lock. */
	struct reading end = read_clocks();
	uint64_t got = end.wall, delay = end.delay - begin.delay;
	uint64_t woken = got - delay > begin.wall ? got - delay : begin.wall;
	/* A request woken to take the lock keeps the requests behind it waiting until it runs. */
	book->turns[turn] = (struct turn){ true, keeper, begin.wall, woken, woken, 0, got };
}

static void give_back(struct book *book, int turn)
{
	book->turns[turn].had_to = now();
	pthread_mutex_unlock(&locks[book->turns[turn].keeper]);
}

static int cpu_of_disk = -1; /* it takes the interrupts of the disk */

static void write_file(struct book *book, uint64_t size)
{
	static _Thread_local int file;
	static _Thread_local char *memory;
	cpu_set_t usual, one;

	if (!memory) {
		memory = scratch_memory(8 << 20);
		file = scratch_file(0);
	}
	if (pwrite(file, memory, size, 0) != (ssize_t)size)
		die("cannot write the scratch file");
	/* If an idle CPU has to run a thread, the thread's clocks see it blocked until the CPU has heard of it. */
	sched_getaffinity(0, sizeof usual, &usual);
	CPU_ZERO(&one);
	CPU_SET(cpu_of_disk < 0 ? 0 : cpu_of_disk, &one);
	if (cpu_of_disk >= 0 && sched_setaffinity(0, sizeof one, &one))
		die("cannot stay on one CPU");
	struct reading begin = read_clocks();
	if (fsync(file))
		die("cannot wait for the disk");
	book_own(book, begin, blocked_since(begin));
	if (sched_setaffinity(0, sizeof usual, &usual))
		die("cannot leave a CPU");
}

/* One at a time: the group's own clock is for all that are in it. */
static void compute_limited(struct book *book, uint64_t size)
{
	/* Where the group has used up its time, an entering thread stands still at once. */
	uint64_t before = limit_throttled();
	struct reading begin = read_clocks();
	const char *failed = limit_enter();

	if (failed)
		die(failed);
	compute(size);
	if ((failed = limit_leave()))
		die(failed);
	/* A thread that stands still is one without a CPU by its own clock; the group's may have begun before it entered. */
	uint64_t throttled = limit_throttled() - before, delay = delay_time() - begin.delay;
	book_own(book, begin, throttled < delay ? throttled : delay);
}

/*
 * A thread stops more than once in an fsync or under a limit, and no clock says when. So these begin when the front waits for them: all of
 * that time is in the request's path.
 */
static void let_front_wait(struct book *book)
{
	while (!book->asked)
		sched_yield();
}

static void call_back(int back, const struct message *m, const struct span *span)
{
	struct span *call = span_begins("call back", CLIENT, m->trace, span->id);
	struct message on = *m;
	char answer;

	span_attach(call);
	on.parent = call->id;
	give(back, &on, sizeof on);
	shared->books.book[m->book].called = now();
	if (!take(back, &answer, 1))
		die("back did not answer");
	span_detach(call);
	span_ends(call);
}

/* The planted part of a request. */
static void plant(struct book *book, int back, const struct message *m, const struct span *span)
{
	switch (m->plant) {
	case LOCK:
		take_lock(book, 0, STOCK);
		sleep_for(book, m->size);
		give_back(book, 0);
		break;
	case LOCK_DISK:
		let_front_wait(book);
		take_lock(book, 0, STOCK);
		write_file(book, m->size);
		give_back(book, 0);
		break;
	case LOCK_REMOTE:
		take_lock(book, 0, STOCK);
		call_back(back, m, span);
		give_back(book, 0);
		break;
	case CHAIN:
		take_lock(book, 0, STOCK);
		take_lock(book, 1, LEDGERS);
		sleep_for(book, m->size);
		give_back(book, 1);
		give_back(book, 0);
		break;
	case LEDGER:
		take_lock(book, 0, LEDGERS);
		sleep_for(book, m->size);
		give_back(book, 0);
		break;
	case DISK:
		let_front_wait(book);
		write_file(book, m->size);
		break;
	case LIMIT:
		let_front_wait(book);
		compute_limited(book, m->size);
		break;
	default:
		call_back(back, m, span);
	}
}

static void *store_serves(void *argument)
{
	int connection = (long)argument, back = caller(back_port);
	struct message m;

	name_thread("store", connection);
	while (take(connection, &m, sizeof m)) {
		struct span *span = answers(&m, plants[m.plant]);
		span_attach(span);
		compute(parse_us * US);
		plant(&shared->books.book[m.book], back, &m, span);
		span_detach(span);
		span_ends(span);
		give(connection, "", 1);
	}
	return NULL;
}

/* Reads what comes on all connections, and hands it to the pool. */
static void *store_reads(void *argument)
{
	struct pollfd open[MAX_CLIENTS + 1] = { { .fd = pool_listens, .events = POLLIN } };
	static struct item of_connection[MAX_CLIENTS + 1];
	int count = 1;

	(void)argument;
	name_thread("store-reads", 0);
	for (;;) {
		if (poll(open, count, -1) < 0)
			die("cannot wait for requests");
		if (open[0].revents & POLLIN && count <= MAX_CLIENTS)
			open[count++] = (struct pollfd){ .fd = at_once(accept(pool_listens, NULL, NULL)), .events = POLLIN };
		for (int i = 1; i < count; i++) {
			/* A client has a single request at a time. Memory got now could wait for a lock of the kernel. */
			struct item *item = &of_connection[i];
			if (!open[i].revents)
				continue;
			if (!take(open[i].fd, &item->m, sizeof item->m)) {
				open[i].fd = -1;
				continue;
			}
			item->next = NULL;
			uint64_t item_book = item->m.book; /* a worker may be done with the item before the reader goes on */
			struct turn *turns = shared->books.book[item_book].turns;
			item->connection = open[i].fd;
			/* It waited for the reader since it was asked for. */
			turns[0] = (struct turn){ true, READER, 0, now(), now(), 0, 0 };
			struct span *span = item->span = answers(&item->m, plants[QUEUE]);
			span_attach(span);
			compute(parse_us * US);
			pthread_mutex_lock(&pool);
			turns[1].wait_from = shared->books.book[item_book].pool_from = now();
			*last_item = item;
			last_item = &item->next;
			pthread_cond_signal(&items);
			pthread_mutex_unlock(&pool);
			shared->books.book[item_book].pool_to = now();
			span_detach(span);
			turns[0].had_to = now();
		}
	}
	return NULL;
}

static void *store_works(void *argument)
{
	long number = (long)argument;
	uint64_t busy_since = 0;

	name_thread("store-works", number);
	for (;;) {
		bool was_busy = true;
		pthread_mutex_lock(&pool);
		for (; !first_item; busy_since = now(), was_busy = false)
			pthread_cond_wait(&items, &pool);
		struct item item = *first_item; /* the client may ask again before this has ended */
		if (!(first_item = item.next))
			last_item = &first_item;
		pthread_mutex_unlock(&pool);
		struct book *book = &shared->books.book[item.m.book];
		span_attach(item.span);
		struct turn *turn = &book->turns[1];
		*turn = (struct turn){ true, WORKER + number, turn->wait_from, now(), now(), 0, 0 };
		if (was_busy && busy_since < turn->wait_from) {
			/* It would have waited as long for the worker, had the reader been quicker. */
			turn->wait_from = busy_since;
			if (book->turns[0].wait_to > busy_since)
				book->turns[0].wait_to = busy_since;
		}
		sleep_for(book, item.m.size);
		span_detach(item.span);
		span_ends(item.span);
		turn->had_to = now();
		give(item.connection, "", 1);
	}
	return NULL;
}

/* --- front ------------------------------------------------------------------------------------ */

static uint64_t size_of(enum plant plant, unsigned *random)
{
	uint64_t part = rand_r(random) % 1000;

	switch (plant) {
	case DISK:
	case LOCK_DISK:
		return (2 + part % 7) << 20;
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
		struct book *book = &shared->books.book[m.book];
		/* A limit is for a single request at a time, so the first lane alone plants it. */
		if (only == PLANTS)
			m.plant = lane == 0 && rand_r(&random) % 2 ? LIMIT :
				  (const enum plant[]){ LOCK, LOCK_DISK, LOCK_REMOTE, CHAIN, LEDGER, QUEUE, QUEUE, QUEUE, DISK,
							REMOTE }[rand_r(&random) % 10];
		m.size = size_of(m.plant, &random);
		m.trace = book->trace = m.book + 1;
		book->plant = m.plant;
		struct span *root = span_begins(plants[m.plant], SERVER, m.trace, 0);
		book->from = now();
		span_attach(root);
		compute(parse_us * US);
		struct span *call = span_begins("call store", CLIENT, m.trace, root->id);
		span_attach(call);
		m.parent = call->id;
		char answer;
		int to = m.plant == QUEUE ? to_pool : store;
		give(to, &m, sizeof m);
		book->asked = now();
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

/* Serves until the main process asks it to end, then sends its spans. */
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

static void back_ends(void) {}

static void store_begins(void)
{
	const char *failed = limit_make("services", A_THREAD, 2 * MS, 10 * MS);

	if (failed)
		die(failed);
	int file = scratch_file(0);
	cpu_of_disk = interrupts_of(file);
	close(file);
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

int main(int argc, char **argv)
{
	workload_name = "services";
	flags_read(argc, argv, flags, "requests through three services, each with a planted cause");
	if (clients < 1 || clients > MAX_CLIENTS || each < 1 || only < 0 || only > PLANTS)
		die("1 to 16 clients, and a cause that is there");
	alarm(60);
	size_t size = sizeof *shared + clients * each * sizeof *shared->books.book;
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("cannot get memory");
	memset(shared, 0, size);
	shared->books.count = clients * each;
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
		books_write(&shared->books, (const pid_t[]){ getpid(), services[0], services[1] });
	return 0;
}
