// SPDX-License-Identifier: Apache-2.0
// The pcapng format (draft-ietf-opsawg-pcapng): blocks, each with its length before and after its body. A section
// header sets the byte order of what follows and starts a new list of interfaces.
#include "capfile_internal.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_SECTION 0x0a0d0d0au // a palindrome: reads the same in both byte orders
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET_OBSOLETE 2u
#define BLOCK_PACKET_SIMPLE 3u
#define BLOCK_STATISTICS 5u
#define BLOCK_PACKET 6u

#define BLOCK_FRAME 12u   // type, length, length again
#define SECTION_LEAST 28u // magic, version, section length
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
// A block with one packet of the greatest length and generous options stays far below this.
#define BLOCK_LONGEST (64u * 1024 * 1024)

#define OPTION_END 0u
#define OPTION_IF_NAME 2u
#define OPTION_IF_TSRESOL 9u
#define OPTION_IF_TSOFFSET 14u
#define OPTION_PACKET_DROPCOUNT 4u
#define OPTION_STATISTICS_IFDROP 5u
#define OPTION_STATISTICS_OSDROP 7u

#define NANOSECONDS UINT64_C(1000000000)

// A walk over the options of a block. Ends by itself at the end marker and at anything that does not fit.
struct option_walk {
	const struct fck_capfile *file;
	const uint8_t *at;
	const uint8_t *end;
	uint16_t code;
	uint16_t length;
	const uint8_t *value;
};

static bool option_next(struct option_walk *walk)
{
	if (walk->end - walk->at < 4)
		return false;
	walk->code = fck_get16(walk->file, walk->at);
	walk->length = fck_get16(walk->file, walk->at + 2);
	walk->value = walk->at + 4;
	uint32_t padded = (walk->length + 3u) & ~3u;
	if (walk->code == OPTION_END || walk->end - walk->value < padded)
		return false;
	walk->at = walk->value + padded;
	return true;
}

// The body of a block, without the two lengths and the type.
struct block {
	const uint8_t *body;
	uint32_t length;
};

static int corrupt(struct fck_capfile *file, const char *reason)
{
	return fck_capfile_stop(file, FCK_FILE_CORRUPT, reason);
}

static void clock_set(struct fck_clock *clock, uint8_t resolution)
{
	*clock = (struct fck_clock){.offset = clock->offset};
	if (resolution & 0x80) {
		clock->shift = resolution & 0x7f;
		return;
	}
	uint64_t scale = 1;
	uint32_t steps = resolution <= 9 ? 9u - resolution : resolution - 9u;
	for (uint32_t i = 0; i < steps; i++) // 10^20 does not fit, and makes every time 0
		scale = scale > UINT64_MAX / 10 ? UINT64_MAX : scale * 10;
	if (resolution <= 9)
		clock->multiply = scale;
	else
		clock->divide = scale;
}

static uint64_t clock_read(const struct fck_clock *clock, uint64_t ticks)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t time;
	if (clock->multiply != 0)
		time = ticks * clock->multiply;
	else if (clock->divide != 0)
		time = ticks / clock->divide;
	else
		time = (uint64_t)(((wide)ticks * NANOSECONDS) >> clock->shift);
	return time + clock->offset;
}

static int section(struct fck_capfile *file, struct block block)
{
	if (block.length < SECTION_LEAST - BLOCK_FRAME)
		return corrupt(file, "a section header is too short");
	if (fck_get16(file, block.body + 4) != 1)
		return corrupt(file, "a section header has a version that is not 1.x");
	file->section_first = file->interface_count;
	return FCK_RUN_MORE;
}

// Keeps a copy, since what is read moves on. The last name of several holds. False: no memory.
static bool name_set(struct fck_interface *interface, const uint8_t *name, uint16_t length)
{
	char *copy = malloc(length > 0 ? length : 1u);
	if (copy == NULL)
		return false;
	memcpy(copy, name, length);
	free(interface->name);
	interface->public.name = interface->name = copy;
	interface->public.name_length = length;
	return true;
}

