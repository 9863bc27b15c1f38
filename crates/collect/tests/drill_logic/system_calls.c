/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Calls of a program's f0 that go on in the kernel: the function of the system call is A, which calls B. */
#include "thread.h"

enum { NUMBER = 5, INSTRUCTION = 0x401000 };

static struct { __u32 in_a, behind, entry_of_a; } code;

/* At the entry of a function of the program, or at its return: its return address stands at `distance`. */
static struct pt_regs of_program(__u64 distance)
{
	ns += STEP;
	return (struct pt_regs){ .sp = (unsigned long)user_stack + distance };
}

static void enters_in_program(__u32 function, __u64 distance, __u64 returns_to)
{
	struct pt_regs registers = of_program(distance);

	*(__u64 *)(user_stack + distance) = returns_to;
	cookie = function;
	drill_enter(&registers);
}

static void leaves_in_program(__u32 function, __u64 distance)
{
	struct pt_regs registers = of_program(distance);

	cookie = function;
	drill_leave(&registers);
}

static void begins_system_call(long number, __u64 instruction)
{
	struct pt_regs registers = { .ip = instruction };

	ns += STEP;
	drill_call_enter(&registers, number);
}

static void ends_system_call(void)
{
	ns += STEP;
	drill_call_exit();
}

static void begin_test_of_program(void)
{
	__u64 number = NUMBER;
	__u32 a = A;

	begin_test();
	code.in_a = call_of(B);
	code.behind = behind_call();
	code.entry_of_a = entry_of(A);
	bpf_map_update_elem(&called, &number, &a, BPF_ANY);
	is_child(A, FIRST, A, INSTRUCTION);
	is_child(B, A, B, BEHIND(B));
	is_child(C, FIRST, C, BEHIND(C));
}

static void the_function_of_a_system_call_is_a_call_of_the_program(void)
{
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	is(open_calls(), 2);
	at(code.entry_of_a, 16000);
	is(open_calls(), 2);
	at(code.in_a, 15900);
	is(open_calls(), 3);
	at(code.behind, 15900);
	is(open_calls(), 2);
	ends_system_call();
	is(open_calls(), 1);
	leaves_in_program(FIRST, 9000);
	is(records, 1);
	is(node(FIRST)->sum, 6 * STEP);
	is(node(A)->sum, 4 * STEP);
	is(node(B)->sum, STEP);
	is(record->left, 0);
	is(left, 0);
}

static void its_calls_are_its_own_also_where_its_place_is_not_known(void)
{
	__u32 to_c = jump_to(C);

	is_child(D, A, C, 0);
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.in_a, 15900);
	at(code.behind, 15900);
	ends_system_call();
	/* Where it is known, functions that it goes to by a jump return with it. */
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.entry_of_a, 16000);
	at(to_c, 16000);
	is(open_calls(), 3);
	ends_system_call();
	is(open_calls(), 1);
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 2);
	is(node(B)->count, 1);
	is(node(D)->sum, STEP);
	is(record->left, 0);
}

static void the_same_function_deeper_in_the_kernel_is_another_call(void)
{
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.entry_of_a, 16000);
	at(code.entry_of_a, 15000);
	is(open_calls(), 3);
	at(code.in_a, 14900);
	is(open_calls(), 3);
	at(code.behind, 14900);
	ends_system_call();
	is(open_calls(), 1);
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(B)->count, 0);
	is(record->left, 0);
}

static void it_is_a_call_of_the_function_that_makes_it(void)
{
	__u32 first = FIRST, is = 1;

	bpf_map_update_elem(&callers, &first, &is, BPF_ANY);
	is_child(D, C, A, INSTRUCTION);
	enters_in_program(FIRST, 9000, 1);
	enters_in_program(C, 8000, BEHIND(C));
	begins_system_call(NUMBER, INSTRUCTION);
	ends_system_call();
	leaves_in_program(C, 8000);
	begins_system_call(NUMBER, INSTRUCTION);
	ends_system_call();
	/* From elsewhere: f0 by recursion. */
	enters_in_program(FIRST, 7000, BEHIND(FIRST));
	begins_system_call(NUMBER, INSTRUCTION);
	is(open_calls(), 2);
	ends_system_call();
	leaves_in_program(FIRST, 7000);
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(D)->count, 1);
}

static void the_place_of_another_function_is_not_that_of_the_system_call(void)
{
	__u32 entry_of_b = entry_of(B);

	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(entry_of_b, 15500);
	is(open_calls(), 3);
	at(code.in_a, 15900);
	at(code.behind, 15900);
	ends_system_call();
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(B)->count, 1);
	is(record->left, 0);
}

