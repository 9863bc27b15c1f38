/* Calls functions in all ways that a stub at a call site could break, and checks what they return. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline, noclone, noipa))

static volatile int ends;
static _Atomic unsigned long rounds, wrong;

static void check(int is_right, const char *what)
{
	if (!is_right) {
		wrong++;
		dprintf(2, "WRONG: %s\n", what);
	}
}

/* Three arguments on the stack. */
NOT_INLINED long nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

NOT_INLINED double half(double x, double y) { return (x + y) / 2; }

NOT_INLINED long double longer(long double x) { return x * 2; }

struct large { long words[12]; };
NOT_INLINED struct large large(long n)
{
	struct large it;
	for (int i = 0; i < 12; i++)
		it.words[i] = n + i;
	return it;
}

NOT_INLINED int listed(char *into, const char *format, ...)
{
	__builtin_va_list list;
	__builtin_va_start(list, format);
	int n = vsprintf(into, format, list);
	__builtin_va_end(list);
	return n;
}

NOT_INLINED int deep(int n) { return n ? deep(n - 1) + 1 : 0; }

NOT_INLINED void jumps(jmp_buf *back, int n)
{
	if (n)
		jumps(back, n - 1);
	longjmp(*back, 7);
}

/* Every register that may hold something over a call of a function that the compiler knows. */
long registers(void);
long nothing(void);
__asm__(".text\n.globl nothing\n.type nothing, @function\nnothing: .cfi_startproc\n ret\n.cfi_endproc\n.size nothing, .-nothing\n"
	".globl registers\n.type registers, @function\nregisters:\n .cfi_startproc\n"
	" push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $8, %rsp\n .cfi_def_cfa_offset 64\n"
	" mov $1, %eax\n mov $2, %ebx\n mov $3, %ecx\n mov $4, %edx\n mov $5, %esi\n mov $6, %edi\n mov $7, %ebp\n"
	" mov $8, %r8d\n mov $9, %r9d\n mov $10, %r10d\n mov $11, %r11d\n mov $12, %r12d\n mov $13, %r13d\n"
	" mov $14, %r14d\n mov $15, %r15d\n movq %r15, %xmm0\n movq %r14, %xmm15\n"
	" call nothing\n"
	" dec %rax\n sub $2, %rbx\n or %rbx, %rax\n sub $3, %rcx\n or %rcx, %rax\n sub $4, %rdx\n or %rdx, %rax\n"
	" sub $5, %rsi\n or %rsi, %rax\n sub $6, %rdi\n or %rdi, %rax\n sub $7, %rbp\n or %rbp, %rax\n"
	" sub $8, %r8\n or %r8, %rax\n sub $9, %r9\n or %r9, %rax\n sub $10, %r10\n or %r10, %rax\n"
	" sub $11, %r11\n or %r11, %rax\n sub $12, %r12\n or %r12, %rax\n sub $13, %r13\n or %r13, %rax\n"
	" movq %xmm0, %rcx\n sub %r15, %rcx\n or %rcx, %rax\n movq %xmm15, %rcx\n sub %r14, %rcx\n or %rcx, %rax\n"
	" sub $14, %r14\n or %r14, %rax\n sub $15, %r15\n or %r15, %rax\n"
	" add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n .cfi_def_cfa_offset 8\n ret\n"
	" .cfi_endproc\n.size registers, .-registers\n");

/* A coroutine: two stacks take turns in the middle of calls. */
static __thread ucontext_t here, there;
static __thread long turns;
NOT_INLINED long turn(long n)
{
	turns = n;
	swapcontext(&here, &there);
	return turns;
}
NOT_INLINED void other_turn(void)
{
	turns = turns * 2 + 1;
	swapcontext(&there, &here);
}
NOT_INLINED void other(void)
{
	for (;;)
		other_turn();
}

/* Recursion through a function that is not measured: the inner activation's call looks like the outer one's. */
NOT_INLINED int leaf(int n) { return n; }
NOT_INLINED int again(int n);
NOT_INLINED int middle(int n) { return n ? again(n - 1) : 0; }
NOT_INLINED int again(int n)
{
	int sum = middle(n);
	return sum + leaf(1);
}

NOT_INLINED void slow(void)
{
	for (volatile int i = 0; i < 20000; i++)
		;
}