static int interface_description(struct fck_capfile *file, struct block block)
{
	if (block.length < 8)
		return corrupt(file, "an interface description is too short");
	struct fck_interface *interface = fck_capfile_add_interface(file);
	if (interface == NULL)
		return -ENOMEM;
	interface->public.link_type = fck_get16(file, block.body);
	interface->snaplen = fck_get32(file, block.body + 4);
	clock_set(&interface->clock, 6);
	struct option_walk walk = {.file = file, .at = block.body + 8, .end = block.body + block.length};
	while (option_next(&walk)) {
		if (walk.code == OPTION_IF_NAME) {
			if (!name_set(interface, walk.value, walk.length))
				return -ENOMEM;
		} else if (walk.code == OPTION_IF_TSRESOL && walk.length == 1) {
			clock_set(&interface->clock, walk.value[0]);
		} else if (walk.code == OPTION_IF_TSOFFSET && walk.length == 8) {
			interface->clock.offset = fck_get64(file, walk.value) * NANOSECONDS;
		}
	}
	return FCK_RUN_INTERFACE;
}

// Interface `number` of this section; NULL if it was never described.
static struct fck_interface *find_interface(struct fck_capfile *file, uint32_t number)
{
	if (number >= file->interface_count - file->section_first)
		return NULL;
	return &file->interfaces[file->section_first + number];
}

// Packet data at `offset` of the body.
static int deliver(
	struct fck_capfile *file, struct fck_core *core, struct fck_interface *interface, struct block block,
	uint32_t offset, uint32_t captured, uint32_t original, uint64_t time
)
{
	if (captured > FCK_MAX_CAPTURED || captured > block.length - offset)
		return corrupt(file, "a packet block says it holds more bytes than it has");
	int error = fck_capfile_deliver(file, core, interface, time, block.body + offset, captured, original);
	return error < 0 ? error : FCK_RUN_MORE;
}

// A packet's own drop count says how many were lost just before it. A statistics block, where there is one, says more.
static void add_drops(struct fck_interface *interface, uint64_t drops)
{
	if (interface->statistics)
		return;
	interface->public.drops_known = 1;
	interface->public.drops += drops;
}

static int packet_enhanced(struct fck_capfile *file, struct fck_core *core, struct block block)
{
	if (block.length < 20)
		return corrupt(file, "a packet block is too short");
	struct fck_interface *interface = find_interface(file, fck_get32(file, block.body));
	if (interface == NULL)
		return corrupt(file, "a packet block names an interface that was not described");
	uint64_t ticks = (uint64_t)fck_get32(file, block.body + 4) << 32 | fck_get32(file, block.body + 8);
	uint32_t captured = fck_get32(file, block.body + 12);
	uint32_t original = fck_get32(file, block.body + 16);
	int result = deliver(file, core, interface, block, 20, captured, original, clock_read(&interface->clock, ticks));
	if (result != FCK_RUN_MORE)
		return result;
	uint32_t used = 20 + ((captured + 3) & ~3u);
	if (used >= block.length)
		return FCK_RUN_MORE;
	struct option_walk walk = {.file = file, .at = block.body + used, .end = block.body + block.length};
	while (option_next(&walk))
		if (walk.code == OPTION_PACKET_DROPCOUNT && walk.length == 8)
			add_drops(interface, fck_get64(file, walk.value));
	return FCK_RUN_MORE;
}

static int packet_obsolete(struct fck_capfile *file, struct fck_core *core, struct block block)
{
	if (block.length < 20)
		return corrupt(file, "a packet block is too short");
	struct fck_interface *interface = find_interface(file, fck_get16(file, block.body));
	if (interface == NULL)
		return corrupt(file, "a packet block names an interface that was not described");
	uint16_t drops = fck_get16(file, block.body + 2);
	if (drops != 0xffff) // which means "not counted"
		add_drops(interface, drops);
	uint64_t ticks = (uint64_t)fck_get32(file, block.body + 4) << 32 | fck_get32(file, block.body + 8);
	uint32_t captured = fck_get32(file, block.body + 12);
	uint32_t original = fck_get32(file, block.body + 16);
	return deliver(file, core, interface, block, 20, captured, original, clock_read(&interface->clock, ticks));
}

// Belongs to the section's first interface and has no time: the one before it is the best guess.
static int packet_simple(struct fck_capfile *file, struct fck_core *core, struct block block)
{
	if (block.length < 4)
		return corrupt(file, "a packet block is too short");
	struct fck_interface *interface = find_interface(file, 0);
	if (interface == NULL)
		return corrupt(file, "a simple packet block without any interface description");
	uint32_t original = fck_get32(file, block.body);
	uint32_t captured = original;
	if (interface->snaplen != 0 && captured > interface->snaplen)
		captured = interface->snaplen;
	return deliver(file, core, interface, block, 4, captured, original, interface->last_time);
}

