/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The facts for all threads of a process, readable from outside: OpenTelemetry's process context (OTEP 4719), with the service's
 * name and the attribute names in the threads' records (OTEP 4947). C11, gcc and clang, Linux with glibc.
 *
 *   static const char *const keys[] = { "http.request.method", "http.route" };
 *   wakepath_publish("shop", "shop-7", keys, 2);
 *
 * The context is a mapping named in `/proc/PID/maps`: a header with a pointer to a message. It may be published again at any
 * time, by a single thread at a time: the header's time is 0 meanwhile, and another time afterwards, so a reader knows when it
 * has read parts of two. Keys are only ever added: shown records refer to them by their place. A fork's child has none until it
 * publishes its own.
 */
#ifndef WAKEPATH_PROCESS_H
#define WAKEPATH_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The header, as OTEP 4719 lays it out. */
struct wakepath_header {
	char signature[8];
	uint32_t version, bytes;
	volatile uint64_t published; /* ns since boot; 0: it is being written */
	const void *volatile payload;
};
_Static_assert(sizeof(struct wakepath_header) == 32, "the header is 32 bytes");

/* Weak: each including file defines it, and the linker keeps a single copy. */
extern struct wakepath_published {
	struct wakepath_header *header;
	void *payload;
	int process;
} wakepath_published;
__attribute__((weak, visibility("hidden"))) struct wakepath_published wakepath_published;

/* A message in the making; with `to` null its bytes are only counted. */
struct wakepath_message {
	uint8_t *to;
	size_t bytes;
};

static inline void wakepath_put(struct wakepath_message *message, const void *bytes, size_t count)
{
	if (message->to)
		memcpy(message->to + message->bytes, bytes, count);
	message->bytes += count;
}

/* A byte field's head (wire type 2). */
static inline void wakepath_put_head(struct wakepath_message *message, uint8_t field, size_t bytes)
{
	uint8_t head = (uint8_t)(field << 3 | 2), byte;

	wakepath_put(message, &head, 1);
	do {
		byte = (uint8_t)((bytes & 0x7f) | (bytes > 0x7f ? 0x80 : 0));
		wakepath_put(message, &byte, 1);
		bytes >>= 7;
	} while (bytes);
}

static inline void wakepath_put_text(struct wakepath_message *message, uint8_t field, const char *text)
{
	wakepath_put_head(message, field, strlen(text));
	wakepath_put(message, text, strlen(text));
}

/* A field's size, bytes, if its content has this size. */
static inline size_t wakepath_field_bytes(size_t bytes)
{
	struct wakepath_message counted = { NULL, 0 };

	wakepath_put_head(&counted, 1, bytes);
	return counted.bytes + bytes;
}

/* An attribute with a text: a key, and a value with field 1. */
static inline void wakepath_put_attribute(struct wakepath_message *message, uint8_t field, const char *key, const char *text)
{
	size_t value = wakepath_field_bytes(strlen(text));

	wakepath_put_head(message, field, wakepath_field_bytes(strlen(key)) + wakepath_field_bytes(value));
	wakepath_put_text(message, 1, key);
	wakepath_put_head(message, 2, value);
	wakepath_put_text(message, 1, text);
}

/* The resource (field 1), then the process's attributes (field 2). */
static inline void wakepath_put_context(struct wakepath_message *message, const char *service, const char *instance,
					const char *const *keys, size_t count)
{
	static const char map[] = "threadlocal.attribute_key_map";
	struct wakepath_message resource = { NULL, 0 };
	size_t names = 0, array;

	wakepath_put_attribute(&resource, 1, "service.name", service);
	if (instance)
		wakepath_put_attribute(&resource, 1, "service.instance.id", instance);
	wakepath_put_head(message, 1, resource.bytes);
	wakepath_put_attribute(message, 1, "service.name", service);
	if (instance)
		wakepath_put_attribute(message, 1, "service.instance.id", instance);
	wakepath_put_attribute(message, 2, "threadlocal.schema_version", "tls_v1");
	for (size_t i = 0; i < count; i++)
		names += wakepath_field_bytes(wakepath_field_bytes(strlen(keys[i])));
	/* A value with field 5, an array of values. */
	array = wakepath_field_bytes(names);
	wakepath_put_head(message, 2, wakepath_field_bytes(sizeof(map) - 1) + wakepath_field_bytes(array));
	wakepath_put_text(message, 1, map);
	wakepath_put_head(message, 2, array);
	wakepath_put_head(message, 5, names);
	for (size_t i = 0; i < count; i++) {
		wakepath_put_head(message, 1, wakepath_field_bytes(strlen(keys[i])));
		wakepath_put_text(message, 1, keys[i]);
	}
}

/* A mapping with the readers' name; null if neither a file in memory nor a name is available. */
static inline struct wakepath_header *wakepath_map_header(void)
{
	int flags = MAP_PRIVATE, file = (int)syscall(SYS_memfd_create, "OTEL_CTX", 1u /* MFD_CLOEXEC */);
	void *mapped;

	if (file >= 0 && ftruncate(file, 4096)) {
		close(file);
		file = -1;
	}
	if (file < 0)
		flags |= MAP_ANONYMOUS;
	mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, file, 0);
	if (file >= 0)
		close(file);
	if (mapped == MAP_FAILED)
		return NULL;
	/* PR_SET_VMA, PR_SET_VMA_ANON_NAME; a file mapping has its name already. */
	if ((prctl(0x53564d41, 0, mapped, 4096, "OTEL_CTX") && file < 0) || madvise(mapped, 4096, MADV_DONTFORK)) {
		munmap(mapped, 4096);
		return NULL;
	}
	return (struct wakepath_header *)mapped;
}

/*
 * Publishes this service, its instance (may be null) and these keys, or publishes them anew. Returns 1; or 0, and changes
 * nothing, if memory is short or the mapping cannot have its name.
 */
static inline int wakepath_publish(const char *service, const char *instance, const char *const *keys, size_t count)
{
	struct wakepath_published *known = &wakepath_published;
	struct wakepath_message counted = { NULL, 0 }, message = { NULL, 0 };
	struct wakepath_header *header;
	struct timespec now;
	uint64_t ns;

	/* A parent's mapping is not in its child. */
	if (known->process != getpid())
		known->header = NULL;
	header = known->header ? known->header : wakepath_map_header();
	wakepath_put_context(&counted, service, instance, keys, count);
	message.to = (uint8_t *)malloc(counted.bytes);
	if (!header || !message.to) {
		if (header && !known->header)
			munmap(header, 4096);
		free(message.to);
		return 0;
	}
	wakepath_put_context(&message, service, instance, keys, count);
	clock_gettime(CLOCK_BOOTTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (ns <= header->published)
		ns = header->published + 1;
	header->published = 0;
	atomic_thread_fence(memory_order_seq_cst);
	header->version = 2;
	header->bytes = (uint32_t)message.bytes;
	header->payload = message.to;
	atomic_thread_fence(memory_order_seq_cst);
	header->published = ns;
	atomic_thread_fence(memory_order_seq_cst);
	memcpy(header->signature, "OTEL_CTX", sizeof header->signature);
	/* A reader still at work sees another time afterwards. */
	if (known->header)
		free(known->payload);
	known->header = header;
	known->payload = message.to;
	known->process = getpid();
	return 1;
}

#endif
