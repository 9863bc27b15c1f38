/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads on the same CPU hand each other a semaphore (G15 table 3.1, wk-schedfreq): without work in
 * between, two switches and two wake-ups per round trip at the highest rate the scheduler can do.
 *
 *     schedfreq         =^....=^....=^...      `^` posts: the other becomes runnable, and runs as
 *     schedfreq-peer    ..|==^..|==^..|==      soon as this waits
 *
 * Prints a line for benchmarks:
 *     schedfreq: round_trips 200000 seconds 0.564 per_second 354609.2 quiet_per_second 371023.9
 *
 * Truth, asked for with --truth: each thread's own turns. It is kept with --work-us of work in each
 * turn, since the books themselves take 10 µs; the highest rate cannot keep books.
 *
 * Assumes nothing: both stay on the same CPU.
 */
#include "rate.h"
#include "truth.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

static long rounds, work_us = 200;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "round trips; 0 for 200000, or 1000 with --truth" },
	{ "work-us", &work_us, false, "with --truth, CPU time of each turn" },
	{ 0 },
};

static sem_t ping, pong;

static void turn(lane_t lane, lane_t other, sem_t *mine, sem_t *others)
{
	wait_begins(lane, "futex");
	sem_wait(mine);
	wait_ends(lane, NO_LANE);
	work(lane, (uint64_t)work_us * US);
	releases(lane, other);
	sem_post(others);
}

static void *peer(void *parent)
{
	lane_t lane = lane_open("schedfreq-peer", *(lane_t *)parent);
	for (long i = 0; i < rounds; i++) {
		if (truth_file) {
			turn(lane, 0, &ping, &pong);
		} else {
			sem_wait(&ping);
			sem_post(&pong);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("schedfreq");
	flags_read(argc, argv, flags, "a semaphore handed to and fro");
	if (!rounds)
		rounds = truth_file ? 1000 : 200000;
	pin_to_one_cpu();
	sem_init(&ping, 0, 0);
	sem_init(&pong, 0, 0);
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, peer, &lane))
		die("cannot start a thread");
	static struct rate rate;
	rate_begin(&rate, 4000);
	releases(lane, 1);
	sem_post(&ping);
	for (long i = 0; i < rounds; i++) {
		if (truth_file) {
			turn(lane, 1, &pong, &ping);
		} else {
			sem_wait(&pong);
			sem_post(&ping);
		}
		rate_trip(&rate);
	}
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	window_close();
	rate_print(&rate, "schedfreq");
	return 0;
}
