/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A large transfer over a link (G15 §5.4.2), in chunks of 1 MiB, received here or sent from here
 * (--send). Whichever of three is slow decides: the link (--rate-mbit), or an end, which works for
 * each chunk (--near-ms here, --far-ms there).
 *
 *     the link is slow         bulk      =|.........|=|.........|=     waits for packets in flight
 *     the sender is slow       bulk      =|.........|=|.........|=     waits for bulk-far
 *                              bulk-far   =========^==========^
 *     the receiver is slow,    bulk      ==^........|=^........|=      waits for room
 *     --send                   bulk-far   =|========|=========|=
 *
 * Truth: the receiver waits for a chunk's sender until it has sent that chunk, and then for the link. The
 * sender waits for room, that is for the receiver until its last receive, and then for the link.
 */
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK_SIZE (1u << 20)
#define MAX_CHUNKS_SENT 1024

static long megabytes = 100, rate_mbit, delay_ms, near_ms, far_ms, near_sends;
static const struct flag flags[] = {
	{ "megabytes", &megabytes, false, "how much is transferred" },
	{ "rate-mbit", &rate_mbit, false, "bandwidth either way, Mbit/s; 0 for no limit" },
	{ "delay-ms", &delay_ms, false, "of each packet, either way; 0 for none" },
	{ "near-ms", &near_ms, false, "CPU time of this end for each chunk" },
	{ "far-ms", &far_ms, false, "CPU time of the other end for each chunk" },
	{ "send", &near_sends, true, "from here, instead of receiving here" },
	{ 0 },
};

static char chunk[CHUNK_SIZE];
/* When each chunk was sent; both processes have it. */
static struct sending *chunk_sent;

static void send_all(lane_t lane, lane_t to, int fd, long work_ms)
{
	for (long i = 0; i < megabytes; i++) {
		work(lane, (uint64_t)work_ms * MS);
		struct sending begun = link_sends(lane, to);
		chunk_sent[i] = (struct sending){ lane, STILL };
		wait_begins(lane, "sendto");
		if (send(fd, chunk, sizeof chunk, 0) != sizeof chunk)
			die("cannot send");
		/*
		 * On a link with a limit it waits for room that only what was sent before makes: the kernel sends,
		 * with or without it. Else the chunk has gone when all of it is copied.
		 */
		bool waited = link_wait_ends(lane);
		chunk_sent[i].at = waited && rate_mbit ? begun.at : now();
	}
}

static void receive_all(lane_t lane, lane_t from, int fd, long work_ms)
{
	/* Packets that a filter has cut never fill a buffer with a whole chunk; and at the end less is left. */
	link_wakes_for(fd, rate_mbit ? CHUNK_SIZE / 4 : CHUNK_SIZE);
	for (long i = 0; i < megabytes; i++) {
		if (i == megabytes - 1)
			link_wakes_for(fd, 1);
		link_is_sending(lane, from); /* what makes room */
		wait_begins(lane, "recvfrom");
		if (recv(fd, chunk, sizeof chunk, MSG_WAITALL) != sizeof chunk)
			die("cannot receive");
		link_wait_ends_by(lane, chunk_sent[i]);
		link_has_sent(lane, from, now());
		work(lane, (uint64_t)work_ms * MS);
	}
}

static void transfer(lane_t lane, lane_t other, int fd, bool sends, long work_ms)
{
	if (sends)
		send_all(lane, other, fd, work_ms);
	else
		receive_all(lane, other, fd, work_ms);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address;
	flags_read(argc, argv, flags, "a large transfer over a link");
	if (megabytes > MAX_CHUNKS_SENT) {
		errno = EINVAL;
		die("--megabytes");
	}
	if (delay_ms || rate_mbit)
		link_make(delay_ms, rate_mbit);
	else
		link_make_unlimited();
	chunk_sent = mmap(NULL, MAX_CHUNKS_SENT * sizeof *chunk_sent, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (chunk_sent == MAP_FAILED)
		die("cannot map memory");
	int listener = link_listen(&address);
	lane_t lane = window_open("bulk");
	link_start(lane);
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		lane_t far = lane_open("bulk-far", lane);
		link_far_end(far);
		int fd = link_accept(far, listener);
		transfer(far, lane, fd, !near_sends, far_ms);
		pause();
		_exit(0);
	}
	int fd = link_connect(lane, &address);
	lane_t far = link_await_far_end(lane);
	transfer(lane, far, fd, near_sends, near_ms);
	window_close();
	link_end(child);
	return 0;
}
