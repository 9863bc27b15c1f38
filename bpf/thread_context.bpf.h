/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The span that a thread works for, as its own memory names it: OpenTelemetry's thread-context record (OTEP 4947).
 *
 * 1. A process with such records has a thread-local word, `otel_thread_ctx_v1`, with a pointer to the trace's and the span's ids;
 *    null without a context. User space finds the word's place in each such process and writes it into a table, `word_sets`. All
 *    other processes cost a look at the number of known processes and, unless it is 0, a look into a set of the table.
 * 2. Only its own thread writes a record. So the record is read while the thread is in the kernel and another of its events is
 *    recorded: as it leaves the CPU, as it wakes another thread, as it sends a packet.
 * 3. A context is recorded if it differs from the thread's last recorded context. A hash of the last context is kept. Threads
 *    with equal numbers modulo the table's size share a place there: their contexts are recorded more often than needed.
 * 4. Beside the ids a context may have attributes, as key numbers with values. The key names are published for the whole process,
 *    and user space writes into the table which keys may be recorded. Other keys' values are not read. Attributes are recorded
 *    with the context, so a later change of a value with the same size and span is not seen.
 * 5. A thread's block for a library loaded later is found by three reads, and stays at its place until the library goes. So its
 *    place is kept, and looked for again at each 64th reading, or after another load of a library with the word.
 * 6. Process memory is read by a call that fails if nothing is mapped, or if a page is not in memory. A context that could not be
 *    read, or was being written, is unknown, and not "none".
 */
#ifndef WAKEPATH_THREAD_CONTEXT_BPF_H
#define WAKEPATH_THREAD_CONTEXT_BPF_H

#include "current.bpf.h"
#include "mix.h"
#include "thread_context.h"

/* User space writes it: entry 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} word_count SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WP_WORD_SETS);
	__type(key, __u32);
	__type(value, struct wp_word_set);
} word_sets SEC(".maps") __weak;

#define CONTEXTS_TOLD 16384

/* A thread's last found block. Another CPU may write the place at the same time, for another thread. */
struct block {
	__u64 check; /* a hash over the address, thread, program and library */
	__u64 address;
	__u64 uses;
	__u64 spare;
};

/* By thread, like the hashes below. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CONTEXTS_TOLD);
	__type(key, __u32);
	__type(value, struct block);
} blocks SEC(".maps") __weak;

/* The hashes of the last recorded contexts, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CONTEXTS_TOLD);
	__type(key, __u32);
	__type(value, __u64);
} contexts_told SEC(".maps") __weak;

static __always_inline bool any_words(void)
{
	__u32 zero = 0;
	volatile __u64 *count = bpf_map_lookup_elem(&word_count, &zero);

	return count && *count;
}

/* The process's entry; NULL if it has none. */
static __always_inline struct wp_word *word_of(__u32 tgid)
{
	__u32 slot = tgid & (WP_WORD_SETS - 1);
	struct wp_word_set *set = bpf_map_lookup_elem(&word_sets, &slot);

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < WP_WORD_WAYS; i++)
		if (*(volatile __u32 *)&set->tgids[i] == tgid)
			return &set->words[i];
	return NULL;
}

static __always_inline bool cannot_read(void *to, __u32 bytes, __u64 address)
{
	return bpf_probe_read_user(to, bytes, (void *)address);
}

/*
 * Finds the thread's block for a library by its vector of thread-local blocks, as glibc keeps it: 8 bytes behind the thread
 * pointer is a pointer to entries of 16 bytes; the entry before the first has their number. A library loaded later has no block
 * in a thread that never used it.
 */
static __always_inline enum wp_context_state find_block(__u64 *block, __u64 pointer, __u64 module)
{
	__u64 vector, number;

	if (cannot_read(&vector, sizeof(vector), pointer + 8) || cannot_read(&number, sizeof(number), vector - 16))
		return WP_CONTEXT_UNKNOWN;
	if (module > number)
		return WP_CONTEXT_NONE;
	if (cannot_read(block, sizeof(*block), vector + 16ull * module))
		return WP_CONTEXT_UNKNOWN;
	return *block == WP_NO_BLOCK ? WP_CONTEXT_NONE : WP_CONTEXT_SPAN;
}

/* The maximum number of readings that use a block before the next search. */
#define MAX_BLOCK_USES 63

/* The thread's kept block, or a newly found block. `of`: a hash of the thread and its program. */
static __always_inline enum wp_context_state kept_block(__u64 *address, __u64 of, __u32 slot, __u64 pointer,
							const struct wp_word *place)
{
	struct block *kept = bpf_map_lookup_elem(&blocks, &slot);
	enum wp_context_state state;

	if (!kept)
		return WP_CONTEXT_UNKNOWN;
	of = mix(mix(mix(of, pointer), place->module), place->loads);
	*address = *(volatile __u64 *)&kept->address;
	if (kept->check == mix(of, *address) && kept->uses < MAX_BLOCK_USES) {
		kept->uses++;
		return WP_CONTEXT_SPAN;
	}
	state = find_block(address, pointer, place->module);
	/* A thread without a block may get it at any time. */
	if (state != WP_CONTEXT_SPAN)
		return state;
	kept->address = *address;
	kept->check = mix(of, *address);
	kept->uses = 0;
	return state;
}

