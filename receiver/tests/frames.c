// SPDX-License-Identifier: Apache-2.0
#include "frames.h"

#include <stdlib.h>
#include <string.h>

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	put16(at + 1, value);
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

static void put32_little(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t extension_size(uint8_t opcode)
{
	switch (opcode) {
	case OP_WRITE_FIRST:
	case OP_WRITE_ONLY:
	case OP_READ_REQUEST:
		return 16;
	case OP_WRITE_ONLY_IMM:
		return 20;
	case OP_WRITE_LAST_IMM:
	case OP_ACK:
		return 4;
	case OP_ATOMIC_ACK:
		return 12;
	case OP_FETCH_ADD:
		return 28;
	case 0x64:
		return 8;
	case 0x81:
		return 16;
	default:
		return 0;
	}
}

static uint8_t *put_ip(uint8_t *at, const struct wish *wish, uint32_t udp_length)
{
	if (wish->ipv4) {
		at[0] = 0x45;
		put16(at + 2, 20 + udp_length);
		at[8] = wish->ttl ? wish->ttl : 64;
		at[9] = 17;
		memcpy(at + 12, (uint8_t[]){10, 0, 0, 1, 10, 0, 0, 2}, 8);
		return at + 20;
	}
	at[0] = 0x60;
	put16(at + 4, udp_length);
	at[6] = 17;
	at[7] = wish->ttl ? wish->ttl : 64;
	at[8] = at[24] = 0xfd;
	at[23] = 1;
	at[39] = 2;
	return at + 40;
}

static void put_extension(uint8_t *at, const struct wish *wish)
{
	uint32_t size = extension_size(wish->opcode);

	if (size == 16 || size == 20)
		put32(at + 12, wish->reth_length);
	if (wish->opcode == OP_WRITE_LAST_IMM || wish->opcode == OP_WRITE_ONLY_IMM)
		put32_little(at + size - 4, wish->immediate);
	if (wish->opcode == OP_ACK)
		at[0] = wish->syndrome;
}

void frame_make(struct frame *frame, const struct wish *wish)
{
	uint32_t padding = -wish->payload & 3, extension = extension_size(wish->opcode);
	uint32_t udp_length = 8 + 12 + extension + wish->payload + padding + 4;
	uint8_t *at = frame->data;

	memset(frame, 0, sizeof(*frame));
	memcpy(at, (uint8_t[]){2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, 12);
	at += 12;
	for (int i = 0; i < wish->vlan_tags; i++, at += 4)
		put32(at, 0x81000064);
	put16(at, wish->ipv4 ? 0x0800 : 0x86dd);
	at = put_ip(at + 2, wish, udp_length);
	put16(at, wish->source_port ? wish->source_port : 49152);
	put16(at + 2, 4791);
	put16(at + 4, udp_length);
	at += 8;
	frame->bth = (uint32_t)(at - frame->data);
	at[0] = wish->opcode;
	at[1] = (uint8_t)(padding << 4);
	put16(at + 2, 0xffff);
	put24(at + 5, wish->dest_qp ? wish->dest_qp : 0x11);
	put24(at + 9, wish->psn);
	put_extension(at + 12, wish);
	at += 12 + extension;
	if (wish->payload >= 16) {
		put32_little(at + 4, wish->ll_flag);
		put32_little(at + 12, wish->ll_flag);
	}
	at += wish->payload + padding;
	put32(at, wish->icrc);
	frame->ip_end = (uint32_t)(at + 4 - frame->data);
	frame->size = frame->ip_end + wish->tail;
	memset(frame->data + frame->ip_end, 0xee, wish->tail);
}

enum fck_frame_kind parse_exact(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet
)
{
	static uint8_t *exact;

	free(exact);
	exact = malloc(captured > 0 ? captured : 1);
	assert_non_null(exact);
	if (captured > 0)
		memcpy(exact, data, captured);
	return fck_parse(config, exact, captured, original, packet);
}

struct fck_core *core_make(void)
{
	struct fck_core *core = NULL;

	assert_int_equal(fck_new(NULL, &core), 0);
	assert_int_equal(fck_capture_add(core, "ckpt1:cap0"), 0);
	return core;
}

void core_feed(struct fck_core *core, uint64_t time_ns, const struct wish *wish)
{
	struct frame frame;
	uint8_t *exact;

	frame_make(&frame, wish);
	exact = malloc(frame.size);
	assert_non_null(exact);
	memcpy(exact, frame.data, frame.size);
	assert_int_equal(fck_frame(core, 0, time_ns, exact, frame.size, frame.size), 0);
	free(exact);
}

struct fck_flow core_flow(struct fck_core *core)
{
	struct fck_flow flow;

	assert_int_equal(fck_finish(core), 0);
	assert_int_equal(fck_flow_count(core), 1);
	assert_int_equal(fck_flow_get(core, 0, &flow), 0);
	return flow;
}

void feeder_feed(struct feeder *feeder, uint32_t psn)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .psn = psn, .payload = 100, .reth_length = 100, .icrc = psn};

	feeder->now += feeder->step;
	core_feed(feeder->core, feeder->now, &wish);
}

void feed_all(struct feeder *feeder, const uint32_t *psns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		feeder_feed(feeder, psns[i]);
}

struct feeder feeder_make(void)
{
	return (struct feeder){.core = core_make(), .now = MS, .step = US};
}

uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
	return (uint32_t)(*state >> 33) % below;
}
