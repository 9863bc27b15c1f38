/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Functions that leave by a jump, called by `work` in each round. Prints its process number and then, when its input ends, the number of rounds
 * and each call site's own counts: calls, and those among them that came back.
 */
#include <csetjmp>
#include <cstdio>
#include <poll.h>
#include <stdexcept>
#include <time.h>
#include <unistd.h>

#define PROBED extern "C" __attribute__((noinline, noclone))
enum { VIRTUAL, CHAIN, THROWS, LEAPS, RECURSES, TOGETHER, SITES };
static const char *const names[] = { "dispatch", "relay", "risky", "leaps", "ping", "again" };
static unsigned long calls[SITES], came_back[SITES];
volatile unsigned long sum, zero;
static jmp_buf place;

struct Handler {
	virtual unsigned long handle(unsigned long) = 0;
	virtual ~Handler() {}
};
struct Fast : Handler {
	unsigned long handle(unsigned long n) override { return n + zero; }
};
struct Slow : Handler {
	unsigned long handle(unsigned long n) override { return n + 1 + zero; }
};
Handler *handlers[2] = { new Fast, new Slow };

/* Each may throw, so that its return address must stay. */
#define MAY_THROW(i) do { if ((i) == -1ul) throw std::runtime_error("none"); } while (0)

PROBED unsigned long dispatch(unsigned long i) { MAY_THROW(i); return handlers[i % 2]->handle(i); }
PROBED unsigned long again(unsigned long i) { MAY_THROW(i); return handlers[i % 2]->handle(i); }
/* For 100 µs. */
PROBED unsigned long last(unsigned long i)
{
	struct timespec from, to;

	MAY_THROW(i);
	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &to);
	while ((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec < 100000);
	return handlers[0]->handle(i);
}
PROBED unsigned long middle(unsigned long i) { MAY_THROW(i); return last(i + 1); }
PROBED unsigned long relay(unsigned long i) { MAY_THROW(i); return middle(i + 1); }
PROBED unsigned long risky(unsigned long i)
{
	if (i % 2)
		throw std::runtime_error("odd");
	return handlers[0]->handle(i);
}
PROBED unsigned long leaps(unsigned long i)
{
	MAY_THROW(i);
	if (i % 2)
		longjmp(place, 1);
	return handlers[0]->handle(i);
}
PROBED unsigned long pong(unsigned long n);
PROBED unsigned long ping(unsigned long n) { MAY_THROW(n); return n ? pong(n - 1) : handlers[0]->handle(n); }
PROBED unsigned long pong(unsigned long n) { MAY_THROW(n); return n ? ping(n - 1) : handlers[0]->handle(n); }
/* Calls that are not work's own. */
PROBED unsigned long outside(unsigned long i) { return dispatch(i) + relay(i) + 1; }

/* Two calls at once, the second within the first call's arguments. */
#define COUNTED(site, call) (calls[site]++, sum = sum + (call), came_back[site]++)

PROBED unsigned long work(unsigned long round)
{
	for (volatile unsigned long i = 0; i < 3; i = i + 1)
		COUNTED(VIRTUAL, dispatch(i));
	for (volatile unsigned long i = 0; i < 2; i = i + 1)
		COUNTED(CHAIN, relay(i));
	for (volatile unsigned long i = 0; i < 5; i = i + 1) {
		try {
			COUNTED(THROWS, risky(i));
		} catch (std::runtime_error &) {
		}
	}
	for (volatile unsigned long i = 0; i < 4; i = i + 1) {
		if (!setjmp(place))
			COUNTED(LEAPS, leaps(i));
	}
	COUNTED(RECURSES, ping(101));
	COUNTED(RECURSES, ping(0));
	COUNTED(TOGETHER, again(again(round % 7)));
	calls[TOGETHER]++;
	came_back[TOGETHER]++;
	sum = sum + outside(round);
	return sum + 1;
}

int main()
{
	struct pollfd input = { 0, POLLIN, 0 };
	unsigned long rounds = 0;

	printf("%d\n", getpid());
	fflush(stdout);
	for (; rounds % 16 || !poll(&input, 1, 0); rounds++) {
		sum = sum + work(rounds);
		usleep(200);
	}
	printf("%lu\n", rounds);
	for (int site = 0; site < SITES; site++)
		printf("%s %lu %lu\n", names[site], calls[site], came_back[site]);
}
