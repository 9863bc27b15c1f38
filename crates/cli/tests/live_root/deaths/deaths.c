// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Processes that die by signals. The first argument is the mode; each cause has twins, in which a process dies as well, and nobody
 * waits for it. Prints the number of the process that dies, or of the one that does not.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void rest(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time))
		;
}

static void tell(pid_t pid)
{
	printf("%d\n", pid);
	fflush(stdout);
}

/* A child that does not outlive its parent. */
static pid_t child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Kills a process later, from a process that is nobody's child by then. */
static void kill_later(pid_t pid, long ms, int signal)
{
	if (fork())
		return (void)wait(NULL);
	if (!fork()) {
		rest(ms);
		kill(pid, signal);
	}
	_exit(0);
}

struct worker {
	pid_t pid;
	int ask, answer;
};

/* `answers` tasks are answered, then a task takes for ever; or the worker ends. Below 0, it works without a task. */
static struct worker start(int answers, int ends)
{
	int ask[2], answer[2];
	struct worker worker;
	char byte;

	/* Both ends of both pipes stay open: a death is no end of file. */
	if (pipe(ask) || pipe(answer))
		exit(1);
	worker = (struct worker){ .pid = child(), .ask = ask[1], .answer = answer[0] };
	if (worker.pid)
		return worker;
	if (answers < 0)
		rest(1000000);
	for (;;) {
		if (read(ask[0], &byte, 1) != 1)
			_exit(1);
		rest(20);
		if (!answers-- && ends)
			_exit(0);
		if (answers < 0)
			rest(1000000);
		if (write(answer[1], &byte, 1) != 1)
			_exit(1);
	}
}

static void ask(struct worker worker)
{
	rest(50); /* the worker waits for it */
	if (write(worker.ask, "t", 1) != 1)
		exit(1);
}

static void await(struct worker worker)
{
	char byte;

	if (read(worker.answer, &byte, 1) != 1)
		exit(1);
}

static void pool(const char *mode)
{
	struct worker first, second;

	if (!strcmp(mode, "pool")) {
		first = start(1, 0);
		tell(first.pid);
		ask(first);
		await(first);
		ask(first);
		kill_later(first.pid, 300, SIGKILL);
		await(first);
	} else if (!strcmp(mode, "pool-first")) {
		first = start(0, 0);
		tell(first.pid);
		ask(first);
		kill_later(first.pid, 300, SIGKILL);
		await(first);
	} else if (!strcmp(mode, "pool-unasked")) {
		first = start(-1, 0);
		tell(first.pid);
		kill_later(first.pid, 300, SIGKILL);
		await(first);
	} else if (!strcmp(mode, "pool-late")) {
		/* The recorder begins meanwhile. */
		first = start(60, 0);
		for (int i = 0; i < 60; i++) {
			ask(first);
			await(first);
		}
		ask(first);
		kill_later(first.pid, 300, SIGKILL);
		await(first);
	} else if (!strcmp(mode, "pool-alive")) {
		first = start(0, 0);
		tell(first.pid);
		ask(first);
		await(first);
	} else if (!strcmp(mode, "pool-exit")) {
		first = start(0, 1);
		tell(first.pid);
		ask(first);
		await(first);
	} else if (!strcmp(mode, "pool-idle")) {
		first = start(1, 0);
		second = start(0, 0);
		tell(first.pid);
		ask(first);
		await(first);
		kill_later(first.pid, 300, SIGKILL);
		ask(second);
		await(second);
	} else if (!strcmp(mode, "pool-other")) {
		first = start(0, 0);
		second = start(0, 0);
		tell(first.pid);
		ask(first);
		kill_later(first.pid, 300, SIGKILL);
		ask(second);
		await(second);
	}
}

/* A mutex between processes: a child has it and dies, or another child has it. */
static void mutex(int twin)
{
	pthread_mutex_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t shared;
	pid_t holder, other;

	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(lock, &shared);
	holder = child();
	if (!holder) {
		pthread_mutex_lock(lock);
		rest(1000000);
	}
	other = child();
	if (!other)
		rest(1000000);
	rest(100);
	tell(twin ? other : holder);
	kill_later(twin ? other : holder, 300, SIGKILL);
	pthread_mutex_lock(lock);
}

static int server_socket(struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(address->sun_path, "socket");
	return fd;
}

/* A worker hangs in its request until the master kills it, or answers and is killed behind the answer. */
static void master(int twin)
{
	struct sockaddr_un address;
	int listening = server_socket(&address), fd;
	char byte;
	pid_t worker;

	unlink("socket");
	if (bind(listening, (struct sockaddr *)&address, sizeof(address)) || listen(listening, 5))
		exit(1);
	worker = child();
	if (!worker) {
		fd = accept(listening, NULL, NULL);
		if (read(fd, &byte, 1) != 1)
			_exit(1);
		rest(twin ? 600 : 1000000);
		if (write(fd, &byte, 1) != 1)
			_exit(1);
		rest(1000000);
	}
	tell(worker);
	/* The client begins when this file is there. */
	fclose(fopen("ready", "w"));
	while (access("asked", F_OK))
		rest(10);
	rest(600 + (twin ? 300 : 0));
	kill(worker, SIGABRT);
	waitpid(worker, NULL, 0);
	rest(1000000);
}

static int client(void)
{
	struct sockaddr_un address;
	int fd = server_socket(&address);
	char byte;

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return 1;
	fclose(fopen("asked", "w"));
	if (write(fd, "q", 1) != 1)
		return 1;
	if (read(fd, &byte, 1) != 1)
		puts("no answer");
	/* Behind the answer, the twin's worker dies. */
	rest(500);
	return 0;
}

static void hog(long mib)
{
	for (long i = 0; i < mib; i++) {
		char *page = malloc(1 << 20);

		memset(page, 1, 1 << 20);
		rest(10);
	}
}

static void take(int signal)
{
	(void)signal;
}

static void entry(const char *mode)
{
	struct sigaction action = { .sa_handler = take };
	sigset_t set;

	if (!strcmp(mode, "entry-ignores"))
		signal(SIGTERM, SIG_IGN);
	if (!strcmp(mode, "entry-handles"))
		sigaction(SIGTERM, &action, NULL);
	if (!strcmp(mode, "entry-blocks")) {
		sigemptyset(&set);
		sigaddset(&set, SIGTERM);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	tell(getpid());
	for (;;)
		rest(1000000);
}

int main(int count, char **words)
{
	const char *mode = count > 1 ? words[1] : "";

	if (!strncmp(mode, "pool", 4))
		pool(mode);
	else if (!strncmp(mode, "mutex", 5))
		mutex(!strcmp(mode, "mutex-other"));
	else if (!strncmp(mode, "master", 6))
		master(!strcmp(mode, "master-answers"));
	else if (!strcmp(mode, "client"))
		return client();
	else if (!strcmp(mode, "hog"))
		hog(atol(words[2]));
	else if (!strncmp(mode, "entry", 5))
		entry(mode);
	else
		return 2;
	return 0;
}
