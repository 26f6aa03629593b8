// SPDX-License-Identifier: Apache-2.0
// The short way through enhanced packet blocks, as nearly all files have them: this machine's byte order, Ethernet, no options.
// What it does with a block is what capfile_pcapng.c does; what is different in any point it leaves to that.
#include "capfile_internal.h"

#define BLOCK_PACKET 6u
#define BLOCK_LEAST 32u   // without packet data
#define PACKET_DATA 28u   // bytes of the block before the packet
#define HEADERS_AHEAD 92u // bytes into the next block where the headers of its packet end: they are wanted next

struct head {
	uint32_t type, length, interface, time_high, time_low, captured, original;
};

// A block that is plain in all but its interface, of which `left` bytes are there.
static inline bool plain(const uint8_t *at, uint64_t left, const struct head *head)
{
	uint32_t again;
	if (head->type != BLOCK_PACKET || head->captured > FCK_MAX_CAPTURED || head->length > left)
		return false;
	if (head->length != BLOCK_LEAST + ((head->captured + 3) & ~3u))
		return false;
	memcpy(&again, at + head->length - 4, sizeof(again));
	return again == head->length;
}

// NULL: not there, not Ethernet, or times that want more than a multiplication.
static struct fck_interface *plain_interface(struct fck_capfile *file, uint32_t number)
{
	struct fck_interface *interface;
	if (number >= file->interface_count - file->section_first)
		return NULL;
	interface = &file->interfaces[file->section_first + number];
	return interface->public.link_type == FCK_LINK_ETHERNET && interface->clock.multiply != 0 ? interface : NULL;
}

int fck_pcapng_plain(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	const uint8_t *at = file->data + file->position, *end = file->data + file->size;
	struct fck_interface *interface = NULL;
	uint64_t packets = file->report.packets;
	uint32_t number = 0;
	int result = FCK_RUN_MORE;
	if (file->swapped || file->sink != NULL)
		return FCK_RUN_MORE;
	while (packets < limit && (uint64_t)(end - at) >= BLOCK_LEAST) {
		struct head head;
		uint64_t time;
		memcpy(&head, at, sizeof(head));
		if (!plain(at, (uint64_t)(end - at), &head))
			break;
		if (interface == NULL || head.interface != number)
			interface = plain_interface(file, number = head.interface);
		if (interface == NULL)
			break;
		__builtin_prefetch(at + head.length + HEADERS_AHEAD);
		time = ((uint64_t)head.time_high << 32 | head.time_low) * interface->clock.multiply + interface->clock.offset;
		packets++;
		interface->public.packets++;
		interface->last_time = time;
		result = fck_frame(core, interface->public.capture, time, at + PACKET_DATA, head.captured, head.original);
		if (result < 0)
			break;
		at += head.length;
	}
	file->report.packets = packets;
	file->position = (uint64_t)(at - file->data);
	return result < 0 ? result : FCK_RUN_MORE;
}
