// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Disk requests: the request that ended a wait, and its queueing time before the device got it. */
#include "ring.bpf.h"

static __always_inline int block(struct request *rq, __u8 kind)
{
	TIME_RARE;
	struct wp_block *r = life_reserve(sizeof(*r), kind, current_tid());
	struct gendisk *disk;

	if (!r)
		return 0;
	disk = BPF_CORE_READ(rq, q, disk);
	r->request = (__u64)rq;
	r->sector = rq->__sector;
	r->start = rq->start_time_ns;
	r->issued = rq->io_start_time_ns;
	r->device = disk ? BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor) : 0;
	r->bytes = rq->__data_len;
	r->operation = rq->cmd_flags & 0xff;
	r->error = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	return block(rq, WP_BLOCK_ISSUE);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq)
{
	return block(rq, WP_BLOCK_COMPLETE);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
