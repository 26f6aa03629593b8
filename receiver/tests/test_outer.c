// SPDX-License-Identifier: Apache-2.0
//
// Tunnels: every form of outer header written out in bytes around the same RoCE packet, which must come out the same.
#include "outers.h"

#include <string.h>

#define KEY_7 0, 0, 0, 7
#define SEQUENCE_9 0, 0, 0, 9
#define CHECKSUM 0xab, 0xcd, 0, 0
// As in tcpdump's sample of type II: VLAN 342, COS 6, session 666, index 32760.
#define ERSPAN2_666 0x11, 0x56, 0xc2, 0x9a, 0, 0, 0x7f, 0xf8
// As in tcpdump's sample of type III: VLAN 20, session 0, timestamp, no group tag, granularity 3. Then with session 5.
#define ERSPAN3_0 0x20, 0x14, 0, 0, 0xa3, 0x59, 0x5b, 0xff, 0, 0, 0, 6
#define ERSPAN3_5 0x20, 0x14, 0, 5, 0xa3, 0x59, 0x5b, 0xff, 0, 0, 0, 6
// As in Zeek's sample of type III with a platform header: port 3.
#define ERSPAN3_SUBHEADER 0x20, 0x0a, 0, 0, 0x70, 0x50, 0x7e, 0x55, 0, 0, 0, 7, 0x0c, 0, 0, 3, 0x15, 0xf7, 0x42, 0xe8
#define SPECTRUM_22 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22

