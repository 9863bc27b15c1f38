/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The buffers for records: mechanism only, no policy.
 *
 * 1. Frequent records (switches, wake-ups; packets) go to rings in memory mapped by user space. Each CPU has a ring for
 *    each class, and each ring has a single writer at a time, since all writers in a class run in contexts that exclude
 *    each other on a CPU:
 *      - `sched`: interrupts are off (the tracepoints are under the run queue's or the task's lock);
 *      - `net`: bottom halves are off, and no hard interrupt sends or receives packets.
 *    So the writer's position needs no atomic: fill, compiler barrier, move the head.
 * 2. A record is never split: at the end of the ring it continues in the slack behind, and the next record begins as
 *    many bytes after the ring's start. The reader walks the records and so finds the same place.
 * 3. A full ring loses the record, but counts it in `seq`: the gap in the numbers shows the reader the number of lost
 *    records, and the stamps around them.
 * 4. Rare records (forks, disks, locks, samples) go to a BPF ring buffer for all CPUs and contexts. It never wakes the
 *    consumer.
 */
#ifndef WAKEPATH_RING_H
#define WAKEPATH_RING_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "records.h"
#include "ring.h"

#define barrier() asm volatile("" ::: "memory")

/* A ring's size minus one, bytes; the size is a power of two. Set before loading, so that the verifier knows it. */
__weak const volatile __u64 sched_ring_mask = 0xfff;
__weak const volatile __u64 net_ring_mask = 0xfff;

/* value_size and max_entries (CPUs) are set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, WP_RING_DATA + 0x1000 + WP_RING_SLACK);
} sched_rings SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, WP_RING_DATA + 0x1000 + WP_RING_SLACK);
} net_rings SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} life SEC(".maps") __weak;

/* The number of rare records lost for want of room, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} life_lost SEC(".maps") __weak;

/*
 * The programs for rare records: their number of runs on a CPU, and the time of each seventh run (not each eighth, since
 * the beginnings and ends of requests take turns). Calibration does not run them.
 */
struct wp_rare {
	__u64 runs;
	__u64 timed;
	__u64 ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_rare);
} rare SEC(".maps") __weak;

/* Counts a run of such a program, and returns its beginning if it is timed, else 0. */
static __always_inline __u64 begin_rare(void)
{
	__u32 zero = 0;
	struct wp_rare *counts = bpf_map_lookup_elem(&rare, &zero);

	return counts && counts->runs++ % 7 == 0 ? bpf_ktime_get_ns() : 0;
}

/* Longer than any of our programs runs: the hypervisor stopped this CPU, or an interrupt came. */
#define MAX_TIMED_NS 50000

static __always_inline void end_rare(const __u64 *began)
{
	__u64 took = *began ? bpf_ktime_get_ns() - *began : MAX_TIMED_NS;
	__u32 zero = 0;
	struct wp_rare *counts;

	if (took >= MAX_TIMED_NS)
		return;
	counts = bpf_map_lookup_elem(&rare, &zero);
	if (counts) {
		counts->timed++;
		counts->ns += took;
	}
}

/* First in each program for rare records: its time ends where the program returns. */
#define TIME_RARE __u64 began __attribute__((cleanup(end_rare), unused)) = begin_rare()

static __always_inline struct wp_ring *sched_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&sched_rings, &cpu);
}

static __always_inline struct wp_ring *net_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&net_rings, &cpu);
}

/* Room for a record up to WP_RING_SLACK bytes, or NULL if the ring is full. */
static __always_inline void *ring_reserve(struct wp_ring *ring, __u64 mask)
{
	__u64 head = ring->head;

	if (head + WP_RING_SLACK - ring->tail > mask + 1) {
		ring->lost++;
		ring->seq++;
		return NULL;
	}
	return (void *)ring + WP_RING_DATA + (head & mask);
}

static __always_inline void ring_commit(struct wp_ring *ring, __u64 len)
{
	ring->seq++;
	barrier();
	*(volatile __u64 *)&ring->head = ring->head + len;
}

/* The innermost interrupt on this CPU. */
static __always_inline __u8 context_of(const struct wp_ring *ring)
{
	return ring->hard ? ring->hard : ring->soft;
}

static __always_inline __u32 current_tid(void)
{
	return (__u32)bpf_get_current_pid_tgid();
}

static __always_inline void fill_header(struct wp_header *h, __u8 kind, __u32 tid, __u8 context)
{
	h->stamp = bpf_ktime_get_ns();
	h->seq = 0; /* the ring buffer's losses are counted in life_lost */
	h->kind = kind;
	h->context = context;
	h->tid = tid;
}

/* Room in the ring buffer, with the header filled; or NULL, with the loss counted. */
static __always_inline void *life_reserve(__u64 size, __u8 kind, __u32 tid)
{
	struct wp_header *h = bpf_ringbuf_reserve(&life, size, 0);
	struct wp_ring *ring = sched_ring();
	__u32 zero = 0;
	__u64 *lost;

	if (!h) {
		lost = bpf_map_lookup_elem(&life_lost, &zero);
		if (lost)
			(*lost)++;
		return NULL;
	}
	fill_header(h, kind, tid, ring ? context_of(ring) : WP_CTX_UNKNOWN);
	/* The buffer serves all CPUs: the CPU number replaces the sequence number. */
	h->seq = bpf_get_smp_processor_id();
	return h;
}

#endif
