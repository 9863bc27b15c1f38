/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * System calls by 32-bit programs, and by others through `int 0x80`: they have another table of numbers, and their
 * arguments in bx, cx, dx, si, di, bp. An exec that changes a program's kind ends with the new kind's number.
 */
#ifndef WAKEPATH_COMPAT_H
#define WAKEPATH_COMPAT_H

#include "kernel.h"

/* Set from such a call's entry until after its exit was traced. */
#define TS_COMPAT 2

enum { NR_32_socketcall = 102, NR_32_ipc = 117, NR_32_futex = 240, NR_32_futex_time64 = 422 };

static __inline __attribute__((always_inline)) bool is_32_bit(const struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

#endif
