/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Time that the hypervisor steals from the thread's CPU, within a call of f0 that calls A. */
#include "thread.h"

static __u32 call, behind;
static struct task_struct other = { .pid = 4, .tgid = 4 };

/* A CPU's run queue, and its count of stolen time. */
static struct cpu {
	struct rq queue;
	__u64 stolen;
} cpus[2];
static struct cfs_rq queue;

static void steals(__u64 time)
{
	ns += time;
	((struct cpu *)queue.rq)->stolen += time;
}

static void runs_on(int cpu)
{
	__u32 zero = 0;
	struct steal_place *place = bpf_map_lookup_elem(&steal_places, &zero);

	queue.rq = &cpus[cpu].queue;
	/* Each CPU has a place of its own. */
	*place = (struct steal_place){ 0 };
}

static void begin_test_of_steal(void)
{
	begin_test();
	for (int i = 0; i < 2; i++)
		cpus[i] = (struct cpu){ .queue.prev_steal_time_rq = 400, .stolen = 500 + 1000 * i };
	thread.se.cfs_rq = another.se.cfs_rq = other.se.cfs_rq = &queue;
	runs_on(0);
	steal_behind_run_queue = offsetof(struct cpu, stolen);
	call = call_of(A);
	behind = behind_call();
	is_child(A, FIRST, A, BEHIND(A));
}

static void begin_call_of_a(void)
{
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
}

static void end_both(void)
{
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(records, 1);
}

static void time_before_a_probe_is_that_of_the_node_that_was_the_innermost(void)
{
	at(ENTRY_OF_FIRST, 1000);
	steals(3 * STEP);
	at(call, 900);
	steals(5 * STEP);
	at(behind, 900);
	steals(7 * STEP);
	at(EXIT_OF_FIRST, 1000);
	is(records, 1);
	is(node(FIRST)->stolen, 10 * STEP);
	is(node(A)->stolen, 5 * STEP);
}

static void time_before_the_call_is_not_the_calls(void)
{
	steals(9 * STEP);
	begin_call_of_a();
	end_both();
	is(node(FIRST)->stolen, 0);
	is(node(A)->stolen, 0);
	/* Nor is that between two calls. */
	steals(9 * STEP);
	records = 0;
	begin_call_of_a();
	end_both();
	is(node(FIRST)->stolen, 0);
}

static void time_without_the_cpu_is_not_stolen_from_the_thread(void)
{
	begin_call_of_a();
	steals(2 * STEP);
	drill_switch(true, &thread, &other, 0);
	current = &other;
	steals(4 * STEP);
	current = &other;
	drill_switch(false, &other, &thread, 0);
	current = &thread;
	steals(STEP);
	end_both();
	is(node(A)->stolen, 3 * STEP);
	is(node(A)->waited, 4 * STEP);
}

static void the_count_of_another_cpu_is_another_one(void)
{
	begin_call_of_a();
	drill_switch(true, &thread, &other, 0);
	runs_on(1);
	drill_switch(false, &other, &thread, 0);
	steals(6 * STEP);
	end_both();
	is(node(A)->stolen, 6 * STEP);
	is(node(FIRST)->stolen, 0);
}

static void time_in_an_interrupt_is_stolen_and_not_the_interrupts(void)
{
	begin_call_of_a();
	steals(2 * STEP);
	drill_timer_entry();
	ns += 3 * STEP;
	steals(4 * STEP);
	drill_timer_exit();
	is(node_of(state(), A)->stolen, 6 * STEP);
	is(node_of(state(), A)->interrupted, 3 * STEP);
	is(node_of(state(), A)->longest, 3 * STEP);
	end_both();
	is(node(A)->stolen, 6 * STEP);
	/* More is stolen than the interrupt took: a part of it was before. */
	records = 0;
	begin_call_of_a();
	drill_timer_entry();
	cpus[0].stolen += 9 * STEP;
	ns += STEP;
	drill_timer_exit();
	end_both();
	is(node(A)->interrupted, 0);
	is(node(A)->stolen, 9 * STEP);
}

/* At the entry or the return of a function of the program. */
static void comes_in_program(int (*program)(struct pt_regs *), __u32 function, __u64 distance, __u64 returns_to)
{
	struct pt_regs registers = { .sp = (unsigned long)user_stack + distance };

	ns += STEP;
	cookie = function;
	*(__u64 *)(user_stack + distance) = returns_to;
	program(&registers);
}

