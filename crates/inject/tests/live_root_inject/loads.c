/* Loads and unloads libraries when it is asked: `l FILE`, `c` calls into the one that is loaded, `u`. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char line[4096];
	void *library = NULL;
	long (*work)(long) = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("main %#lx\n", (unsigned long)main);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == 'l') {
			library = dlopen(line + 2, RTLD_NOW);
			work = library ? (long (*)(long))dlsym(library, "work") : NULL;
			printf("work %#lx\n", (unsigned long)work);
		} else if (line[0] == 'u') {
			printf("closed %d\n", dlclose(library));
		} else {
			printf("gives %ld\n", work(20));
		}
	}
	return 0;
}
