/* Tries, sleeps 10 ms, and tries again, 20 times: the argument names the try. `twin` modes sleep without that reason. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is(const char *mode, const char *name) { return !strcmp(mode, name); }

/* A process that does `what` first, and ends when this process closes the pipe. */
static int ends[2];
static pid_t holder(void (*what)(void))
{
	int ready[2];
	char byte;
	if (pipe(ready))
		exit(9);
	pid_t child = fork();
	if (!child) {
		close(ends[1]);
		what();
		if (write(ready[1], "x", 1) != 1)
			exit(9);
		exit(read(ends[0], &byte, 1) < 0);
	}
	if (read(ready[0], &byte, 1) != 1)
		exit(9);
	return child;
}

static int range(int file, short type, off_t start, off_t length)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length };
	return fcntl(file, F_SETLK, &lock);
}

static int lock_file(void) { return open("lock", O_CREAT | O_RDWR, 0600); }
static void nothing(void) {}
static void hold_all(void) { if (range(lock_file(), F_WRLCK, 0, 0)) exit(9); }
static void hold_far(void) { if (range(lock_file(), F_WRLCK, 100, 10)) exit(9); }
static void hold_near(void) { if (range(lock_file(), F_WRLCK, 0, 10)) exit(9); }
static void hold_read(void) { if (range(lock_file(), F_RDLCK, 0, 10)) exit(9); }
static void hold_next(void) { if (range(lock_file(), F_WRLCK, 10, 10)) exit(9); }
static void hold_flock(void) { if (flock(lock_file(), LOCK_EX)) exit(9); }

/* Two open files' locks are in each other's way, in the same process too. */
static void one_more_try(int file, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };
	fcntl(file, F_OFD_SETLK, &lock);
}

static void compute_20_ms(void)
{
	struct timespec now, end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (end.tv_nsec += 20000000;;) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - end.tv_sec) * 1000000000l + now.tv_nsec >= end.tv_nsec)
			return;
	}
}

static int try_to_connect(int port, int flags)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	int s = socket(AF_INET, SOCK_STREAM | flags, 0), error = 0;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int result = connect(s, (struct sockaddr *)&to, sizeof(to));
	if (result && errno == EINPROGRESS) {
		struct pollfd one = { .fd = s, .events = POLLOUT };
		socklen_t size = sizeof(error);
		poll(&one, 1, -1);
		getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size);
	}
	close(s);
	return result || error;
}

static int a_port(int listens)
{
	struct sockaddr_in own = { .sin_family = AF_INET };
	socklen_t size = sizeof(own);
	int s = socket(AF_INET, SOCK_STREAM, 0);
	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bind(s, (struct sockaddr *)&own, size);
	getsockname(s, (struct sockaddr *)&own, &size);
	if (listens)
		listen(s, 100);
	else
		close(s);
	return ntohs(own.sin_port);
}

