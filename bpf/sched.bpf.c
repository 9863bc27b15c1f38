// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Switches and wake-ups: which thread runs, which waits, and which wakes which.
 *
 * 1. sched_switch: the thread leaving the CPU, its reason, and the next thread. If it blocks inside a system call, the
 *    record has the call and its first argument, from the registers saved at its entry; if the call seems to wait for a
 *    lock, the lock word too; if it waits on a descriptor, the file behind it. All this is read only then, so non-blocking
 *    switches cost nothing more. With `--stacks` the stack too: stack.bpf.h. With `--failed-calls`, before it, the call
 *    failed before a sleep: failed.bpf.h.
 * 2. sched_waking, in the waker's context, with the current interrupt. (sched_wakeup may run on the sleeper's CPU, in an
 *    unrelated interrupt.) Before it, for a thread in epoll_wait, the ready descriptor: epoll.bpf.h. Before both, if it
 *    changed, the span for which the thread works: thread_context.bpf.h.
 * 3. sched_migrate_task, for a runnable thread moved between two CPUs' queues: it shows the CPUs for which the thread
 *    waits.
 */
#include "current.bpf.h"
#include "polled.bpf.h"
#include "epoll.bpf.h"
#include "failed.bpf.h"
#include "fault.h"
#include "futex.h"
#include "io_uring.bpf.h"
#include "stack.bpf.h"
#include "steal.bpf.h"
#include "thread.bpf.h"
#include "thread_context.bpf.h"

__weak const volatile bool record_calls = true;

static __always_inline bool is_throttled(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	/* Before 6.18 a limit throttles whole run queues, not single tasks. */
	if (bpf_core_field_exists(task->se.cfs_rq))
		return BPF_CORE_READ(task, se.cfs_rq, throttle_count) > 0;
	return false;
}

/*
 * Reads the lock word of a futex wait that may be for a lock with an owner, and returns whether it is such a wait. Reading
 * user memory is the most expensive step here (165 ns if returns go through a thunk), so it is done only then.
 */
static __always_inline bool fill_lock(struct wp_switch_lock *r, const struct pt_regs *regs)
{
	__u32 words[3], expected = regs->dx;

	r->op = regs->si;
	r->value = expected;
	r->claim = 0;
	switch (lock_shape(r->op, expected, regs->r10)) {
	case NO_LOCK:
		return false;
	case OWNER_BESIDE:
		r->valid = WP_LOCK_VALUE;
		if (!bpf_probe_read_user(words, sizeof(words), (void *)regs->di)) {
			r->value = words[0];
			r->claim = words[2];
			r->valid |= WP_LOCK_CLAIM;
		}
		return true;
	case OWNER_IN_WORD:
		r->valid = bpf_probe_read_user(words, sizeof(words[0]), (void *)regs->di) ? 0 : WP_LOCK_VALUE;
		r->value = r->valid ? words[0] : 0;
		return true;
	}
	return false;
}

/* Fills the record's tail and returns the record's whole length. */
static __always_inline __u64 fill_call(struct wp_switch_lock *r, struct task_struct *prev, unsigned int prev_state)
{
	struct descriptor d = {};
	struct pt_regs *regs;

	r->c.s.h.kind = WP_SWITCH_CALL;
	r->c.end = 0;
	if (prev->flags & PF_IO_WORKER) {
		fill_request(&r->c, &d, prev);
		tell_descriptor(prev, r->c.arg0, &d);
		return sizeof(struct wp_switch_call);
	}
	if (bpf_ksym_exists(bpf_rdonly_cast))
		regs = registers_of(prev);
	else
		regs = (struct pt_regs *)bpf_task_pt_regs(prev);
	prev = for_loads(prev);
	/* Negative: an interrupt or a fault entered the kernel, not a system call. */
	if ((long)regs->orig_ax < 0) {
		r->c.call = is_page_fault(prev->flags, prev_state) ? WP_CALL_FAULT : WP_CALL_NONE;
		r->c.arg0 = -1;
		return sizeof(struct wp_switch_call);
	}
	r->c.call = regs->orig_ax;
	r->c.arg0 = regs->di;
	if (r->c.call == SYS_io_uring_enter) {
		if (is_registered_ring(regs))
			r->c.arg0 = -1;
		else if (!fill_ring(&r->c, prev, regs))
			tell_file(prev, regs->di);
		return sizeof(struct wp_switch_call);
	}
	if (takes_descriptor(r->c.call)) {
		if (r->c.call == SYS_epoll_wait || r->c.call == SYS_epoll_pwait)
			r->c.end = (__s32)regs->r10 < 0 ? -1 : (__s32)regs->r10;
		tell_file(prev, regs->di);
		return sizeof(struct wp_switch_call);
	}
	if (is_poll(r->c.call) || is_select(r->c.call)) {
		r->c.arg0 = polled_set(prev, regs, r->c.call);
		return sizeof(struct wp_switch_call);
	}
	if (r->c.call != SYS_futex)
		return sizeof(struct wp_switch_call);
	if (!fill_lock(r, regs)) {
		r->c.end = waits_privately(regs->si, regs->r10);
		return sizeof(struct wp_switch_call);
	}
	r->c.s.h.kind = WP_SWITCH_LOCK;
	return sizeof(struct wp_switch_lock);
}

/*
 * A prime: events at regular distances are timed as often as they happen. With 32, in a ping-pong between two threads,
 * only a single thread was timed, and its stacks were read anew at each fourth timed switch or at none, instead of at each
 * 64th.
 */
#define TIMED_EACH 31

/*
 * Times each 31st run. Calibration times a few hot runs; this is the time in the recorded load, with its caches and calls,
 * but without new readings of stacks, `stacks_ns`, which are counted separately.
 */