static const struct row rows[] = {
	{"bridged", BYTES(0, 0, 0x65, 0x58), FCK_TUNNEL_GRE, -1, -1, 0},
	{"bridged, checksum", BYTES(0x80, 0, 0x65, 0x58, CHECKSUM), FCK_TUNNEL_GRE, -1, -1, 0},
	{"bridged, key", BYTES(0x20, 0, 0x65, 0x58, KEY_7), FCK_TUNNEL_GRE, 7, -1, 0},
	{"bridged, sequence", BYTES(0x10, 0, 0x65, 0x58, SEQUENCE_9), FCK_TUNNEL_GRE, -1, 9, 0},
	{"bridged, checksum and key", BYTES(0xa0, 0, 0x65, 0x58, CHECKSUM, KEY_7), FCK_TUNNEL_GRE, 7, -1, 0},
	{"bridged, checksum and sequence", BYTES(0x90, 0, 0x65, 0x58, CHECKSUM, SEQUENCE_9), FCK_TUNNEL_GRE, -1, 9, 0},
	{"bridged, key and sequence", BYTES(0x30, 0, 0x65, 0x58, KEY_7, SEQUENCE_9), FCK_TUNNEL_GRE, 7, 9, 0},
	{"bridged, all words", BYTES(0xb0, 0, 0x65, 0x58, CHECKSUM, KEY_7, SEQUENCE_9), FCK_TUNNEL_GRE, 7, 9, 0},
	{"largest key", BYTES(0x20, 0, 0x65, 0x58, 0xff, 0xff, 0xff, 0xff), FCK_TUNNEL_GRE, 0xffffffff, -1, 0},
	{"ERSPAN I", BYTES(0, 0, 0x88, 0xbe), FCK_TUNNEL_ERSPAN1, -1, -1, 0},
	{"ERSPAN I, checksum and key", BYTES(0xa0, 0, 0x88, 0xbe, CHECKSUM, KEY_7), FCK_TUNNEL_ERSPAN1, 7, -1, 0},
	{"ERSPAN II", BYTES(0x10, 0, 0x88, 0xbe, SEQUENCE_9, ERSPAN2_666), FCK_TUNNEL_ERSPAN2, 666, 9, 0},
	{"ERSPAN II, all words", BYTES(0xb0, 0, 0x88, 0xbe, CHECKSUM, KEY_7, SEQUENCE_9, ERSPAN2_666), FCK_TUNNEL_ERSPAN2, 666, 9, 0},
	{"ERSPAN II, truncated, session 1023", BYTES(0x10, 0, 0x88, 0xbe, SEQUENCE_9, 0x10, 0, 0x07, 0xff, 0, 0, 0, 0),
	 FCK_TUNNEL_ERSPAN2, 1023, 9, FCK_ATTRIBUTE(ERSPAN_TRUNCATED)},
	{"ERSPAN II, the bits before T", BYTES(0x10, 0, 0x88, 0xbe, SEQUENCE_9, 0x10, 0, 0xf8, 0, 0, 0, 0, 0), FCK_TUNNEL_ERSPAN2, 0, 9, 0},
	{"ERSPAN III", BYTES(0, 0, 0x22, 0xeb, ERSPAN3_0), FCK_TUNNEL_ERSPAN3, 0, -1, 0},
	{"ERSPAN III, sequence", BYTES(0x10, 0, 0x22, 0xeb, SEQUENCE_9, ERSPAN3_5), FCK_TUNNEL_ERSPAN3, 5, 9, 0},
	{"ERSPAN III, subheader", BYTES(0, 0, 0x22, 0xeb, ERSPAN3_SUBHEADER), FCK_TUNNEL_ERSPAN3, 0, -1, 0},
	{"ERSPAN III, all words, subheader", BYTES(0xb0, 0, 0x22, 0xeb, CHECKSUM, KEY_7, SEQUENCE_9, ERSPAN3_SUBHEADER),
	 FCK_TUNNEL_ERSPAN3, 0, 9, 0},
	{"ERSPAN III under the older type", BYTES(0x10, 0, 0x88, 0xbe, SEQUENCE_9, ERSPAN3_5), FCK_TUNNEL_ERSPAN3, 5, 9, 0},
	{"ERSPAN III, truncated, bad frame", BYTES(0, 0, 0x22, 0xeb, 0x20, 0, 0x1c, 1, 0, 0, 0, 0, 0, 0, 0, 0), FCK_TUNNEL_ERSPAN3, 1, -1,
	 FCK_ATTRIBUTE(ERSPAN_TRUNCATED) | FCK_ATTRIBUTE(ERSPAN_BAD_FRAME)},
	{"ERSPAN III, oversized is not bad", BYTES(0, 0, 0x22, 0xeb, 0x20, 0, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0), FCK_TUNNEL_ERSPAN3, 1, -1, 0},
	{"Spectrum, frame at once", BYTES(0, 0, 0x89, 0x49), FCK_TUNNEL_GRE, -1, -1, 0},
	{"Spectrum, 22 bytes", BYTES(0, 0, 0x89, 0x49, SPECTRUM_22), FCK_TUNNEL_GRE, -1, -1, 0},
	{"Spectrum, ERSPAN II", BYTES(0x10, 0, 0x89, 0x49, SEQUENCE_9, ERSPAN2_666), FCK_TUNNEL_ERSPAN2, 666, 9, 0},
	{"user-set, frame at once", BYTES(0x20, 0, 0x12, 0x34, KEY_7), FCK_TUNNEL_GRE, 7, -1, 0},
	{"user-set, ERSPAN III, subheader", BYTES(0, 0, 0x43, 0x21, ERSPAN3_SUBHEADER), FCK_TUNNEL_ERSPAN3, 0, -1, 0},
};

static void assert_same_packet(const char *what, const struct fck_packet *packet, const struct fck_packet *bare)
{
	if (packet->opcode != bare->opcode || packet->psn != bare->psn || packet->length != bare->length ||
	    packet->icrc != bare->icrc || packet->has_icrc != bare->has_icrc || packet->reth_length != bare->reth_length ||
	    packet->immediate != bare->immediate || fck_ll_flag(packet) != fck_ll_flag(bare) || packet->truncated != bare->truncated ||
	    memcmp(&packet->key, &bare->key, sizeof(bare->key)) != 0)
		fail_msg("%s: another packet came out than went in", what);
}

