/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Targets of indirect calls. */
#ifndef WAKEPATH_DRILL_TARGET_BPF_H
#define WAKEPATH_DRILL_TARGET_BPF_H

#include "drill_state.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WP_DRILL_OPERANDS);
	__type(key, __u32);
	__type(value, struct wp_drill_operand);
} operands SEC(".maps");

/* The number of calls by call site and target. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct wp_drill_target);
	__type(value, __u64);
} targets SEC(".maps");

/*
 * The verifier allows reads only at fixed places in the context: a load for each register, which the compiler would
 * join.
 */
#define REGISTER(number, name)                  \
	case number:                            \
		value = ctx->name;              \
		asm volatile("" : "+r"(value)); \
		break

static __always_inline __u64 value_of(struct pt_regs *ctx, __u8 number)
{
	__u64 value = 0;

	switch (number) {
		REGISTER(0, ax);
		REGISTER(1, cx);
		REGISTER(2, dx);
		REGISTER(3, bx);
		REGISTER(4, sp);
		REGISTER(5, bp);
		REGISTER(6, si);
		REGISTER(7, di);
		REGISTER(8, r8);
		REGISTER(9, r9);
		REGISTER(10, r10);
		REGISTER(11, r11);
		REGISTER(12, r12);
		REGISTER(13, r13);
		REGISTER(14, r14);
		REGISTER(15, r15);
	}
	return value;
}

static __always_inline void count_target(__u32 site, __u64 address)
{
	struct wp_drill_target target = { site, address };
	__u64 one = 1, *times = bpf_map_lookup_elem(&targets, &target);

	if (times)
		__sync_fetch_and_add(times, 1);
	else
		bpf_map_update_elem(&targets, &target, &one, BPF_ANY);
}

/* At an indirect call: counts its target. */
static __always_inline int call_indirectly(struct pt_regs *ctx, bool of_kernel)
{
	__u32 site = (__u32)bpf_get_attach_cookie(ctx);
	struct wp_drill_operand *operand = bpf_map_lookup_elem(&operands, &site);
	__u64 place;

	if (bpf_get_current_pid_tgid() >> 32 != process || !operand)
		return 0;
	place = value_of(ctx, operand->base);
	if (operand->in_memory) {
		place += value_of(ctx, operand->index) * operand->scale + operand->displacement;
		if (of_kernel ? bpf_probe_read_kernel(&place, sizeof(place), (void *)place) :
				bpf_probe_read_user(&place, sizeof(place), (void *)place))
			return 0;
	}
	count_target(site, place);
	return 0;
}

#endif