// The counts run from the start of the capture, so the last block of an interface holds.
static int statistics(struct fck_capfile *file, struct block block)
{
	if (block.length < 12)
		return corrupt(file, "an interface statistics block is too short");
	struct fck_interface *interface = find_interface(file, fck_get32(file, block.body));
	if (interface == NULL)
		return corrupt(file, "a statistics block names an interface that was not described");
	uint64_t drops = 0;
	bool known = false;
	struct option_walk walk = {.file = file, .at = block.body + 12, .end = block.body + block.length};
	while (option_next(&walk)) {
		if ((walk.code == OPTION_STATISTICS_IFDROP || walk.code == OPTION_STATISTICS_OSDROP) && walk.length == 8) {
			drops += fck_get64(file, walk.value);
			known = true;
		}
	}
	if (known) {
		interface->statistics = true;
		interface->public.drops_known = 1;
		interface->public.drops = drops;
	}
	return FCK_RUN_MORE;
}

static int dispatch(struct fck_capfile *file, struct fck_core *core, uint32_t type, struct block block)
{
	switch (type) {
	case BLOCK_PACKET:
		return packet_enhanced(file, core, block);
	case BLOCK_PACKET_SIMPLE:
		return packet_simple(file, core, block);
	case BLOCK_PACKET_OBSOLETE:
		return packet_obsolete(file, core, block);
	case BLOCK_INTERFACE:
		return interface_description(file, block);
	case BLOCK_STATISTICS:
		return statistics(file, block);
	case BLOCK_SECTION:
		return section(file, block);
	default: // name resolution, comments, secrets, custom blocks: no packets in them
		return FCK_RUN_MORE;
	}
}

// The byte order of the section that starts at `start` (at least 12 bytes). False: neither order.
static bool section_order(struct fck_capfile *file, const uint8_t *start)
{
	uint32_t magic;
	memcpy(&magic, start + 8, sizeof(magic));
	file->swapped = magic == __builtin_bswap32(BYTE_ORDER_MAGIC);
	return file->swapped || magic == BYTE_ORDER_MAGIC;
}

static int read_block(struct fck_capfile *file, struct fck_core *core)
{
	uint64_t left = file->size - file->position;
	const uint8_t *start = file->data + file->position;
	if (left == 0)
		return fck_capfile_stop(file, FCK_FILE_WHOLE, NULL);
	if (left < BLOCK_FRAME)
		return fck_capfile_stop(file, FCK_FILE_TRUNCATED, "the header of a block is cut");
	uint32_t type = fck_get32(file, start);
	if (type == BLOCK_SECTION && !section_order(file, start))
		return corrupt(file, "a section header without a byte-order magic");
	uint32_t length = fck_get32(file, start + 4);
	if (length < BLOCK_FRAME || length % 4 != 0 || length > BLOCK_LONGEST)
		return corrupt(file, "a block has an impossible length");
	if (left < length)
		return fck_capfile_stop(file, FCK_FILE_TRUNCATED, "a block is cut");
	if (fck_get32(file, start + length - 4) != length)
		return corrupt(file, "the two lengths of a block differ");
	int result = dispatch(file, core, type, (struct block){start + 8, length - BLOCK_FRAME});
	if (result >= 0 && !file->ended)
		file->position += length;
	return result;
}

int fck_pcapng_step(struct fck_capfile *file, struct fck_core *core, uint64_t limit)
{
	int result;
	do {
		result = fck_pcapng_plain(file, core, limit);
		if (result == FCK_RUN_MORE && file->report.packets < limit)
			result = read_block(file, core);
	} while (result == FCK_RUN_MORE && file->report.packets < limit);
	return result;
}

bool fck_pcapng_probe(struct fck_capfile *file)
{
	uint32_t type;
	memcpy(&type, file->data, sizeof(type));
	if (type != BLOCK_SECTION)
		return false;
	if (file->size < BLOCK_FRAME) {
		fck_capfile_stop(file, FCK_FILE_TRUNCATED, "the file header is cut");
		return true;
	}
	if (!section_order(file, file->data)) {
		fck_capfile_stop(file, FCK_FILE_FOREIGN, NULL);
		return true;
	}
	file->step = fck_pcapng_step;
	return true;
}
