/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The file behind a blocking descriptor: recorded once for each CPU, process, descriptor and inode
 * (descriptors and the kernel's file structures are reused; inode numbers and kinds distinguish them).
 */
#ifndef WAKEPATH_FILE_H
#define WAKEPATH_FILE_H

#include "current.bpf.h"
#include "flow.bpf.h"

#define FILE_CACHE 1024

struct file_cache {
	__u64 told[FILE_CACHE];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct file_cache);
} file_caches SEC(".maps") __weak;

/* Whether a system call's first argument is a descriptor on which the call may block. */
static __always_inline bool takes_descriptor(__u32 call)
{
	switch (call) {
	case 0: case 1: /* read write */
	case 16 ... 20: /* ioctl pread64 pwrite64 readv writev */
	case 40: case 42 ... 47: /* sendfile connect accept sendto recvfrom sendmsg recvmsg */
	case 72 ... 77: /* fcntl flock fsync fdatasync truncate(no descriptor, harmless) ftruncate */
	case 78: case 217: /* getdents getdents64 */
	case 232: case 281: case 441: /* epoll_wait epoll_pwait epoll_pwait2 */
	case 275 ... 278: /* splice tee sync_file_range vmsplice */
	case 285: case 288: /* fallocate accept4 */
	case 295: case 296: case 299: case 307: /* preadv pwritev recvmmsg sendmmsg */
	case 306: case 326 ... 328: /* syncfs copy_file_range preadv2 pwritev2 */
	case 426: /* io_uring_enter */
		return true;
	}
	return false;
}

struct descriptor {
	struct file *file;
	struct inode *inode;
	__u64 number;
	__u64 kind; /* anonymous files share an inode, and differ by their operations */
	__u32 device;
};

static __always_inline void describe_file(struct descriptor *d, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	d->file = file;
	d->inode = inode;
	d->number = BPF_CORE_READ(inode, i_ino);
	d->kind = (__u64)BPF_CORE_READ(file, f_op);
	d->device = BPF_CORE_READ(inode, i_sb, s_dev);
}

/* The file behind a descriptor. Each step is a load if the kernel lets us name types, else a call. */
static __always_inline void find_file(struct descriptor *d, struct fdtable *table, __u64 fd)
{
	struct file *file;

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		d->file = bpf_core_cast(bpf_core_cast(table->fd + fd, struct list_head)->next, struct file);
		d->inode = d->file->f_inode;
		d->number = d->inode->i_ino;
		d->kind = word_at((void *)d->file + bpf_core_field_offset(struct file, f_op));
		d->device = d->inode->i_sb->s_dev;
		return;
	}
	if (bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd))
		return;
	describe_file(d, file);
}

/* Records the file behind a number in a process, if this CPU has not done so. */
static __always_inline void tell_descriptor(struct task_struct *task, __u32 fd, const struct descriptor *d)
{
	struct inode *inode = d->inode;
	struct file *file = d->file;
	struct file_cache *cache;
	struct socket *socket;
	struct wp_file *r;
	struct sock *sk;
	__u32 zero = 0;
	__u64 key;

	if (!file || !inode)
		return;
	key = mix(mix(mix(0, (__u64)task->tgid << 32 | fd), d->kind ^ d->device), d->number);
	cache = bpf_map_lookup_elem(&file_caches, &zero);
	if (!cache || cache->told[key % FILE_CACHE] == key)
		return;
	r = life_reserve(sizeof(*r), WP_FILE, task->pid);
	if (!r)
		return;
	r->tgid = task->tgid;
	r->fd = fd;
	r->mode = BPF_CORE_READ(inode, i_mode);
	r->spare = 0;
	r->inode = d->number;
	r->peer = 0;
	__builtin_memset(r->name, 0, sizeof(r->name));
	if ((r->mode & S_IFMT) == S_IFSOCK) {
		struct tuple t = {}, back = {};

		socket = BPF_CORE_READ(file, private_data);
		sk = socket ? BPF_CORE_READ(socket, sk) : NULL;
		if (sk && socket_tuple(&t, sk, false)) {
			back = t;
			back.source[0] = t.target[0];
			back.source[1] = t.target[1];
			back.target[0] = t.source[0];
			back.target[1] = t.source[1];
			back.ports = t.ports >> 16 | t.ports << 16;
			r->peer = flow_id(&back);
		}
	} else {
		bpf_probe_read_kernel_str(r->name, sizeof(r->name),
					  BPF_CORE_READ(file, f_path.dentry, d_name.name));
	}
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	cache->told[key % FILE_CACHE] = key;
}

/* Finds the file of a thread's descriptor; none for a number without a file. */
static __always_inline void look_up(struct descriptor *d, struct task_struct *task, __u64 fd)
{
	struct fdtable *table = task->files ? task->files->fdt : NULL;

	if (table && fd < table->max_fds)
		find_file(d, table, fd);
}

static __always_inline void tell_file(struct task_struct *task, __u64 fd)
{
	struct descriptor d = {};

	look_up(&d, task, fd);
	tell_descriptor(task, fd, &d);
}

#endif
