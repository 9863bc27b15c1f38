/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's types for io_uring, as far as they are read. The loader finds each member in the running kernel, as in kernel.h.
 */
#ifndef WAKEPATH_IO_URING_TYPES_H
#define WAKEPATH_IO_URING_TYPES_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct io_wq_work {
	int cancel_seq;
};

/* `task_struct.worker_private` of an io_uring worker. */
struct io_worker {
	struct io_wq_work *cur_work;
};

/* An io_uring. */
struct io_ring_ctx {
	unsigned int cached_sq_head; /* requests taken from the submission queue */
	unsigned int cached_cq_tail; /* results put into the completion queue */
};

struct io_cqe {
	int fd; /* its descriptor, until the request is done */
};

struct io_kiocb {
	struct file *file;
	struct io_ring_ctx *ctx;
	struct io_cqe cqe;
	unsigned int flags;
	__u8 opcode;
	struct io_wq_work work;
};

/* The request itself, for fsync. */
struct io_sync {
	int flags;
};

#pragma clang attribute pop

#endif
