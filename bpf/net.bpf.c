// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The packets that end waits, and their senders: TCP and UDP headers of packets entering or leaving the host.
 *
 * 1. A packet carries its flow's id: a hash of the addresses, ports and protocol in the direction of travel, so sender and
 *    receiver compute the same id.
 * 2. An id's meaning is recorded once for each CPU and flow: a small direct-mapped cache on each CPU holds the recorded flows.
 *    An evicted flow is recorded again.
 * 3. Lengths are computed from the buffer and the header offsets, never from the IP length, which is 0 if the network card
 *    segments.
 */
#include "current.bpf.h"
#include "flow.bpf.h"
#include "thread_context.bpf.h"

#define FLOW_CACHE 1024

struct flow_cache {
	__u64 told[FLOW_CACHE];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_cache);
} flow_caches SEC(".maps");

/* The needed parts of the network and transport headers, in a single copy. */
struct headers4 {
	__u8 version_ihl, tos;
	__be16 len, id, fragment;
	__u8 ttl, protocol;
	__u16 sum;
	__u32 source, target;
	__u8 transport[20];
};

struct headers6 {
	__u32 version_class_flow;
	__be16 len;
	__u8 protocol, hops;
	__u64 source[2], target[2];
	__u8 transport[20];
	__u8 behind[4];
};
_Static_assert(sizeof(struct headers4) % 8 == 0 && sizeof(struct headers6) % 8 == 0, "words");

/* The window of a SYN, FIN or RST says nothing. */
enum { TCP_ACK = 16, TCP_ONLY_ACK = 16 | 4 | 2 | 1 };

/* Sockets' states. */
enum { TCP_ESTABLISHED = 1, TCP_CLOSE_WAIT = 8 };

struct tcp_sock {
	__u32 snd_sml;
	__u32 mss_cache;
	__u8 nonagle : 4;
} __attribute__((preserve_access_index));

struct transport {
	__u32 ports;
	__be32 seq, ack;
	__be16 offset_flags;
	__be16 window;
};

static __always_inline void tell_flow(const struct tuple *t, __u64 flow)
{
	__u32 zero = 0;
	struct flow_cache *cache = bpf_map_lookup_elem(&flow_caches, &zero);
	struct wp_flow *r;

	if (!cache || cache->told[flow % FLOW_CACHE] == flow)
		return;
	r = life_reserve(sizeof(*r), WP_FLOW, current_tid());
	if (!r)
		return;
	r->flow = flow;
	__builtin_memcpy(r->source, t->source, sizeof(r->source));
	__builtin_memcpy(r->target, t->target, sizeof(r->target));
	r->source_port = bpf_ntohs((__u16)t->ports);
	r->target_port = bpf_ntohs(t->ports >> 16);
	r->family = t->family;
	r->protocol = t->protocol;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	cache->told[flow % FLOW_CACHE] = flow;
}

/*
 * Copies a packet's words by loads, or in a kernel call if the kernel does not let us name types: the call takes as long as
 * reading the clock. A failed load gives zeros, which are no packet.
 */
static __always_inline bool read_words(__u64 *words, const int count, const unsigned char *from)
{
	int i;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(words, count * sizeof(*words), from);
#pragma unroll
	for (i = 0; i < count; i++)
		words[i] = word_at(from + i * sizeof(*words));
	return true;
}

/* A tcp_sock's member: a load if the kernel lets us name the type, otherwise a kernel call. */
#define READ_TCP(sk, member)                                                                                                   \
	(bpf_ksym_exists(bpf_rdonly_cast) ? bpf_core_cast(sk, struct tcp_sock)->member                                         \
					  : BPF_CORE_READ((struct tcp_sock *)(sk), member))

/*
 * Whether Nagle's algorithm held this data back, which leaves in an interrupt. Linux has it in Minshall's form: without
 * TCP_NODELAY and TCP_CORK (0 in `nonagle`), less than a segment waits while another small segment is not acknowledged. So
 * small data directly behind a small segment waited for an acknowledgement, if perhaps for more. Half-open and closed sockets,
 * without a tcp_sock, have other states; raw sockets are not connected as a rule, and READ_TCP reads other bytes of them.
 */
static __always_inline bool is_held_back(struct sk_buff *skb, __u32 seq, __u32 len)
{
	struct sock *sk = skb->sk;
	__u8 state;

	if (!sk)
		return false;
	state = sk->__sk_common.skc_state;
	return (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT) && READ_TCP(sk, snd_sml) == seq &&
	       len < READ_TCP(sk, mss_cache) && !BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock *)sk, nonagle);
}

