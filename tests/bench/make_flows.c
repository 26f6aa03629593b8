// SPDX-License-Identifier: Apache-2.0
// Writes a little-endian pcap file of 82-byte RoCEv2 packets of FLOWS queue pairs, one packet of each flow a round, in each
// round in another order. Messages have 64 packets. make_flows FILE FLOWS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FRAMES = 2560000, // 4 messages of each of 10 000 flows
	FRAME = 82,
	MESSAGE = 64, // packets
	PAYLOAD = 24,
	PSN_AT = 14 + 20 + 8 + 9,
	OPCODE_AT = 14 + 20 + 8,
	QP_AT = 14 + 20 + 8 + 5,
	FIRST = 6,
	MIDDLE = 7,
	LAST = 8,
};

static const uint8_t head[] = {
	2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
	0x45, 2, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
	0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0, // UDP
	0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, // BTH
};

static void put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)value;
}

// Packet `number` of `flow`: messages of 64 packets. A First has 16 bytes less payload, for its RETH.
static void make(uint8_t *frame, uint32_t flow, uint32_t number)
{
	uint32_t place = number % MESSAGE, length = MESSAGE * PAYLOAD - 16;

	memset(frame, 0, FRAME);
	memcpy(frame, head, sizeof(head));
	frame[17] = FRAME - 14;
	frame[39] = FRAME - 14 - 20;
	frame[27 + 1] = (uint8_t)(flow >> 8); // the sender's address: flows of many hosts
	frame[29] = (uint8_t)flow;
	frame[OPCODE_AT] = place == 0 ? FIRST : place == MESSAGE - 1 ? LAST : MIDDLE;
	put24(frame + QP_AT, 0x100 + flow);
	put24(frame + PSN_AT, number & 0xffffff);
	if (place == 0) {
		frame[OPCODE_AT + 12 + 14] = (uint8_t)(length >> 8);
		frame[OPCODE_AT + 12 + 15] = (uint8_t)length;
	}
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % below);
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t *seed)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t other = draw(seed, i), kept = order[i - 1];

		order[i - 1] = order[other];
		order[other] = kept;
	}
}

int main(int argc, char **argv)
{
	uint32_t flows = argc == 3 ? (uint32_t)atoi(argv[2]) : 0, *order;
	const uint32_t file_head[] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
	FILE *out = flows > 0 ? fopen(argv[1], "wb") : NULL;
	uint64_t seed = 1;

	if (out == NULL || FRAMES % flows != 0 || (order = calloc(flows, sizeof(*order))) == NULL)
		return 2;
	fwrite(file_head, sizeof(file_head), 1, out);
	for (uint32_t i = 0; i < flows; i++)
		order[i] = i;
	for (uint32_t i = 0; i < FRAMES; i++) {
		const uint32_t packet_head[] = {1 + i / 1000000, i % 1000000, FRAME, FRAME};
		uint8_t frame[FRAME];

		if (i % flows == 0)
			shuffle(order, flows, &seed);
		make(frame, order[i % flows], i / flows);
		fwrite(packet_head, sizeof(packet_head), 1, out);
		fwrite(frame, sizeof(frame), 1, out);
	}
	free(order);
	return fclose(out) != 0;
}
