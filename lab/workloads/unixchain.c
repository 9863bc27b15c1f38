/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The chain of chain.c, over Unix sockets. Its truth, its drawing and what it assumes are said there.
 *
 * A pair for each direction: a reader of a socket makes room in it, and that wakes the thread that sleeps
 * at its other end, for whatever. An asker who slept at the socket by which it had asked would be
 * woken when its question is read, find nothing and sleep on, without a stamp.
 */
#include "chain.h"
#include "truth.h"

#include <sys/socket.h>

static void link_by_sockets(int asker[2], int answerer[2])
{
	int down[2], up[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, down) || socketpair(AF_UNIX, SOCK_STREAM, 0, up))
		die("cannot make a pair of sockets");
	asker[0] = up[0];
	asker[1] = down[1];
	answerer[0] = down[0];
	answerer[1] = up[1];
}

int main(int argc, char **argv)
{
	return chain_main(argc, argv, "unixchain", "read", "a chain of processes over Unix sockets",
			  link_by_sockets);
}
