// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Measures the functions that a function f0 of one process calls, and those that these call (T08 chapter 3). User space
 * decides which, level by level.
 *
 * A thread's open calls of probed functions are a stack of frames. A call belongs to a node of the function tree if the
 * innermost frame is its parent's and it returns to the parent's call site: the parent itself made the call, and no stack
 * walk is needed (T08 section 3.8). A probed function that is entered in another way (from a function that is not probed,
 * by recursion) gets a frame of no node, so that its calls are nobody's (T08 section 3.11).
 *
 * For Go, read goroutine instead of thread: function.bpf.h says how one is known, and its place on a stack that moves. Functions of
 * Python: drill_python.bpf.h.
 *
 * The nodes' latencies are kept per thread until f0 returns. If f0's latency is within the peak, all of them are one
 * record; else they are forgotten.
 *
 * This is a separate object, none of which runs during a recording.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "drill.h"
#include "log2.bpf.h"

/* The number of f0, in the cookies of its probes. */
#define F0 0
/* The vector of the local timer, as /proc/interrupts and T08 number it. */
#define LOCAL_TIMER 236
/* Entries further apart than this are on other stacks: signal handlers, coroutines. A goroutine has one, of any size. */
#define ONE_STACK (of_go ? 1ull << 40 : 8ull << 20)
/* Places on a goroutine's stack are distances from its end, below this. */
#define GOROUTINES_END (1ull << 62)

/* Written by user space. */
__u32 process = 0;
__u32 of_go = 0;
__u32 phase = WP_DRILL_IDLE;
__u64 plan = 0;
__u64 low = 0, high = 0; /* the peak: latencies from `low` to below `high`, ns */
__s64 wanted = 0; /* calls within the peak that are still to be recorded */
/* The node whose code is sampled while it is the innermost one. */
__u32 sampled_node = 0;
/* Functions of the kernel may be on the path. */
__u32 in_kernel = 0;
/* Only calls of f0 that begin between two functions that the program calls are measured (T08 section 3.10). */
__u32 in_phases = 0;
/* The return address that the kernel puts in place of another one lies here. */
__u64 trampoline_from = 0, trampoline_to = 0;
/* Read by user space, and set before the first function. */
__u32 in_phase = 0;
__u64 phases = 0; /* that began */
/* Read by user space. */
__u64 counts[64] = {}; /* calls of f0 by latency: from 2^i to below 2^(i+1) ns */
__u64 sums[64] = {}; /* their latencies together, ns */
__u64 left = 0, crowded = 0, lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* the thread's number, or the address of the goroutine's record */
	__type(value, struct wp_drill_thread);
} drilled SEC(".maps");

/* The state with which a thread begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_drill_thread);
} empty_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wp_drill_edge);
	__type(value, struct wp_drill_child);
} edges SEC(".maps");

/* The functions that call nodes: an entry from elsewhere needs a frame. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} drill_records SEC(".maps");

#include "drill_stubs.bpf.h"

/*
 * A place on a kernel stack is a distance from the stack's lowest address. No place on a user stack is as low: the lowest 64 kB of a
 * process are never mapped.
 */
#define KERNEL_STACK (16ull << 10)

static __always_inline bool of_kernel_stack(__u64 sp)
{
	return sp <= KERNEL_STACK;
}

static __always_inline struct wp_drill_node *node_of(struct wp_drill_thread *t, __u32 number)
{
	struct wp_drill_node *node;

	asm volatile("" : "+r"(number));
	node = &t->nodes[number & (WP_DRILL_NODES - 1)];
	if (node->call != t->call) {
		__builtin_memset(node, 0, sizeof(*node));
		node->call = t->call;
	}
	return node;
}

#include "drill_steal.bpf.h"

/* The verifier needs the mask, which the compiler would remove as superfluous. */
static __always_inline struct wp_drill_frame *frame_at(struct wp_drill_thread *t, __u32 place)
{
	asm volatile("" : "+r"(place));
	return &t->frames[place & (WP_DRILL_DEEPEST - 1)];
}

