/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A link between two network namespaces. See link.h; the wire is in wire.c. */
#define _GNU_SOURCE
#include "link.h"
#include "device.h"
#include "lane.h"
#include "wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const addresses[2] = { "10.99.0.1", "10.99.0.2" }; /* by enum end_of_link */

static int namespaces[2] = { -1, -1 };
static struct wire wire = { .tun = { -1, -1 } };
static pid_t wire_process;

bool link_is_made(void)
{
	return namespaces[NEAR] >= 0;
}

static void enter(enum end_of_link end)
{
	if (setns(namespaces[end], CLONE_NEWNET))
		die("cannot go to the other network namespace");
}

/* A new network namespace, in which the calling process then is. */
static void make_namespace(enum end_of_link end)
{
	if (unshare(CLONE_NEWNET))
		die("cannot make a network namespace (this needs root)");
	struct stat own;
	namespaces[end] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (namespaces[end] < 0 || fstat(namespaces[end], &own))
		die("cannot open the network namespace");
	lane_namespaces[end] = (unsigned)own.st_ino;
	/* Or the kernel asks for routers and neighbours, by packets that no program here sends. */
	int quiet = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
	if (quiet >= 0 && write(quiet, "1", 1) != 1)
		die("cannot switch IPv6 off");
	close(quiet);
}

/* Sends something there and back, until it arrives: a new pair of devices may not be ready yet. */
static void prove(void)
{
	int fd[2];
	for (int end = FAR; end >= NEAR; end--) {
		enter((enum end_of_link)end);
		struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(9999) }, other = own;
		inet_pton(AF_INET, addresses[end], &own.sin_addr);
		inet_pton(AF_INET, addresses[end == NEAR], &other.sin_addr);
		fd[end] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd[end] < 0 || bind(fd[end], (const struct sockaddr *)&own, sizeof own) ||
		    connect(fd[end], (const struct sockaddr *)&other, sizeof other))
			die("cannot make a socket on the link");
	}
	for (int from = NEAR; from <= FAR; from++) {
		char byte = 0;
		for (int i = 0; i < 5000 && recv(fd[from == NEAR], &byte, 1, 0) != 1; i++) {
			if (i % 20 == 0)
				send(fd[from], "", 1, 0);
			usleep(1000);
		}
	}
	close(fd[NEAR]);
	close(fd[FAR]);
}

/* The sum of these counters of a file of /proc/net, which has a line with their names and a line with their values. */
static uint64_t counters(const char *file, const char *group, const char *const names[])
{
	char head[8192], values[8192];
	uint64_t sum = 0;
	FILE *in = fopen(file, "re");
	if (!in)
		die(file);
	while (fgets(head, sizeof head, in) && fgets(values, sizeof values, in)) {
		char *name_at, *value_at;
		char *name = strtok_r(head, " \n", &name_at), *value = strtok_r(values, " \n", &value_at);
		if (!name || strcmp(name, group))
			continue;
		while ((name = strtok_r(NULL, " \n", &name_at)) && (value = strtok_r(NULL, " \n", &value_at)))
			for (int i = 0; names[i]; i++)
				sum += strcmp(name, names[i]) ? 0 : strtoull(value, NULL, 10);
	}
	fclose(in);
	return sum;
}

static uint64_t by_timers(void)
{
	static const char *const again[] = { "RetransSegs", NULL }, *const probes[] = { "TCPWinProbe", "TCPLossProbes", NULL };
	uint64_t sum = 0;
	for (int end = FAR; end >= NEAR; end--) {
		enter((enum end_of_link)end);
		sum += counters("/proc/thread-self/net/snmp", "Tcp:", again);
		sum += counters("/proc/thread-self/net/netstat", "TcpExt:", probes);
	}
	return sum;
}

static void make(long delay_ms, long rate_mbit)
{
	sent_by_timers = by_timers;
	make_namespace(FAR);
	if (delay_ms)
		wire.tun[FAR] = device_tun();
	make_namespace(NEAR);
	if (delay_ms)
		wire.tun[NEAR] = device_tun();
	else
		device_pair(namespaces[FAR]);
	wire.delay_ns = (uint64_t)delay_ms * MS;
	for (int end = FAR; end >= NEAR; end--) {
		enter((enum end_of_link)end);
		device_up(addresses[end]);
		if (!delay_ms)
			device_neighbour(addresses[end == NEAR], end == NEAR);
		if (rate_mbit)
			device_limit(rate_mbit);
	}
	if (!delay_ms)
		prove();
}

void link_make(long delay_ms, long rate_mbit)
{
	if (delay_ms || rate_mbit)
		make(delay_ms, rate_mbit);
}

void link_make_unlimited(void)
{
	make(0, 0);
}

/*
 * A TCP socket in the namespace in which the calling process is. Over a link it sends when others are
 * acknowledged, which is the way of most (cubic), and not by a timer of its own (bbr), where this machine
 * has set that.
 */
static int make_socket(void)
{
	static const char way[] = "cubic";
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (link_is_made() && fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, way, sizeof way - 1))
		die("cannot use TCP's congestion control `cubic`");
	return fd;
}

