/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Page faults among the waits outside a system call: plain C, which a test also compiles for the host. */
#ifndef WAKEPATH_FAULT_H
#define WAKEPATH_FAULT_H

/* Thread flags: it ends, it writes a core dump, a signal killed it. */
#define PF_EXITING 0x00000004
#define PF_DUMPCORE 0x00000200
#define PF_SIGNALED 0x00000400
#define TASK_UNINTERRUPTIBLE 0x2

/*
 * Whether a thread with these flags that waits outside a system call is in a page fault. Otherwise user code seldom waits
 * there without accepting signals, except at its end: it writes a core dump and frees its memory.
 */
static inline __attribute__((always_inline)) int is_page_fault(unsigned int flags, unsigned int prev_state)
{
	return prev_state & TASK_UNINTERRUPTIBLE && !(flags & (PF_EXITING | PF_DUMPCORE | PF_SIGNALED));
}

#endif
