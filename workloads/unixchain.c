/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The chain of chain.c, over Unix sockets. Its truth, its drawing and what it assumes are said there. */
#include "chain.h"
#include "truth.h"

#include <sys/socket.h>

static void link_by_socket(int asker[2], int answerer[2])
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		die("cannot make a pair of sockets");
	asker[0] = asker[1] = ends[0];
	answerer[0] = answerer[1] = ends[1];
}

int main(int argc, char **argv)
{
	return chain_main(argc, argv, "unixchain", "read", "a chain of processes over Unix sockets",
			  link_by_socket);
}