static __always_inline void open_frame(struct wp_drill_thread *t, __u64 sp, __u32 function, __u32 node)
{
	__u32 depth = t->depth;
	struct wp_drill_frame *frame;

	if (depth >= WP_DRILL_DEEPEST) {
		t->crowded = 1;
		return;
	}
	frame = frame_at(t, depth);
	frame->sp = sp;
	frame->function = function;
	frame->node = node;
	frame->around = t->innermost;
	if (node != WP_DRILL_OUTSIDE)
		t->innermost = node;
	t->depth = depth + 1;
	frame->around_call = with_stubs ? 0 : t->python_calls;
	if (with_stubs && t->state && node != WP_DRILL_OUTSIDE)
		list_call(t, frame, depth);
	frame->at = bpf_ktime_get_ns();
}

/* The thread or goroutine that makes a call, as a key of `drilled`, and the place of `sp` on its stack; false if it has none. */
static __always_inline bool find_caller(struct pt_regs *ctx, __u64 *who, __u64 *sp)
{
	__u64 end;

	if (!of_go) {
		*who = (__u32)bpf_get_current_pid_tgid();
		return true;
	}
	*who = ctx->r14;
	if (bpf_probe_read_user(&end, sizeof(end), (void *)(ctx->r14 + 8)))
		return false;
	*sp = GOROUTINES_END - (end - *sp);
	return true;
}

#include "drill_target.bpf.h"
#include "drill_hand_over.bpf.h"

/* A call of f0 begins, whose request waited for this time, ns. */
static __always_inline void begin(__u64 who, struct wp_drill_thread *t, __u64 sp, __u64 queued)
{
	__u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid();

	if ((in_phases && !in_phase) || !is_handed_over(queued))
		return;
	if (!t) {
		struct wp_drill_thread *empty = bpf_map_lookup_elem(&empty_thread, &zero);

		if (!empty || bpf_map_update_elem(&drilled, &who, empty, BPF_NOEXIST)) {
			__sync_fetch_and_add(&crowded, 1);
			return;
		}
		t = bpf_map_lookup_elem(&drilled, &who);
		if (!t)
			return;
	}
	t->tid = tid;
	t->queued = queued;
	t->call++;
	t->plan = phase == WP_DRILL_MEASURE && wanted > 0 ? plan : 0;
	t->depth = t->innermost = t->crowded = t->left = t->samples = 0;
	t->off_at = t->ready_at = t->interrupted_at = 0;
	t->state = 0;
	t->python_calls = t->python_balance = t->python_steps = 0;
	begin_steal(t);
	if (with_stubs && t->plan)
		begin_stubs(t);
	open_frame(t, sp, F0, 0);
	if (with_stubs && t->state) {
		struct wp_stub_state *state = stub_state(t);

		/* Now that all else is there. */
		if (state)
			state->of = t->stub_call;
	}
}

static __always_inline int enter(struct pt_regs *ctx)
{
	__u64 who, sp = ctx->sp;
	__u32 function = (__u32)bpf_get_attach_cookie(ctx), depth;
	struct wp_drill_child *child;
	struct wp_drill_thread *t;
	struct wp_drill_edge edge = { 0, function, 0 };
	__u64 queued = 0;

	if (bpf_get_current_pid_tgid() >> 32 != process || phase == WP_DRILL_IDLE || !find_caller(ctx, &who, &sp))
		return 0;
	if (by_request && function == F0)
		queued = take_request(ctx);
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t || !t->depth) {
		if (function == F0)
			begin(who, t, sp, queued);
		return 0;
	}
	charge_stolen(t);
	if (bpf_probe_read_user(&edge.returns_to, sizeof(edge.returns_to), (void *)ctx->sp))
		edge.returns_to = 0;
	depth = t->depth;
	/*
	 * The stack grows down: open calls lie above. A call at the same place was left by a jump to this function, or
	 * was unwound, as were those below.
	 */
