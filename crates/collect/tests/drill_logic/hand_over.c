/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Requests that a thread of the program hands over to another one: the second argument of `submit` is the first one of f0. */
#include "thread.h"

enum { RSI = 6, RDI = 7, ADDRESS = 0x7f0000, OTHER_ADDRESS = 0x7f0040 };

static struct task_struct submitter = { .stack = kernel_stack, .pid = 11, .tgid = PROCESS };

static struct pt_regs registers_at(__u64 distance)
{
	ns += STEP;
	return (struct pt_regs){ .sp = (unsigned long)user_stack + distance };
}

static void submits_at(__u64 request, __u64 distance)
{
	struct pt_regs registers = registers_at(distance);

	registers.si = request;
	registers.di = OTHER_ADDRESS;
	cookie = RSI;
	current = &submitter;
	drill_hand_over(&registers);
	current = &thread;
}

static void submits(__u64 request)
{
	submits_at(request, 8000);
}

static void begins_at(__u64 request, __u64 distance)
{
	struct pt_regs registers = registers_at(distance);

	registers.di = request;
	registers.si = 1;
	cookie = F0;
	drill_enter(&registers);
}

static void begins(__u64 request)
{
	begins_at(request, 9000);
}

static void ends_at(__u64 distance)
{
	struct pt_regs registers = registers_at(distance);

	cookie = F0;
	drill_leave(&registers);
}

static void ends(void)
{
	ends_at(9000);
}

/* The function within which requests count begins, and ends, in the submitter. */
static void begins_outer(__u64 distance)
{
	struct pt_regs registers = registers_at(distance);

	current = &submitter;
	drill_outer(&registers);
	current = &thread;
}

static void ends_outer(__u64 distance)
{
	struct pt_regs registers = registers_at(distance);

	current = &submitter;
	drill_outer_leave(&registers);
	current = &thread;
}

static void begin_test_of_requests(void)
{
	begin_test();
	by_request = 1;
	request_register = RDI;
	handed_over_within = in_phases = 0;
	submitted = submitted_outside = submitted_null = submitted_crowded = 0;
	requests_begun = requests_queued = calls_of_others = 0;
}

static void only_calls_whose_request_was_handed_over_are_measured(void)
{
	begins(ADDRESS);
	is(open_calls(), 0);
	ends();
	submits(ADDRESS);
	begins(OTHER_ADDRESS);
	is(open_calls(), 0);
	ends();
	is(counted(), 0);
	begins(ADDRESS);
	is(open_calls(), 1);
	ends();
	is(counted(), 1);
	is(records, 1);
	is(submitted, 1);
	is(requests_begun, 1);
	is(calls_of_others, 2);
}

static void the_time_from_hand_over_to_beginning_is_kept(void)
{
	submits(ADDRESS);
	ns += 4 * STEP;
	submits(OTHER_ADDRESS);
	begins(ADDRESS);
	ends();
	is(record->queued, 6 * STEP);
	ns += STEP;
	begins(OTHER_ADDRESS);
	ends();
	is(record->queued, 4 * STEP);
	is(requests_queued, 10 * STEP);
	is(requests_begun, 2);
}

static void an_address_that_began_may_be_another_requests(void)
{
	submits(ADDRESS);
	begins(ADDRESS);
	ends();
	begins(ADDRESS);
	is(open_calls(), 0);
	ends();
	is(calls_of_others, 1);
	/* Handed over twice, the second time counts. */
	submits(ADDRESS);
	ns += 5 * STEP;
	submits(ADDRESS);
	begins(ADDRESS);
	ends();
	is(record->queued, STEP);
	begins(ADDRESS);
	is(open_calls(), 0);
}

static void a_request_that_begins_within_another_ones_call_is_gone_too(void)
{
	submits(ADDRESS);
	submits(OTHER_ADDRESS);
	begins(ADDRESS);
	begins_at(OTHER_ADDRESS, 8000);
	ends_at(8000);
	ends();
	is(counted(), 1);
	is(requests_begun, 1);
	is(calls_of_others, 0);
	begins(OTHER_ADDRESS);
	is(open_calls(), 0);
}

static void no_address_is_no_request_and_another_process_hands_nothing_over(void)
{
	submits(0);
	is(submitted, 1);
	is(submitted_null, 1);
	begins(0);
	is(open_calls(), 0);
	submitter.tgid = 3;
	submits(ADDRESS);
	submitter.tgid = PROCESS;
	is(submitted, 1);
	begins(ADDRESS);
	is(open_calls(), 0);
	/* Nor does one before f0 is looked at: it may have begun already. */
	phase = WP_DRILL_IDLE;
	submits(ADDRESS);
	phase = WP_DRILL_MEASURE;
	is(submitted, 1);
	begins(ADDRESS);
	is(open_calls(), 0);
}

static void a_request_without_room_is_counted(void)
{
	submits(ADDRESS);
	no_room = &requests;
	submits(OTHER_ADDRESS);
	/* It has room already. */
	submits(ADDRESS);
	no_room = NULL;
	is(submitted, 3);
	is(submitted_crowded, 1);
	begins(OTHER_ADDRESS);
	is(open_calls(), 0);
}

static void a_request_of_another_phase_is_gone_and_not_counted(void)
{
	submits(ADDRESS);
	in_phases = 1;
	in_phase = 0;
	begins(ADDRESS);
	ends();
	begins(OTHER_ADDRESS);
	ends();
	is(requests_begun, 0);
	is(calls_of_others, 0);
	in_phase = 1;
	begins(ADDRESS);
	is(open_calls(), 0);
	is(calls_of_others, 1);
}

