/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A thread's identity. */
#ifndef WAKEPATH_THREAD_H
#define WAKEPATH_THREAD_H

#include "cgroup.bpf.h"
#include "ring.bpf.h"

static __always_inline __u32 namespace_pid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level;
	__u32 number = 0;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	/* A upid for each level; the type has the running kernel's size. */
	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)__builtin_preserve_access_index(&pid->numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return number;
}

static __always_inline void fill_thread(struct wp_thread *r, struct task_struct *task)
{
	r->tid = BPF_CORE_READ(task, pid);
	r->tgid = BPF_CORE_READ(task, tgid);
	r->parent_tgid = BPF_CORE_READ(task, real_parent, tgid);
	r->ns_tid = namespace_pid(task);
	r->ns_tgid = namespace_pid(BPF_CORE_READ(task, group_leader));
	r->flags = BPF_CORE_READ(task, flags) & PF_KTHREAD ? WP_THREAD_KERNEL : 0;
	r->start = BPF_CORE_READ(task, start_time);
	r->cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	r->cpu_cgroup = cpu_cgroup(task);
	r->state = BPF_CORE_READ(task, __state);
	r->call = WP_CALL_NONE;
	BPF_CORE_READ_INTO(&r->comm, task, comm);
}

#endif
