/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls to Python functions.
 *
 * A single pair of places in the interpreter serves all Python functions: its code for the instruction RESUME, where each
 * function begins and each generator goes on, and its built-in probe function__return, which both pass at their end, also by an
 * exception. (Its probe function__entry is passed only under a Python debugger or profiler: CPython 3.11, Python/ceval.c,
 * `DO_TRACING`.)
 *
 * A call belongs to a *frame*, and the code object identifies the function. The thread running Python code has the interpreter's
 * lock, and the interpreter keeps its state in a fixed place; so the current frame is found from there, whatever the registers
 * hold. Each frame names its caller's frame, and each caller's frame its current instruction. So the rule in drill.bpf.c holds: a
 * call belongs to a node if its caller's frame is the innermost open node's.
 *
 * Frames stand in memory in any order, and a generator's frame ends and begins again. So a frame counts as unwound only at the
 * end of a frame around it, never because another frame begins.
 */
#ifndef WAKEPATH_DRILL_PYTHON_BPF_H
#define WAKEPATH_DRILL_PYTHON_BPF_H

#include "drill_calls.bpf.h"

/* Offsets in CPython 3.11's structures; crates/functions/src/python/layout.rs has the others, and a test for all. */
#define PYTHON_CFRAME 56 /* PyThreadState.cframe */
#define PYTHON_THREAD 152 /* PyThreadState.thread_id */
#define PYTHON_CURRENT_FRAME 8 /* _PyCFrame.current_frame */
#define PYTHON_FRAME 32 /* _PyInterpreterFrame.f_code and the next fields */
#define PYTHON_CODE_ADAPTIVE 184 /* PyCodeObject.co_code_adaptive */
#define PYTHON_RESUME 151
#define PYTHON_RESUME_QUICK 150

/*
 * The place where the process keeps the state of the Python thread with the interpreter's lock; 0: no Python functions are
 * wanted.
 */
__u64 python_thread = 0;
/* The extra time of a call without a node, by its pair of probes, ns; it is taken off. */
__u64 python_cost = 0;
/* Read by user space. */
__u64 python_entries = 0; /* begun functions, and begun or resumed generators */
__u64 python_unbalanced = 0; /* f0's calls with unequal numbers of begun and ended frames */
/*
 * The shortest time between the beginnings of two frames with exactly one frame end in between, ns: no pair of probes takes
 * longer; 0: none.
 */
__u64 python_shortest = 0;
__u64 python_full = 0; /* calls without room in python_calls */

/* A `_PyInterpreterFrame` from its code on. */
struct python_frame {
	__u64 code;
	__u64 object;
	__u64 previous;
	__u64 instruction;
};

/* Function numbers, by their code objects' addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WP_PYTHON_FUNCTIONS);
	__type(key, __u64);
	__type(value, __u32);
} python_functions SEC(".maps");

/* The number of calls below f0, by call; while f0 is looked for, by code object alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WP_PYTHON_CALLS);
	__type(key, struct wp_python_call);
	__type(value, __u64);
} python_calls SEC(".maps");

/* The current frame's address, or 0. */
static __always_inline __u64 current_frame(struct python_frame *frame, __u64 thread)
{
	__u64 state, at;

	if (bpf_probe_read_user(&state, sizeof(state), (void *)python_thread) || !state)
		return 0;
	if (thread) {
		if (bpf_probe_read_user(&at, sizeof(at), (void *)(state + PYTHON_THREAD)) || at != thread)
			return 0;
	}
	if (bpf_probe_read_user(&at, sizeof(at), (void *)(state + PYTHON_CFRAME)) ||
	    bpf_probe_read_user(&at, sizeof(at), (void *)(at + PYTHON_CURRENT_FRAME)) ||
	    bpf_probe_read_user(frame, sizeof(*frame), (void *)(at + PYTHON_FRAME)))
		return 0;
	return at;
}

static __always_inline void count_python_call(struct wp_python_call *call)
{
	__u64 one = 1, *times = bpf_map_lookup_elem(&python_calls, call);

	if (times)
		__sync_fetch_and_add(times, 1);
	else if (bpf_map_update_elem(&python_calls, call, &one, BPF_ANY))
		__sync_fetch_and_add(&python_full, 1);
}

/* The thread's current Python instruction; 0: it runs without the interpreter's lock. */
static __always_inline __u64 python_place(void)
{
	struct python_frame frame;
	__u64 thread = BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase);

	return thread && current_frame(&frame, thread) ? frame.instruction : 0;
}

/* A frame begins within a call to f0. */
static __always_inline void time_python_call(struct wp_drill_thread *t)
{
	__u64 now = bpf_ktime_get_ns(), time = now - t->python_began_at;

	if (t->python_steps == 2 && (!python_shortest || time < python_shortest))
		python_shortest = time;
	t->python_began_at = now;
	t->python_steps = 1;
}

