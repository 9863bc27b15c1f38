/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The work of an io_uring worker. Its registers are a copy of those of the thread that made it, so the system call there is not
 * its own: its request is in the kernel's memory. A request is recorded as the system call for the same work, with a bit set, and
 * its file by a number without a descriptor: a request's file may have no descriptor, or another by now.
 *
 * A thread's wait in io_uring_enter is recorded in the same way, if it can be for a single file's requests alone: if all requests
 * in flight do the same to the same file. Nothing is in flight when as many results as requests were counted, so then the next
 * request begins a new group. Requests in flight before the recording are not known. A request with many results, or none, would
 * break that count: on a ring that ever had a request other than those for files, all waits stay waits in io_uring_enter.
 */
#ifndef WAKEPATH_IO_URING_H
#define WAKEPATH_IO_URING_H

#include "file.bpf.h"
#include "io_uring.h"

enum { SYS_io_uring_enter = 426 };
enum { IORING_ENTER_REGISTERED_RING = 1 << 4 };
enum { REQ_F_FIXED_FILE = 1 << 0 };

/* The requests in flight on a ring. */
struct in_flight {
	__u64 file; /* the last one's address */
	__u64 inode;
	__u32 call;
	__u8 differ;
	__u8 others; /* the ring had requests that are not for files */
	__u16 spare;
};

/* By the address of the ring. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, struct in_flight);
} rings_in_flight SEC(".maps") __weak;

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

/* The number for a request's file. */
static __always_inline __u64 file_of_request(const struct descriptor *d)
{
	return WP_REQUEST_FILE | (mix(mix(0, d->kind ^ d->device), d->number) & (WP_REQUEST_FILE - 1));
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
		r->arg0 = file_of_request(d);
	}
	r->call |= WP_CALL_REQUEST;
}

/* The number of requests in flight; at most 0 if requests had several results. */
static __always_inline int count_in_flight(struct io_ring_ctx *ring)
{
	return BPF_CORE_READ(ring, cached_sq_head) - BPF_CORE_READ(ring, cached_cq_tail);
}

/* Finds the file of a submitted request; false for a socket or pipe, or for a file without a descriptor. */
static __always_inline bool find_submitted(struct in_flight *now, struct io_kiocb *request)
{
	struct task_struct *task = for_loads(bpf_get_current_task_btf());
	struct descriptor d = {};
	struct inode *inode;
	__u32 mode;

	if (BPF_CORE_READ(request, flags) & REQ_F_FIXED_FILE)
		return false;
	look_up(&d, task, (__u32)BPF_CORE_READ(request, cqe.fd));
	inode = d.inode;
	if (!d.file || !inode)
		return false;
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	now->file = (__u64)d.file;
	now->inode = (__u64)inode;
	return mode == S_IFREG || mode == S_IFBLK;
}

/* Follows what is in flight on the ring of a request that is being submitted. */
static __always_inline void follow_request(struct io_kiocb *request)
{
	struct io_ring_ctx *ring = BPF_CORE_READ(request, ctx);
	struct in_flight *known, now = {};
	__u64 key;

	if (!bpf_core_field_exists(request->cqe.fd) || !bpf_core_field_exists(ring->cached_cq_tail))
		return;
	key = (__u64)ring;
	known = bpf_map_lookup_elem(&rings_in_flight, &key);
	if (known && known->others)
		return;
	now.call = call_of_request(BPF_CORE_READ(request, opcode), request);
	now.others = now.call == WP_CALL_NONE || !takes_descriptor(now.call) || !find_submitted(&now, request);
	if (count_in_flight(ring) != 1)
		now.differ = !known || known->differ || known->inode != now.inode || known->call != now.call;
	bpf_map_update_elem(&rings_in_flight, &key, &now, BPF_ANY);
}

/* Whether the thread gives its ring by a number of its own, and not by a descriptor. */
static __always_inline bool is_registered_ring(const struct pt_regs *regs)
{
	return regs->r10 & IORING_ENTER_REGISTERED_RING;
}

/* Fills the call that a thread waits for in io_uring_enter with this ring; false if it may wait for requests for several files. */
static __always_inline bool fill_ring(struct wp_switch_call *r, struct task_struct *task, const struct pt_regs *regs)
{
	struct descriptor ring = {}, d = {};
	struct in_flight *known;
	struct file *file;
	__u64 key;

	look_up(&ring, task, regs->di);
	file = ring.file;
	if (!file)
		return false;
	key = (__u64)BPF_CORE_READ(file, private_data);
	known = bpf_map_lookup_elem(&rings_in_flight, &key);
	if (!known || known->differ || known->others || count_in_flight((struct io_ring_ctx *)key) < 1)
		return false;
	describe_file(&d, (struct file *)known->file);
	r->call = known->call | WP_CALL_REQUEST;
	r->arg0 = file_of_request(&d);
	tell_descriptor(task, r->arg0, &d);
	return true;
}

#endif
