// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The floor: a program that does nothing on each tracepoint that wakepath records from, so that
 * what is left is the cost of being called at all. A test holds the list against bpf/.
 */
#define EMPTY(tracepoint) \
	__attribute__((section("tp_btf/" #tracepoint), used)) int tracepoint(void *arguments) \
	{ \
		(void)arguments; \
		return 0; \
	}

EMPTY(sched_switch)
EMPTY(sched_waking)
EMPTY(sched_wakeup_new)
EMPTY(sched_migrate_task)
EMPTY(sched_process_fork)
EMPTY(sched_process_exec)
EMPTY(sched_process_exit)
EMPTY(task_rename)
EMPTY(cgroup_attach_task)
EMPTY(net_dev_queue)
EMPTY(netif_receive_skb)
EMPTY(sk_data_ready)
EMPTY(block_bio_queue)
EMPTY(mm_vmscan_memcg_reclaim_begin)
EMPTY(mm_vmscan_memcg_reclaim_end)
EMPTY(mark_victim)
EMPTY(io_uring_submit_req)
EMPTY(io_uring_submit_sqe)
EMPTY(block_rq_issue)
EMPTY(block_rq_complete)
EMPTY(signal_generate)
EMPTY(signal_deliver)
EMPTY(contention_begin)
EMPTY(contention_end)
EMPTY(irq_handler_entry)
EMPTY(irq_handler_exit)
EMPTY(local_timer_entry)
EMPTY(local_timer_exit)
EMPTY(reschedule_entry)
EMPTY(reschedule_exit)
EMPTY(call_function_entry)
EMPTY(call_function_exit)
EMPTY(call_function_single_entry)
EMPTY(call_function_single_exit)
EMPTY(hrtimer_expire_entry)
EMPTY(irq_work_entry)
EMPTY(irq_work_exit)
EMPTY(softirq_entry)
EMPTY(softirq_exit)

char LICENSE[] __attribute__((section("license"), used)) = "Dual BSD/GPL";