#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (top->sp > sp || (sp - top->sp > ONE_STACK && !of_kernel_stack(top->sp)))
			break;
		if (top->sp == sp) {
			struct wp_drill_edge jump = { top->node, function, 0 };

			if (t->plan && top->node != WP_DRILL_OUTSIDE && bpf_map_lookup_elem(&edges, &jump)) {
				edge.returns_to = 0;
				break;
			}
			/* A call writes its own return address: this is a jump of that function, which still has to return. */
			if (edge.returns_to >= trampoline_from && edge.returns_to < trampoline_to)
				break;
		}
		t->innermost = top->around;
		t->left++;
		depth--;
	}
	t->depth = depth;
	if (!depth) {
		__sync_fetch_and_add(&left, 1);
		if (function == F0)
			begin(who, t, sp, queued);
		return 0;
	}
	if (!t->plan) {
		/* Only f0's latency counts, and that of its outermost call. */
		if (function == F0)
			open_frame(t, sp, function, WP_DRILL_OUTSIDE);
		return 0;
	}
	if (with_stubs && t->state) {
		int node = child_of_list(ctx, t, sp, &edge);

		if (node >= 0)
			open_frame(t, sp, function, node);
		else if (function == F0)
			open_frame(t, sp, function, WP_DRILL_OUTSIDE);
		return 0;
	}
	edge.parent = frame_at(t, depth - 1)->node;
	child = edge.parent == WP_DRILL_OUTSIDE ? NULL : bpf_map_lookup_elem(&edges, &edge);
	if (child)
		open_frame(t, sp, function, child->node);
	else if (bpf_map_lookup_elem(&callers, &function))
		open_frame(t, sp, function, WP_DRILL_OUTSIDE);
	return 0;
}

/* A call of f0 has returned. */
static __always_inline void finish(struct wp_drill_thread *t, __u64 latency)
{
	__u32 bucket = log2_of(latency) & 63;

	__sync_fetch_and_add(&counts[bucket], 1);
	__sync_fetch_and_add(&sums[bucket], latency);
	if (with_stubs && t->plan)
		end_stubs(t, t->plan == plan && latency >= low && latency < high);
	if (t->crowded)
		__sync_fetch_and_add(&crowded, 1);
	if (!t->plan || t->plan != plan || t->crowded || latency < low || latency >= high)
		return;
	if (__sync_fetch_and_add(&wanted, -1) <= 0)
		return;
	t->latency = latency;
	if (bpf_ringbuf_output(&drill_records, t, sizeof(*t), 0))
		__sync_fetch_and_add(&lost, 1);
}

/* At a return the stack pointer is `above` the entry's, since the return address may be popped already. */
static __always_inline int leave(struct pt_regs *ctx, __u64 above)
{
	__u64 now = bpf_ktime_get_ns(), who, sp = ctx->sp - above;
	__u32 function = (__u32)bpf_get_attach_cookie(ctx), depth;
	struct wp_drill_thread *t;

	if (bpf_get_current_pid_tgid() >> 32 != process || !find_caller(ctx, &who, &sp))
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t || !t->depth)
		return 0;
	charge_stolen(t);
	depth = t->depth;
#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;
		__u64 latency;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		/* The call began before the probe did. */
		if (top->sp > sp)
			return 0;
		if (top->sp == sp && top->function == function) {
			t->depth = depth - 1;
			t->innermost = top->around;
			if (with_stubs && top->around_call) {
				struct wp_stub_state *state = stub_state(t);

				if (state)
					state->innermost = top->around_call;
			}
			latency = now > top->at ? now - top->at : 0;
			if (top->node != WP_DRILL_OUTSIDE && t->plan) {
				struct wp_drill_node *node = node_of(t, top->node);

				if (latency > node->max)
					node->max = latency;
				node->sum += latency;
				node->count++;
			}
			if (depth == 1)
				finish(t, latency);
			return 0;
		}
		/* On another stack; or by a jump of the function that has the frame, and itself has none. */
		if ((sp - top->sp > ONE_STACK && !of_kernel_stack(top->sp)) || top->sp == sp)
			return 0;
		t->innermost = top->around;
		t->left++;
		t->depth = --depth;
	}
	return 0;
}

