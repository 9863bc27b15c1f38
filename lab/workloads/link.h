/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two network namespaces and a link of known delay or bandwidth between them, so that packets leave a
 * kernel's edge and enter another's, as between two hosts (G15 §5.4.2).
 *
 *     delay      near ── TUN ── the wire ── TUN ── far      the wire: a thread of ours that hands each
 *                                                           packet over when its delay has passed
 *     bandwidth  near ── veth, tbf ──────── veth ── far     the kernel's token bucket filter, both ways
 *
 * With both, the filter is on the TUN devices. The namespaces have no name: they and the devices in them
 * end with the last process that has them, however it ends. Needs root.
 *
 * The truth of a wait for a packet has two forms. In a host's own view, the wire released the waiter,
 * and waited for its timer before, and so on: the wire is a thread like others. In the view of two hosts, whose
 * tracers do not see the wire, the sender did something until it sent, and then the packet was in
 * flight: --truth-hosts. Without a wire both are the same.
 */
#ifndef WORKLOADS_LINK_H
#define WORKLOADS_LINK_H

#include "truth.h"

#include <netinet/in.h>

/*
 * Makes the link and moves the calling process to its near end. To be called before the window opens.
 * Without a delay or a rate there is no link: both ends are on the loopback interface.
 */
void link_make(long delay_ms, long rate_mbit);
/* ...and with only what the device itself takes. */
void link_make_unlimited(void);
bool link_is_made(void);

/* A listening socket at the far end, and its address. */
int link_listen(struct sockaddr_in *address);
/* Connects to it from the near end; logged as a wait where there is a link. */
int link_connect(lane_t lane, const struct sockaddr_in *address);

/* Takes the connection, at the far end. */
int link_accept(lane_t lane, int listener);

/* Starts the wire, if the link needs it: a child of the calling process, with a lane of its own. */
void link_start(lane_t parent);
/* Puts that lane at the far end. The second form waits for its start, and returns it. */
void link_far_end(lane_t lane);
lane_t link_await_far_end(lane_t lane);
/*
 * Ends the wire, if any, and the process at the far end. After the window has closed: a child's
 * end that is waited for is no packet, and nothing else leads between the hosts.
 */
void link_end(int far_process);

/* The end of a wait for a packet: its sender and time. */
struct sending {
	lane_t by;
	uint64_t at;
};
#define STILL UINT64_MAX /* in the place of when: it goes on */

/* `lane` is about to send to `to`; or will for a while, until it says that it has. */
struct sending link_sends(lane_t lane, lane_t to);
struct sending link_is_sending(lane_t lane, lane_t to);
void link_has_sent(lane_t lane, lane_t to, uint64_t at);

/*
 * Wakes the receiver at that socket only for this number of bytes. Otherwise each packet wakes it, and thousands of
 * wake-ups of a few microseconds are more than a thread's own clocks can distinguish.
 */
void link_wakes_for(int fd, size_t bytes);

/* The wait that has begun was ended by what was last sent to this lane. Whether it slept at all. */
bool link_wait_ends(lane_t lane);
/* The same, by what was sent then. */
bool link_wait_ends_by(lane_t lane, struct sending sending);
/* The wait that has just ended was several, for each time that there was room again: what of it was runnable lay between. */
void link_waits_were_several(lane_t lane);
/* A time-out interrupted the wait for an answer: that lane has yet to send it, or has, since it was asked. */
void link_wait_is_interrupted(lane_t lane, uint64_t ns, lane_t awaited, uint64_t asked);

#endif
