/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The wire: takes packets out of either TUN device and puts them into the other when their delay has
 * passed. One thread, which waits for whichever comes first:
 *
 *     rpc           ==^............................|==
 *     rpc-wire        |-----------^........|-----------^     `-` until the delay has passed
 *     rpc-server      ............|========^
 *
 * It holds at most HELD packets and then reads no more; what comes then stays in the devices' queues.
 *
 * The two kernels' work within its writes (receive, acknowledge, wake) runs on its time, in its name.
 */
#define _GNU_SOURCE
#include "wire.h"
#include "lane.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HELD 4096
#define LONGEST 2048 /* more than the devices' MTU */

struct packet {
	uint64_t due;
	enum end_of_link to;
	size_t length;
	unsigned char bytes[LONGEST];
};

/* In order: all are delayed by as much. */
static struct packet held[HELD];
static size_t first, count;

static void take(enum end_of_link from, const struct wire *wire)
{
	while (count < HELD) {
		struct packet *packet = &held[(first + count) % HELD];
		ssize_t length = read(wire->tun[from], packet->bytes, sizeof packet->bytes);
		if (length <= 0)
			return;
		packet->due = now() + wire->delay_ns;
		packet->to = from == NEAR ? FAR : NEAR;
		packet->length = (size_t)length;
		count++;
	}
}

enum { FIN = 1, SYN = 2 };

/*
 * Whether the packet ends a wait: TCP over IPv4 with more than an acknowledgement. An accept waits for the acknowledgement
 * at the end of the handshake, not for its first packet.
 */
static bool is_awaited(const struct packet *packet)
{
	static bool handshake;
	const unsigned char *ip = packet->bytes;
	size_t ip_header = (ip[0] & 15u) * 4;
	if (packet->length < 20 || ip[0] >> 4 != 4 || ip[9] != 6 || packet->length < ip_header + 20)
		return false;
	const unsigned char *tcp = ip + ip_header;
	bool begins = packet->to == FAR && (tcp[13] & SYN), awaited = handshake && packet->to == FAR;
	handshake = begins || (handshake && packet->to != FAR);
	return awaited || (!begins && (packet->length > ip_header + (tcp[12] >> 4) * 4u || (tcp[13] & (SYN | FIN))));
}

static void give(lane_t lane, const struct wire *wire)
{
	const struct packet *packet = &held[first];
	lane_t receiver = packet->to == NEAR ? 0 : atomic_load(&lanes->far);
	if (receiver != NO_LANE && is_awaited(packet))
		releases(lane, receiver);
	if (write(wire->tun[packet->to], packet->bytes, packet->length) < 0 && errno != EINVAL)
		die("cannot write to a TUN device");
	first = (first + 1) % HELD;
	count--;
}

void wire_carry(lane_t lane, const struct wire *wire)
{
	struct pollfd ends[2] = {
		{ .fd = wire->tun[NEAR], .events = POLLIN },
		{ .fd = wire->tun[FAR], .events = POLLIN },
	};
	for (;;) {
		uint64_t t = now();
		if (count && held[first].due <= t) {
			give(lane, wire);
			continue;
		}
		uint64_t left = count ? held[first].due - t : 0;
		struct timespec timeout = { (time_t)(left / 1000000000), (long)(left % 1000000000) };
		wait_begins(lane, "ppoll");
		int ready = ppoll(ends, count < HELD ? 2 : 0, count ? &timeout : NULL, NULL);
		if (ready > 0)
			wait_ends_or_by(lane, BY_TIMER); /* a packet that no lane says it sent: a delayed acknowledgement */
		else
			wait_times_out(lane, left);
		take(NEAR, wire);
		take(FAR, wire);
	}
}
