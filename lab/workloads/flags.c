/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Command-line flags, alike in all workloads. */
#include "lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *truth_file, *truth_of_hosts_file;

static void usage(FILE *to, const char *program, const struct flag *flags, const char *summary)
{
	fprintf(to, "%s: %s\n\n  --truth FILE  write the expected contributors there, as JSON\n", program, summary);
	for (const struct flag *f = flags; f->name; f++) {
		char name[40];
		snprintf(name, sizeof name, "--%s%s", f->name,
			 f->takes == A_NUMBER ? " N" : f->takes == A_TEXT ? " TEXT" : "");
		if (f->takes == A_NUMBER)
			fprintf(to, "  %-12s  %s (%ld)\n", name, f->help, *(long *)f->value);
		else
			fprintf(to, "  %-12s  %s\n", name, f->help);
	}
}

static long number(const char *program, const char *flag, const char *text)
{
	char *rest;
	long value = strtol(text, &rest, 10);
	if (rest == text || *rest || value < 0 || value > 1000000000) {
		fprintf(stderr, "%s: --%s needs a number from 0 to 1000000000, not `%s`\n", program, flag, text);
		exit(2);
	}
	return value;
}

void flags_read(int argc, char **argv, const struct flag *flags, const char *summary)
{
	for (int i = 1; i < argc; i++) {
		const char *given = argv[i];
		if (!strcmp(given, "--help")) {
			usage(stdout, argv[0], flags, summary);
			exit(0);
		}
		const struct flag *f = flags;
		const char **file = NULL;
		if (!strcmp(given, "--truth"))
			file = &truth_file;
		if (!strcmp(given, "--truth-hosts"))
			file = &truth_of_hosts_file;
		while (!file && f->name && !(given[0] == '-' && given[1] == '-' && !strcmp(given + 2, f->name)))
			f++;
		if (!file && !f->name) {
			fprintf(stderr, "%s: unknown flag `%s`\n", argv[0], given);
			usage(stderr, argv[0], flags, summary);
			exit(2);
		}
		if (!file && f->takes == NOTHING) {
			*(long *)f->value = 1;
			continue;
		}
		if (++i == argc) {
			fprintf(stderr, "%s: `%s` needs a value\n", argv[0], given);
			exit(2);
		}
		if (file)
			*file = argv[i];
		else if (f->takes == A_TEXT)
			*(const char **)f->value = argv[i];
		else
			*(long *)f->value = number(argv[0], f->name, argv[i]);
	}
}
