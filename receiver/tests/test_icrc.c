// SPDX-License-Identifier: Apache-2.0
//
// The invariant CRC against packets that network cards and soft-RoCE sent, with every bit of them turned over.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "icrc.h"

// Acknowledges of samples/rxe/rxe-writebw-v4 (soft-RoCE) and samples/captures/iter_40000_p2p (ConnectX).
static const uint8_t ipv4_ack[] = {
	0x02, 0x00, 0x00, 0x00, 0x09, 0x01, 0x02, 0x00, 0x00, 0x00, 0x09, 0x02, 0x08, 0x00, 0x45, 0x00, 0x00, 0x30, 0x5a, 0x35, 0x40,
	0x00, 0x40, 0x11, 0xcc, 0x73, 0x0a, 0x09, 0x00, 0x02, 0x0a, 0x09, 0x00, 0x01, 0xc8, 0xa1, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00,
	0x11, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x2f, 0x00, 0xff, 0x2a, 0x35, 0x1f, 0x00, 0x00, 0x01, 0xbc, 0x6b, 0x44, 0x1b,
};
static const uint8_t ipv6_ack[] = {
	0x08, 0xc0, 0xeb, 0x8c, 0x28, 0x2d, 0x0c, 0x42, 0xa1, 0x9f, 0x58, 0xf8, 0x86, 0xdd, 0x60, 0x20, 0x00, 0x00, 0x00, 0x1c, 0x11,
	0x40, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0e, 0x42, 0xa1, 0xff, 0xfe, 0x9f, 0x58, 0xf8, 0xfe, 0x80, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x0a, 0xc0, 0xeb, 0xff, 0xfe, 0x8c, 0x28, 0x2d, 0xec, 0xb0, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11,
	0x40, 0xff, 0xff, 0x00, 0x00, 0x06, 0x1a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x88, 0xb8, 0x99, 0x3e,
};

static const struct fck_config plain;

static enum fck_attribute judge(const uint8_t *data, uint32_t captured, uint32_t original)
{
	struct fck_packet packet;
	struct fck_icrc icrc;
	uint8_t *exact = malloc(captured);
	enum fck_attribute found = FCK_ATTRIBUTES;

	assert_non_null(exact);
	memcpy(exact, data, captured);
	fck_icrc_init(&icrc);
	if (fck_parse(&plain, exact, captured, original, &packet) == FCK_FRAME_ROCEV2)
		found = fck_icrc_judge(&icrc, &packet);
	free(exact);
	return found;
}

// The check value of CRC-32/ISO-HDLC, and that any split into pieces gives the same.
TEST(test_crc32)
{
	static const uint8_t text[] = "123456789";
	uint8_t data[64];
	struct fck_icrc icrc;
	uint32_t whole;

	fck_icrc_init(&icrc);
	assert_int_equal(fck_crc32(&icrc, 0, text, 9), 0xcbf43926);
	for (uint32_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37 + 11);
	whole = fck_crc32(&icrc, 0, data, sizeof(data));
	for (uint32_t cut = 0; cut <= sizeof(data); cut++)
		assert_int_equal(fck_crc32(&icrc, fck_crc32(&icrc, 0, data, cut), data + cut, sizeof(data) - cut), whole);
}

// Bits that the ICRC does not cover, by the rule of annex A17, as offsets into the frame.
static bool may_change(uint32_t family, uint32_t byte, uint32_t bit)
{
	uint32_t bth = family == 4 ? 42 : 62;

	if (byte < 14 || byte == bth + 4 || byte == bth - 2 || byte == bth - 1) // addresses, congestion marks, UDP checksum
		return true;
	if (family == 4)
		return byte == 15 || byte == 22 || byte == 24 || byte == 25;
	return byte == 15 || byte == 16 || byte == 17 || byte == 21 || (byte == 14 && bit < 4);
}

