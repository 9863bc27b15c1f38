/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * `work` calls `dispatch`, which leaves by a jump to a virtual function, and `relay`, which leaves by a jump to `middle`, and that to `last`. Each
 * twentieth call computes, in `crunch`, which the function behind the jump calls.
 *
 *     jumps virtual    the virtual function behind `dispatch` calls it
 *     jumps chain      `last` does
 *     jumps itself     `last` computes itself
 *     jumps unfit      `unfit` does, which is called where no probe fits behind the call
 *     jumps made       code does that the program makes when it starts, called by a pointer
 *     jumps quick      nobody does
 *
 * Two calls are there for the probes' cost, and never slow:
 *
 *     jumps shared     a call by a pointer that goes to `dispatch` once, and to `other` 400 times
 *     jumps often      ten calls of `dispatch` each 100 µs
 *
 * Prints its process number; ends with its input.
 */
#include <poll.h>
#include <stdexcept>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROBED extern "C" __attribute__((noinline, noclone))
/* Each may throw, so that its return address must stay. */
#define MAY_THROW(i) do { if ((i) == -1ul) throw std::runtime_error("none"); } while (0)

volatile unsigned long sum, zero;
static const char *const names[] = { "virtual", "chain", "itself", "unfit", "shared", "often", "made", "quick" };
enum { VIRTUAL, CHAIN, ITSELF, UNFIT, SHARED, OFTEN, MADE, QUICK };
static int culprit;

static inline __attribute__((always_inline)) void compute()
{
	for (int i = 0; i < 3000000; i++)
		sum = sum * 31 + i;
}
PROBED unsigned long crunch(unsigned long n) { compute(); return sum + n; }
struct Handler {
	virtual unsigned long handle(unsigned long) = 0;
	virtual ~Handler() {}
};
struct Fast : Handler {
	unsigned long handle(unsigned long n) override { return n + zero; }
};
struct Slow : Handler {
	unsigned long handle(unsigned long n) override { return crunch(n) + 1; }
};
Handler *handlers[3] = { new Fast, new Slow, new Fast };

PROBED unsigned long unfit(unsigned long i)
{
	unsigned long more = 0;

	MAY_THROW(i);
	if (i == 3)
		more = crunch(i) + 1;
	return handlers[0]->handle(more);
}
/* Behind this call is a no-operation of five bytes, which a probe would overwrite with a call. */
static inline __attribute__((always_inline)) void call_unfit(unsigned long i)
{
	__asm__ volatile("sub $128, %%rsp\n\tcall unfit\n\t.byte 0x0f, 0x1f, 0x44, 0, 0\n\tadd $128, %%rsp"
			 : "+D"(i) : : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
}
PROBED unsigned long other(unsigned long i) { return i + zero; }
unsigned long (*volatile called)(unsigned long);
/* mov %edi,%ecx; 1: dec %ecx; jnz 1b; mov $1,%eax; ret */
static const unsigned char counts_down[] = { 0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xb8, 1, 0, 0, 0, 0xc3 };
unsigned long (*volatile made)(unsigned long);

PROBED unsigned long parse(unsigned long i) { MAY_THROW(i); return i + zero; }
PROBED unsigned long dispatch(unsigned long i) { MAY_THROW(i); return handlers[i]->handle(i); }
PROBED unsigned long last(unsigned long i)
{
	unsigned long more = 0;

	MAY_THROW(i);
	if (i == 3)
		more = crunch(i) + 1;
	if (i == 4)
		compute();
	return handlers[0]->handle(i + more);
}
PROBED unsigned long middle(unsigned long i) { MAY_THROW(i); return last(i + zero); }
PROBED unsigned long relay(unsigned long i) { MAY_THROW(i); return middle(i + zero); }

/* In slow calls it goes to `crunch`, and one in three is caught here. */
PROBED unsigned long risky(unsigned long i)
{
	if (i % 3 == 0)
		throw std::runtime_error("a third");
	return handlers[2]->handle(i);
}

PROBED unsigned long work(unsigned long round)
{
	bool slow = round % 20 == 0;

	sum = sum + parse(round);
	try {
		sum = sum + risky(round);
	} catch (std::runtime_error &) {
		sum = sum + 1;
	}
	sum = sum + dispatch(slow && culprit == VIRTUAL);
	call_unfit(slow && culprit == UNFIT ? 3 : 0);
	if (culprit == MADE)
		sum = sum + made(slow ? 6000000 : 1);
	for (int i = 0; culprit == SHARED && i <= 400; i++) {
		called = i ? other : dispatch;
		sum = sum + called(0);
	}
	for (int i = 0; culprit == OFTEN && i < 10; i++)
		sum = sum + dispatch(0);
	sum = sum + relay(!slow ? 0 : culprit == CHAIN ? 3 : culprit == ITSELF ? 4 : 0);
	return sum + 1;
}

int main(int argc, char **argv)
{
	struct pollfd input = { 0, POLLIN, 0 };

	while (argc > 1 && culprit < QUICK && strcmp(argv[1], names[culprit]))
		culprit++;
	made = (unsigned long (*)(unsigned long))mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy((void *)made, counts_down, sizeof(counts_down));
	printf("%d\n", getpid());
	fflush(stdout);
	for (unsigned long round = 1; round % 100 || !poll(&input, 1, 0); round++) {
		sum = sum + work(round);
		usleep(culprit == OFTEN ? 50 : 1000);
	}
}