static void functions_of_the_program_have_theirs(void)
{
	comes_in_program(drill_enter, FIRST, 9000, 1);
	steals(2 * STEP);
	comes_in_program(drill_enter, A, 8900, BEHIND(A));
	steals(3 * STEP);
	comes_in_program(drill_leave, A, 8900, BEHIND(A));
	steals(4 * STEP);
	comes_in_program(drill_leave, FIRST, 9000, 1);
	is(records, 1);
	is(node(FIRST)->stolen, 6 * STEP);
	is(node(A)->stolen, 3 * STEP);
}

static void so_have_system_calls(void)
{
	struct pt_regs in_program = { .ip = 0x401000 };
	__u64 number = 5;
	__u32 b = B;

	bpf_map_update_elem(&called, &number, &b, BPF_ANY);
	is_child(B, FIRST, B, in_program.ip);
	comes_in_program(drill_enter, FIRST, 9000, 1);
	steals(2 * STEP);
	drill_call_enter(&in_program, number);
	steals(3 * STEP);
	drill_call_exit();
	steals(4 * STEP);
	comes_in_program(drill_leave, FIRST, 9000, 1);
	is(records, 1);
	is(node(FIRST)->stolen, 6 * STEP);
	is(node(B)->stolen, 3 * STEP);
}

static void the_time_before_a_return_that_a_return_probe_sees_is_the_functions(void)
{
	struct pt_regs registers = { .sp = (unsigned long)kernel_stack + 1008 };

	at(ENTRY_OF_FIRST, 1000);
	steals(2 * STEP);
	drill_kernel_return(&registers);
	is(records, 1);
	is(node(FIRST)->stolen, 2 * STEP);
}

static void a_call_that_only_counts_and_a_goroutine_have_none(void)
{
	phase = WP_DRILL_COUNT;
	at(ENTRY_OF_FIRST, 1000);
	steals(STEP);
	at(EXIT_OF_FIRST, 1000);
	is(state()->stolen_ever, 0);
	phase = WP_DRILL_MEASURE;
	of_go = 1;
	at(ENTRY_OF_FIRST, 1000);
	steals(STEP);
	at(EXIT_OF_FIRST, 1000);
	is(state()->stolen_ever, 0);
	is(node(FIRST)->stolen, 0);
}

static void where_nobody_says_it_nothing_is_read(void)
{
	steal_behind_run_queue = 0;
	begin_call_of_a();
	steals(STEP);
	end_both();
	is(record->stolen_ever, 0);
	is(node(A)->stolen, 0);
}

static void a_number_that_cannot_be_the_count_is_none(void)
{
	/* It is never behind the scheduler's own one, nor far ahead of it. */
	for (int i = 0; i < 2; i++) {
		runs_on(0);
		cpus[0].stolen = i ? 401 + MAX_BEHIND_NS : 399;
		records = 0;
		begin_call_of_a();
		steals(STEP);
		end_both();
		is(record->stolen_ever, 0);
		is(node(A)->stolen, 0);
	}
	/* It may be at its bounds. */
	for (int i = 0; i < 2; i++) {
		runs_on(0);
		cpus[0].stolen = i ? 400 + MAX_BEHIND_NS : 400;
		records = 0;
		begin_call_of_a();
		steals(STEP);
		end_both();
		is(node(A)->stolen, STEP);
	}
}

static void a_count_that_goes_back_or_is_not_there_is_none(void)
{
	begin_call_of_a();
	cpus[0].stolen -= STEP;
	end_both();
	is(node(A)->stolen, 0);
	/* A thread without a run queue. */
	runs_on(0);
	queue.rq = NULL;
	records = 0;
	begin_call_of_a();
	end_both();
	is(record->stolen_ever, 0);
}

int main(void)
{
	void (*const tests[])(void) = {
		time_before_a_probe_is_that_of_the_node_that_was_the_innermost,
		time_before_the_call_is_not_the_calls,
		time_without_the_cpu_is_not_stolen_from_the_thread,
		the_count_of_another_cpu_is_another_one,
		time_in_an_interrupt_is_stolen_and_not_the_interrupts,
		functions_of_the_program_have_theirs,
		so_have_system_calls,
		the_time_before_a_return_that_a_return_probe_sees_is_the_functions,
		a_call_that_only_counts_and_a_goroutine_have_none,
		where_nobody_says_it_nothing_is_read,
		a_number_that_cannot_be_the_count_is_none,
		a_count_that_goes_back_or_is_not_there_is_none,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test_of_steal();
		tests[i]();
	}
	return 0;
}