/* Attributes in the current process's memory. */
struct attributes {
	__u64 from, to;
};

/*
 * Reads the current thread's context. `of` is a hash of the thread and its program, `slot` the thread's place in tables.
 */
static __always_inline void read_context(struct wp_thread_context *r, struct attributes *attributes, struct task_struct *task,
					 const struct wp_word *place, __u64 of, __u32 slot)
{
	__u64 address, at, pointer = task->thread.fsbase;
	struct wp_published p;

	__builtin_memset(&r->trace, 0, sizeof(r->trace) + sizeof(r->span));
	r->trace_flags = 0;
	r->spare = 0;
	r->spare2 = 0;
	attributes->from = attributes->to = 0;
	/* A thread without a pointer has no thread-local memory yet; an ending thread has no memory any more. */
	if (!task->mm || !pointer) {
		r->state = WP_CONTEXT_NONE;
		return;
	}
	address = pointer;
	if (place->module) {
		r->state = kept_block(&address, of, slot, pointer, place);
		if (r->state != WP_CONTEXT_SPAN)
			return;
	}
	r->state = WP_CONTEXT_UNKNOWN;
	if (cannot_read(&at, sizeof(at), address + place->offset))
		return;
	if (!at) {
		r->state = WP_CONTEXT_NONE;
		return;
	}
	if (cannot_read(&p, sizeof(p), at))
		return;
	r->state = state_of(&p);
	if (r->state != WP_CONTEXT_SPAN)
		return;
	__builtin_memcpy(r->trace, p.trace, sizeof(r->trace));
	__builtin_memcpy(r->span, p.span, sizeof(r->span));
	r->trace_flags = p.trace_flags;
	if (place->keys[0] | place->keys[1] | place->keys[2] | place->keys[3]) {
		attributes->from = at + sizeof(p);
		attributes->to = attributes->from + p.attributes;
	}
}

/* The hash of a read context; `of` is the thread's hash. Its last bit is set if the context is a span. */
static __always_inline __u64 hash_of_context(const struct wp_thread_context *r, const struct attributes *attributes, __u64 of)
{
	const __u64 *words = (const __u64 *)r->trace;
	__u64 hash = mix(mix(mix(of, words[0]), words[1]), words[2]);

	hash = mix(hash, (attributes->to - attributes->from) << 16 | (__u64)r->state << 8 | r->trace_flags);
	return (hash & ~1ull) | (r->state == WP_CONTEXT_SPAN);
}

/* PF_KTHREAD, PF_USER_WORKER, PF_IO_WORKER: the kernel's threads in a process have another thread's pointer. */
#define NO_OWN_WORD (PF_KTHREAD | 0x4000 | 0x10)

/*
 * Reads the current thread's context, outside interrupts, into `r` behind its header. Returns the place for its hash once the
 * record is written; NULL if the context is unchanged, or there is none.
 */
static __always_inline __u64 *new_context(struct wp_thread_context *r, struct attributes *attributes,
					  struct task_struct *task, const struct wp_word *place, __u64 *hash)
{
	__u32 slot = task->pid & (CONTEXTS_TOLD - 1);
	__u64 *told, of;

	if (!place || task->flags & NO_OWN_WORD || (task->mm && task->mm->start_stack != place->start_stack))
		return NULL;
	/* Another thread with the same number, or another program, has another hash. */
	of = mix(mix(task->pid, task->start_time), place->start_stack);
	read_context(r, attributes, task, place, of, slot);
	*hash = hash_of_context(r, attributes, of);
	told = bpf_map_lookup_elem(&contexts_told, &slot);
	return told && *told != *hash ? told : NULL;
}

/* The maximum number of attributes looked at in a context. */
#define MAX_ATTRIBUTES 16

/* Before an attribute's value: its key, and its length in bytes. */
struct attribute_head {
	__u8 key, length;
};

/* Reads the next attribute's head. False if no whole attribute is left. */
static __always_inline bool next_attribute(struct attribute_head *head, const struct attributes *left)
{
	if (left->from + sizeof(*head) > left->to || cannot_read(head, sizeof(*head), left->from))
		return false;
	return left->from + sizeof(*head) + head->length <= left->to;
}

static __always_inline bool is_allowed(const struct wp_word *place, __u8 key)
{
	return place->keys[key >> 6] >> (key & 63) & 1;
}

/* Fills a record behind its header. False if the value cannot be read. */
static __always_inline bool fill_attribute(struct wp_thread_attribute *r, const struct attribute_head *head, __u64 value)
{
	__u32 bytes = head->length;

	r->key = head->key;
	r->length = bytes;
	r->spare = 0;
	r->spare2 = 0;
	__builtin_memset(r->value, 0, sizeof(r->value));
	if (bytes > sizeof(r->value))
		bytes = sizeof(r->value);
	return !cannot_read(r->value, bytes, value);
}

