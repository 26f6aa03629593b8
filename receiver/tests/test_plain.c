// SPDX-License-Identifier: Apache-2.0
//
// The short way through the parser against the long one: packets of every opcode, each byte of their headers changed, cut at
// every byte. What the short way takes must be the same packet.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "plain.h"

static const struct fck_config any;

static void assert_same(const struct fck_packet *plain, const struct fck_packet *packet)
{
	assert_memory_equal(plain->key.source, packet->key.source, 16);
	assert_memory_equal(plain->key.destination, packet->key.destination, 16);
	assert_int_equal(plain->key.dest_qp, packet->key.dest_qp);
	assert_int_equal(plain->key.family, packet->key.family);
	assert_int_equal(plain->attributes, packet->attributes);
	assert_memory_equal(&plain->info, &packet->info, sizeof(packet->info));
	assert_int_equal(plain->opcode, packet->opcode);
	assert_int_equal(plain->truncated, packet->truncated);
	assert_int_equal(plain->has_reth, packet->has_reth);
	assert_int_equal(plain->has_icrc, packet->has_icrc);
	assert_int_equal(plain->psn, packet->psn);
	assert_int_equal(plain->length, packet->length);
	assert_int_equal(plain->reth_length, packet->reth_length);
	assert_int_equal(plain->address, packet->address);
	assert_int_equal(plain->icrc, packet->icrc);
	assert_int_equal(plain->immediate, packet->immediate);
	assert_ptr_equal(plain->ip, packet->ip);
	assert_ptr_equal(plain->bth, packet->bth);
	assert_ptr_equal(plain->icrc_at, packet->icrc_at);
	assert_ptr_equal(plain->payload, packet->payload);
	assert_int_equal(plain->payload_captured, packet->payload_captured);
	assert_int_equal(plain->outer_count, packet->outer_count);
}

// 1: plain, and the same; 0: left to the long way.
static int compare(const struct fck_config *config, const uint8_t *data, uint32_t captured, uint32_t original)
{
	struct fck_packet plain, packet;
	uint8_t *exact = malloc(captured > 0 ? captured : 1);
	int found;

	assert_non_null(exact);
	memcpy(exact, data, captured);
	memset(&plain, 0x5a, sizeof(plain)); // what the short way forgets to write shows
	found = fck_parse_plain(config, exact, captured, 7, &plain);
	if (found) {
		assert_int_equal(plain.key.capture, 7);
		assert_int_equal(fck_parse(config, exact, captured, original, &packet), FCK_FRAME_ROCEV2);
		assert_same(&plain, &packet);
	}
	free(exact);
	return found;
}

static struct frame frame_of(int opcode, bool ipv4, uint32_t payload, int tags)
{
	struct wish wish = {.opcode = (uint8_t)opcode, .psn = 0xfedcba, .payload = payload, .reth_length = 32 + payload, .ipv4 = ipv4,
			    .immediate = 0x01020304, .syndrome = 0x65, .icrc = 0x89abcdef, .ll_flag = 5, .vlan_tags = tags, .tail = 6};
	struct frame frame;

	frame_make(&frame, &wish);
	return frame;
}

TEST(test_every_opcode)
{
	int plain = 0;

	for (int opcode = 0; opcode < 256; opcode++)
		for (int ipv4 = 0; ipv4 < 2; ipv4++)
			for (uint32_t payload = 0; payload < 70; payload += 23) {
				struct frame frame = frame_of(opcode, ipv4, payload, 0);

				plain += compare(&any, frame.data, frame.size, frame.size);
			}
	assert_in_range(plain, 256 * 2 * 3, 256 * 2 * 4); // payloads too short for the opcode's headers are malformed
}

TEST(test_ordinary_packets_are_plain)
{
	static const struct fck_config trimming = {.trimmed_dscp = 5};

	for (int ipv4 = 0; ipv4 < 2; ipv4++) {
		struct frame frame = frame_of(OP_WRITE_MIDDLE, ipv4, 1024, 0), tagged = frame_of(OP_WRITE_MIDDLE, ipv4, 1024, 1);

		assert_int_equal(compare(&any, frame.data, frame.size, frame.size), 1);
		assert_int_equal(compare(&any, frame.data, frame.size, frame.size + 4), 1); // the FCS was not captured
		assert_int_equal(compare(&any, frame.data, frame.ip_end, frame.ip_end), 1);
		assert_int_equal(compare(&any, frame.data, frame.ip_end - 1, frame.ip_end), 0);
		assert_int_equal(compare(&any, tagged.data, tagged.size, tagged.size), 0);
		assert_int_equal(compare(&trimming, frame.data, frame.size, frame.size), 0);
	}
}

static void change_every_byte(struct frame *frame)
{
	static const uint8_t masks[] = {0x01, 0x02, 0x03, 0x04, 0x0f, 0x10, 0x20, 0x40, 0x80, 0xf0, 0xff};

	for (uint32_t at = 0; at < frame->bth + 32; at++)
		for (size_t i = 0; i < sizeof(masks); i++) {
			frame->data[at] ^= masks[i];
			compare(&any, frame->data, frame->size, frame->size);
			frame->data[at] ^= masks[i];
		}
}

TEST(test_every_byte_changed_and_every_cut)
{
	static const int opcodes[] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM, OP_ACK, 0x64, 0x81};

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++)
		for (int ipv4 = 0; ipv4 < 2; ipv4++) {
			struct frame frame = frame_of(opcodes[i], ipv4, 40, 0);

			change_every_byte(&frame);
			for (uint32_t captured = 0; captured < frame.size; captured++) {
				assert_int_equal(compare(&any, frame.data, captured, frame.size), captured >= frame.ip_end);
				compare(&any, frame.data, captured, captured);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_opcode),
		cmocka_unit_test(test_ordinary_packets_are_plain),
		cmocka_unit_test(test_every_byte_changed_and_every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
