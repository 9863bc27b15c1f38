/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A CPU limit: a cgroup whose tasks may use only part of a CPU. The hierarchy is v1 with the cpu
 * controller in /sys/fs/cgroup/cpu, or v2 with cpu among the root's subtree controllers.
 */
#ifndef WORKLOADS_LIMIT_H
#define WORKLOADS_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* The members of the group: a process with a single thread, or single threads of a process with others. */
enum limited { A_PROCESS, A_THREAD };

/* Makes the group. Or says in errno why it cannot, and returns what it could not write. */
const char *limit_make(const char *name, enum limited limited, uint64_t quota_ns, uint64_t period_ns);

/* Gives the group its quota before the neighbours of the group get theirs. */
const char *limit_comes_first(void);

/* The calling thread enters the group, or leaves it. The same error. */
const char *limit_enter(void);
const char *limit_leave(void);

/* For how long the group's tasks were kept off their CPUs so far, by the group's own cpu.stat, ns. */
uint64_t limit_throttled(void);

/* Removes the group, which all have left. */
void limit_remove(void);

#endif
