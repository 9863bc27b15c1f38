// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * `serve` computes in `burn`, and has a loop back to its entry, so that a probe there sees each iteration. Prints its process
 * number first; ends with its input.
 */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static volatile unsigned long sink;
long rounds;
void serve(void);

__attribute__((noinline)) void burn(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
	__asm__ volatile("");
}

__asm__(".text\n.globl serve\n.type serve, @function\nserve:\n.cfi_startproc\n"
	"sub $8, %rsp\n.cfi_def_cfa_offset 16\nmov $1000000, %edi\ncall burn\n"
	"add $8, %rsp\n.cfi_def_cfa_offset 8\ndecq rounds(%rip)\njg serve\nret\n"
	".cfi_endproc\n.size serve, .-serve\n");

int main(void)
{
	struct pollfd input = { .fd = 0 };

	printf("%d\n", getpid());
	fflush(stdout);
	while (poll(&input, 1, 1) == 0) {
		rounds = 3;
		serve();
	}
	return 0;
}