/* At the code for RESUME. */
static __always_inline int enter_python(void)
{
	__u64 who = (__u32)bpf_get_current_pid_tgid(), at;
	struct wp_python_call call = {};
	struct python_frame frame, caller;
	struct wp_drill_frame *top;
	struct wp_drill_child *child;
	struct wp_drill_thread *t;
	struct wp_drill_edge edge = {};
	__u32 *function, depth;
	__u8 instruction;

	if (bpf_get_current_pid_tgid() >> 32 != process || phase == WP_DRILL_IDLE)
		return 0;
	at = current_frame(&frame, 0);
	/* Other instructions may share the place. */
	if (!at || bpf_probe_read_user(&instruction, sizeof(instruction), (void *)frame.instruction) ||
	    (instruction != PYTHON_RESUME && instruction != PYTHON_RESUME_QUICK))
		return 0;
	__sync_fetch_and_add(&python_entries, 1);
	call.callee = frame.code;
	if (phase == WP_DRILL_LOOK) {
		count_python_call(&call);
		return 0;
	}
	t = bpf_map_lookup_elem(&drilled, &who);
	function = bpf_map_lookup_elem(&python_functions, &frame.code);
	depth = t ? t->depth : 0;
	if (!t || !depth) {
		if (function && *function == F0)
			begin(who, t, at, 0, 0);
		return 0;
	}
	top = frame_at(t, depth - 1);
	/* A frame's beginning can pass two places. */
	if (top->sp == at)
		return 0;
	charge_stolen(t);
	time_python_call(t);
	t->python_balance++;
	t->python_calls++;
	if (!frame.previous ||
	    bpf_probe_read_user(&caller, sizeof(caller), (void *)(frame.previous + PYTHON_FRAME)))
		return 0;
	call.caller = caller.code;
	call.place = caller.instruction - caller.code - PYTHON_CODE_ADAPTIVE;
	count_python_call(&call);
	if (!function)
		return 0;
	if (!t->plan) {
		if (*function == F0)
			open_frame(t, at, F0, WP_DRILL_OUTSIDE);
		return 0;
	}
	edge.function = *function;
	edge.parent = top->node;
	edge.returns_to = call.place;
	child = top->node == WP_DRILL_OUTSIDE || top->sp != frame.previous ? NULL :
									     bpf_map_lookup_elem(&edges, &edge);
	if (child) {
		/* Its own probes are taken off with the node's time. */
		t->python_calls--;
		open_frame(t, at, *function, child->node);
	} else if (bpf_map_lookup_elem(&callers, function)) {
		open_frame(t, at, *function, WP_DRILL_OUTSIDE);
	}
	return 0;
}

/* At the probe function__return: a function returns, an exception unwinds it, or a generator has its next value. */
static __always_inline int leave_python(void)
{
	__u64 now = bpf_ktime_get_ns(), who = (__u32)bpf_get_current_pid_tgid(), at;
	struct python_frame frame;
	struct wp_drill_thread *t;
	struct wp_drill_frame *top;
	__u64 latency, cost;
	__u32 depth, found = 0;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t || !t->depth)
		return 0;
	charge_stolen(t);
	t->python_steps = t->python_steps == 1 ? 2 : 0;
	at = current_frame(&frame, 0);
	if (!at)
		return 0;
	depth = t->depth;
#pragma unroll
	for (__u32 i = 0; i < WP_DRILL_DEEPEST; i++)
		if (i < depth && frame_at(t, i)->sp == at)
			found = i + 1;
	if (!found) {
		t->python_balance--;
		return 0;
	}
	/* The frames above went on elsewhere: a thread with several stacks. */
	if (found < depth)
		t->left += depth - found;
	top = frame_at(t, found - 1);
	t->depth = found - 1;
	t->innermost = top->around;
	if (found > 1)
		t->python_balance--;
	cost = python_shortest && python_shortest < python_cost ? python_shortest : python_cost;
	cost *= t->python_calls - top->around_call;
	latency = now > top->at + cost ? now - top->at - cost : 0;
	if (top->node != WP_DRILL_OUTSIDE && t->plan) {
		struct wp_drill_node *node = node_of(t, top->node);

		if (latency > node->max)
			node->max = latency;
		node->sum += latency;
		node->count++;
	}
	if (found == 1) {
		if (t->python_balance)
			__sync_fetch_and_add(&python_unbalanced, 1);
		if (t->left) {
			/* The parts of two calls cannot be distinguished. */
			__sync_fetch_and_add(&left, 1);
			t->plan = 0;
		}
		finish(t, latency);
	}
	return 0;
}

SEC("uprobe.multi")
int drill_enter_python(struct pt_regs *ctx)
{
	return enter_python();
}

SEC("uprobe.multi")
int drill_leave_python(struct pt_regs *ctx)
{
	return leave_python();
}

SEC("uprobe")
int drill_enter_python_one(struct pt_regs *ctx)
{
	return enter_python();
}

SEC("uprobe")
int drill_leave_python_one(struct pt_regs *ctx)
{
	return leave_python();
}

#endif
