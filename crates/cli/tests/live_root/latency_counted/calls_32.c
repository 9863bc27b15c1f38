/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Makes system calls by the numbers of 32-bit programs, and no others. It needs no library, so that it builds as a
 * 32-bit program where no 32-bit library is installed, and as a 64-bit program with 32-bit calls.
 */
struct time {
	int seconds, ns;
};
struct long_time {
	long long seconds, ns;
};
enum { SOCKETCALL_SOCKET = 1, IPC_MSGGET = 13, FUTEX_WAIT = 0, CONTENDED = 2 };

static struct time brief = { 0, 100000 };
static struct long_time brief_long = { 0, 100000 };
static int word = CONTENDED;
static unsigned no_socket[3] = { 999 };

/* Statically linked at a low address: a pointer has 32 bits in either program. */
#define LOW(pointer) ((int)(unsigned long)(pointer))

static int call(int number, int b, int c, int d, int si, int di)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(b), "c"(c), "d"(d), "S"(si), "D"(di) : "memory");
	return result;
}

void _start(void)
{
	for (int i = 0; i < 10; i++)
		call(162, LOW(&brief), 0, 0, 0, 0); /* nanosleep */
	for (int i = 0; i < 20; i++)
		call(407, 1, 0, LOW(&brief_long), 0, 0); /* clock_nanosleep_time64 */
	for (int i = 0; i < 30; i++)
		call(201, 0, 0, 0, 0, 0); /* geteuid32 */
	for (int i = 0; i < 40; i++)
		call(102, SOCKETCALL_SOCKET, LOW(no_socket), 0, 0, 0);
	for (int i = 0; i < 50; i++)
		call(117, IPC_MSGGET, 0x7fffff01, 0, 0, 0);
	/* The number of a 64-bit futex call, with the arguments of a wait for a lock. */
	for (int i = 0; i < 60; i++)
		call(202, 0, 0, CONTENDED, FUTEX_WAIT, 0); /* getegid32 */
	for (int i = 0; i < 7; i++)
		call(240, LOW(&word), FUTEX_WAIT, CONTENDED, LOW(&brief), 0); /* futex */
	for (int i = 0; i < 8; i++)
		call(422, LOW(&word), FUTEX_WAIT, CONTENDED, LOW(&brief_long), 0); /* futex_time64 */
	/* A wait for no lock. */
	for (int i = 0; i < 9; i++) {
		word = 1;
		call(240, LOW(&word), FUTEX_WAIT, 1, LOW(&brief), 0);
	}
	call(252, 0, 0, 0, 0, 0); /* exit_group */
}
