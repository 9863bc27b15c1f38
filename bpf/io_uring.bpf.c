// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Requests put into an io_uring, so that a wait for them has their file: io_uring.bpf.h. Only threads that submit requests pay.
 *
 * 1. io_uring_submit_req, when the request is prepared and before it is begun.
 * 2. io_uring_submit_sqe, the same before Linux 6.4.
 */
#include "io_uring.bpf.h"

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(io_uring_submit_req, struct io_kiocb *request)
{
	follow_request(request);
	return 0;
}

SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(io_uring_submit_sqe, struct io_kiocb *request)
{
	follow_request(request);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