static void turn_every_bit(const uint8_t *data, uint32_t size, uint32_t family)
{
	uint32_t valid = 0, bad = 0;

	assert_int_equal(judge(data, size, size), FCK_ATTRIBUTE_ICRC_VALID);
	for (uint32_t i = 0; i < size * 8; i++) {
		uint8_t turned[128];
		enum fck_attribute found;

		memcpy(turned, data, size);
		turned[i / 8] ^= (uint8_t)(1 << i % 8);
		found = judge(turned, size, size);
		if (found == FCK_ATTRIBUTES || found == FCK_ATTRIBUTE_ICRC_UNCHECKED)
			continue; // no RoCE packet any more, or one that cannot be judged
		if (found != (may_change(family, i / 8, i % 8) ? FCK_ATTRIBUTE_ICRC_VALID : FCK_ATTRIBUTE_ICRC_BAD))
			fail_msg("IPv%u, byte %u, bit %u: %s", family, i / 8, i % 8, fck_attribute_name(found));
		valid += found == FCK_ATTRIBUTE_ICRC_VALID;
		bad += found == FCK_ATTRIBUTE_ICRC_BAD;
	}
	assert_true(valid > 80 && bad > 150);
}

TEST(test_every_bit)
{
	turn_every_bit(ipv4_ack, sizeof(ipv4_ack), 4);
	turn_every_bit(ipv6_ack, sizeof(ipv6_ack), 6);
}

TEST(test_what_cannot_be_checked)
{
	uint8_t options[sizeof(ipv4_ack) + 4];

	for (uint32_t captured = 54; captured < sizeof(ipv4_ack); captured++)
		assert_int_equal(judge(ipv4_ack, captured, sizeof(ipv4_ack)), FCK_ATTRIBUTE_ICRC_UNCHECKED);
	memcpy(options, ipv4_ack, 34);
	memset(options + 34, 1, 4);
	memcpy(options + 38, ipv4_ack + 34, sizeof(ipv4_ack) - 34);
	options[14] = 0x46;
	options[17] += 4;
	assert_int_equal(judge(options, sizeof(options), sizeof(options)), FCK_ATTRIBUTE_ICRC_UNCHECKED);
	memcpy(options, ipv4_ack, sizeof(ipv4_ack));
	options[42] = 0xaa; // an opcode of nobody
	assert_int_equal(judge(options, sizeof(ipv4_ack), sizeof(ipv4_ack)), FCK_ATTRIBUTE_ICRC_UNCHECKED);
}

// Bad ones are in no flow; without the check all are.
TEST(test_counting)
{
	for (int check = 0; check < 2; check++) {
		struct fck_config config = {.check_icrc = (uint8_t)check};
		struct fck_capture capture;
		uint8_t spoiled[sizeof(ipv4_ack)];
		struct fck_core *core;
		struct fck_flow flow;

		memcpy(spoiled, ipv4_ack, sizeof(spoiled));
		spoiled[53] ^= 0x40; // PSN
		assert_int_equal(fck_new(&config, &core), 0);
		assert_int_equal(fck_capture_add(core, "x"), 0);
		fck_frame(core, 0, 1, ipv4_ack, sizeof(ipv4_ack), sizeof(ipv4_ack));
		fck_frame(core, 0, 2, spoiled, sizeof(spoiled), sizeof(spoiled));
		fck_frame(core, 0, 3, ipv4_ack, sizeof(ipv4_ack) - 1, sizeof(ipv4_ack));
		fck_capture_get(core, 0, &capture);
		assert_int_equal(capture.frames[FCK_FRAME_ROCEV2], 3);
		assert_int_equal(capture.attributes[FCK_ATTRIBUTE_ICRC_VALID], check);
		assert_int_equal(capture.attributes[FCK_ATTRIBUTE_ICRC_BAD], check);
		assert_int_equal(capture.attributes[FCK_ATTRIBUTE_ICRC_UNCHECKED], check);
		flow = core_flow(core);
		assert_int_equal(flow.packets[FCK_CLASS_ACK], 3 - check);
		fck_free(core);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32),
		cmocka_unit_test(test_every_bit),
		cmocka_unit_test(test_what_cannot_be_checked),
		cmocka_unit_test(test_counting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
