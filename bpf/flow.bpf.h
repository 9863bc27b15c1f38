/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A flow's id: a hash of addresses, ports and protocol in the direction of travel, so the sender's and
 * the receiver's records of a packet carry the same id.
 */
#ifndef WAKEPATH_FLOW_H
#define WAKEPATH_FLOW_H

#include "ring.bpf.h"
#include "mix.h"
#include <bpf/bpf_endian.h>

struct tuple {
	__u64 source[2];
	__u64 target[2];
	__u32 ports; /* network order, source in the low half */
	__u8 protocol;
	__u8 family;
};

static __always_inline __u64 flow_id(const struct tuple *t)
{
	__u64 h = mix(0, (__u64)t->ports << 16 | t->protocol << 8 | t->family);

	h = mix(mix(h, t->source[0]), t->target[0]);
	if (t->family == 6)
		h = mix(mix(h, t->source[1]), t->target[1]);
	return h;
}

/* A load if the verifier knows the pointer's type, otherwise a kernel call. */
#define READ_SOCKET(typed, sk, member) (typed ? (sk)->member : BPF_CORE_READ(sk, member))

/*
 * A socket's incoming flow; false if the socket has no peer, or another address family. `typed`: `sk`
 * is an argument of the tracepoint, not an address found in memory.
 */
static __always_inline bool socket_tuple(struct tuple *t, struct sock *sk, const bool typed)
{
	__u16 family = READ_SOCKET(typed, sk, __sk_common.skc_family);

	if (family == AF_INET) {
		t->family = 4;
		t->source[0] = READ_SOCKET(typed, sk, __sk_common.skc_daddr);
		t->target[0] = READ_SOCKET(typed, sk, __sk_common.skc_rcv_saddr);
	} else if (family == AF_INET6) {
		t->family = 6;
		BPF_CORE_READ_INTO(&t->source, sk, __sk_common.skc_v6_daddr);
		BPF_CORE_READ_INTO(&t->target, sk, __sk_common.skc_v6_rcv_saddr);
		/* An IPv6 socket whose peer speaks IPv4 (::ffff:a.b.c.d). */
		if (!t->source[0] && (__u32)t->source[1] == 0xffff0000) {
			t->family = 4;
			t->source[0] = t->source[1] >> 32;
			t->target[0] = t->target[1] >> 32;
			t->source[1] = t->target[1] = 0;
		}
	} else {
		return false;
	}
	t->protocol = READ_SOCKET(typed, sk, sk_protocol);
	t->ports = READ_SOCKET(typed, sk, __sk_common.skc_dport) |
		   (__u32)bpf_htons(READ_SOCKET(typed, sk, __sk_common.skc_num)) << 16;
	return (__u16)t->ports != 0;
}

#endif
