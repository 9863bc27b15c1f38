/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Grouping of latencies: each process, thread or cgroup has counts of its own.
 *
 * A process or thread is identified by its number and its start, since numbers are reused. The number of groups is
 * limited; latencies of later groups are counted where all are counted without grouping. So the groups and this
 * rest are the whole, and each latency is counted in exactly one place.
 *
 * A group's counts are not per CPU: a thread runs on a single CPU at a time, and per-CPU counts would need a
 * hundred times the memory on a large machine.
 */
#ifndef WAKEPATH_GROUP_H
#define WAKEPATH_GROUP_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "cgroup.bpf.h"
#include "latency.h"

/* A value of `enum wp_by`. */
const volatile __u32 told_apart_by = WP_BY_NOBODY;

/* max_entries is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct wp_group_of_target);
	__type(value, struct wp_distribution);
} groups SEC(".maps");

/* The last name of each process or thread with counts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct wp_group);
	__type(value, struct wp_group_name);
} group_names SEC(".maps");

/* A new group's counts, which are too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_distribution);
} no_calls SEC(".maps");

/* The thread that names the group of `task`; NULL for a cgroup. */
static __always_inline struct task_struct *named_by(struct task_struct *task)
{
	switch (told_apart_by) {
	case WP_BY_PROCESS:
		return BPF_CORE_READ(task, group_leader);
	case WP_BY_THREAD:
		return task;
	}
	return NULL;
}

static __always_inline void group_of(struct task_struct *task, struct wp_group *group)
{
	struct task_struct *named = named_by(task);

	group->start = 0;
	if (named) {
		group->id = BPF_CORE_READ(named, pid);
		group->start = BPF_CORE_READ(named, start_time);
	} else if (told_apart_by == WP_BY_CPU_CGROUP) {
		group->id = cpu_cgroup(task);
	} else {
		group->id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	}
}

static __always_inline void name_group(struct task_struct *task, struct wp_group *group)
{
	struct task_struct *named = named_by(task);
	struct wp_group_name name = {};

	if (!named)
		return;
	BPF_CORE_READ_INTO(&name.comm, named, comm);
	name.process = BPF_CORE_READ(named, tgid);
	bpf_map_update_elem(&group_names, group, &name, BPF_NOEXIST);
}

/* The counts for the group of `task`; NULL if there is no room for it. */
static __always_inline struct wp_distribution *group_distribution(__u32 target, struct task_struct *task)
{
	struct wp_group_of_target key = { .target = target };
	struct wp_distribution *found, *first;
	__u32 zero = 0;

	group_of(task, &key.group);
	found = bpf_map_lookup_elem(&groups, &key);
	if (found)
		return found;
	first = bpf_map_lookup_elem(&no_calls, &zero);
	/* Another CPU may have added the group meanwhile. */
	if (first && !bpf_map_update_elem(&groups, &key, first, BPF_NOEXIST))
		name_group(task, &key.group);
	return bpf_map_lookup_elem(&groups, &key);
}

/* Also called at an exec. */
SEC("tp_btf/task_rename")
int BPF_PROG(group_renamed, struct task_struct *task, const char *comm)
{
	struct wp_group_name name = {};
	struct wp_group group;

	if (named_by(task) != task)
		return 0;
	group_of(task, &group);
	name.process = task->tgid;
	bpf_probe_read_kernel_str(name.comm, sizeof(name.comm), comm);
	bpf_map_update_elem(&group_names, &group, &name, BPF_EXIST);
	return 0;
}

#endif
