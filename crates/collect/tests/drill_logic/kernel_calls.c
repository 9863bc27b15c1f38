/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Calls that f0, a function of the kernel, and the functions below it make. */
#include "thread.h"

static void a_call_is_measured_between_its_instruction_and_where_it_returns_to(void)
{
	__u32 call = call_of(A), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	is(open_calls(), 2);
	at(behind, 900);
	at(call, 900);
	ns += 3 * STEP;
	at(behind, 900);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(records, 1);
	is(record->latency, 8 * STEP);
	is(node(FIRST)->count, 1);
	is(node(FIRST)->sum, 8 * STEP);
	is(node(A)->count, 2);
	is(node(A)->max, 4 * STEP);
	is(node(A)->sum, 5 * STEP);
	is(record->left, 0);
	is(record->tid, THREAD);
	is(counted(), 1);
	/* The next call of f0 begins with nothing. */
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1000);
	is(records, 2);
	is(node(FIRST)->count, 1);
	is(node(A)->count, 0);
}

static void a_call_is_the_node_of_its_caller_and_its_place(void)
{
	__u32 call_a = call_of(A), call_b = call_of(B), behind = behind_call();
	__u32 other = put((struct wp_drill_place){ .roles = WP_DRILL_OPENS, .function = B, .returns_to = 0xb, ALWAYS });

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, A, B, BEHIND(B));
	is_child(C, A, B, 0xb);
	at(ENTRY_OF_FIRST, 1000);
	/* f0 is not the caller that the node has. */
	at(call_b, 900);
	at(behind, 900);
	at(call_a, 900);
	at(call_b, 800);
	at(behind, 800);
	at(other, 800);
	at(other, 700);
	at(behind, 700);
	at(behind, 800);
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(node(B)->count, 1);
	is(node(C)->count, 1);
	is(node(C)->sum, 3 * STEP);
	is(record->left, 0);
}

static void functions_that_are_left_by_a_jump_return_together(void)
{
	__u32 call = call_of(A), to_b = jump_to(B), to_c = jump_to(C), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, A, B, 0);
	is_child(C, B, C, 0);
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	/* The return address is on top again. */
	at(to_b, 892);
	at(to_c, 892);
	is(open_calls(), 4);
	at(behind, 900);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->max, 3 * STEP);
	is(node(B)->max, 2 * STEP);
	is(node(C)->max, 1 * STEP);
	is(record->left, 0);
}

static void f0_itself_can_be_left_by_a_jump(void)
{
	__u32 to_a = jump_to(A), exit_of_a = put((struct wp_drill_place){ .roles = WP_DRILL_RETURNS, ALWAYS });

	is_child(A, FIRST, A, 0);
	at(ENTRY_OF_FIRST, 1000);
	at(to_a, 1000);
	at(exit_of_a, 1000);
	is(records, 1);
	is(node(A)->max, STEP);
	is(record->latency, 2 * STEP);
	is(open_calls(), 0);
}

/* The flags that each condition needs, and those that it must not find: Intel SDM, volume 1, appendix B. */
static void a_jump_counts_only_where_the_processor_follows_it(void)
{
	enum { CF = 1, PF = 4, ZF = 0x40, SF = 0x80, OF = 0x800 };
	static const struct {
		unsigned long flags;
		__u16 taken; /* a bit for each condition */
	} known[] = {
		/*        G LE GE L NP P NS S  A BE NE E AE B NO O */
		{ 0,       0b1010101010101010 },
		{ OF,      0b0101101010101001 },
		{ CF,      0b1010101001100110 },
		{ ZF,      0b0110101001011010 },
		{ SF,      0b0101100110101010 },
		{ SF | OF, 0b1010100110101001 },
		{ PF,      0b1010011010101010 },
		{ ZF | CF, 0b0110101001010110 },
	};

	is_child(A, FIRST, A, 0);
	for (int i = 0; i < sizeof(known) / sizeof(*known); i++) {
		for (int condition = 0; condition < 16; condition++) {
			struct wp_drill_place jump = { .roles = WP_DRILL_OPENS, .function = A, .condition = condition };
			struct wp_drill_place end = { .roles = WP_DRILL_RETURNS, .condition = condition };
			struct pt_regs registers = { .flags = known[i].flags };
			bool taken = known[i].taken >> condition & 1;
			__u32 goes = put(jump), ends = put(end);

			at(ENTRY_OF_FIRST, 1000);
			comes(goes, 1000, registers);
			is(open_calls(), taken ? 2 : 1);
			comes(ends, 1000, registers);
			is(open_calls(), taken ? 0 : 1);
			at(EXIT_OF_FIRST, 1000);
			is(node(A)->count, taken);
			used -= 2;
		}
	}
}

