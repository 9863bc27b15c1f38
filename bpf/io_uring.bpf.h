/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The work of an io_uring worker. Its registers are a copy of those of the thread that made it, so the system call there is not
 * its own: its request is in the kernel's memory. A request is recorded as the system call for the same work, with a bit set, and
 * its file by a number without a descriptor: a request's file may have no descriptor, or another by now.
 */
#ifndef WAKEPATH_IO_URING_H
#define WAKEPATH_IO_URING_H

#include "file.bpf.h"

/* A request's opcode as a system call's number; WP_CALL_NONE if no call does the same. */
static __always_inline __u32 call_of_request(__u8 opcode, struct io_kiocb *request)
{
	struct io_sync *sync = (void *)request;

	switch (opcode) {
	case 1: return 19; /* readv */
	case 2: return 20; /* writev */
	case 3: /* fsync; with a flag, fdatasync */
		if (bpf_core_field_exists(sync->flags) && BPF_CORE_READ(sync, flags) & 1)
			return 75;
		return 74;
	case 4: case 22: return 0; /* read */
	case 5: case 23: return 1; /* write */
	case 8: return 277; /* sync_file_range */
	case 9: return 46; /* sendmsg */
	case 10: return 47; /* recvmsg */
	case 13: return 288; /* accept4 */
	case 16: return 42; /* connect */
	case 17: return 285; /* fallocate */
	case 18: return 257; /* openat */
	case 19: return 3; /* close */
	case 21: return 332; /* statx */
	case 26: return 44; /* sendto */
	case 27: return 45; /* recvfrom */
	case 28: return 437; /* openat2 */
	case 30: return 275; /* splice */
	case 33: return 276; /* tee */
	case 35: return 316; /* renameat2 */
	case 36: return 263; /* unlinkat */
	case 37: return 258; /* mkdirat */
	case 55: return 77; /* ftruncate */
	}
	return WP_CALL_NONE;
}

/* Fills the call of a worker's request, and finds its file. */
static __always_inline void fill_request(struct wp_switch_call *r, struct descriptor *d, struct task_struct *worker)
{
	struct io_worker *of = worker->worker_private;
	struct io_kiocb *request;
	struct io_wq_work *work;

	r->call = WP_CALL_NONE;
	r->arg0 = -1;
	if (!bpf_core_field_exists(of->cur_work) || !bpf_core_field_exists(((struct io_kiocb *)0)->opcode) || !of)
		return;
	work = BPF_CORE_READ(of, cur_work);
	if (!work)
		return;
	request = (void *)work - bpf_core_field_offset(struct io_kiocb, work);
	r->call = call_of_request(BPF_CORE_READ(request, opcode), request);
	if (r->call == WP_CALL_NONE)
		return;
	if (takes_descriptor(r->call)) {
		describe_file(d, BPF_CORE_READ(request, file));
		r->arg0 = WP_REQUEST_FILE | (mix(mix(0, d->kind ^ d->device), d->number) & (WP_REQUEST_FILE - 1));
	}
	r->call |= WP_CALL_REQUEST;
}

#endif
