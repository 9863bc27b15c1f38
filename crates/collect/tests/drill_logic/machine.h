/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A machine on which bpf/drill.bpf.c runs as an ordinary program: the helpers and maps of the kernel, in memory of this process, and one thread
 * of process 7 with a stack in the kernel, one in its program and one that interrupts run on.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __bpf__
#undef NULL
#define sigset_t sigset_of_kernel_t
#include "kernel.h"

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define BPF_PROG(name, arguments...) name(arguments)
#define BPF_CORE_READ(from, field) ((from)->field)
#define bpf_core_field_exists(field) true

enum { PROCESS = 7, THREAD = 9, STACK = 16 << 10, MAX_ENTRIES = 512 };

static __u8 kernel_stack[STACK] __attribute__((aligned(STACK)));
static __u8 user_stack[STACK], interrupts_stack[STACK];
static struct task_struct thread = { .stack = kernel_stack, .pid = THREAD, .tgid = PROCESS }, another = { .stack = kernel_stack, .pid = THREAD, .tgid = 3 };
static struct task_struct *current = &thread;
static struct pt_regs user_registers;
static __u64 ns = 1000, cookie;

/* Every entry of every map. */
static struct entry {
	void *map;
	__u8 key[24];
	void *value;
} entries[MAX_ENTRIES];

static void *find(void *map, const void *key, size_t key_size, size_t value_size, bool insert)
{
	for (int i = 0; i < MAX_ENTRIES; i++) {
		if (entries[i].map == map && !memcmp(entries[i].key, key, key_size))
			return entries[i].value;
	}
	for (int i = 0; insert && i < MAX_ENTRIES; i++) {
		if (!entries[i].map) {
			entries[i] = (struct entry){ .map = map, .value = calloc(1, value_size) };
			memcpy(entries[i].key, key, key_size);
			return entries[i].value;
		}
	}
	assert(!insert);
	return NULL;
}

/* A map that takes no new entry. */
static void *no_room;

static int update(void *map, const void *key, size_t key_size, const void *value, size_t value_size)
{
	void *at = find(map, key, key_size, value_size, map != no_room);

	if (!at)
		return -7;
	memcpy(at, value, value_size);
	return 0;
}

static int forget(void *map, const void *key, size_t key_size)
{
	for (int i = 0; i < MAX_ENTRIES; i++) {
		if (entries[i].map == map && !memcmp(entries[i].key, key, key_size)) {
			entries[i] = (struct entry){ 0 };
			return 0;
		}
	}
	return -2;
}

/* The type of a map, and its room, stand in the type of the variable. An array has all of its entries. */
#define LENGTH(pointer) (sizeof(*(pointer)) / sizeof(int))
#define IS_ARRAY(map) (LENGTH((map)->type) == BPF_MAP_TYPE_ARRAY || LENGTH((map)->type) == BPF_MAP_TYPE_PERCPU_ARRAY)
#define bpf_map_lookup_elem(map, wanted) \
	((typeof((map)->value))find(map, wanted, sizeof(*(map)->key), sizeof(*(map)->value), \
				    IS_ARRAY(map) && *(const __u32 *)(wanted) < LENGTH((map)->max_entries)))
#define bpf_map_update_elem(map, at, from, how) update(map, at, sizeof(*(map)->key), from, sizeof(*(map)->value))
#define bpf_map_delete_elem(map, at) forget(map, at, sizeof(*(map)->key))
#define bpf_get_current_pid_tgid() ((__u64)current->tgid << 32 | (__u32)current->pid)
#define bpf_get_current_task_btf() current
#define bpf_task_pt_regs(task) (&user_registers)
#define bpf_ktime_get_ns() ns
#define bpf_get_attach_cookie(context) ((void)(context), cookie)
#define bpf_probe_read_user(to, size, from) read_memory(to, size, from)
#define bpf_probe_read_kernel(to, size, from) read_memory(to, size, from)
#define bpf_ringbuf_output(ring, from, size, flags) keep(from, size)

/* The other half of the addresses is nobody's here. */
static int read_memory(void *to, size_t size, const void *from)
{
	if (!from || (unsigned long)from >> 47)
		return -14;
	memcpy(to, from, size);
	return 0;
}

static __u8 kept[32 << 10];
static int records;
static bool is_full;

static int keep(const void *from, size_t size)
{
	if (is_full)
		return -1;
	assert(size <= sizeof(kept));
	memcpy(kept, from, size);
	records++;
	return 0;
}

#include "drill.bpf.c"