static void a_function_that_is_entered_from_elsewhere_has_calls_of_no_node(void)
{
	__u32 call_a = call_of(A), entry_a = entry_of(A), call_b = call_of(B), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, A, B, BEHIND(B));
	at(ENTRY_OF_FIRST, 1000);
	at(call_a, 900);
	at(entry_a, 892);
	is(open_calls(), 2);
	/* Its own call. */
	at(call_b, 800);
	at(behind, 800);
	/* The same code, by recursion. */
	at(entry_a, 700);
	is(open_calls(), 3);
	at(call_b, 600);
	is(open_calls(), 3);
	at(behind, 600);
	/* Where it returned is not probed: it is no call of a node that was not seen to return. */
	at(call_b, 800);
	at(behind, 800);
	/* In another function that f0 calls and that has no probes. */
	at(behind, 900);
	at(entry_a, 850);
	at(call_b, 800);
	at(behind, 800);
	/* Where it is seen, the same. */
	at(entry_a, 700);
	at(behind, 708);
	/* The one at 850. */
	is(open_calls(), 2);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(node(B)->count, 2);
	is(record->left, 0);
	/* The number of no node has room in the record too. */
	for (int other = C; other < WP_DRILL_NODES; other++)
		is(node(other)->count, 0);
}

static void only_the_threads_own_stack_counts(void)
{
	__u32 call = call_of(A), behind = behind_call();
	struct pt_regs elsewhere = { .sp = (unsigned long)interrupts_stack + 900 };

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	cookie = call;
	drill_kernel(&elsewhere);
	is(open_calls(), 1);
	at(call, 900);
	cookie = behind;
	drill_kernel(&elsewhere);
	is(open_calls(), 2);
	elsewhere.sp = (unsigned long)interrupts_stack + 1000;
	cookie = EXIT_OF_FIRST;
	drill_kernel(&elsewhere);
	elsewhere.sp += 8;
	drill_kernel_return(&elsewhere);
	is(open_calls(), 2);
	at(behind, 900);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	cookie = ENTRY_OF_FIRST;
	drill_kernel(&elsewhere);
	is(open_calls(), 0);
}

static void only_the_process_counts_and_only_while_a_search_runs(void)
{
	__u32 call = call_of(A), behind = behind_call();
	struct pt_regs returned = { .sp = (unsigned long)kernel_stack + 1008 };

	is_child(A, FIRST, A, BEHIND(A));
	current = &another;
	at(ENTRY_OF_FIRST, 1000);
	is(open_calls(), 0);
	current = &thread;
	phase = WP_DRILL_IDLE;
	at(ENTRY_OF_FIRST, 1000);
	is(open_calls(), 0);
	phase = WP_DRILL_MEASURE;
	at(ENTRY_OF_FIRST, 1000);
	current = &another;
	at(call, 900);
	at(EXIT_OF_FIRST, 1000);
	drill_kernel_return(&returned);
	current = &thread;
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(records, 1);
}

static void where_calls_are_counted_those_below_f0_are_not_measured(void)
{
	__u32 call = call_of(A), entry = entry_of(B);

	is_child(A, FIRST, A, BEHIND(A));
	phase = WP_DRILL_COUNT;
	at(ENTRY_OF_FIRST, 1000);
	at(call, 900);
	at(entry, 800);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(counted(), 1);
	is(records, 0);
}