static __always_inline void time_switch(struct wp_ring *ring, __u64 began, __u32 stacks_ns)
{
	__u64 took;

	if (ring->untimed) {
		ring->untimed--;
		return;
	}
	ring->untimed = TIMED_EACH - 1;
	took = bpf_ktime_get_ns() - began - stacks_ns;
	if (took < MAX_TIMED_NS) {
		ring->timed++;
		ring->timed_ns += took;
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	__u64 len = sizeof(struct wp_switch), now = bpf_ktime_get_ns();
	struct wp_ring *ring = sched_ring();
	struct wp_switch_lock *r;
	__u32 prev_tid, stacks_ns = 0;

	if (!ring)
		return 0;
	look_whether_stolen(ring, now, prev->pid);
	tell_context(now);
	if ((record_failed_calls || keep_refused_locks) && !preempt && prev_state)
		write_failed_call(ring, prev, prev_state, now);
	r = ring_reserve(ring, sched_ring_mask);
	if (!r) {
		ring->interrupts_at_switch = ring->interrupts_ns;
		return 0;
	}
	prev_tid = prev->pid;
	r->c.s.h.stamp = now;
	r->c.s.h.seq = ring->seq;
	r->c.s.h.kind = WP_SWITCH;
	r->c.s.h.context = WP_CTX_TASK;
	r->c.s.h.tid = prev_tid;
	r->c.s.next_tid = next->pid;
	ring->current_tid = next->pid;
	r->c.s.prev_state = prev_state;
	r->c.s.interrupts_ns = ring->interrupts_ns - ring->interrupts_at_switch;
	r->c.s.flags = preempt ? WP_SWITCH_PREEMPT : 0;
	ring->interrupts_at_switch = ring->interrupts_ns;
	if (preempt || !prev_state) {
		if (prev_tid && is_throttled(prev)) {
			r->c.s.flags |= WP_SWITCH_THROTTLED;
			ring->limits++;
		}
	} else if (record_calls && !(prev->flags & PF_KTHREAD)) {
		len = fill_call(r, prev, prev_state);
	}
	ring_commit(ring, len);
	if (record_stacks) {
		ring->switches++;
		stacks_ns = stack_of_switch(ctx, r->c.s.h.stamp);
	}
	time_switch(ring, now, stacks_ns);
	return 0;
}

static __always_inline int waking(void *ctx, struct task_struct *task, __u32 tid, __u8 kind)
{
	struct wp_ring *ring = sched_ring();
	__u64 len = sizeof(struct wp_waking), now;
	struct wp_waking_socket *r;

	if (!ring)
		return 0;
	now = bpf_ktime_get_ns();
	/* A wake-up by an interrupt is not an act of the interrupted thread. */
	if (!context_of(ring))
		tell_context(now);
	/* A packet says more than the list, and is measured. */
	if (record_calls && kind == WP_WAKING && !(ring->ready_flow && !ring->hard))
		tell_ready(ring, task, now, tid);
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return 0;
	r->w.h.stamp = now;
	r->w.h.seq = ring->seq;
	r->w.h.kind = kind;
	r->w.h.context = context_of(ring);
	r->w.h.tid = tid;
	r->w.target_tid = task->pid;
	r->w.irq = ring->irq;
	r->w.target_cpu = task->thread_info.cpu;
	if (ring->ready_flow && !ring->hard) {
		r->w.h.kind = WP_WAKING_SOCKET;
		r->flow = ring->ready_flow;
		ring->ready_flow = 0;
		len = sizeof(*r);
	}
	ring_commit(ring, len);
	if (record_stacks)
		ring->wakings++;
	if (record_stacks && kind == WP_WAKING)
		stack_of_waking(ctx, r->w.h.stamp);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	__u64 current = current_address();
	struct wp_ring *ring;
	struct wp_waking *r;

	/*
	 * Interrupts may be on here only if a task wakes itself (it was about to sleep). The ring is not protected against
	 * interrupts, so such a record goes to the ring buffer, which is.
	 */
	if ((__u64)task == current) {
		r = life_reserve(sizeof(*r), WP_WAKING, task->pid);
		if (!r)
			return 0;
		ring = sched_ring();
		r->target_tid = task->pid;
		r->irq = ring ? ring->irq : 0;
		r->target_cpu = task->thread_info.cpu;
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return waking(ctx, task, bpf_core_cast((void *)current, struct task_struct)->pid, WP_WAKING);
	return waking(ctx, task, current_tid(), WP_WAKING);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	struct wp_thread *r;

	/* The kernel shows no fork of an io_uring worker. */
	if (task->flags & PF_IO_WORKER) {
		r = life_reserve(sizeof(*r), WP_FORK, current_tid());
		if (r) {
			fill_thread(r, task);
			bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		}
	}
	return waking(ctx, task, current_tid(), WP_WAKING_NEW);
}

/* `on_rq` of a thread between two queues; during a wake-up it is 0. */
#define TASK_ON_RQ_MIGRATING 2

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int to_cpu)
{
	struct wp_ring *ring;
	struct wp_migrate *r;

	/* Wake-ups change the CPU far more often; the switch-in shows the new CPU. */
	if (task->on_rq != TASK_ON_RQ_MIGRATING)
		return 0;
	TIME_RARE;
	ring = sched_ring();
	if (!ring)
		return 0;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return 0;
	r->h.stamp = bpf_ktime_get_ns();
	r->h.seq = ring->seq;
	r->h.kind = WP_MIGRATE;
	r->h.context = context_of(ring);
	r->h.tid = current_tid();
	r->target_tid = task->pid;
	r->from_cpu = task->thread_info.cpu;
	r->to_cpu = to_cpu;
	ring_commit(ring, sizeof(*r));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
