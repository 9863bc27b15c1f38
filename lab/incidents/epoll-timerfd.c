// cause: an event loop waits for a timer of its own, by a descriptor: every 200 ms, five times
// size: 1 s
// ask: record -- $0
// who: timerfd
// says: expired
// never: sleeping
// never: nothing came
// json: segments call=epoll_wait kind=timer object.name=[timerfd]
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
int main(void)
{
	struct itimerspec every = {{0, 200000000}, {0, 200000000}};
	int ends[2], timer = timerfd_create(CLOCK_MONOTONIC, 0), set = epoll_create1(0);
	struct epoll_event of_pipe = {.events = EPOLLIN}, of_timer = {.events = EPOLLIN};
	uint64_t expired;
	pipe(ends);
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &of_pipe);
	epoll_ctl(set, EPOLL_CTL_ADD, timer, &of_timer);
	timerfd_settime(timer, 0, &every, 0);
	for (int i = 0; i < 5; i++) {
		epoll_wait(set, &of_timer, 1, 5000);
		read(timer, &expired, sizeof(expired));
	}
}
