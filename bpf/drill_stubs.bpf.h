/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The stubs' list of open calls in the process (crates/inject/src/stub.rs), as drill.bpf.c reads and extends it. */
#ifndef WAKEPATH_DRILL_STUBS_BPF_H
#define WAKEPATH_DRILL_STUBS_BPF_H

#include "drill_state.bpf.h"

/* Whether stubs in the process measure. */
const volatile __u32 with_stubs = 0;
/* The address at which the process has mapped `stub_states`. */
__u64 stub_states_at = 0;

/* With stubs, the process has mapped it too. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_stub_shared);
} stub_states SEC(".maps");

/* The state of a thread with measuring stubs, or NULL. */
static __always_inline struct wp_stub_state *stub_state(struct wp_drill_thread *t)
{
	struct wp_stub_shared *shared;
	__u32 zero = 0, index = t->state - 1;

	if (!with_stubs || !t->state)
		return NULL;
	shared = bpf_map_lookup_elem(&stub_states, &zero);
	asm volatile("" : "+r"(index));
	return shared ? &shared->states[index & (WP_STUB_THREADS - 1)] : NULL;
}

/* The address, in the process, for a call seen by a probe. */
static __always_inline __u64 call_at(struct wp_drill_thread *t, __u32 depth)
{
	return stub_states_at + offsetof(struct wp_stub_shared, states) + (t->state - 1) * sizeof(struct wp_stub_state) +
	       offsetof(struct wp_stub_state, frames) + (depth & (WP_DRILL_DEEPEST - 1)) * sizeof(struct wp_stub_call);
}

/*
 * With stubs, their list has the calls seen by probes too, at a place by their depth: so a call below them finds its parent in
 * the list.
 */
static __always_inline void list_call(struct wp_drill_thread *t, struct wp_drill_frame *frame, __u32 depth)
{
	struct wp_stub_state *state = stub_state(t);
	struct wp_stub_call *call;
	__u32 place = depth;

	if (!state)
		return;
	asm volatile("" : "+r"(place));
	call = &state->frames[place & (WP_DRILL_DEEPEST - 1)];
	frame->around_call = depth ? state->innermost : 0;
	call->slot = frame->sp;
	call->around = frame->around_call;
	call->of = t->stub_call;
	call->node = frame->node;
	state->innermost = call_at(t, depth);
}

/* A call to f0 begins: from now on, stubs measure in this thread. */
static __always_inline void begin_stubs(struct wp_drill_thread *t)
{
	__u64 pointer = BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase), from = (pointer >> 12) ^ (pointer >> 23);
	struct wp_stub_shared *shared;
	struct wp_stub_state *state;
	__u32 zero = 0;

	shared = bpf_map_lookup_elem(&stub_states, &zero);
	if (!shared)
		return;
	for (int way = 0; way < WP_STUB_WAYS && !t->state; way++) {
		__u32 index = (from + way) & (WP_STUB_THREADS - 1);
		__u64 had;

		asm volatile("" : "+r"(index));
		had = __sync_val_compare_and_swap(&shared->threads[index & (WP_STUB_THREADS - 1)], 0, pointer);
		if (had == 0 || had == pointer)
			t->state = index + 1;
	}
	state = stub_state(t);
	if (!state)
		return;
	state->left = state->crowded = 0;
	state->thread = pointer;
	t->stub_call = bpf_ktime_get_ns();
}

/* A call to f0 is over: stubs measure nothing in this thread until the next call. */
static __always_inline void end_stubs(struct wp_drill_thread *t, bool is_wanted)
{
	struct wp_stub_state *state = stub_state(t);

	t->state = 0;
	if (!state) {
		/* There was no room for the thread: nothing below f0 was measured. */
		t->crowded = 1;
		return;
	}
	state->of = 0;
	t->left += state->left;
	t->crowded |= state->crowded != 0;
	if (is_wanted)
		bpf_probe_read_kernel(t->stubs, sizeof(t->stubs), state->nodes);
}

/* The running thread's innermost node. */
static __always_inline __u32 innermost_node(struct wp_drill_thread *t)
{
	struct wp_stub_state *state = stub_state(t);
	struct wp_stub_call call;

	if (!state || bpf_probe_read_user(&call, sizeof(call), (void *)state->innermost))
		return t->innermost;
	return call.node < WP_DRILL_NODES ? call.node : t->innermost;
}

/*
 * A call's node by the stubs' list: the parent is the innermost call that has not been unwound. If the parent's frame is
 * known, no other call to its function may lie between. -1: none.
 */
static __always_inline int child_of_list(struct pt_regs *ctx, struct wp_drill_thread *t, __u64 sp, struct wp_drill_edge *edge)
{
	__u64 at, returns_to = edge->returns_to;
	struct wp_stub_state *state = stub_state(t);
	struct wp_drill_child *child;
	struct wp_stub_call call;

	if (!state)
		return -1;
	at = state->innermost;
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		if (!at || bpf_probe_read_user(&call, sizeof(call), (void *)at))
			return -1;
		edge->parent = call.node;
		if (call.slot == sp) {
			/* By a jump from this function, instead of a call. */
			edge->returns_to = 0;
			child = bpf_map_lookup_elem(&edges, edge);
			if (child)
				return child->node;
			edge->returns_to = returns_to;
		} else if (call.slot > sp) {
			__u64 base;

			child = bpf_map_lookup_elem(&edges, edge);
			if (!child)
				return -1;
			base = child->frame ? ctx->bp : sp;
			return child->frame == 2 || base + child->distance == call.slot ? (int)child->node : -1;
		}
		at = call.around;
	}
	return -1;
}

#endif
