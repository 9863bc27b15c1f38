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

/* 0: new; 1: its probe is there; 2: it cannot have one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wp_caller);
	__type(value, __u32);
} callers_seen SEC(".maps");

/* Whether a probe is behind a call with this return address. */
static __always_inline bool is_probed_behind(__u64 returns_to, __u32 target)
{
	struct wp_caller place = { returns_to, bpf_get_current_pid_tgid() >> 32, target };
	__u32 *state = bpf_map_lookup_elem(&callers_seen, &place);

	return state && *state == 1;
}

/* Whether a call's return will be seen: the return address is at the stack pointer. */
static __always_inline bool is_known_caller(struct pt_regs *ctx, __u32 target)
{
	struct wp_caller place = { 0, bpf_get_current_pid_tgid() >> 32, target };
	__u32 *state, new = 0;

	if (bpf_probe_read_user(&place.address, sizeof(place.address), (void *)ctx->sp))
		return false;
	state = bpf_map_lookup_elem(&callers_seen, &place);
	if (!state)
		bpf_map_update_elem(&callers_seen, &place, &new, BPF_NOEXIST);
	return state && *state == 1;
}

#endif