static void calls_by_pointers_go_where_the_operand_leads(void)
{
	static __u64 table[4];
	struct wp_drill_place in_register = { .roles = WP_DRILL_OPENS | WP_DRILL_INDIRECT, .returns_to = BEHIND(A), ALWAYS };
	struct wp_drill_place in_memory = in_register;
	__u32 by_register, by_memory, behind = behind_call(), b = B;
	__u64 of_b = 0xbbbb;

	in_register.operand = (struct wp_drill_operand){ .base = 2, .index = 255 };
	in_memory.operand = (struct wp_drill_operand){ .base = 3, .index = 6, .scale = 8, .in_memory = 1, .displacement = 8 };
	by_register = put(in_register);
	by_memory = put(in_memory);
	bpf_map_update_elem(&called, &of_b, &b, BPF_ANY);
	is_child(B, FIRST, B, BEHIND(A));
	/* A place without a known function has the number of f0, which may be called there too. */
	is_child(C, FIRST, FIRST, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	comes(by_register, 900, (struct pt_regs){ .dx = 0xbbbb });
	is(open_calls(), 2);
	at(behind, 900);
	comes(by_register, 900, (struct pt_regs){ .dx = 0xaaaa, .ax = 0xbbbb });
	is(open_calls(), 1);
	table[3] = 0xbbbb;
	comes(by_memory, 900, (struct pt_regs){ .bx = (unsigned long)table, .si = 2 });
	is(open_calls(), 2);
	at(behind, 900);
	comes(by_memory, 900, (struct pt_regs){ .bx = (unsigned long)table, .si = 1 });
	is(open_calls(), 1);
	/* Memory that cannot be read. */
	comes(by_memory, 900, (struct pt_regs){ .bx = -8ul });
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(node(B)->count, 2);
}

static void where_the_call_has_no_probe_its_return_address_decides(void)
{
	__u32 called_a = put((struct wp_drill_place){ .roles = WP_DRILL_CALLED, .function = A, ALWAYS }), behind = behind_call();

	is_child(A, FIRST, A, BEHIND(A));
	at(ENTRY_OF_FIRST, 1000);
	*(__u64 *)(kernel_stack + 896) = BEHIND(A);
	at(called_a, 896);
	is(open_calls(), 2);
	at(behind, 904);
	*(__u64 *)(kernel_stack + 896) = BEHIND(B);
	at(called_a, 896);
	is(open_calls(), 1);
	at(EXIT_OF_FIRST, 1000);
	is(node(A)->count, 1);
	is(node(A)->max, STEP);
}

static void one_place_can_be_several_things(void)
{
	/* A call right behind a call, and a return right behind that. */
	__u32 call_a = call_of(A), behind = put((struct wp_drill_place){
						   .roles = WP_DRILL_CLOSES | WP_DRILL_OPENS,
						   .function = B,
						   .returns_to = BEHIND(B),
						   ALWAYS,
					   });
	__u32 end = put((struct wp_drill_place){ .roles = WP_DRILL_CLOSES | WP_DRILL_RETURNS, ALWAYS });

	is_child(A, FIRST, A, BEHIND(A));
	is_child(B, FIRST, B, BEHIND(B));
	at(ENTRY_OF_FIRST, 1000);
	at(call_a, 1000);
	at(behind, 1000);
	is(open_calls(), 2);
	at(end, 1000);
	is(open_calls(), 0);
	is(records, 1);
	is(node(A)->count, 1);
	is(node(B)->count, 1);
	is(record->left, 0);
	is(record->latency, 3 * STEP);
}

static void calls_within_the_peak_are_recorded_as_long_as_they_are_wanted(void)
{
	low = 20 * STEP;
	high = 30 * STEP;
	wanted = 3;
	for (int steps = 18; steps < 32; steps++) {
		int before = records;

		at(ENTRY_OF_FIRST, 1000);
		ns += (steps - 1) * STEP;
		at(EXIT_OF_FIRST, 1000);
		is(records - before, steps >= 20 && steps < 23);
		is(sums[log2_of(steps * STEP)] % 10, 0);
	}
	is(counted(), 14);
	low = 0;
	/* The plan changes meanwhile. */
	wanted = 1;
	at(ENTRY_OF_FIRST, 1000);
	plan++;
	at(EXIT_OF_FIRST, 1000);
	is(records, 3);
	is(wanted, 1);
	/* Another thread was the last that was wanted. */
	at(ENTRY_OF_FIRST, 1000);
	wanted = 0;
	at(EXIT_OF_FIRST, 1000);
	is(records, 3);
	/* None is measured that would not be recorded. */
	at(ENTRY_OF_FIRST, 1000);
	is(state()->plan, 0);
	at(EXIT_OF_FIRST, 1000);
	/* There is no room for the record. */
	wanted = 1;
	is_full = true;
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1000);
	is(lost, 1);
}

