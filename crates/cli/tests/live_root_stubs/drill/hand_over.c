/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A worker takes requests from a queue and calls `work` with each. In rounds of twelve the main thread hands over orders, made by
 * `buy` and `restock`, and reports. The first four are slow, each kind for its own reason: `buy` orders in
 * `parse`, `restock` orders in `pack`, which sleeps, reports in `render`. The others wait meanwhile. The file named by the
 * argument has the requests' times in the queue: for `buy` orders, and for the slow ones among them, the number of
 * requests and their total ns, as 64-bit numbers. Then the total ns of the other `buy` orders, by the power of two of the
 * ns in their call of `work`: a long call there is the machine's own delay. Ends with its standard input.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum kind { BUY, RESTOCK, REPORT };
enum { ROUND = 12 };

struct request {
	enum kind kind;
	int slow;
	uint64_t handed_over;
};

static struct request requests[ROUND], *queue[ROUND];
static int handed_over, taken, done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* A delay by the machine makes a call of one kind as long as those of the next, unless these are far apart: by ten and more. */
static uint64_t steps = 300000;
static volatile uint64_t *waited;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static inline __attribute__((always_inline)) uint64_t compute(uint64_t x)
{
	for (uint64_t i = 0; i < x; i++)
		KEEP(i);
	return x;
}

PROBED uint64_t parse(int slow)
{
	uint64_t x = compute(slow ? steps : 10);

	KEEP(x);
	return x;
}

PROBED uint64_t pack(int slow)
{
	uint64_t x = slow;

	if (slow)
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	KEEP(x);
	return x;
}

PROBED uint64_t render(int slow)
{
	uint64_t x = compute(slow ? 660 * steps : 11);

	KEEP(x);
	return x;
}

PROBED uint64_t work(struct request *request)
{
	uint64_t x = parse(request->kind == BUY && request->slow);

	x += pack(request->kind == RESTOCK && request->slow);
	x += render(request->kind == REPORT && request->slow);
	KEEP(x);
	return x;
}

static void *worker(void *argument)
{
	for (;;) {
		struct request *request;
		uint64_t ns, begin;

		pthread_mutex_lock(&lock);
		while (taken == handed_over)
			pthread_cond_wait(&changed, &lock);
		request = queue[taken++];
		pthread_mutex_unlock(&lock);
		begin = now();
		ns = begin - request->handed_over;
		work(request);
		if (request->kind == BUY) {
			waited[0]++;
			waited[1] += ns;
			waited[2] += request->slow;
			waited[3] += request->slow ? ns : 0;
			if (!request->slow)
				waited[4 + 63 - __builtin_clzll((now() - begin) | 1)] += ns;
		}
		pthread_mutex_lock(&lock);
		done++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return argument;
}

static void enqueue(struct request *request)
{
	pthread_mutex_lock(&lock);
	queue[handed_over++] = request;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

/* The first argument is no address, and the third is 0. */
PROBED uint64_t submit_order(uint64_t number, struct request *request, uint64_t priority)
{
	KEEP(priority);
	request->handed_over = now();
	enqueue(request);
	KEEP(number);
	return number + priority;
}

PROBED uint64_t submit_report(struct request *request)
{
	uint64_t x = 1;

	enqueue(request);
	KEEP(x);
	return x;
}

PROBED uint64_t buy(struct request *request)
{
	uint64_t x;

	request->kind = BUY;
	x = submit_order(1, request, 0);
	KEEP(x);
	return x;
}

PROBED uint64_t restock(struct request *request)
{
	uint64_t x;

	request->kind = RESTOCK;
	x = submit_order(2, request, 0);
	KEEP(x);
	return x;
}

PROBED uint64_t never(struct request *request)
{
	KEEP(request);
	return submit_report(request) + 1;
}

int main(int argc, char **argv)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };
	int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	pthread_t thread;

	if (argc > 99)
		return never(requests);
	if (file < 0 || ftruncate(file, 4096))
		return 1;
	waited = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (waited == MAP_FAILED)
		return 1;
	pthread_create(&thread, NULL, worker, NULL);
	printf("%d\n", getpid());
	fflush(stdout);
	while (!poll(&end, 1, 0)) {
		pthread_mutex_lock(&lock);
		handed_over = taken = done = 0;
		pthread_mutex_unlock(&lock);
		for (int i = 0; i < ROUND; i += 4) {
			for (int j = i; j < i + 4; j++)
				requests[j].slow = i == 0;
			restock(&requests[i]);
			buy(&requests[i + 1]);
			buy(&requests[i + 2]);
			requests[i + 3].kind = REPORT;
			submit_report(&requests[i + 3]);
		}
		pthread_mutex_lock(&lock);
		while (done < ROUND)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
