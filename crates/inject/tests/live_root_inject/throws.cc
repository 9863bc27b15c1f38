/* Throws through functions whose calls are measured, and checks what arrives, and that all on the way is cleaned up. */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline, noclone, noipa))

static std::atomic<long> wrong, rounds, cleaned;
static volatile bool ends;

struct Cleans {
	~Cleans() { cleaned++; }
};

extern "C" {

NOT_INLINED long throws(long n)
{
	if (n % 3 == 0)
		throw std::runtime_error("it is " + std::to_string(n));
	if (n % 3 == 1)
		throw n;
	return n;
}

NOT_INLINED long passes(long n)
{
	Cleans it;
	return throws(n) + 1;
}

NOT_INLINED long again(long n)
{
	try {
		return passes(n);
	} catch (long &) {
		/* The same one goes on. */
		throw;
	}
}

NOT_INLINED long catches(long n)
{
	try {
		return again(n);
	} catch (const std::exception &it) {
		return it.what() == "it is " + std::to_string(n) ? -1 : -9;
	} catch (long it) {
		return it == n ? -2 : -9;
	}
}

NOT_INLINED void *ends_itself(void *)
{
	Cleans it;
	pthread_exit(nullptr);
}

NOT_INLINED void once(long n)
{
	const long before = cleaned, got = catches(n);
	if (got != (n % 3 == 0 ? -1 : n % 3 == 1 ? -2 : n + 1))
		wrong++, fprintf(stderr, "WRONG: %ld gave %ld\n", n, got);
	(void)before;
	rounds++;
}

NOT_INLINED __attribute__((optimize("no-omit-frame-pointer"))) void f0()
{
	unsigned long pointer;
	__asm__("rdfsbase %0" : "=r"(pointer));
	once(0), once(1), once(2);
	printf("f0 %#lx %#lx\n", pointer, (unsigned long)__builtin_frame_address(0) + 8);
	fflush(stdout);
	for (long n = 0; !ends; n++)
		once(n);
}
}

static void *thread(void *)
{
	f0();
	return nullptr;
}

int main()
{
	setvbuf(stdout, nullptr, _IOLBF, 0);
	printf("f0 %#lx once %#lx catches %#lx again %#lx passes %#lx\n", (unsigned long)f0, (unsigned long)once,
	       (unsigned long)catches, (unsigned long)again, (unsigned long)passes);
	pthread_t threads[2];
	for (auto &it : threads)
		pthread_create(&it, nullptr, thread, nullptr);
	char word;
	while (read(0, &word, 1) < 0)
		;
	ends = true;
	for (auto &it : threads)
		pthread_join(it, nullptr);
	pthread_t last;
	pthread_create(&last, nullptr, ends_itself, nullptr);
	pthread_join(last, nullptr);
	const bool is_clean = cleaned == rounds + 1;
	printf("rounds %ld wrong %ld clean %d\n", rounds.load(), wrong.load(), is_clean);
	return wrong || !is_clean;
}
