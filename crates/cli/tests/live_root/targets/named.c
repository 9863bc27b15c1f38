// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls functions whose names, or whose first instructions, are uncommon: `named COUNT` calls each of them COUNT times,
 * 1 ms apart, and then prints `NAME COUNT` for each. With the word `stay` behind it goes on until it is killed.
 *
 * `handle_get` and `handle_put` can be probed. `handle_loop` has a loop back to its entry. The first instruction of
 * `handle_step` is single-stepped. `serve` is `serve.isra.0` in the file, with a part `serve.isra.0.cold`.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION(name, code) \
	__asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n" code "\n.size " name ", .-" name "\n")

FUNCTION("handle_get", ".cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\npop %rbp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc");
FUNCTION("handle_step", "mov %rdi, %rax\nret");
FUNCTION("handle_put", ".cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\npop %rbp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc");
FUNCTION("handle_loop", "dec %rdi\njnz handle_loop\nret");
FUNCTION("serve.isra.0", "push %rbp\npop %rbp\nret");
FUNCTION("serve.isra.0.cold", "pop %rbp\nret");

void handle_get(long), handle_put(long), handle_loop(long), handle_step(long);
void serve(long) __asm__("serve.isra.0");

static const struct { const char *name; void (*function)(long); } functions[] = {
	{ "handle_get", handle_get },
	{ "handle_put", handle_put },
	{ "handle_loop", handle_loop },
	{ "handle_step", handle_step },
	{ "serve", serve },
};

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;
	int stays = argc > 2 && !strcmp(argv[2], "stay");

	do {
		for (long i = 0; i < count; i++) {
			for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++)
				functions[f].function(3);
			pause_ms(1);
		}
	} while (stays);
	for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++)
		printf("%s %ld\n", functions[f].name, count);
	return 0;
}
