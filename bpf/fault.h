/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Waits outside a system call that are page faults: plain C, which a test also compiles for the host.
 */
#ifndef WAKEPATH_FAULT_H
#define WAKEPATH_FAULT_H

/* The flags of a thread that ends, that writes a core dump, and that a signal killed. */
#define PF_EXITING 0x00000004
#define PF_DUMPCORE 0x00000200
#define PF_SIGNALED 0x00000400
#define TASK_UNINTERRUPTIBLE 0x2

/*
 * Whether a thread with these flags that waits outside a system call is in a page fault. Little else makes user code wait
 * there without accepting signals but the end of the thread, which writes a core dump and frees its memory.
 */
static inline __attribute__((always_inline)) int is_page_fault(unsigned int flags, unsigned int prev_state)
{
	return prev_state & TASK_UNINTERRUPTIBLE && !(flags & (PF_EXITING | PF_DUMPCORE | PF_SIGNALED));
}

#endif
