// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * All processes' open sockets, in one pass over their descriptors: to name the process at the other end of a connection
 * within this host, and to see whether a listening socket has room. Nothing is changed in any process.
 */
#include "flow.bpf.h"
#include "ring.bpf.h"
#include "sockets.h"

/* The time until which the search may go on, ns; it sets the time to 0 when it gives up. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} search_until SEC(".maps");

enum { LISTENING = 10 };

struct unix_address;

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} __attribute__((preserve_access_index));

static __always_inline __u64 inode_of(struct sock *sk)
{
	return sk ? BPF_CORE_READ(sk, sk_socket, file, f_inode, i_ino) : 0;
}

static __always_inline bool fill_unix(struct wp_open_socket *r, struct sock *sk)
{
	struct unix_sock *unix = (struct unix_sock *)sk;
	struct sock *peer;

	if (!bpf_core_type_exists(struct unix_sock))
		return false;
	peer = BPF_CORE_READ(unix, peer);
	r->family = AF_UNIX;
	r->protocol = BPF_CORE_READ(sk, sk_type);
	r->peer_inode = inode_of(peer);
	r->address = (__u64)BPF_CORE_READ(unix, addr);
	r->peer_address = peer ? (__u64)BPF_CORE_READ((struct unix_sock *)peer, addr) : 0;
	return true;
}

static __always_inline bool fill_ip(struct wp_open_socket *r, struct sock *sk)
{
	struct tuple t = {};

	/* A listening socket has no other end, but an own address. */
	socket_tuple(&t, sk, false);
	if (!t.family)
		return false;
	r->family = t.family;
	r->protocol = t.protocol;
	r->local[0] = t.target[0];
	r->local[1] = t.target[1];
	r->remote[0] = t.source[0];
	r->remote[1] = t.source[1];
	r->local_port = bpf_ntohs(t.ports >> 16);
	r->remote_port = bpf_ntohs((__u16)t.ports);
	return r->local_port != 0;
}

SEC("iter/task_file")
int sockets(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct wp_open_socket r = {};
	struct socket *socket;
	__u16 family;
	struct sock *sk;
	__u32 zero = 0;
	__u64 *until;

	if (!task || !file)
		return 0;
	until = bpf_map_lookup_elem(&search_until, &zero);
	if (!until || !*until)
		return 0;
	/* A clock for each descriptor would take as long as all else. */
	if (ctx->fd % 64 == 0 && bpf_ktime_get_ns() > *until) {
		*until = 0;
		return 0;
	}
	if ((file->f_inode->i_mode & S_IFMT) != S_IFSOCK)
		return 0;
	socket = file->private_data;
	sk = BPF_CORE_READ(socket, sk);
	if (!sk)
		return 0;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_UNIX ? !fill_unix(&r, sk) : !fill_ip(&r, sk))
		return 0;
	r.inode = file->f_inode->i_ino;
	r.tgid = task->tgid;
	r.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	r.state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (r.state == LISTENING) {
		r.waiting = BPF_CORE_READ(sk, sk_ack_backlog);
		r.room = BPF_CORE_READ(sk, sk_max_ack_backlog);
		if (bpf_core_field_exists(sk->sk_drops))
			r.dropped = BPF_CORE_READ(sk, sk_drops.counter);
	}
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