int link_listen(struct sockaddr_in *address)
{
	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof *address;
	if (link_is_made()) {
		enter(FAR); /* a socket stays where it was made */
		inet_pton(AF_INET, addresses[FAR], &address->sin_addr);
	}
	int listener = make_socket();
	if (listener < 0 || bind(listener, (struct sockaddr *)address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)address, &length))
		die("cannot listen");
	if (link_is_made())
		enter(NEAR);
	return listener;
}

int link_connect(lane_t lane, const struct sockaddr_in *address)
{
	int fd = make_socket(), on = 1;
	if (link_is_made()) {
		/* The packet that comes back is the far kernel's answer to the packet sent here. */
		struct sending syn = link_sends(lane, NO_LANE);
		wait_begins(lane, "connect");
		if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address))
			die("cannot connect");
		link_wait_ends_by(lane, syn);
	} else if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address)) {
		die("cannot connect");
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

int link_accept(lane_t lane, int listener)
{
	int on = 1;
	wait_begins(lane, "accept");
	int fd = accept(listener, NULL, NULL);
	if (link_is_made())
		link_wait_ends_by(lane, (struct sending){ .by = 0 }); /* the last of the handshake */
	else
		wait_ends(lane, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

void link_start(lane_t parent)
{
	if (wire.tun[NEAR] < 0)
		return;
	forks(parent);
	wire_process = fork();
	if (wire_process < 0)
		die("cannot fork");
	if (!wire_process) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		char comm[16];
		snprintf(comm, sizeof comm, "%.10s-wire", workload_name);
		lane_t lane = lane_open(comm, parent);
		atomic_store(&lanes->wire, lane);
		wire_carry(lane, &wire);
	}
	while (atomic_load(&lanes->wire) == NO_LANE)
		rest(parent, 1 * MS);
}

void link_far_end(lane_t lane)
{
	atomic_store(&lanes->far, lane);
}

lane_t link_await_far_end(lane_t lane)
{
	lane_t far;
	while ((far = atomic_load(&lanes->far)) == NO_LANE)
		rest(lane, 1 * MS);
	return far;
}

void link_end(int far_process)
{
	kill(far_process, SIGKILL);
	waitpid(far_process, NULL, 0);
	if (!wire_process)
		return;
	kill(wire_process, SIGKILL);
	waitpid(wire_process, NULL, 0);
}

struct sending link_sends(lane_t lane, lane_t to)
{
	struct sending sending = { lane, now() };
	if (!link_is_made()) {
		releases(lane, to);
		return sending;
	}
	if (to != NO_LANE) {
		atomic_store(&lanes->lane[to].sent_by, lane);
		atomic_store(&lanes->lane[to].sent, sending.at);
	}
	lane_t wire_lane = atomic_load(&lanes->wire);
	if (wire_lane != NO_LANE)
		releases(lane, wire_lane);
	return sending;
}

struct sending link_is_sending(lane_t lane, lane_t to)
{
	struct sending begun = link_sends(lane, to);
	atomic_store(&lanes->lane[to].sent, STILL);
	return begun;
}

void link_has_sent(lane_t lane, lane_t to, uint64_t at)
{
	atomic_store(&lanes->lane[to].sent_by, lane);
	atomic_store(&lanes->lane[to].sent, at);
}

void link_wakes_for(int fd, size_t bytes)
{
	int least = (int)bytes;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least))
		die("cannot set for how many bytes a socket wakes");
}

bool link_wait_ends_by(lane_t lane, struct sending sending)
{
	const struct lane *l = &lanes->lane[lane];
	long sleeps = l->sleeps;
	struct stretch *s = wait_released(lane, NO_LANE);
	/* A thread's clock may stand still while its kernel receives what it has just sent: that is no sleep. */
	bool slept = l->sleeps != sleeps;
	s->end = slept ? BY_LINK : BY_NOBODY;
	s->sent = sending.at;
	s->sent_by = (int16_t)sending.by;
	s->runs_last = !strcmp(s->call, "recvfrom"); /* it copies what has come */
	return slept;
}

void link_waits_were_several(lane_t lane)
{
	const struct lane *l = &lanes->lane[lane];
	order_unknown(lane, lanes->chunk[l->last].stretches[l->used - 1].delayed);
}

void link_wait_is_interrupted(lane_t lane, uint64_t ns, lane_t awaited, uint64_t asked)
{
	const struct lane *l = &lanes->lane[lane];
	struct stretch *s = wait_interrupted(lane, ns, awaited);
	uint64_t sent = atomic_load(&l->sent);
	if (!link_is_made() || sent < asked)
		return;
	s->end = BY_LINK; /* the answer is on its way */
	s->by = NO_LANE;
	s->sent = sent;
	s->sent_by = (int16_t)atomic_load(&l->sent_by);
}

bool link_wait_ends(lane_t lane)
{
	const struct lane *l = &lanes->lane[lane];
	struct sending sending = { atomic_load(&l->sent_by), atomic_load(&l->sent) };
	if (link_is_made())
		return link_wait_ends_by(lane, sending);
	wait_ends(lane, NO_LANE);
	return true;
}
