/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The chain of chain.c, over pipes. Its truth, its drawing and what it assumes are said there. */
#include "chain.h"
#include "truth.h"

#include <unistd.h>

static void link_by_pipes(int asker[2], int answerer[2])
{
	int down[2], up[2];
	if (pipe(down) || pipe(up))
		die("cannot make a pipe");
	asker[0] = up[0];
	asker[1] = down[1];
	answerer[0] = down[0];
	answerer[1] = up[1];
}

int main(int argc, char **argv)
{
	return chain_main(argc, argv, "pipechain", "read", "a chain of processes over pipes", link_by_pipes);
}