static __always_inline int packet(struct sk_buff *skb, __u8 direction, const unsigned char *network)
{
	__u16 protocol = bpf_ntohs(skb->protocol);
	struct wp_ring *ring, *sched;
	struct transport *transport;
	struct tuple t = {};
	__u32 header_len, id;
	struct wp_packet *r;
	__u64 flow;
	union {
		struct headers4 v4;
		struct headers6 v6;
		__u64 words[8];
	} h;

	if (protocol == ETH_P_IP) {
		if (!read_words(h.words, sizeof(h.v4) / 8, network))
			return 0;
		t.family = 4;
		t.protocol = h.v4.protocol;
		t.source[0] = h.v4.source;
		t.target[0] = h.v4.target;
		header_len = (h.v4.version_ihl & 15) * 4;
		id = bpf_ntohs(h.v4.id);
		transport = (struct transport *)h.v4.transport;
		/* Options move the transport header; this is rare, and worth a second copy. */
		if (header_len != 20 && bpf_probe_read_kernel(h.v4.transport, 20, network + header_len))
			return 0;
	} else if (protocol == ETH_P_IPV6) {
		if (!read_words(h.words, sizeof(h.v6) / 8, network))
			return 0;
		t.family = 6;
		t.protocol = h.v6.protocol;
		__builtin_memcpy(t.source, h.v6.source, 16);
		__builtin_memcpy(t.target, h.v6.target, 16);
		header_len = 40;
		id = 0;
		transport = (struct transport *)h.v6.transport;
	} else {
		return 0;
	}
	if (t.protocol != IPPROTO_TCP && t.protocol != IPPROTO_UDP)
		return 0;
	t.ports = transport->ports;
	flow = flow_id(&t);
	tell_flow(&t, flow);

	ring = net_ring();
	sched = sched_ring();
	if (!ring || !sched)
		return 0;
	if (direction == WP_OUT && !context_of(sched))
		tell_context_of_sender();
	r = ring_reserve(ring, net_ring_mask);
	if (!r)
		return 0;
	if (t.protocol == IPPROTO_TCP) {
		header_len += (bpf_ntohs(transport->offset_flags) >> 12) * 4;
		r->seq = bpf_ntohl(transport->seq);
		r->ack = bpf_ntohl(transport->ack);
		r->tcp_flags = bpf_ntohs(transport->offset_flags) & 0xfff;
		if (!transport->window && (r->tcp_flags & TCP_ONLY_ACK) == TCP_ACK)
			r->tcp_flags |= WP_WINDOW_CLOSED;
	} else {
		header_len += 8;
		r->seq = id;
		r->ack = 0;
		r->tcp_flags = 0;
	}
	header_len += network - skb->data;
	r->h.stamp = bpf_ktime_get_ns();
	/* A wake-up for a socket comes before the next packet. A later wake-up is for another socket. */
	sched->ready_flow = 0;
	r->h.seq = ring->seq;
	r->h.kind = WP_PACKET;
	r->h.context = context_of(sched);
	r->h.tid = current_tid_by_loads();
	r->flow = flow;
	r->len = skb->len > header_len ? skb->len - header_len : 0;
	if (direction == WP_OUT && t.protocol == IPPROTO_TCP && r->len && context_of(sched) &&
	    is_held_back(skb, r->seq, r->len))
		r->tcp_flags |= WP_HELD_BACK;
	r->netns = skb->dev->nd_net.net->ns.inum;
	r->direction = direction;
	r->spare = 0;
	r->ifindex = skb->dev->ifindex;
	ring_commit(ring, sizeof(*r));
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb)
{
	skb = FOR_LOADS(skb, struct sk_buff);
	return packet(skb, WP_OUT, skb->head + skb->network_header);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	/* The network header's offset is set only after this tracepoint; the data begins with this header. */
	skb = FOR_LOADS(skb, struct sk_buff);
	return packet(skb, WP_IN, skb->data);
}

/* Whether the socket's wait queue has an entry: an empty list's first entry is its own head, which is its own next. */
static __always_inline bool has_waiter(struct sock *sk)
{
	struct socket_wq *queue = sk->sk_wq;
	struct list_head *first = queue ? queue->wait.head.next : NULL;

	return first && first->next != first;
}

/*
 * The socket for the next wake-up: receive offload passes on packets for many sockets at once. In a softirq the next wake-up
 * carries the socket. In process context (a backlog) a thread may be preempted in between, so the socket gets its own record.
 */
static __always_inline int socket_ready(struct sock *sk)
{
	struct wp_ring *ring = sched_ring();
	struct wp_socket_ready *r;
	struct tuple t = {};

	/* Without a waiter for this socket, the next wake-up is for another socket. */
	if (!ring || !has_waiter(sk) || !socket_tuple(&t, sk, true))
		return 0;
	if (ring->soft && !ring->hard) {
		ring->ready_flow = flow_id(&t);
		return 0;
	}
	r = life_reserve(sizeof(*r), WP_SOCKET_READY, current_tid());
	if (!r)
		return 0;
	r->flow = flow_id(&t);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sk_data_ready, struct sock *sk)
{
	return socket_ready(FOR_LOADS(sk, struct sock));
}

/* Kernels before 6.3 lack this tracepoint; in later kernels, this function has it for TCP and UDP sockets. */
SEC("fentry/sock_def_readable")
int BPF_PROG(sock_def_readable, struct sock *sk)
{
	return socket_ready(FOR_LOADS(sk, struct sock));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