static void only_what_is_handed_over_within_the_other_function_counts(void)
{
	handed_over_within = 1;
	submits(ADDRESS);
	is(submitted_outside, 1);
	begins_outer(8500);
	submits(OTHER_ADDRESS);
	is(submitted_outside, 1);
	/* By a jump in its last place. */
	submits_at(OTHER_ADDRESS + 8, 8500);
	is(submitted_outside, 1);
	ends_outer(8500);
	submits(ADDRESS);
	is(submitted_outside, 2);
	is(submitted, 4);
	begins(ADDRESS);
	is(open_calls(), 0);
	begins(OTHER_ADDRESS);
	is(open_calls(), 1);
	ends();
	begins(OTHER_ADDRESS + 8);
	is(open_calls(), 1);
}

static void a_call_within_the_other_one_ends_it_not(void)
{
	handed_over_within = 1;
	begins_outer(8500);
	begins_outer(8300);
	ends_outer(8300);
	submits(ADDRESS);
	is(submitted_outside, 0);
	ends_outer(8500);
	submits(ADDRESS);
	is(submitted_outside, 1);
}

static void a_call_that_was_left_by_an_exception_is_over_above_its_place(void)
{
	handed_over_within = 1;
	begins_outer(8500);
	submits_at(ADDRESS, 8600);
	is(submitted_outside, 1);
	/* The next one has its own place. */
	begins_outer(8700);
	submits_at(ADDRESS, 8600);
	is(submitted_outside, 1);
	/* The return of the first was never seen; that of the second ends both. */
	ends_outer(8700);
	submits(ADDRESS);
	is(submitted_outside, 2);
	begins_outer(8200);
	ends_outer(8500);
	submits(ADDRESS);
	is(submitted_outside, 3);
}

static void another_thread_is_not_within_and_the_next_one_of_its_number_neither(void)
{
	handed_over_within = 1;
	begins_outer(8500);
	submitter.pid = 12;
	submits(ADDRESS);
	is(submitted_outside, 1);
	submitter.pid = 11;
	drill_exit(&submitter);
	submits(ADDRESS);
	is(submitted_outside, 2);
}

static void another_process_is_not_within(void)
{
	handed_over_within = 1;
	submitter.tgid = 3;
	begins_outer(8500);
	submitter.tgid = PROCESS;
	submits(ADDRESS);
	is(submitted_outside, 1);
	begins_outer(8500);
	submitter.tgid = 3;
	ends_outer(8500);
	submitter.tgid = PROCESS;
	submits(ADDRESS);
	is(submitted_outside, 1);
}

static void another_function_that_is_called_with_a_request_leaves_it_there(void)
{
	struct pt_regs registers = registers_at(9000);

	submits(ADDRESS);
	registers.di = ADDRESS;
	cookie = A;
	drill_enter(&registers);
	begins(ADDRESS);
	is(open_calls(), 1);
}

static void another_stack_is_not_within(void)
{
	handed_over_within = 1;
	begins_outer((9ull << 20) + 8000);
	submits(ADDRESS);
	is(submitted_outside, 1);
}

/* Goroutines begin with both ends of their stack, and a thread that has none runs Go's own code. */
static void of_goroutines_one_is_within_and_not_its_thread(void)
{
	__u64 goroutines[2][2] = { { 0, (__u64)user_stack + 9000 }, { 0, (__u64)user_stack + 9000 } };
	struct pt_regs outer = registers_at(8500), submit = registers_at(8000);

	of_go = handed_over_within = 1;
	current = &submitter;
	cookie = RSI;
	submit.si = ADDRESS;
	outer.r14 = (__u64)goroutines[0];
	drill_outer(&outer);
	submit.r14 = 1ull << 60;
	drill_hand_over(&submit);
	is(submitted_outside, 1);
	submit.r14 = (__u64)goroutines[1];
	drill_hand_over(&submit);
	is(submitted_outside, 2);
	submit.r14 = (__u64)goroutines[0];
	drill_hand_over(&submit);
	is(submitted_outside, 2);
	is(submitted, 3);
	of_go = 0;
}

static void without_requests_every_call_counts(void)
{
	by_request = 0;
	begins(ADDRESS);
	ends();
	is(counted(), 1);
	is(requests_begun, 0);
	is(calls_of_others, 0);
	is(record->queued, 0);
}

int main(void)
{
	void (*const tests[])(void) = {
		only_calls_whose_request_was_handed_over_are_measured,
		the_time_from_hand_over_to_beginning_is_kept,
		an_address_that_began_may_be_another_requests,
		a_request_that_begins_within_another_ones_call_is_gone_too,
		no_address_is_no_request_and_another_process_hands_nothing_over,
		a_request_without_room_is_counted,
		a_request_of_another_phase_is_gone_and_not_counted,
		only_what_is_handed_over_within_the_other_function_counts,
		a_call_within_the_other_one_ends_it_not,
		a_call_that_was_left_by_an_exception_is_over_above_its_place,
		another_thread_is_not_within_and_the_next_one_of_its_number_neither,
		another_process_is_not_within,
		another_function_that_is_called_with_a_request_leaves_it_there,
		another_stack_is_not_within,
		of_goroutines_one_is_within_and_not_its_thread,
		without_requests_every_call_counts,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test_of_requests();
		tests[i]();
	}
	return 0;
}
