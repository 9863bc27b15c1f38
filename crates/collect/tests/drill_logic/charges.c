/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Time in which the thread does not run its own code, within a call of f0 that calls A. */
#include "thread.h"

static __u32 call, behind;
static struct task_struct other = { .pid = 4, .tgid = 4 };

static void leaves_cpu(bool preempt, unsigned state)
{
	ns += STEP;
	drill_switch(preempt, &thread, &other, state);
}

static void gets_cpu(void)
{
	ns += STEP;
	drill_switch(false, &other, &thread, 0);
}

static void is_woken(void)
{
	ns += STEP;
	drill_waking(&thread);
}

static void begin_call_of_a(void)
{
	call = call_of(A);
	behind = behind_call();
	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
}

static void end_both(void)
{
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(records, 1);
}

static void a_wait_is_that_of_the_innermost_node_and_ends_when_it_is_woken(void)
{
	begin_call_of_a();
	leaves_cpu(false, 1);
	ns += 4 * STEP;
	is_woken();
	/* A second time is not the first. */
	is_woken();
	gets_cpu();
	end_both();
	is(node(A)->blocked, 5 * STEP);
	is(node(A)->waited, 2 * STEP);
	is(node(FIRST)->blocked, 0);
	is(node(FIRST)->waited, 0);
}

static void a_preempted_thread_waits_for_a_cpu_only(void)
{
	begin_call_of_a();
	at(behind, 900);
	leaves_cpu(true, 1);
	ns += 2 * STEP;
	gets_cpu();
	/* It yields. */
	leaves_cpu(false, 0);
	gets_cpu();
	at(EXIT_OF_FIRST, 1000);
	is(node(FIRST)->waited, 4 * STEP);
	is(node(FIRST)->blocked, 0);
	is(node(A)->waited, 0);
}

static void a_wait_whose_end_nobody_saw_is_a_wait(void)
{
	begin_call_of_a();
	leaves_cpu(false, 1);
	ns += 2 * STEP;
	gets_cpu();
	/* Woken before it left: that is no end of this wait. */
	is_woken();
	leaves_cpu(false, 1);
	gets_cpu();
	end_both();
	is(node(A)->blocked, 4 * STEP);
	is(node(A)->waited, 0);
}

static void interrupts_are_charged_with_the_number_of_the_longest(void)
{
	begin_call_of_a();
	ns += STEP;
	drill_irq_entry(11);
	ns += 3 * STEP;
	drill_irq_exit();
	drill_timer_entry();
	ns += 5 * STEP;
	drill_timer_exit();
	drill_irq_entry(12);
	ns += STEP;
	drill_irq_exit();
	/* An end without a beginning. */
	ns += STEP;
	drill_irq_exit();
	at(behind, 900);
	drill_irq_entry(13);
	ns += STEP;
	drill_irq_exit();
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->interrupted, 9 * STEP);
	is(node(A)->longest, 5 * STEP);
	is(node(A)->interrupt, LOCAL_TIMER);
	is(node(FIRST)->interrupted, STEP);
	is(node(FIRST)->interrupt, 13);
	/* They are not the next call's. */
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1000);
	is(node(FIRST)->interrupted, 0);
	is(node(A)->interrupted, 0);
}

static void an_interrupt_at_the_time_of_another_process_or_outside_a_call_is_charged_to_nobody(void)
{
	begin_call_of_a();
	current = &another;
	drill_timer_entry();
	ns += STEP;
	drill_timer_exit();
	current = &thread;
	end_both();
	drill_timer_entry();
	ns += STEP;
	drill_timer_exit();
	is(node(FIRST)->interrupted, 0);
	is(node(A)->interrupted, 0);
	/* Calls are counted, and none is measured. */
	phase = WP_DRILL_COUNT;
	at(ENTRY_OF_FIRST, 1000);
	drill_timer_entry();
	is(state()->interrupted_at, 0);
	leaves_cpu(false, 1);
	is(state()->off_at, 0);
}

static void tick(void)
{
	drill_timer_entry();
	ns += STEP;
	drill_timer_exit();
}

static void the_innermost_node_is_that_around_a_call_when_it_has_returned(void)
{
	__u32 call_b = call_of(B), entry_c = entry_of(C);

	begin_call_of_a();
	is_child(B, A, B, BEHIND(B));
	at(call_b, 800);
	tick();
	at(behind, 800);
	tick();
	/* A function that is no node leaves it so. */
	at(entry_c, 800);
	tick();
	at(behind, 900);
	tick();
	at(EXIT_OF_FIRST, 1000);
	is(node(FIRST)->interrupted, STEP);
	is(node(A)->interrupted, 2 * STEP);
	is(node(B)->interrupted, STEP);
}

static void after_a_call_that_was_not_seen_to_return_the_one_above_it_is_the_innermost(void)
{
	begin_call_of_a();
	/* At the same place. */
	at(call, 900);
	at(behind, 900);
	tick();
	at(call, 900);
	/* At the return of f0. */
	at(EXIT_OF_FIRST, 1000);
	is(node(FIRST)->interrupted, STEP);
	is(node(A)->interrupted, 0);
	is(record->left, 2);
}

static void samples_are_those_of_the_wanted_node_and_of_the_kernel_only_for_its_functions(void)
{
	struct bpf_perf_event_data in_program = { .regs = { .ip = 0x401000, .cs = 0x33 } };
	struct bpf_perf_event_data in_the_kernel = { .regs = { .ip = 0xffffffff81000000, .cs = 0x10 } };

	sampled_node = A;
	at(ENTRY_OF_FIRST, 1000);
	drill_sample(&in_program);
	is(state()->samples, 0);
	at(EXIT_OF_FIRST, 1000);
	records = 0;
	begin_call_of_a();
	drill_sample(&in_program);
	drill_sample(&in_the_kernel);
	in_kernel = 1;
	drill_sample(&in_the_kernel);
	end_both();
	is(record->samples, 3);
	is(record->sampled[0], 0x401000);
	is(record->sampled[1], 0);
	is(record->sampled[2], 0xffffffff81000000);
	/* More than are kept. */
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	for (int i = 0; i <= WP_DRILL_SAMPLES; i++, in_program.regs.ip++)
		drill_sample(&in_program);
	is(state()->samples, WP_DRILL_SAMPLES + 1);
	is(state()->sampled[0], 0x401000);
}

static void a_thread_that_ends_takes_its_open_calls_along(void)
{
	struct task_struct same_number = { .pid = THREAD, .tgid = 8 };

	begin_call_of_a();
	drill_exit(&same_number);
	is(open_calls(), 2);
	drill_exit(&thread);
	is(open_calls(), 0);
	of_go = 1;
	at(ENTRY_OF_FIRST, 1000);
	drill_exit(&thread);
	is(open_calls(), 1);
}

int main(void)
{
	void (*const tests[])(void) = {
		a_wait_is_that_of_the_innermost_node_and_ends_when_it_is_woken,
		a_preempted_thread_waits_for_a_cpu_only,
		a_wait_whose_end_nobody_saw_is_a_wait,
		interrupts_are_charged_with_the_number_of_the_longest,
		an_interrupt_at_the_time_of_another_process_or_outside_a_call_is_charged_to_nobody,
		the_innermost_node_is_that_around_a_call_when_it_has_returned,
		after_a_call_that_was_not_seen_to_return_the_one_above_it_is_the_innermost,
		samples_are_those_of_the_wanted_node_and_of_the_kernel_only_for_its_functions,
		a_thread_that_ends_takes_its_open_calls_along,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test();
		tests[i]();
	}
	return 0;
}
