/* A library with a call in it; with -DOTHER another one of the same form. */
__attribute__((noinline, noclone, noipa)) static long part(long n)
{
#ifdef OTHER
	return n * 3 + 7;
#else
	return n * 2;
#endif
}

long work(long n)
{
#ifdef OTHER
	if (n > 100)
		n ^= 0x5a5a;
#endif
	return part(n) + 2;
}