static void other_system_calls_are_none_of_its_calls(void)
{
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER + 1, INSTRUCTION);
	is(open_calls(), 1);
	at(code.in_a, 15900);
	is(open_calls(), 1);
	ends_system_call();
	is(open_calls(), 1);
	/* At another instruction. */
	begins_system_call(NUMBER, INSTRUCTION + 9);
	is(open_calls(), 1);
	ends_system_call();
	/* Another process makes it. */
	current = &another;
	begins_system_call(NUMBER, INSTRUCTION);
	current = &thread;
	is(open_calls(), 1);
	begins_system_call(NUMBER, INSTRUCTION);
	current = &another;
	ends_system_call();
	current = &thread;
	is(open_calls(), 2);
	ends_system_call();
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	/* No call of f0 is open, or it is not measured. */
	begins_system_call(NUMBER, INSTRUCTION);
	ends_system_call();
	is(open_calls(), 0);
	phase = WP_DRILL_COUNT;
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	is(open_calls(), 1);
	ends_system_call();
	leaves_in_program(FIRST, 9000);
	is(counted(), 2);
}

static void calls_of_the_kernel_are_over_when_the_program_runs_on(void)
{
	/* Its end was not seen: a return from a signal handler has none. */
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.in_a, 15900);
	enters_in_program(C, 8000, BEHIND(C));
	is(open_calls(), 2);
	leaves_in_program(C, 8000);
	is(open_calls(), 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.in_a, 15900);
	leaves_in_program(FIRST, 9000);
	is(open_calls(), 0);
	is(records, 1);
	is(node(A)->count, 0);
	is(node(C)->count, 1);
	is(record->left, 4);
	/* The next system call. */
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.in_a, 15900);
	begins_system_call(NUMBER, INSTRUCTION);
	is(open_calls(), 2);
	ends_system_call();
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(A)->sum, STEP);
	is(record->left, 2);
}

static void an_end_without_a_beginning_ends_nothing_of_the_program(void)
{
	enters_in_program(FIRST, 9000, 1);
	enters_in_program(C, 8000, BEHIND(C));
	/* The call began before f0's probe did. */
	ends_system_call();
	is(open_calls(), 2);
	leaves_in_program(C, 8000);
	leaves_in_program(FIRST, 9000);
	is(node(C)->count, 1);
	ends_system_call();
	is(counted(), 1);
}

static void calls_that_were_not_seen_to_return_end_with_the_system_call(void)
{
	enters_in_program(FIRST, 9000, 1);
	begins_system_call(NUMBER, INSTRUCTION);
	at(code.entry_of_a, 16000);
	at(code.in_a, 15900);
	ends_system_call();
	is(open_calls(), 1);
	leaves_in_program(FIRST, 9000);
	is(node(A)->count, 1);
	is(node(B)->count, 0);
	is(record->left, 1);
}

static void an_f0_of_the_kernel_ends_with_the_system_call_at_the_latest(void)
{
	at(ENTRY_OF_FIRST, 15000);
	ends_system_call();
	is(open_calls(), 0);
	is(counted(), 1);
}

static void where_system_calls_are_watched_each_number_is_counted(void)
{
	__u64 behind = INSTRUCTION + 2;
	__u32 site = 3;
	struct wp_drill_target target = { 3, NUMBER }, other = { 3, NUMBER + 1 };

	bpf_map_update_elem(&watched_calls, &behind, &site, BPF_ANY);
	begins_system_call(NUMBER, behind);
	begins_system_call(NUMBER, behind);
	begins_system_call(NUMBER + 1, behind);
	begins_system_call(NUMBER, INSTRUCTION);
	current = &another;
	begins_system_call(NUMBER, behind);
	is(*bpf_map_lookup_elem(&targets, &target), 2);
	is(*bpf_map_lookup_elem(&targets, &other), 1);
}

int main(void)
{
	void (*const tests[])(void) = {
		the_function_of_a_system_call_is_a_call_of_the_program,
		its_calls_are_its_own_also_where_its_place_is_not_known,
		the_same_function_deeper_in_the_kernel_is_another_call,
		it_is_a_call_of_the_function_that_makes_it,
		the_place_of_another_function_is_not_that_of_the_system_call,
		other_system_calls_are_none_of_its_calls,
		calls_of_the_kernel_are_over_when_the_program_runs_on,
		an_end_without_a_beginning_ends_nothing_of_the_program,
		calls_that_were_not_seen_to_return_end_with_the_system_call,
		an_f0_of_the_kernel_ends_with_the_system_call_at_the_latest,
		where_system_calls_are_watched_each_number_is_counted,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test_of_program();
		tests[i]();
	}
	return 0;
}