/* One round; everything that it calls is measured. */
NOT_INLINED void once(long n, int is_main)
{
	jmp_buf back;
	char text[64];
	volatile int came;

	check(nine(n, 2, 3, 4, 5, 6, 7, 8, 9) == n + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81, "arguments on the stack");
	check(half(n, n + 2) == n + 1, "floating point");
	check(longer(n + 0.5L) == 2 * n + 1, "the x87 stack");
	check(large(n).words[11] == n + 11, "a structure");
	check(listed(text, "%d %s %.1f", 5, "x", 2.5) == 7 && !strcmp(text, "5 x 2.5"), "variable arguments");
	check(deep(5) == 5, "recursion");
	check(again(3) == 4, "recursion through another function");
	check(registers() == 0, "registers");
	came = setjmp(back);
	if (!came)
		jumps(&back, 3);
	check(came == 7, "longjmp");
	check(turn(n) == 2 * n + 1, "a coroutine");
	if (is_main && n % 64 == 0) {
		pid_t child = fork();
		if (!child) {
			check(nine(1, 0, 0, 0, 0, 0, 0, 0, 0) == 1, "the child");
			_exit(wrong ? 1 : 0);
		}
		int status = 1;
		check(waitpid(child, &status, 0) == child && status == 0, "fork");
	}
	if (n % 16 == 0)
		slow();
}

/* The loader binds the functions that it calls. */
NOT_INLINED void first(int is_main)
{
	once(0, is_main);
	__asm__ volatile("");
}

/* Runs on until the end; or for as many rounds as are asked for. It prints where its own return address stands. */
NOT_INLINED __attribute__((optimize("no-omit-frame-pointer"))) void f0(long limit, int is_main)
{
	char stack[65536] __attribute__((aligned(16)));

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = NULL;
	makecontext(&there, other, 0);
	first(is_main);
	unsigned long pointer;
	__asm__("rdfsbase %0" : "=r"(pointer));
	printf("f0 %#lx %#lx\n", pointer, (unsigned long)__builtin_frame_address(0) + 8);
	fflush(stdout);
	if (limit && getchar() != 'g')
		return;
	for (long n = 0; limit ? n < limit : !ends; n++) {
		once(n, is_main);
		rounds++;
	}
	if (limit) {
		printf("done %lu\n", wrong);
		fflush(stdout);
		getchar();
	}
}

static void *thread(void *arg)
{
	f0(0, 0);
	return NULL;
}

/* Threads that come and go. */
NOT_INLINED void *brief(void *arg)
{
	for (long n = 1; n < 20; n++)
		check(nine(n, 0, 0, 0, 0, 0, 0, 0, 0) == n, "a brief thread");
	if (arg)
		pthread_exit(arg);
	return NULL;
}

static void *spawner(void *arg)
{
	while (!ends) {
		pthread_t it;
		if (!pthread_create(&it, NULL, brief, NULL))
			pthread_join(it, NULL);
		void *library = dlopen("libm.so.6", RTLD_NOW);
		if (library)
			dlclose(library);
		usleep(500);
	}
	return NULL;
}

NOT_INLINED void handler(int signal)
{
	check(nine(signal, 0, 0, 0, 0, 0, 0, 0, 0) == signal, "a signal");
	check(deep(3) == 3, "recursion in a signal");
}

int main(int count, char **arguments)
{
	long limit = count > 1 ? atol(arguments[1]) : 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("once %#lx f0 %#lx handler %#lx brief %#lx registers %#lx\n", (unsigned long)once, (unsigned long)f0,
	       (unsigned long)handler, (unsigned long)brief, (unsigned long)registers);
	if (limit) {
		f0(limit, 1);
		return 0;
	}
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	struct itimerval often = { { 0, 300 }, { 0, 300 } };
	setitimer(ITIMER_REAL, &often, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	pthread_t threads[4];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, thread, NULL);
	pthread_create(&threads[3], NULL, spawner, NULL);
	printf("ready\n");
	/* Whoever measures knows the threads; here only the calls matter. */
	char word[16];
	while (read(0, word, sizeof(word)) < 0)
		;
	ends = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("rounds %lu wrong %lu\n", rounds, wrong);
	return wrong != 0;
}
