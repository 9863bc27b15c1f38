// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Each CPU's context. Keeps the current interrupt in the head of the CPU's ring, so each wake-up and
 * packet can carry it and no record per entry and exit is needed (G15 §5.5: interrupts are the most
 * frequent events), and sums the interrupts' time.
 *
 * Hard interrupts do not nest (the kernel keeps interrupts off in handlers); a hard interrupt can
 * interrupt a softirq, whose time then includes it. All programs here run with interrupts off or, at
 * softirq entry and exit, on the CPU with busy softirqs, so each field has a single writer.
 */
#include "scheduling.bpf.h"
#include "steal.bpf.h"

static __always_inline int hard_entry(__u8 context, __u16 irq)
{
	struct wp_ring *ring = sched_ring();
	__u64 now;

	if (!ring)
		return 0;
	now = bpf_ktime_get_ns();
	look_whether_stolen(ring, now, ring->current_tid);
	ring->hard = context;
	ring->irq = irq;
	ring->hard_since = now;
	return 0;
}

static __always_inline int hard_exit(void)
{
	struct wp_ring *ring = sched_ring();
	__u64 now;

	if (!ring || !ring->hard)
		return 0;
	now = bpf_ktime_get_ns();
	/* Time stolen by the hypervisor meanwhile is not the interrupt's. */
	ring->hard_since += look_whether_stolen(ring, now, ring->current_tid);
	if (!ring->soft)
		ring->interrupts_ns += now - ring->hard_since;
	ring->hard = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq)
{
	return hard_entry(WP_CTX_DEVICE, irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit)
{
	return hard_exit();
}

/*
 * The tick compares this CPU's thread with the last recorded switch. If the kernel did not report a
 * switch, the error then lasts for a tick, not until the next switch.
 */
static __always_inline void check_current(struct wp_ring *ring)
{
	__u32 tid = current_tid();
	struct wp_current *r;

	if (ring->current_tid == tid)
		return;
	ring->current_tid = tid;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return;
	r->h.stamp = ring->hard_since;
	r->h.kind = WP_CURRENT;
	r->h.context = WP_CTX_LOCAL_TIMER;
	r->h.seq = ring->seq;
	r->h.tid = tid;
	ring_commit(ring, sizeof(*r));
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(local_timer_entry)
{
	struct wp_ring *ring = sched_ring();

	hard_entry(WP_CTX_LOCAL_TIMER, 0);
	if (ring)
		check_current(ring);
	learn_places();
	if (current_tid())
		look_at_scheduling(bpf_get_current_task_btf(), LOOK_AT_TICK);
	return 0;
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(local_timer_exit)
{
	return hard_exit();
}

SEC("tp_btf/reschedule_entry")
int BPF_PROG(reschedule_entry)
{
	return hard_entry(WP_CTX_RESCHEDULE, 0);
}

SEC("tp_btf/reschedule_exit")
int BPF_PROG(reschedule_exit)
{
	return hard_exit();
}

SEC("tp_btf/call_function_entry")
int BPF_PROG(call_function_entry)
{
	return hard_entry(WP_CTX_CALL_FUNCTION, 0);
}

SEC("tp_btf/call_function_exit")
int BPF_PROG(call_function_exit)
{
	return hard_exit();
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(call_function_single_entry)
{
	return hard_entry(WP_CTX_CALL_FUNCTION, 0);
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(call_function_single_exit)
{
	return hard_exit();
}

SEC("tp_btf/irq_work_entry")
int BPF_PROG(irq_work_entry)
{
	return hard_entry(WP_CTX_IRQ_WORK, 0);
}

SEC("tp_btf/irq_work_exit")
int BPF_PROG(irq_work_exit)
{
	return hard_exit();
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	struct wp_ring *ring = sched_ring();

	if (!ring)
		return 0;
	ring->soft = WP_CTX_SOFTIRQ + vector;
	ring->ready_flow = 0;
	ring->soft_since = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	struct wp_ring *ring = sched_ring();

	if (!ring || !ring->soft)
		return 0;
	ring->soft = 0;
	ring->ready_flow = 0;
	/* Softirqs in ksoftirqd are its own work, not an interruption. */
	if (ring->current_tid != ring->ksoftirqd)
		ring->interrupts_ns += bpf_ktime_get_ns() - ring->soft_since;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