/* With one link for many places, where the kernel has that for all threads of a process. */
SEC("uprobe.multi")
int drill_enter(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uretprobe.multi")
int drill_return(struct pt_regs *ctx)
{
	return leave(ctx, 8);
}

/* At a return instruction. */
SEC("uprobe.multi")
int drill_leave(struct pt_regs *ctx)
{
	return leave(ctx, 0);
}

SEC("uprobe")
int drill_enter_one(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uretprobe")
int drill_return_one(struct pt_regs *ctx)
{
	return leave(ctx, 8);
}

SEC("uprobe")
int drill_leave_one(struct pt_regs *ctx)
{
	return leave(ctx, 0);
}

/* A function that begins a phase of the program, or ends one: a cookie of 1 or 0. */
static __always_inline int mark(struct pt_regs *ctx)
{
	__u32 begins = (__u32)bpf_get_attach_cookie(ctx);

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	if (begins && !in_phase)
		__sync_fetch_and_add(&phases, 1);
	in_phase = begins;
	return 0;
}

SEC("uprobe.multi")
int drill_mark(struct pt_regs *ctx)
{
	return mark(ctx);
}

SEC("uprobe")
int drill_mark_one(struct pt_regs *ctx)
{
	return mark(ctx);
}

#include "drill_python.bpf.h"
#include "drill_kernel.bpf.h"

SEC("uprobe.multi")
int drill_target(struct pt_regs *ctx)
{
	return call_indirectly(ctx, false);
}

SEC("uprobe")
int drill_target_one(struct pt_regs *ctx)
{
	return call_indirectly(ctx, false);
}

/*
 * The thread, if it is in a call that is measured. A thread that runs a goroutine has its address in r14, also when it
 * makes a system call or is interrupted there; Go's own scheduler has another one.
 */
static __always_inline struct wp_drill_thread *measured(struct task_struct *task)
{
	struct wp_drill_thread *t;
	__u64 who = task->pid;

	if (task->tgid != process)
		return NULL;
	if (of_go)
		who = BPF_CORE_READ((struct pt_regs *)bpf_task_pt_regs(task), r14);
	t = bpf_map_lookup_elem(&drilled, &who);
	return t && t->depth && t->plan ? t : NULL;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(drill_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	__u64 now = bpf_ktime_get_ns();
	struct wp_drill_thread *t = measured(prev);

	if (t) {
		charge_stolen(t);
		t->off_at = now;
		t->off_node = innermost_node(t);
		t->ready_at = preempt || !prev_state ? now : 0;
	}
	t = measured(next);
	if (t)
		begin_steal(t);
	if (t && t->off_at) {
		struct wp_drill_node *node = node_of(t, t->off_node);
		__u64 ready = t->ready_at >= t->off_at && t->ready_at <= now ? t->ready_at : now;

		node->blocked += ready - t->off_at;
		node->waited += now - ready;
		t->off_at = 0;
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(drill_waking, struct task_struct *task)
{
	struct wp_drill_thread *t = measured(task);

	if (t && t->off_at && !t->ready_at)
		t->ready_at = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int interrupt_begins(__u32 number)
{
	struct wp_drill_thread *t = measured(bpf_get_current_task_btf());

	if (t) {
		charge_stolen(t);
		t->interrupted_at = bpf_ktime_get_ns();
		t->interrupt = number;
	}
	return 0;
}

static __always_inline int interrupt_ends(void)
{
	struct wp_drill_thread *t = measured(bpf_get_current_task_btf());
	struct wp_drill_node *node;
	__u64 time, stolen;

	if (!t || !t->interrupted_at)
		return 0;
	time = bpf_ktime_get_ns() - t->interrupted_at;
	stolen = charge_stolen(t);
	time = time > stolen ? time - stolen : 0;
	node = node_of(t, innermost_node(t));
	node->interrupted += time;
	if (time > node->longest) {
		node->longest = time;
		node->interrupt = t->interrupt;
	}
	t->interrupted_at = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(drill_irq_entry, int irq)
{
	return interrupt_begins(irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(drill_irq_exit)
{
	return interrupt_ends();
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(drill_timer_entry)
{
	return interrupt_begins(LOCAL_TIMER);
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(drill_timer_exit)
{
	return interrupt_ends();
}

/* A tick of the CPU's clock, in the last phase of a search only. */
SEC("perf_event")
int drill_sample(struct bpf_perf_event_data *ctx)
{
	struct wp_drill_thread *t = measured(bpf_get_current_task_btf());
	__u64 place;
	__u32 at;

	if (!t || innermost_node(t) != sampled_node)
		return 0;
	at = t->samples++;
	if (at >= WP_DRILL_SAMPLES)
		return 0;
	asm volatile("" : "+r"(at));
	place = python_thread ? python_place() : ctx->regs.cs & 3 || in_kernel ? ctx->regs.ip : 0;
	t->sampled[at & (WP_DRILL_SAMPLES - 1)] = place;
	return 0;
}

/* The next thread with this number begins without open calls. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(drill_exit, struct task_struct *task)
{
	__u64 who = task->pid;

	/* A goroutine outlives its threads. */
	if (task->tgid == process && !of_go) {
		bpf_map_delete_elem(&drilled, &who);
		bpf_map_delete_elem(&outer_calls, &who);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
