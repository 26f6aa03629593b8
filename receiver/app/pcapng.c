// SPDX-License-Identifier: Apache-2.0
#include "pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTION 0x0A0D0D0Au
#define INTERFACE 1u
#define STATISTICS 5u
#define PACKET 6u
#define ETHERNET 1u
#define OPTION_NAME 2u
#define OPTION_RESOLUTION 9u
#define OPTION_RECEIVED 4u
#define OPTION_DROPPED 5u

static const uint8_t zeros[4];

static uint32_t padded(uint32_t bytes)
{
	return (bytes + 3) & ~3u;
}

static int write_all(int file, const uint8_t *data, uint64_t bytes)
{
	while (bytes > 0) {
		ssize_t done = write(file, data, bytes);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			data += done;
			bytes -= (uint64_t)done;
		}
	}
	return 0;
}

int pcapng_flush(struct pcapng *pcapng)
{
	int rc = write_all(pcapng->file, pcapng->held, pcapng->held_bytes);

	pcapng->held_bytes = 0;
	return rc;
}

static void put(struct pcapng *pcapng, const void *data, uint32_t bytes)
{
	memcpy(pcapng->held + pcapng->held_bytes, data, bytes);
	pcapng->held_bytes += bytes;
	pcapng->bytes += bytes;
}

// Makes room for a block. -errno.
static int begin(struct pcapng *pcapng, uint32_t kind, uint32_t length)
{
	int rc = pcapng->held_bytes + length > PCAPNG_HELD ? pcapng_flush(pcapng) : 0;

	put(pcapng, &(uint32_t[]){kind, length}, 8);
	return rc;
}

static void put_option(struct pcapng *pcapng, uint16_t code, const void *value, uint32_t bytes)
{
	put(pcapng, &(uint16_t[]){code, (uint16_t)bytes}, 4);
	put(pcapng, value, bytes);
	put(pcapng, zeros, padded(bytes) - bytes);
}

static int put_section(struct pcapng *pcapng)
{
	const struct {
		uint32_t magic;
		uint16_t major, minor;
		int64_t length;
	} section = {.magic = 0x1A2B3C4D, .major = 1, .length = -1};
	const uint32_t length = 12 + sizeof(section);
	int rc = begin(pcapng, SECTION, length);

	put(pcapng, &section, sizeof(section));
	put(pcapng, &length, 4);
	return rc;
}

static int put_interface(struct pcapng *pcapng, const struct pcapng_interface *interface)
{
	const uint32_t name = (uint32_t)strlen(interface->name), length = 12 + 8 + 4 + padded(name) + 4 + 4 + 4;
	const uint8_t nanoseconds = 9;
	int rc = begin(pcapng, INTERFACE, length);

	put(pcapng, &(uint16_t[]){ETHERNET, 0}, 4);
	put(pcapng, zeros, 4); // no snapshot limit
	put_option(pcapng, OPTION_NAME, interface->name, name);
	put_option(pcapng, OPTION_RESOLUTION, &nanoseconds, 1);
	put(pcapng, zeros, 4); // end of the options
	put(pcapng, &length, 4);
	return rc;
}

static void name_of(const struct pcapng *pcapng, uint32_t number, char *name)
{
	const char *slash = strrchr(pcapng->path, '/'), *dot = strrchr(pcapng->path, '.');
	int stem = (int)strlen(pcapng->path);

	if (dot != NULL && (slash == NULL || dot > slash + 1))
		stem = (int)(dot - pcapng->path);
	if (number == 1)
		snprintf(name, PCAPNG_PATH, "%s", pcapng->path);
	else
		snprintf(name, PCAPNG_PATH, "%.*s-%u%s", stem, pcapng->path, number, pcapng->path + stem);
}

static int open_file(struct pcapng *pcapng)
{
	char name[PCAPNG_PATH];
	int rc;

	name_of(pcapng, pcapng->number, name);
	pcapng->file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (pcapng->file < 0)
		return -errno;
	pcapng->bytes = 0;
	rc = put_section(pcapng);
	for (uint32_t i = 0; rc == 0 && i < pcapng->interface_count; i++) {
		pcapng->interfaces[i].packets = 0;
		rc = put_interface(pcapng, &pcapng->interfaces[i]);
	}
	return rc;
}

int pcapng_open(struct pcapng *pcapng)
{
	int rc;

	pcapng->held = malloc(PCAPNG_HELD);
	if (pcapng->held == NULL)
		return -ENOMEM;
	rc = open_file(pcapng);
	return rc == 0 ? pcapng_flush(pcapng) : rc; // a disk that takes nothing is told at once
}

static int next_file(struct pcapng *pcapng)
{
	int rc = pcapng_flush(pcapng);
	char name[PCAPNG_PATH];

	if (close(pcapng->file) != 0 && rc == 0)
		rc = -errno;
	pcapng->file = -1;
	if (rc != 0)
		return rc;
	if (pcapng->keep > 0 && pcapng->number >= pcapng->keep) {
		name_of(pcapng, pcapng->number + 1 - pcapng->keep, name);
		unlink(name);
	}
	pcapng->number++;
	return open_file(pcapng);
}

int pcapng_frame(
	struct pcapng *pcapng, uint32_t interface, uint64_t time_ns, const struct pcapng_part *parts, uint32_t count, uint32_t bytes
)
{
	const uint32_t length = 32 + padded(bytes);
	const uint32_t head[] = {interface, (uint32_t)(time_ns >> 32), (uint32_t)time_ns, bytes, bytes};
	bool full = pcapng->most > 0 && pcapng->interfaces[interface].packets > 0 && pcapng->bytes + length > pcapng->most;
	int rc = full ? next_file(pcapng) : 0;

	if (rc == 0)
		rc = begin(pcapng, PACKET, length);
	if (rc != 0)
		return rc;
	put(pcapng, head, sizeof(head));
	for (uint32_t i = 0; i < count; i++)
		put(pcapng, parts[i].data, parts[i].bytes);
	put(pcapng, zeros, padded(bytes) - bytes);
	put(pcapng, &length, 4);
	pcapng->interfaces[interface].packets++;
	pcapng->interfaces[interface].last = time_ns;
	return 0;
}

int pcapng_dropped(struct pcapng *pcapng, uint32_t interface, uint64_t dropped)
{
	const struct pcapng_interface *found = &pcapng->interfaces[interface];
	const uint32_t length = 12 + 12 + 12 + 12 + 4;
	const uint64_t received = found->packets + dropped;
	int rc = begin(pcapng, STATISTICS, length);

	put(pcapng, &(uint32_t[]){interface, (uint32_t)(found->last >> 32), (uint32_t)found->last}, 12);
	put_option(pcapng, OPTION_RECEIVED, &received, 8);
	put_option(pcapng, OPTION_DROPPED, &dropped, 8);
	put(pcapng, zeros, 4);
	put(pcapng, &length, 4);
	return rc;
}

int pcapng_close(struct pcapng *pcapng)
{
	int rc = pcapng->file < 0 ? 0 : pcapng_flush(pcapng);

	if (pcapng->file >= 0 && close(pcapng->file) != 0 && rc == 0)
		rc = -errno;
	free(pcapng->held);
	return rc;
}
