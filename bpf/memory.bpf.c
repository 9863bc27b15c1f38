// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Memory reclaims for a cgroup's memory limit: their times and threads. The tracepoint does not name the cgroup: the counters
 * of the thread's cgroup and of its outer cgroups show which limit is reached. Also the kernel's kills for want of memory.
 */
#include "ring.bpf.h"

/* The most levels of cgroups to examine. */
#define MAX_LEVELS 8

/* The most pages in a charge, a page of 2 MiB: a limit with more room refuses none. */
#define MAX_CHARGE 512

#define PAGE_SHIFT 12

#define SIGKILL 9
#define SI_KERNEL 0x80

struct reclaiming {
	__u64 from;
	__u64 memory_cgroup;
	__u64 limit;
	__u64 by;
};

/* The threads in a reclaim. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct reclaiming);
} reclaiming SEC(".maps");

/*
 * The limit with the least room among those of the current thread's cgroup and its outer cgroups. A charge goes from the inside
 * outwards and is refused by the first limit without room, so all limits further inside had more room.
 */
static __always_inline void find_limit(struct reclaiming *r)
{
	struct cgroup_subsys_state *css;
	__u64 least = MAX_CHARGE + 1;
	int id = 0;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return;
	id = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	if (id < 0 || id > 15)
		return;
	css = BPF_CORE_READ((struct task_struct *)bpf_get_current_task_btf(), cgroups, subsys[id]);
	for (int level = 0; level < MAX_LEVELS && css; level++) {
		struct mem_cgroup *group = (void *)css - bpf_core_field_offset(struct mem_cgroup, css);
		__u64 used = BPF_CORE_READ(group, memory.usage.counter);
		__u64 max = BPF_CORE_READ(group, memory.max);
		__u64 high = BPF_CORE_READ(group, memory.high);
		__u64 room = used < max ? max - used : 0;
		bool is_full = room < least;

		if (is_full || (used > high && !r->by)) {
			r->by = is_full ? WP_MEMORY_MAX : WP_MEMORY_HIGH;
			r->limit = (is_full ? max : high) << PAGE_SHIFT;
			r->memory_cgroup = BPF_CORE_READ(css, cgroup, kn, id);
		}
		if (is_full)
			least = room;
		css = BPF_CORE_READ(css, parent);
	}
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(memcg_reclaim_begin)
{
	TIME_RARE;
	struct reclaiming r = { .from = bpf_ktime_get_ns() };
	__u32 tid = current_tid();

	find_limit(&r);
	bpf_map_update_elem(&reclaiming, &tid, &r, BPF_ANY);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(memcg_reclaim_end, unsigned long reclaimed)
{
	TIME_RARE;
	__u32 tid = current_tid();
	struct reclaiming *begun = bpf_map_lookup_elem(&reclaiming, &tid);
	struct wp_reclaim *r;

	if (!begun)
		return 0;
	r = life_reserve(sizeof(*r), WP_RECLAIM, tid);
	if (r) {
		r->from = begun->from;
		r->memory_cgroup = begun->memory_cgroup;
		r->limit = begun->limit;
		r->pages = reclaimed;
		r->by = begun->by;
		bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	}
	bpf_map_delete_elem(&reclaiming, &tid);
	return 0;
}

/*
 * The kernel kills a process for want of memory. The current thread asked for the memory: the limit is of its cgroups. The
 * argument was the victim's number before Linux 6.9, then its task.
 */
SEC("tp_btf/mark_victim")
int BPF_PROG(mark_victim)
{
	TIME_RARE;
	struct reclaiming limit = {};
	struct wp_signal_sent *r;
	__u64 victim = 0;

	bpf_probe_read_kernel(&victim, sizeof(victim), &ctx[0]);
	if (victim >> 32)
		victim = BPF_CORE_READ((struct task_struct *)victim, pid);
	find_limit(&limit);
	r = life_reserve(sizeof(*r), WP_SIGNAL_SENT, current_tid());
	if (!r)
		return 0;
	r->signal = SIGKILL;
	r->code = SI_KERNEL;
	r->target = victim;
	r->effect = WP_SENT_NO_MEMORY;
	r->memory_cgroup = limit.by == WP_MEMORY_MAX ? limit.memory_cgroup : 0;
	r->limit = limit.by == WP_MEMORY_MAX ? limit.limit : 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
