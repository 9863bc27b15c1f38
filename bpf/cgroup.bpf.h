/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A thread's cgroup in the hierarchy with the CPU controller. */
#ifndef WAKEPATH_CGROUP_H
#define WAKEPATH_CGROUP_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* Its inode; 0 if there is no such controller. */
static __always_inline __u64 cpu_cgroup(struct task_struct *task)
{
	int id = 0;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpu_cgrp_id))
		return 0;
	id = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	if (id < 0 || id > 15)
		return 0;
	return BPF_CORE_READ(task, cgroups, subsys[id], cgroup, kn, id);
}

#endif
