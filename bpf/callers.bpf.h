/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The places behind calls of functions whose returns are seen there: their return address must not be replaced, and they may leave by a
 * jump. A place is learned at its first call; the recorder puts a probe there, and says so. Until then its calls are unseen.
 */
#ifndef WAKEPATH_CALLERS_H
#define WAKEPATH_CALLERS_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* A place in a process's code. */
struct wp_caller {
	__u64 address;
	__u32 tgid;
	__u32 target;
};

struct wp_caller_state {
	__u32 state; /* 0: new; 1: its probe is there; 2: it has none */
	__u32 spare;
	__u64 strays; /* hits that ended no call: others are called from there too */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wp_caller);
	__type(value, struct wp_caller_state);
} callers_seen SEC(".maps");

/* A probe behind a call was hit, and no call ended. */
static __always_inline void count_stray(struct pt_regs *ctx, __u32 target)
{
	struct wp_caller place = { ctx->ip, bpf_get_current_pid_tgid() >> 32, target };
	struct wp_caller_state *known = bpf_map_lookup_elem(&callers_seen, &place);

	if (known)
		__sync_fetch_and_add(&known->strays, 1);
}

/* Whether a call with this return address will be seen to return. */
static __always_inline bool is_known_place(__u64 returns_to, __u32 target)
{
	struct wp_caller place = { returns_to, bpf_get_current_pid_tgid() >> 32, target };
	struct wp_caller_state *known, new = {};

	known = bpf_map_lookup_elem(&callers_seen, &place);
	if (!known)
		bpf_map_update_elem(&callers_seen, &place, &new, BPF_NOEXIST);
	return known && known->state == 1;
}

/* The same for a call that begins: the return address is at the stack pointer. */
static __always_inline bool is_known_caller(struct pt_regs *ctx, __u32 target)
{
	__u64 returns_to;

	return !bpf_probe_read_user(&returns_to, sizeof(returns_to), (void *)ctx->sp) && is_known_place(returns_to, target);
}

#endif
