/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Empty functions, one for each way to probe functions. The arguments are two numbers of calls: for the functions that
 * begin with a 5-byte no-operation or a push, and for the functions that begin with a single-stepped instruction. Their
 * returns are seen by a return probe, at a return instruction since exceptions may pass them (they hold a call that is
 * never reached), or as in Go functions, whose goroutine is in r14. The program prints the time of a call for each, ns
 * of CPU time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EMPTY(name, first, last)                                                                         \
	".p2align 4\n.globl " name "\n.type " name ", @function\n" name ": " first "\nret\n" last "\n"   \
	".size " name ", . - " name "\n"
#define EMPTIES(kind, last)                                                                              \
	EMPTY(kind "_nop", ".byte 0x0f, 0x1f, 0x44, 0, 0", last)                                         \
	EMPTY(kind "_push", "push %rbp\npop %rbp", last)                                                 \
	EMPTY(kind "_lea", "lea 1(%rdi), %rax", last)

__asm__(".section .go.buildinfo, \"aw\"\n.ascii \"\\xff Go buildinf:\"\n"
	".text\n"
	".globl __gxx_personality_v0\n__gxx_personality_v0: ret\n"
	EMPTIES("return", "")
	EMPTIES("leave", "call *%rax")
	".globl runtime.text\nruntime.text:\n"
	EMPTIES("go", "")
	".globl runtime.etext\nruntime.etext:\n");

/* This thread's CPU time, so that other programs do not count. */
static double ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define CALL(name, calls)                                                                                \
	do {                                                                                             \
		const double began = ns();                                                               \
		for (long i = 0; i < calls; i++)                                                         \
			__asm__ volatile("call " name : : "r"(r14) : "rax", "memory", "cc");             \
		printf(name " %.0f\n", (ns() - began) / (double)calls);                                  \
	} while (0)

int main(int argc, char **argv)
{
	const long quick = argc > 2 ? atol(argv[1]) : 0, slow = argc > 2 ? atol(argv[2]) : 0;
	/* A `g` begins with the bounds of its stack. */
	unsigned long goroutine[2] = { 0, 0 };
	register unsigned long *r14 __asm__("r14") = goroutine;

	/* The calls overwrite the memory that the compiler keeps below its stack pointer. */
	CALL("return_nop", quick);
	CALL("return_push", quick);
	CALL("return_lea", slow);
	CALL("leave_nop", quick);
	CALL("leave_push", quick);
	CALL("leave_lea", slow);
	CALL("go_nop", quick);
	CALL("go_push", quick);
	CALL("go_lea", slow);
	return 0;
}