TEST(test_every_header_gives_the_packet_inside)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int variant = 0; variant < 4; variant++) {
			struct fck_packet bare, packet;
			struct buffer buffer;
			struct frame inner;
			int family = variant & 1 ? 6 : 4;

			frame_make(&inner, &inners[variant >> 1]);
			assert_int_equal(fck_parse(&user_set, inner.data, inner.size, inner.size, &bare), FCK_FRAME_ROCEV2);
			wrap(&buffer, &rows[i], family, &inner);
			if (parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet) != FCK_FRAME_ROCEV2)
				fail_msg("%s: no RoCE", rows[i].what);
			assert_same_packet(rows[i].what, &packet, &bare);
			assert_int_equal(packet.attributes,
					 bare.attributes | rows[i].attributes | 1u << (FCK_ATTRIBUTE_ENCAPSULATED_GRE + rows[i].kind));
			assert_int_equal(packet.outer_count, 1);
			assert_int_equal(packet.outers[0].family, family);
			assert_int_equal(packet.outers[0].source[0], family == 4 ? 192 : 0x20);
			assert_int_equal(packet.outers[0].source[15], family == 4 ? 0 : 1);
			assert_int_equal(packet.outers[0].kind, rows[i].kind);
			assert_int_equal(packet.outers[0].session, rows[i].session);
			assert_int_equal(packet.outers[0].sequence, rows[i].sequence);
		}
}

// Cut at every byte, by a snap length and by the mirroring switch. What is there is read as without a tunnel.
TEST(test_every_header_cut_at_every_byte)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int variant = 0; variant < 4; variant++) {
			struct buffer buffer;
			struct frame inner;
			uint32_t before, whole;

			frame_make(&inner, &inners[variant >> 1]);
			wrap(&buffer, &rows[i], variant & 1 ? 6 : 4, &inner);
			before = buffer.size - 4 - inner.size;
			whole = before + inner.ip_end;
			for (uint32_t captured = 0; captured < buffer.size; captured++) {
				struct fck_packet packet, bare;
				enum fck_frame_kind kind = parse_exact(&user_set, buffer.data, captured, buffer.size, &packet);
				enum fck_frame_kind mirrored = parse_exact(&user_set, buffer.data, captured, captured, &packet);
				bool has_bth = captured >= before + inner.bth + FCK_BTH_SIZE;

				if ((kind == FCK_FRAME_ROCEV2) != has_bth || (mirrored == FCK_FRAME_ROCEV2) != has_bth)
					fail_msg("%s cut at %u of %u: %s, %s", rows[i].what, captured, buffer.size, fck_frame_name(kind),
						 fck_frame_name(mirrored));
				if (!has_bth) {
					if (kind < FCK_FRAME_TRUNCATED_ETHERNET || kind > FCK_FRAME_TRUNCATED_BTH)
						fail_msg("%s cut at %u: %s", rows[i].what, captured, fck_frame_name(kind));
					continue;
				}
				fck_parse(&user_set, inner.data, captured - before < inner.size ? captured - before : inner.size, inner.size,
					  &bare);
				assert_same_packet(rows[i].what, &packet, &bare);
				assert_int_equal(packet.truncated, captured < whole);
				assert_int_equal(!!(packet.attributes & FCK_ATTRIBUTE(TRUNCATED)), captured < whole);
			}
		}
}

// UDP behind an outer IP header, with the payload given.
static void append_udp(struct buffer *buffer, int family, uint16_t port, uint32_t payload)
{
	append_ip(buffer, family, false, 17, 8 + payload);
	append(buffer, BYTES(0xc0, 0, (uint8_t)(port >> 8), (uint8_t)port, (uint8_t)((8 + payload) >> 8), (uint8_t)(8 + payload), 0, 0));
}

