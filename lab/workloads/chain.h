/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A chain of processes, each of which asks the next: over pipes or over sockets, all the same. */
#ifndef WORKLOADS_CHAIN_H
#define WORKLOADS_CHAIN_H

/* Makes a link: what the asker reads and writes, and what the answerer does. */
typedef void make_link(int asker[2], int answerer[2]);

/* Runs a whole workload of that name, which reads its requests with system call `call`. */
int chain_main(int argc, char **argv, const char *name, const char *call, const char *summary, make_link *link);

#endif
