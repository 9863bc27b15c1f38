/*
 * A chain of functions which keep other values than a frame in the frame pointer's register. The innermost function
 * waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>

#define FUNCTION __attribute__((noinline, noclone)) static
/* Prevents a tail call, which would be a jump. */
#define END __asm__ volatile("" ::: "memory")
/* The compiler keeps this value in the frame pointer's register over the next call. */
#define KEEP(value) register void *kept __asm__("rbp") = (value); __asm__ volatile("" : "+r"(kept))
#define KEPT __asm__ volatile("" : "+r"(kept))

FUNCTION int never_there(int n)
{
	END;
	return n + 1;
}

static void *volatile decoy[4];
static int pair[2];

FUNCTION void wait_here(const char *how)
{
	char byte;
	struct timespec time = { 0, 2000000 };

	/* A frame pointer would lead here: to a return address that never existed. */
	decoy[0] = (void *)decoy;
	decoy[1] = (char *)never_there + 4;
	KEEP((void *)decoy);
	if (!strcmp(how, "sleep"))
		nanosleep(&time, NULL);
	else if (!strcmp(how, "recv"))
		recv(pair[0], &byte, 1, 0);
	else
		read(pair[0], &byte, 1);
	KEPT;
	END;
}
FUNCTION void inner(const char *how)
{
	char room[600];

	memset(room, how[0], sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
	wait_here(how);
	END;
}
FUNCTION void middle(const char *how)
{
	inner(how);
	END;
}
FUNCTION void outer(const char *how)
{
	middle(how);
	END;
}

/* Many frames of half a kilobyte: more stack than is ever copied at once. */
FUNCTION void deep(int n)
{
	volatile char room[512];

	memset((char *)room, n, sizeof(room));
	if (n)
		deep(n - 1);
	else
		outer("sleep");
	END;
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 60;
	const char *how = argc > 1 ? argv[1] : "sleep";

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 1;
	if ((!strcmp(how, "recv") || !strcmp(how, "read")) && fork() == 0) {
		for (int i = 0; i < times; i++) {
			usleep(8000);
			if (write(pair[1], "x", 1) != 1)
				return 1;
		}
		return 0;
	}
	for (int i = 0; i < times; i++)
		if (!strcmp(how, "deep"))
			deep(40);
		else
			outer(how);
	/* On a busy machine it takes a while until the recorder has read this process's mappings. */
	usleep(500000);
	return never_there(argc) == 0;
}