TEST(test_vxlan)
{
	static const uint8_t header[] = {0x08, 0, 0, 0, 0x01, 0x02, 0x03, 0};

	for (int family = 4; family <= 6; family += 2) {
		struct buffer buffer = {.size = 0};
		struct fck_packet packet, bare;
		struct frame inner;

		frame_make(&inner, &inners[0]);
		fck_parse(&user_set, inner.data, inner.size, inner.size, &bare);
		append_udp(&buffer, family, 4789, sizeof(header) + inner.size);
		append(&buffer, header, sizeof(header));
		append(&buffer, inner.data, inner.size);
		assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_ROCEV2);
		assert_same_packet("VXLAN", &packet, &bare);
		assert_int_equal(packet.outers[0].session, 0x010203);
		assert_int_equal(packet.attributes, bare.attributes | FCK_ATTRIBUTE(ENCAPSULATED_VXLAN));
		for (uint32_t captured = 0; captured < buffer.size; captured++) {
			uint32_t bth = buffer.size - inner.size + inner.bth;

			assert_int_equal(parse_exact(&user_set, buffer.data, captured, buffer.size, &packet) == FCK_FRAME_ROCEV2,
					 captured >= bth + FCK_BTH_SIZE);
			parse_exact(&user_set, buffer.data, captured, captured, &packet);
		}
		buffer.data[buffer.size - inner.size - 8] = 0xf7; // all flags but I
		assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_UDP_OTHER);
		assert_int_equal(packet.outer_count, 0);
	}
}

// Facts about the outer packet (broadcast, congestion) do not stick to the packet inside; its being cut does, where the
// packet inside has no length of its own.
TEST(test_outer_facts_stay_outside)
{
	struct wish arp = {.opcode = OP_ACK};
	struct fck_packet packet;
	struct buffer buffer;
	struct frame inner;

	frame_make(&inner, &arp);
	wrap(&buffer, &rows[0], 4, &inner);
	memset(buffer.data, 0xff, 6); // broadcast; the outer header is marked "congestion experienced" in any case
	assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_ROCEV2);
	assert_int_equal(packet.attributes, FCK_ATTRIBUTE(ENCAPSULATED_GRE));
	inner.data[12] = 0x08;
	inner.data[13] = 0x06;
	wrap(&buffer, &rows[0], 4, &inner);
	assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size - 20, buffer.size, &packet), FCK_FRAME_ARP);
	assert_int_equal(packet.attributes, FCK_ATTRIBUTE(ENCAPSULATED_GRE) | FCK_ATTRIBUTE(TRUNCATED));
}

TEST(test_two_tunnels_are_opened_and_a_third_is_not)
{
	static const enum fck_frame_kind expected[] = {FCK_FRAME_ROCEV2, FCK_FRAME_ROCEV2, FCK_FRAME_GRE, FCK_FRAME_GRE};
	struct buffer inside = {.size = 0};
	struct fck_packet packet;
	struct frame inner;

	frame_make(&inner, &inners[0]);
	append(&inside, inner.data, inner.size);
	for (uint32_t depth = 1; depth <= 4; depth++) {
		const struct row *row = &rows[depth == 1 ? 11 : 2]; // ERSPAN II in GRE with a key
		struct buffer outside = {.size = 0};

		append_ip(&outside, depth & 1 ? 4 : 6, false, 47, row->size + inside.size);
		append(&outside, row->header, row->size);
		append(&outside, inside.data, inside.size);
		assert_int_equal(parse_exact(&user_set, outside.data, outside.size, outside.size, &packet), expected[depth - 1]);
		assert_int_equal(packet.outer_count, depth < 2 ? depth : 2);
		assert_int_equal(!!(packet.attributes & FCK_ATTRIBUTE(ENCAPSULATED_TOO_DEEP)), depth > 2);
		if (depth == 2) {
			assert_int_equal(packet.outers[0].session, 7);
			assert_int_equal(packet.outers[0].family, 6);
			assert_int_equal(packet.outers[1].session, 666);
			assert_int_equal(packet.outers[1].family, 4);
			assert_int_equal(packet.outers[1].source[15], 0);
			assert_int_equal(packet.key.source[15], 0); // nothing of the outer IPv6 address
		}
		inside = outside;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_header_gives_the_packet_inside),
		cmocka_unit_test(test_every_header_cut_at_every_byte),
		cmocka_unit_test(test_vxlan),
		cmocka_unit_test(test_outer_facts_stay_outside),
		cmocka_unit_test(test_two_tunnels_are_opened_and_a_third_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
