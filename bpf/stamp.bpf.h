/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Stamps: nanoseconds of the monotonic clock, or cycles of the processor's time-stamp counter.
 *
 * A BPF program cannot read this counter itself, but perf has an event for it (msr/tsc), which counts from its
 * opening on its CPU. The kernel keeps the counter's value from that moment; with it added, stamps from
 * different CPUs can be compared.
 */
#ifndef WAKEPATH_STAMP_H
#define WAKEPATH_STAMP_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

const volatile bool in_cycles = false;
/* The process with the open events. */
const volatile __u32 own_process = 0;

/* The events, by CPU. For this map and the next two, max_entries is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} cycle_events SEC(".maps");

/* The counter's value when an event's count was 0, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} cycle_origins SEC(".maps");

/* The events' CPUs, by descriptor. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cycle_descriptors SEC(".maps");

/* Ns or cycles; 0 if the counter could not be read. */
static __always_inline __u64 stamp(void)
{
	struct bpf_perf_event_value read = {};
	__u32 cpu;
	__u64 *origin;

	if (!in_cycles)
		return bpf_ktime_get_ns();
	cpu = bpf_get_smp_processor_id();
	origin = bpf_map_lookup_elem(&cycle_origins, &cpu);
	if (!origin || !*origin ||
	    bpf_perf_event_read_value(&cycle_events, BPF_F_CURRENT_CPU, &read, sizeof(read)))
		return 0;
	return *origin + read.counter;
}

/* Iterates over this process's open files, before any event is read. */
SEC("iter/task_file")
int read_origins(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct perf_event *event;
	__u64 counter = 0, count = 0;
	__u32 descriptor = ctx->fd;
	__u32 *cpu;

	if (!task || !file || task->tgid != own_process)
		return 0;
	cpu = bpf_map_lookup_elem(&cycle_descriptors, &descriptor);
	if (!cpu)
		return 0;
	event = file->private_data;
	bpf_core_read(&counter, sizeof(counter), &event->hw.prev_count);
	bpf_core_read(&count, sizeof(count), &event->count);
	counter -= count;
	bpf_map_update_elem(&cycle_origins, cpu, &counter, BPF_ANY);
	return 0;
}

#endif
