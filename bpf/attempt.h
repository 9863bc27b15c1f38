/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which failed calls can be tries. A try fails by the state of things, which changes: no file yet, a lock in another's hands. Other
 * failures are about the call itself, and come however long a program waits: an ioctl only asks whether a file is a terminal.
 */
#ifndef WAKEPATH_ATTEMPT_H
#define WAKEPATH_ATTEMPT_H

#include "types.h"

/* Whether a call fails alike however long its caller waits. */
static inline __attribute__((always_inline)) int fails_for_good(__u32 error)
{
	switch (error) {
	case 9: case 14: case 22: case 34: case 36: /* EBADF EFAULT EINVAL ERANGE ENAMETOOLONG: the arguments */
	case 10: /* ECHILD: no child is left to wait for */
	case 25: case 29: case 88: /* ENOTTY ESPIPE ENOTSOCK: another kind of file */
	case 38: case 92 ... 97: /* ENOSYS, and ENOPROTOOPT to EAFNOSUPPORT: not supported */
	case 61: /* ENODATA: without this attribute */
	case 106: /* EISCONN: connected already */
		return 1;
	}
	return 0;
}

/* Whether a thread in this call waits for a child's end: wait4 and waitid without WNOHANG. */
static inline __attribute__((always_inline)) int waits_for_child(__u64 call, __u64 third, __u64 fourth)
{
	return (call == 61 && !(third & 1)) || (call == 247 && !(fourth & 1));
}

#endif