static void nap(const char *mode)
{
	struct timespec time = { .tv_nsec = 10000000 };
	if (is(mode, "script") || is(mode, "twin-script")) {
		pid_t child = fork();
		if (!child) {
			nanosleep(&time, NULL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (is(mode, "access-poll"))
		poll(NULL, 0, 10);
	else
		nanosleep(&time, NULL);
}

int main(int count, char **words)
{
	const char *mode = words[1];
	char long_path[300] = "missing/";
	int file = -1, port = 0;
	pid_t other = 0;

	if (pipe(ends))
		return 9;
	memset(long_path + 8, 'y', 200);
	strcpy(long_path + 208, "/the/end");
	close(open("there", O_CREAT | O_WRONLY, 0600));
	file = lock_file();
	int second = lock_file();
	if (is(mode, "lock-around") || is(mode, "late-lock") || is(mode, "twin-once-refused"))
		other = holder(hold_near);
	if (is(mode, "lock") || is(mode, "lock-then-prints"))
		other = holder(hold_all);
	if (is(mode, "near-lock")) {
		holder(hold_far);
		other = holder(hold_near);
	}
	if (is(mode, "read-lock")) {
		holder(hold_read);
		other = holder(hold_next);
	}
	if (is(mode, "twin-read-lock"))
		other = holder(hold_read);
	if (is(mode, "flock"))
		other = holder(hold_flock);
	if (is(mode, "alive") || is(mode, "child"))
		other = holder(nothing);
	if (is(mode, "connect") || is(mode, "connect-later") || is(mode, "twin-connect") || is(mode, "twin-connect-later"))
		port = a_port(!strncmp(mode, "twin", 4));
	if (is(mode, "twin-once") || is(mode, "twin-script"))
		access("ready", F_OK);
	for (int i = 0; i < 20; i++) {
		if (is(mode, "access") || is(mode, "access-poll") || is(mode, "then-looks") || is(mode, "script"))
			access("ready", F_OK);
		if (is(mode, "then-opens")) {
			/* Its only call with a file is fstat, which is the same call with an empty path. */
			struct stat found;
			syscall(SYS_newfstatat, AT_FDCWD, "ready", &found, 0);
			syscall(SYS_newfstatat, file, "", &found, AT_EMPTY_PATH);
			ioctl(file, TCGETS, long_path); /* ENOTTY */
		}
		if (is(mode, "twin-tty"))
			ioctl(file, TCGETS, long_path);
		if (is(mode, "twin-no-child"))
			waitpid(-1, NULL, WNOHANG); /* ECHILD */
		if (is(mode, "then-looks"))
			poll(NULL, 0, 0);
		if (is(mode, "long"))
			access(long_path, F_OK);
		if (is(mode, "twin-access"))
			access("there", F_OK);
		if (is(mode, "twin-second")) {
			access("ready", F_OK);
			access("there", F_OK);
		}
		if (is(mode, "then-prints") || is(mode, "lock-then-prints")) {
			range(file, F_WRLCK, 0, 0);
			lseek(ends[0], 0, SEEK_SET); /* ESPIPE */
			access("ready", F_OK);
		}
		if (is(mode, "twin-far")) {
			access("ready", F_OK);
			for (int j = 0; j < 40; j++)
				syscall(SYS_getppid);
		}
		if (is(mode, "lock") || is(mode, "near-lock"))
			range(file, F_WRLCK, 0, is(mode, "lock") ? 0 : 10);
		if (is(mode, "twin-lock")) {
			range(file, F_WRLCK, 0, 0);
			range(file, F_UNLCK, 0, 0);
		}
		if (is(mode, "read-lock"))
			range(file, F_RDLCK, 0, 20);
		if (is(mode, "twin-read-lock"))
			range(file, F_RDLCK, 0, 10);
		if (is(mode, "lock-around") || is(mode, "late-lock"))
			range(file, F_WRLCK, 0, 10);
		if (is(mode, "lock-around")) {
			/* SQLite does so between its tries. */
			range(file, F_RDLCK, 200, 10);
			range(file, F_UNLCK, 0, 0);
		}
		if (is(mode, "late-lock"))
			compute_20_ms();
		if (is(mode, "twin-once-refused") && !i)
			range(file, F_WRLCK, 0, 10);
		if (is(mode, "twin-got")) {
			one_more_try(file, F_WRLCK);
			one_more_try(second, F_WRLCK); /* refused */
			one_more_try(file, F_UNLCK);
			one_more_try(second, F_WRLCK);
			one_more_try(second, F_UNLCK);
		}
		if (is(mode, "flock"))
			flock(file, LOCK_EX | LOCK_NB);
		if (is(mode, "alive"))
			kill(other, 0);
		if (is(mode, "child"))
			waitpid(other, NULL, WNOHANG);
		if (is(mode, "twin-gone"))
			kill(getpid(), SIGURG); /* ignored */
		if (is(mode, "connect") || is(mode, "twin-connect"))
			try_to_connect(port, 0);
		if (is(mode, "connect-later") || is(mode, "twin-connect-later"))
			try_to_connect(port, SOCK_NONBLOCK);
		if (is(mode, "twin-32-bit")) {
			long result;
			/* access of the 32-bit table, at an address that no process has. */
			__asm__ volatile("int $0x80" : "=a"(result) : "a"(33), "b"(8), "c"(0) : "memory");
		}
		if (is(mode, "spin"))
			for (int j = 0; j < 20000; j++)
				close(-1);
		if (is(mode, "twin-spin"))
			close(-1);
		nap(mode);
	}
	printf("%d %d\n", other, port);
	fflush(stdout);
	close(ends[1]);
	while (wait(NULL) > 0)
		;
	return count != 2;
}
