// cause: an event loop waits for a timer of its own, by a descriptor: every 200 ms, five times
// size: 1 s
// ask: record -- $0
// who: timerfd
// says: expired
// never: sleeping
// never: nothing came
// json: segments call=epoll_wait kind=timer object.name=[timerfd]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	// The twin's timer expires at once; then the program computes.
	int long_ns = getenv("TWIN") ? 1000000 : 200000000;
	struct itimerspec every = {{0, long_ns}, {0, long_ns}};
	struct timespec began, now;
	int ends[2], timer = timerfd_create(CLOCK_MONOTONIC, 0), set = epoll_create1(0);
	struct epoll_event of_pipe = {.events = EPOLLIN}, of_timer = {.events = EPOLLIN};
	uint64_t expired;
	pipe(ends);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &of_pipe);
	epoll_ctl(set, EPOLL_CTL_ADD, timer, &of_timer);
	timerfd_settime(timer, 0, &every, 0);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < 5; i++) {
		epoll_wait(set, &of_timer, 1, 5000);
		read(timer, &expired, sizeof(expired));
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	FILE *planted = fopen(getenv("PLANTED"), "a");
	fprintf(planted, "twin %f\n", now.tv_sec - began.tv_sec + (now.tv_nsec - began.tv_nsec) / 1e9);
	fclose(planted);
	while (getenv("TWIN") && clock() < CLOCKS_PER_SEC / 2)
		;
}
