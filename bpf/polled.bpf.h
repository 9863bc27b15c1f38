/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A thread's polled descriptors. The set has an id, a hash of its content; its members are recorded once for each
 * CPU and content. User memory may change while the thread waits, so the set is read at the switch-out.
 */
#ifndef WAKEPATH_POLLED_H
#define WAKEPATH_POLLED_H

#include "file.bpf.h"

enum { SYS_poll = 7, SYS_select = 23, SYS_pselect6 = 270, SYS_ppoll = 271 };

#define MAX_POLLED 16
#define SELECT_WORDS 16 /* with 64 descriptors each: FD_SETSIZE */
#define SET_CACHE 256

struct polled_entry {
	__s32 fd;
	__u32 events; /* poll's; for select 1 read, 2 write, 4 exception */
};

struct polled {
	struct polled_entry entries[MAX_POLLED];
	__u64 bits[3][SELECT_WORDS];
	__u64 left; /* bits in `word` not looked at yet */
	__u32 word;
	__u32 spare;
	__u32 count; /* entries */
	__u32 total; /* descriptors, as far as they were read */
	__u64 told[SET_CACHE];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct polled);
} polled_sets SEC(".maps") __weak;

static __always_inline bool is_poll(__u32 call)
{
	return call == SYS_poll || call == SYS_ppoll;
}

static __always_inline bool is_select(__u32 call)
{
	return call == SYS_select || call == SYS_pselect6;
}

static __noinline bool read_poll(struct polled *p, __u64 array, __u64 count)
{
	p->total = count > 0xffffffff ? 0xffffffff : count;
	p->count = count < MAX_POLLED ? count : MAX_POLLED;
	/* Other memory may follow the array, or none. */
	if (p->count == MAX_POLLED)
		return !bpf_probe_read_user(p->entries, sizeof(p->entries), (void *)array);
	return !bpf_probe_read_user(p->entries, (p->count & (MAX_POLLED - 1)) * sizeof(p->entries[0]),
				    (void *)array);
}

static __always_inline bool read_bits(__u64 *bits, __u64 address, __u32 words)
{
	__builtin_memset(bits, 0, SELECT_WORDS * sizeof(*bits));
	if (!address)
		return true;
	if (words >= SELECT_WORDS)
		return !bpf_probe_read_user(bits, SELECT_WORDS * sizeof(*bits), (void *)address);
	return !bpf_probe_read_user(bits, (words & (SELECT_WORDS - 1)) * sizeof(*bits), (void *)address);
}

/* The lowest set bit's number, which is the number of bits below it. BPF has no instruction for it. */
static __always_inline __u32 lowest_bit(__u64 word)
{
	__u64 below = (word & -word) - 1;

	below -= below >> 1 & 0x5555555555555555;
	below = (below & 0x3333333333333333) + (below >> 2 & 0x3333333333333333);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0f;
	return below * 0x0101010101010101 >> 56;
}

static __noinline bool read_select(struct polled *p, struct pt_regs *regs)
{
	struct polled_entry *entry;
	__u32 words, at, bit, i;

	p->count = 0;
	words = regs->di > SELECT_WORDS * 64 ? SELECT_WORDS : (regs->di + 63) / 64;
	if (!read_bits(p->bits[0], regs->si, words) || !read_bits(p->bits[1], regs->dx, words) ||
	    !read_bits(p->bits[2], regs->r10, words))
		return false;
	/* The loop's state is in the map: the verifier would follow each of its values in registers. */
	p->word = 0;
	p->left = p->bits[0][0] | p->bits[1][0] | p->bits[2][0];
	for (i = 0; i < SELECT_WORDS + MAX_POLLED; i++) {
		barrier();
		at = p->word & (SELECT_WORDS - 1);
		if (!p->left) {
			if (at == SELECT_WORDS - 1)
				break;
			at = (at + 1) & (SELECT_WORDS - 1);
			p->word = at;
			p->left = p->bits[0][at] | p->bits[1][at] | p->bits[2][at];
			continue;
		}
		if (p->count >= MAX_POLLED)
			break;
		bit = lowest_bit(p->left) & 63;
		p->left &= p->left - 1;
		entry = &p->entries[p->count & (MAX_POLLED - 1)];
		entry->fd = at * 64 + bit;
		entry->events = (p->bits[0][at] >> bit & 1) | (p->bits[1][at] >> bit & 1) << 1 |
				(p->bits[2][at] >> bit & 1) << 2;
		p->count++;
	}
	/* A total above the read count means an unknown number. */
	p->total = p->count + (p->left ? 1 : 0);
	return true;
}

static __noinline void tell_member(struct task_struct *task, const struct polled *p, __u64 set, __u32 i)
{
	__s32 fd = p->entries[i & (MAX_POLLED - 1)].fd;
	struct wp_set_member *r;

	if (fd < 0)
		return;
	/* The file comes first: a member means its descriptor's file at that time. */
	tell_file(task, fd);
	r = life_reserve(sizeof(*r), WP_SET_MEMBER, task->pid);
	if (!r)
		return;
	r->set = set;
	r->tgid = task->tgid;
	r->fd = fd;
	r->total = p->total;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* A hash that distinguishes a descriptor from a later one with the same number. */
static __noinline __u64 mix_member(__u64 h, struct task_struct *task, struct polled_entry *entry)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;
	struct descriptor d = {};

	h = mix(h, (__u64)(__u32)entry->fd << 32 | entry->events);
	if (!table || entry->fd < 0 || (__u32)entry->fd >= table->max_fds)
		return h;
	find_file(&d, table, entry->fd);
	return mix(mix(h, d.kind ^ d.device), d.number);
}

/* The id of the thread's polled set, or WP_NO_SET. */
static __always_inline __u64 polled_set(struct task_struct *task, struct pt_regs *regs, __u32 call)
{
	struct polled *p;
	__u32 zero = 0, i;
	__u64 h;

	p = bpf_map_lookup_elem(&polled_sets, &zero);
	if (!p)
		return WP_NO_SET;
	if (is_poll(call)) {
		if (!read_poll(p, regs->di, (__u32)regs->si))
			return WP_NO_SET;
	} else if (!read_select(p, regs)) {
		return WP_NO_SET;
	}
	if (!p->total)
		return WP_EMPTY_SET;
	h = mix(0, (__u64)task->tgid << 32 | p->total);
	for (i = 0; i < MAX_POLLED; i++) {
		if (i >= p->count)
			break;
		h = mix_member(h, task, &p->entries[i]);
	}
	/* Such a number is no address in user memory, and equals neither constant. */
	h = (h | WP_EMPTY_SET | 1) & ~2ULL;
	if (p->told[h / 4 % SET_CACHE] == h)
		return h;
	for (i = 0; i < MAX_POLLED; i++) {
		if (i >= p->count)
			break;
		tell_member(task, p, h, i);
	}
	p->told[h / 4 % SET_CACHE] = h;
	return h;
}

#endif
