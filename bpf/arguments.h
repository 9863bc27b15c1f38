/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The words with which a program was started, on their way to user space, which finds the script's name in them:
 * crates/process/src/script.rs. Reading them here, at the exec, sees processes that end before anybody opens their files
 * in /proc, and words that the process has not overwritten yet. The words may be passwords: this record's number is one
 * that the writer of recordings refuses, so that none gets onto a disk.
 */
#ifndef WAKEPATH_ARGUMENTS_H
#define WAKEPATH_ARGUMENTS_H

#include "records.h"

#define WP_EXEC_ARGUMENTS 62

#define WP_PROGRAM_BYTES 32
/* The room for words: most programs have few, and Java's search paths are long. */
#define WP_FEW_ARGUMENT_BYTES 512
#define WP_ARGUMENT_BYTES 4096

struct wp_exec_arguments {
	struct wp_header h;
	__u32 tgid;
	__u32 length; /* of the words, bytes */
	__u32 uid; /* the process's user */
	__u32 euid; /* the user whose rights the program has */
	__u8 program[WP_PROGRAM_BYTES]; /* the last component of the program file's path, NUL-padded */
	__u8 words[]; /* the first bytes; each word ends with a NUL, a cut last word does not */
};
_Static_assert(sizeof(struct wp_exec_arguments) == 64, "exec_arguments");

#endif