/* The current thread. At a switch, the run queue names the next thread already: only the kernel knows. */
static __always_inline struct task_struct *current_thread(void)
{
	return for_loads(bpf_get_current_task_btf());
}

/*
 * The next four are not static, and find the thread themselves: so the verifier follows their ways once, and not again for each
 * way to each call, which took as long as the rest. Loading all programs took 60 ms longer while the loops over attributes were
 * in the functions that write contexts.
 */

/*
 * Writes the attribute at `from` into the current CPU's ring, if it may be recorded. Returns the bytes to the next attribute, 0
 * if there is none.
 */
__weak __noinline int write_attribute(__u64 from, __u64 to, __u64 stamp)
{
	struct attributes left = { .from = from, .to = to };
	struct task_struct *task = current_thread();
	const struct wp_word *place = word_of(task->tgid);
	struct wp_ring *ring = sched_ring();
	struct wp_thread_attribute *r;
	struct attribute_head head;

	if (!ring || !place || !next_attribute(&head, &left))
		return 0;
	if (is_allowed(place, head.key)) {
		r = ring_reserve(ring, sched_ring_mask);
		if (!r)
			return 0;
		r->h.stamp = stamp;
		r->h.seq = ring->seq;
		r->h.kind = WP_THREAD_ATTRIBUTE;
		r->h.context = WP_CTX_TASK;
		r->h.tid = task->pid;
		if (fill_attribute(r, &head, from + sizeof(head)))
			ring_commit(ring, sizeof(*r));
	}
	return sizeof(head) + head.length;
}

/* The same, into the ring buffer. */
__weak __noinline int write_attribute_anywhere(__u64 from, __u64 to)
{
	struct attributes left = { .from = from, .to = to };
	struct task_struct *task = current_thread();
	const struct wp_word *place = word_of(task->tgid);
	struct wp_thread_attribute *r;
	struct attribute_head head;

	if (!place || !next_attribute(&head, &left))
		return 0;
	if (is_allowed(place, head.key)) {
		r = life_reserve(sizeof(*r), WP_THREAD_ATTRIBUTE, task->pid);
		if (!r)
			return 0;
		if (fill_attribute(r, &head, from + sizeof(head)))
			bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
		else
			bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
	}
	return sizeof(head) + head.length;
}

/*
 * Writes the current thread's context, if it changed, into its CPU's ring; interrupts are off. It comes before the event with
 * this stamp. If the ring has no room, the context is written at the next event.
 */
__weak __noinline int write_context(__u64 stamp)
{
	struct wp_thread_context context, *r;
	struct wp_ring *ring = sched_ring();
	struct task_struct *task = current_thread();
	const struct wp_word *place = word_of(task->tgid);
	struct attributes attributes;
	__u64 hash, *told;
	int bytes;

	if (!ring || !place)
		return 0;
	told = new_context(&context, &attributes, task, place, &hash);
	if (!told)
		return 0;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return 0;
	context.h.stamp = stamp;
	context.h.seq = ring->seq;
	context.h.kind = WP_THREAD_CONTEXT;
	context.h.context = WP_CTX_TASK;
	context.h.tid = task->pid;
	*r = context;
	ring_commit(ring, sizeof(*r));
	*told = hash;
	for (int i = 0; i < MAX_ATTRIBUTES; i++) {
		bytes = write_attribute(attributes.from, attributes.to, stamp);
		if (bytes <= 0)
			break;
		attributes.from += bytes;
	}
	return 0;
}

/* The same with interrupts on: the context goes to the ring buffer. */
__weak __noinline int write_context_anywhere(void)
{
	struct wp_thread_context context, *r;
	struct task_struct *task = current_thread();
	const struct wp_word *place = word_of(task->tgid);
	struct attributes attributes;
	__u64 hash, *told;
	int bytes;

	if (!place)
		return 0;
	told = new_context(&context, &attributes, task, place, &hash);
	if (!told)
		return 0;
	r = life_reserve(sizeof(*r), WP_THREAD_CONTEXT, task->pid);
	if (!r)
		return 0;
	context.h = r->h;
	*r = context;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	*told = hash;
	for (int i = 0; i < MAX_ATTRIBUTES; i++) {
		bytes = write_attribute_anywhere(attributes.from, attributes.to);
		if (bytes <= 0)
			break;
		attributes.from += bytes;
	}
	return 0;
}

/* The current thread's context, outside interrupts, with interrupts off. */
static __always_inline void tell_context(__u64 stamp)
{
	if (any_words())
		write_context(stamp);
}

/* The current thread's context, outside interrupts, with interrupts on. */
static __always_inline void tell_context_of_sender(void)
{
	if (any_words())
		write_context_anywhere();
}

#endif
