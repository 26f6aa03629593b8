// SPDX-License-Identifier: Apache-2.0
// Writes a little-endian pcapng file of RoCEv2 writes for the benches: FLOWS queue pairs that take turns in bursts of 1 to 16
// packets, each sending messages of a First, Middles and a Last with immediate data.
// make_capture FILE PACKETS FAMILY PAYLOAD MESSAGE FLOWS: FAMILY is 4 or 6, PAYLOAD bytes a packet (a multiple of 4),
// MESSAGE packets a message.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ETHERNET = 14,
	UDP = 8,
	BTH = 12,
	RETH = 16,
	IMMEDIATE = 4,
	ICRC = 4,
	BLOCK = 28, // bytes of an enhanced packet block before the frame
	LONGEST_PAYLOAD = 4096,
	LONGEST_FLOWS = 1024,
	BURST = 16,
	SPACING_NS = 90,
};

struct options {
	uint64_t packets;
	uint32_t family, payload, message, flows;
};

static void put_be(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, value >>= 8)
		at[i] = (uint8_t)value;
}

static void put_le32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

// Section header and one interface "cap0" with times in nanoseconds.
static void write_head(FILE *out)
{
	static const uint32_t section[] = {0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28};
	static const uint32_t interface[] = {1, 40, 1, 0, 0x00040002, 0x30706163, 0x00010009, 9, 0, 40};

	fwrite(section, sizeof(section), 1, out);
	fwrite(interface, sizeof(interface), 1, out);
}

static uint8_t *put_ip(uint8_t *at, uint32_t family, uint32_t flow, uint32_t udp_length)
{
	if (family == 4) {
		at[0] = 0x45;
		put_be(at + 2, 20 + udp_length, 2);
		at[8] = 64;
		at[9] = 17;
		put_be(at + 12, 0x0a000001 + flow % 4, 4);
		put_be(at + 16, 0x0a000001 + (flow + 1) % 4, 4);
		return at + 20;
	}
	at[0] = 0x60;
	put_be(at + 4, udp_length, 2);
	at[6] = 17;
	at[7] = 64;
	at[8] = at[24] = 0xfd;
	at[23] = (uint8_t)(1 + flow % 4);
	at[39] = (uint8_t)(1 + (flow + 1) % 4);
	return at + 40;
}

// The frame of packet `number` of a flow; returns its length.
static uint32_t put_frame(uint8_t *frame, const struct options *options, uint32_t flow, uint32_t number, uint32_t icrc)
{
	uint32_t place = number % options->message, first = place == 0, last = place + 1 == options->message;
	uint32_t extension = (first ? RETH : 0) + (last ? IMMEDIATE : 0);
	uint32_t length = UDP + BTH + extension + options->payload + ICRC;
	uint8_t *at = frame + ETHERNET;

	memset(frame, 0, ETHERNET + 40 + UDP + BTH + RETH + IMMEDIATE);
	frame[0] = frame[6] = 2;
	put_be(frame + 12, options->family == 4 ? 0x0800 : 0x86dd, 2);
	at = put_ip(at, options->family, flow, length);
	put_be(at, 49152 + flow, 2);
	put_be(at + 2, 4791, 2);
	put_be(at + 4, length, 2);
	at += UDP;
	at[0] = first && last ? 11 : first ? 6 : last ? 9 : 7;
	put_be(at + 5, 0x100 + flow, 3);
	put_be(at + 9, number & 0xffffff, 3);
	if (first)
		put_be(at + BTH + 12, options->message * options->payload, 4);
	at += BTH + extension;
	for (uint32_t i = 0; i < options->payload; i += 4)
		put_le32(at + i, icrc + i);
	put_le32(at + options->payload, icrc);
	return (uint32_t)(at + options->payload + ICRC - frame);
}

static void put_block(FILE *out, uint8_t *block, uint64_t time, uint32_t frame)
{
	uint32_t padded = (frame + 3) & ~3u, length = BLOCK + padded + 4;
	uint32_t head[] = {6, length, 0, (uint32_t)(time >> 32), (uint32_t)time, frame, frame};

	memcpy(block, head, sizeof(head));
	memset(block + BLOCK + frame, 0, padded - frame);
	put_le32(block + BLOCK + padded, length);
	fwrite(block, length, 1, out);
}

static int write_capture(FILE *out, const struct options *options)
{
	static uint8_t block[BLOCK + LONGEST_PAYLOAD + 256];
	static uint32_t sent[LONGEST_FLOWS];
	uint64_t time = UINT64_C(1700000000000000000), state = 1;
	uint32_t flow = 0, left = 0;

	write_head(out);
	for (uint64_t i = 0; i < options->packets; i++, left--) {
		if (left == 0) {
			state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX
			flow = (uint32_t)(state >> 40) % options->flows;
			left = 1 + (uint32_t)(state >> 33) % BURST;
		}
		uint32_t frame = put_frame(block + BLOCK, options, flow, sent[flow]++, (uint32_t)(i * 2654435761u));
		put_block(out, block, time += SPACING_NS, frame);
	}
	return ferror(out);
}

int main(int argc, char **argv)
{
	struct options options;
	FILE *out;
	int bad;

	if (argc != 7)
		return 2;
	options = (struct options){strtoull(argv[2], NULL, 10), (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]),
				   (uint32_t)atoi(argv[5]), (uint32_t)atoi(argv[6])};
	if (options.payload > LONGEST_PAYLOAD || options.flows > LONGEST_FLOWS || options.flows == 0 || options.message == 0)
		return 2;
	out = fopen(argv[1], "wb");
	if (out == NULL)
		return 1;
	bad = write_capture(out, &options);
	return fclose(out) != 0 || bad;
}
