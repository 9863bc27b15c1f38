// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * At each switch, the run queue's clock, by which the kernel counts until when the one thread ran and from when the other
 * one does.
 *
 * The kernel reads that clock now and then; between, it stands still. A program's log is made of times by it, a path of
 * stamps of the switches.
 *
 * And at a wake-up, since when the kernel counts that the thread waits for a CPU, if it does so before. A thread that sleeps
 * may stay in the run queue for a while (from Linux 6.12 on). If it is moved to another CPU meanwhile, the kernel takes it
 * for one that waits (`sched_info_enqueue`), and counts all its sleep from there on.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* `Switch` in src/dated_back/run_queue.rs, in ns. */
struct reading {
	__u64 stamp; /* of CLOCK_MONOTONIC */
	__u64 clock; /* of the run queue */
	__u32 cpu;
	__u32 prev;
	__u32 next;
	__u32 flags;
	__u64 counted; /* at a wake-up: how long the thread slept since the kernel counts that it waits for a CPU */
};

enum {
	PREEMPTED = 1, /* `prev` goes on waiting for a CPU */
	UNCOUNTED = 2, /* it had decided to sleep, and the kernel does not count what it waits (`sched_info_depart`) */
	WOKEN = 4,     /* no switch: `next` is woken */
};

/* Room for 700,000 switches. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} readings SEC(".maps");

/* The number of switches for which there was no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

static __always_inline struct reading *reserve(void)
{
	struct reading *reading = bpf_ringbuf_reserve(&readings, sizeof(*reading), 0);
	__u32 zero = 0;

	if (!reading) {
		__u64 *count = bpf_map_lookup_elem(&lost, &zero);

		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return reading;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(read_clocks, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	__u64 stamp = bpf_ktime_get_ns();
	struct reading *reading = reserve();

	if (!reading)
		return 0;
	reading->stamp = stamp;
	/* Both threads are of this CPU's run queue; the idle thread may have no queue of its class. */
	reading->clock = BPF_CORE_READ(prev->pid ? prev : next, se.cfs_rq, rq, clock);
	reading->cpu = bpf_get_smp_processor_id();
	reading->prev = prev->pid;
	reading->next = next->pid;
	reading->flags = (preempt || !prev_state ? PREEMPTED : 0) | (preempt && prev_state ? UNCOUNTED : 0);
	reading->counted = 0;
	/* A wake-up of the reader would be a switch more. */
	bpf_ringbuf_submit(reading, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(read_count, struct task_struct *woken)
{
	__u64 stamp = bpf_ktime_get_ns(), since = BPF_CORE_READ(woken, sched_info.last_queued), clock;
	struct reading *reading;

	/* It sleeps: nothing is counted, but for the one that was moved. */
	if (!since)
		return 0;
	clock = BPF_CORE_READ(woken, se.cfs_rq, rq, clock);
	reading = clock > since ? reserve() : NULL;
	if (!reading)
		return 0;
	reading->stamp = stamp;
	reading->clock = clock;
	reading->cpu = bpf_get_smp_processor_id();
	reading->prev = 0;
	reading->next = woken->pid;
	reading->flags = WOKEN;
	reading->counted = clock - since;
	bpf_ringbuf_submit(reading, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
