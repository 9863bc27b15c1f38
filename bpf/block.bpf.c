// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Disk requests: the request that ended a wait, and its queueing time before the device got it; and requests held
 * back by a cgroup's I/O limit. No tracepoint marks such a hold; its end shows in the kernel worker for released requests,
 * where each of them passes `block_bio_queue`.
 */
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

/* Whether the current thread is the kernel worker for the released requests to the bio's disk. */
static __always_inline bool releases_requests(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct throtl_data *throttle;
	struct kthread *kthread;
	struct worker *worker;

	if (!(task->flags & PF_WQ_WORKER) || !bpf_core_field_exists(task->worker_private))
		return false;
	/* A kernel without I/O limits has neither. */
	if (!bpf_core_field_exists(struct request_queue, td) ||
	    !bpf_core_field_exists(struct throtl_data, dispatch_work))
		return false;
	throttle = BPF_CORE_READ(bio, bi_bdev, bd_disk, queue, td);
	kthread = task->worker_private;
	worker = BPF_CORE_READ(kthread, data);
	return throttle && worker &&
	       (__u64)BPF_CORE_READ(worker, current_work) ==
		       (__u64)throttle + bpf_core_field_offset(struct throtl_data, dispatch_work);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_bio_queue, struct bio *bio)
{
	TIME_RARE;
	struct wp_block_release *r;
	struct gendisk *disk;

	if (!releases_requests(bio))
		return 0;
	r = life_reserve(sizeof(*r), WP_BLOCK_RELEASE, current_tid());
	if (!r)
		return 0;
	disk = BPF_CORE_READ(bio, bi_bdev, bd_disk);
	r->sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	r->io_cgroup = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup, kn, id);
	r->device = disk ? BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor) : 0;
	r->bytes = BPF_CORE_READ(bio, bi_iter.bi_size);
	r->operation = BPF_CORE_READ(bio, bi_opf) & 0xff;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
