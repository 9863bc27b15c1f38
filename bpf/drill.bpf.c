// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Measures the callees of a function f0 in a process, and their callees (T08 chapter 3). User space chooses them, level by level.
 *
 * A thread's open calls to probed functions are a stack of frames. A call belongs to a node in the function tree if the innermost
 * frame is its parent's and it returns to the parent's call site: the parent itself made the call, and no stack walk is needed
 * (T08 section 3.8). A probed function entered in another way (from an unprobed function, by recursion) gets a frame without a
 * node, so its calls belong to no node (T08 section 3.11).
 *
 * For Go, read goroutine instead of thread: function.bpf.h identifies a goroutine, and its place on a moving stack. Python
 * functions: drill_python.bpf.h.
 *
 * The nodes' latencies are kept per thread until f0 returns. If f0's latency is within the peak, all become a single record;
 * otherwise they are dropped.
 *
 * This is a separate object, and none of its programs runs during a recording.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "drill_calls.bpf.h"
#include "drill_behind.bpf.h"
#include "drill_python.bpf.h"
#include "drill_kernel.bpf.h"

/* The local timer's vector on x86, as T08 numbers it; /proc/interrupts calls it LOC. */
#define LOCAL_TIMER 236

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
 * The thread's state, if it is in a measured call. A thread running a goroutine has the goroutine's address in r14, also during a
 * system call or an interrupt; in Go's own scheduler r14 has another address.
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

/* A tick of the CPU clock, only in a search's last phase. */
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
