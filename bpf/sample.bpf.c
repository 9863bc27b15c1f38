// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Samples of running threads: their stacks, by frame pointers, at a fixed rate.
 */
#include "ring.bpf.h"

/* A sample record with room for its frames. */
union scratch {
	struct wp_sample r;
	__u8 bytes[sizeof(struct wp_sample) + WP_MAX_FRAMES * sizeof(__u64)];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, union scratch);
} scratches SEC(".maps");

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 who = bpf_get_current_pid_tgid();
	struct wp_ring *ring = sched_ring();
	long kernel, user, size;
	union scratch *s;
	__u32 zero = 0;
	__u64 *lost;

	if (!(__u32)who)
		return 0;
	s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s || !ring)
		return 0;
	fill_header(&s->r.h, WP_SAMPLE, (__u32)who, context_of(ring));
	s->r.h.seq = bpf_get_smp_processor_id();
	s->r.tgid = who >> 32;
	s->r.scanned = 0;
	kernel = bpf_get_stack(ctx, s->r.frames, WP_MAX_KERNEL_FRAMES * sizeof(__u64), 0);
	if (kernel < 0)
		kernel = 0;
	if (kernel > WP_MAX_KERNEL_FRAMES * (long)sizeof(__u64))
		return 0;
	user = bpf_get_stack(ctx, (void *)s->r.frames + kernel,
			     (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES) * sizeof(__u64), BPF_F_USER_STACK);
	if (user < 0)
		user = 0;
	s->r.kernel_frames = kernel / sizeof(__u64);
	s->r.user_frames = user / sizeof(__u64);
	s->r.frames_len = s->r.kernel_frames + s->r.user_frames;
	size = sizeof(s->r) + kernel + user;
	if (size < 0 || size > sizeof(*s))
		return 0;
	if (bpf_ringbuf_output(&life, s, size, BPF_RB_NO_WAKEUP)) {
		lost = bpf_map_lookup_elem(&life_lost, &zero);
		if (lost)
			(*lost)++;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