static void a_call_with_more_open_ones_than_there_is_room_for_is_not_recorded(void)
{
	at(ENTRY_OF_FIRST, 1000);
	for (int i = 1; i < WP_DRILL_DEEPEST; i++)
		at(ENTRY_OF_FIRST, 1000 - 16 * i);
	for (int i = WP_DRILL_DEEPEST; i-- > 0;)
		at(EXIT_OF_FIRST, 1000 - 16 * i);
	is(records, 1);
	is(crowded, 0);
	at(ENTRY_OF_FIRST, 1000);
	for (int i = 1; i <= WP_DRILL_DEEPEST; i++)
		at(ENTRY_OF_FIRST, 1000 - 16 * i);
	for (int i = WP_DRILL_DEEPEST + 1; i-- > 0;)
		at(EXIT_OF_FIRST, 1000 - 16 * i);
	is(records, 1);
	is(crowded, 1);
	is(counted(), 2);
	/* The next one has room again. */
	at(ENTRY_OF_FIRST, 1000);
	at(EXIT_OF_FIRST, 1000);
	is(records, 2);
}

static void where_pointers_lead_is_counted_on_the_threads_own_stack(void)
{
	struct wp_drill_operand operand = { .base = 0 };
	struct pt_regs registers = { .ax = 0xbbbb, .sp = (unsigned long)kernel_stack + 800 };
	struct wp_drill_target target = { 4, 0xbbbb };
	__u32 number = 4;

	bpf_map_update_elem(&operands, &number, &operand, BPF_ANY);
	cookie = 4;
	drill_kernel_target(&registers);
	drill_kernel_target(&registers);
	current = &another;
	drill_kernel_target(&registers);
	current = &thread;
	registers.sp = (unsigned long)interrupts_stack + 800;
	drill_kernel_target(&registers);
	is(*bpf_map_lookup_elem(&targets, &target), 2);
}

int main(void)
{
	void (*const tests[])(void) = {
		a_call_is_measured_between_its_instruction_and_where_it_returns_to,
		a_call_is_the_node_of_its_caller_and_its_place,
		functions_that_are_left_by_a_jump_return_together,
		f0_itself_can_be_left_by_a_jump,
		a_jump_counts_only_where_the_processor_follows_it,
		a_function_that_is_entered_from_elsewhere_has_calls_of_no_node,
		only_the_threads_own_stack_counts,
		only_the_process_counts_and_only_while_a_search_runs,
		where_calls_are_counted_those_below_f0_are_not_measured,
		calls_by_pointers_go_where_the_operand_leads,
		where_the_call_has_no_probe_its_return_address_decides,
		one_place_can_be_several_things,
		calls_within_the_peak_are_recorded_as_long_as_they_are_wanted,
		a_call_with_more_open_ones_than_there_is_room_for_is_not_recorded,
		where_pointers_lead_is_counted_on_the_threads_own_stack,
	};

	for (int i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		begin_test();
		tests[i]();
	}
	return 0;
}
