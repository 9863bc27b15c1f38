/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The search for sockets, and its reason: a SYN that is sent again to this host. */
#ifndef WAKEPATH_SOCKETS_BPF_H
#define WAKEPATH_SOCKETS_BPF_H

#include "ring.bpf.h"
#include "sockets.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_socket_search);
} socket_search SEC(".maps") __weak;

#endif
