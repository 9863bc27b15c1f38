/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Open sockets, as the iterator over descriptors hands them to user space. They are never recorded in this form. */
#ifndef WAKEPATH_SOCKETS_H
#define WAKEPATH_SOCKETS_H

#include "types.h"

/* A process's open socket. */
struct wp_open_socket {
	__u64 inode;
	__u64 peer_inode;   /* a unix socket's other end; 0 if no process has it open */
	__u64 address;      /* a unix socket's name: an address in the kernel that sockets with this name share; 0 for none */
	__u64 peer_address; /* the other end's */
	__u64 local[2];     /* as in struct wp_flow */
	__u64 remote[2];
	__u32 tgid;
	__u32 netns;
	__u32 waiting; /* of a listening socket: connections that no process has accepted, */
	__u32 room;    /* more than this many make the kernel drop the next, */
	__u32 dropped; /* and packets dropped since it was made */
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u8 family;   /* 4, 6; 1 for unix */
	__u8 protocol; /* 6, 17; of a unix socket its type */
	__u8 state;    /* TCP's numbers: 1 established, 10 listening */
	__u8 spare;
	__u32 spare2;
};
_Static_assert(sizeof(struct wp_open_socket) == 96, "open_socket");

#endif
