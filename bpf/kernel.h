/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel types that the programs read, with only the members that they need.
 *
 * Offsets here mean nothing: with preserve_access_index the loader finds each member in the running kernel's
 * BTF (CO-RE), so the same object serves all kernels and no build needs kernel headers. A name with a
 * ___suffix is the same type in another kernel version.
 */
#ifndef WAKEPATH_KERNEL_H
#define WAKEPATH_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __le16;
typedef __u32 __le32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
/* The kernel's error for an existing key. */
enum { EEXIST = 17 };
#define BPF_F_CURRENT_CPU 0xffffffffULL
enum { BPF_F_NO_PREALLOC = 1, BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_F_RDONLY = 8, BPF_F_MMAPABLE = 1024, BPF_F_USER_STACK = 256 };
/* BPF_RB_NO_WAKEUP: the consumer polls; each wake-up would itself be recorded. */
enum { BPF_RB_NO_WAKEUP = 1 };

struct task_struct;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	int cpu;
	struct task_struct *curr;
	__u64 clock;
	__u64 prev_steal_time_rq;
};

struct kvm_steal_time {
	__u64 steal;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long last_queued;
};

struct thread_info {
	__u32 cpu;
	__u32 status;
};

/* A pointer in memory; every kernel has this type. */
struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

/* A 64-bit number in memory; every kernel has this type. */
struct timespec64 {
	__s64 tv_sec;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct qstr {
	const unsigned char *name;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	struct file_lock_context *i_flctx;
};

/* A file's locks, in lists. */
struct file_lock_context {
	struct list_head flc_flock;
	struct list_head flc_posix;
};

/* Since 6.9; before, its members are the lock's own. */
struct file_lock_core {
	struct list_head flc_list;
	unsigned char flc_type;
	int flc_pid;
};

struct file_lock {
	struct file_lock_core c;
	__s64 fl_start;
	__s64 fl_end;
};

struct file_lock___flat {
	struct list_head fl_list;
	unsigned char fl_type;
	unsigned int fl_pid;
	__s64 fl_start;
	__s64 fl_end;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *f_op;
	void *private_data;
	unsigned int f_mode;
};

struct wait_queue_entry {
	void *private;
	struct list_head entry;
};

struct wait_queue_head {
	struct list_head head;
};

struct epoll_filefd {
	struct file *file;
	int fd;
};

struct epitem {
	struct list_head rdllink;
	struct epoll_filefd ffd;
	struct eventpoll *ep;
};

struct eventpoll {
	struct wait_queue_head wq;
	struct list_head rdllist;
	struct epitem *ovflist;
	struct file *file;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	__s32 counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct mutex {
	atomic64_t owner;
};

struct rw_semaphore {
	atomic64_t count;
	atomic64_t owner;
};

struct mm_struct {
	unsigned long start_code;
	unsigned long end_code;
	unsigned long start_stack;
	unsigned long arg_start;
	unsigned long arg_end;
	struct file *exe_file;
	struct rw_semaphore mmap_lock;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

/* Has a bit for each CPU possible in the kernel's build. */
struct cpumask {
	unsigned long bits[1];
};

struct thread_struct {
	unsigned long fsbase; /* the thread pointer */
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
	kuid_t euid;
};

struct task_struct {
	struct thread_info thread_info;
	const struct cred *cred;
	void *stack;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_group *sched_task_group;
	int static_prio;
	unsigned int rt_priority;
	unsigned int policy;
	int nr_cpus_allowed;
	struct cpumask cpus_mask;
	bool throttled; /* 6.18 */
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	__u64 start_time;
	char comm[16];
	struct files_struct *files;
	struct mm_struct *mm;
	__u64 self_exec_id;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	sigset_t blocked;
	struct sigpending pending;
	int exit_state;
	int exit_code;
	struct thread_struct thread;
	void *worker_private; /* 5.17 */
};

struct signal_struct {
	atomic_t live; /* threads that have not ended */
	int group_exit_code;
	unsigned int flags;
	struct sigpending shared_pending;
};

struct kernel_siginfo {
	int si_code;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct linux_binprm {
	const char *filename;
};

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long r11;
	unsigned long r10;
	unsigned long r9;
	unsigned long r8;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long flags;
	unsigned long sp;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__u64 halves[2];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff {
	struct sock *sk;
	struct net_device *dev;
	unsigned int len;
	__be16 protocol;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct socket_wq {
	struct wait_queue_head wait;
};

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	__u16 sk_type;
	struct socket_wq *sk_wq;
	struct socket *sk_socket;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
	atomic_t sk_drops;
};

struct socket {
	struct file *file;
	struct sock *sk;
};

struct gendisk {
	int major;
	int first_minor;
	struct request_queue *queue;
};

struct work_struct {
	void *func;
};

struct throtl_data {
	struct work_struct dispatch_work;
};

struct request_queue {
	struct gendisk *disk;
	struct throtl_data *td;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	__u64 start_time_ns;
	__u64 io_start_time_ns;
};

struct atomic_count {
	__s64 counter;
};

struct page_counter {
	struct atomic_count usage; /* pages */
	unsigned long max;
	unsigned long high;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

struct block_device {
	struct gendisk *bd_disk;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
};

struct kthread {
	void *data;
};

struct worker {
	struct work_struct *current_work;
};

struct hrtimer {
	void *function;
};

struct cfs_bandwidth {
	struct hrtimer period_timer;
	struct hrtimer slack_timer;
	struct list_head throttled_cfs_rq;
};

struct autogroup {
	unsigned long id;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct cfs_bandwidth cfs_bandwidth;
	struct autogroup *autogroup;
};

struct seq_file {
	unsigned long count;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

typedef struct {
	__s64 a;
} local64_t;

struct hw_perf_event {
	local64_t prev_count;
};

struct perf_event {
	local64_t count;
	struct hw_perf_event hw;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

/* A sample's registers, in the x86-64 layout in which the kernel passes them to programs. */
struct user_registers {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct bpf_perf_event_data {
	struct user_registers regs;
	__u64 sample_period;
	__u64 addr;
};

/* The kernel passes it to programs in this layout. */
struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

/* Values, not relocated offsets. */
enum cgroup_subsys_id { cpuset_cgrp_id = 0, cpu_cgrp_id = 1, memory_cgrp_id = 4 };
enum bpf_func_id { BPF_FUNC_loop = 181 };

/* `static_prio` with nice value 0. */
#define DEFAULT_PRIO 120

#define PF_IO_WORKER 0x00000010
#define TASK_DEAD 0x80
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFIFO 0010000

#endif
