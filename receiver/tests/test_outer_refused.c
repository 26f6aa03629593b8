// SPDX-License-Identifier: Apache-2.0
//
// Tunnels that are not opened, and what each is counted as.
#include "outers.h"

#define SEQUENCE_9 0, 0, 0, 9

struct refusal {
	const char *what;
	const uint8_t *header;
	uint32_t size;
	enum fck_frame_kind kind;
};

static const struct refusal refusals[] = {
	{"no GRE header", BYTES(0), FCK_FRAME_MALFORMED_TUNNEL},
	{"key word cut", BYTES(0x20, 0, 0x65, 0x58, 0, 0), FCK_FRAME_MALFORMED_TUNNEL},
	{"ERSPAN II header cut", BYTES(0x10, 0, 0x88, 0xbe, SEQUENCE_9, 0x10, 0, 0, 0, 0, 0, 0), FCK_FRAME_MALFORMED_TUNNEL},
	{"ERSPAN III header cut", BYTES(0, 0, 0x22, 0xeb, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), FCK_FRAME_MALFORMED_TUNNEL},
	{"ERSPAN III subheader cut", BYTES(0, 0, 0x22, 0xeb, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0), FCK_FRAME_MALFORMED_TUNNEL},
	{"nothing inside", BYTES(0, 0, 0x65, 0x58), FCK_FRAME_MALFORMED_ETHERNET},
	{"routing", BYTES(0x40, 0, 0x65, 0x58, 0, 0, 0, 0), FCK_FRAME_GRE},
	{"version 1", BYTES(0, 1, 0x65, 0x58, 0, 0, 0, 0), FCK_FRAME_GRE},
	{"IPv4 in GRE", BYTES(0, 0, 0x08, 0, 0x45, 0, 0, 20), FCK_FRAME_GRE},
	{"ERSPAN of version 3", BYTES(0, 0, 0x22, 0xeb, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), FCK_FRAME_GRE},
	{"ERSPAN III with a bare IP packet", BYTES(0, 0, 0x22, 0xeb, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0, 0x45), FCK_FRAME_GRE},
	{"type 0 is no unused place of the list", BYTES(0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4),
	 FCK_FRAME_GRE},
	{"searched, nothing found", BYTES(0, 0, 0x89, 0x49, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x89, 0x15, 0, 0, 0, 0, 0, 0), FCK_FRAME_GRE},
	{"searched, IPv4 that cannot be", BYTES(0, 0, 0x89, 0x49, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x44, 0, 0, 40, 0, 0),
	 FCK_FRAME_GRE},
	{"searched, ARP", BYTES(0, 0, 0x89, 0x49, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4), FCK_FRAME_ARP},
	{"bridged ARP", BYTES(0, 0, 0x65, 0x58, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6), FCK_FRAME_ARP},
	{"fragment inside", BYTES(0, 0, 0x65, 0x58, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 20, 0, 0, 0x20, 0, 64, 17, 0, 0,
				  10, 0, 0, 1, 10, 0, 0, 2), FCK_FRAME_IPV4_FRAGMENT},
};

TEST(test_what_is_not_opened)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		for (int family = 4; family <= 6; family += 2) {
			struct buffer buffer = {.size = 0};
			enum fck_frame_kind kind;
			struct fck_packet packet;

			append_ip(&buffer, family, false, 47, refusals[i].size);
			append(&buffer, refusals[i].header, refusals[i].size);
			kind = parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet);
			if (kind != refusals[i].kind)
				fail_msg("%s: %s", refusals[i].what, fck_frame_name(kind));
		}
}

TEST(test_a_type_that_the_user_did_not_set)
{
	static const struct fck_config plain;
	struct fck_packet packet;
	struct buffer buffer;
	struct frame inner;

	frame_make(&inner, &inners[0]);
	wrap(&buffer, &(struct row){"", BYTES(0, 0, 0x12, 0x34), FCK_TUNNEL_GRE, -1, -1, 0}, 4, &inner);
	assert_int_equal(fck_parse(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_ROCEV2);
	assert_int_equal(fck_parse(&plain, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_GRE);
}

// What is searched may look like an ERSPAN header by its first digit: a MAC address may begin with 1 or 2, too.
TEST(test_addresses_that_begin_like_erspan)
{
	static const uint8_t firsts[] = {0x10, 0x24};

	for (size_t i = 0; i < sizeof(firsts); i++) {
		struct fck_packet packet;
		struct buffer buffer;
		struct frame inner;

		frame_make(&inner, &inners[0]);
		inner.data[0] = firsts[i];
		wrap(&buffer, &(struct row){"", BYTES(0, 0, 0x89, 0x49), FCK_TUNNEL_GRE, -1, -1, 0}, 4, &inner);
		assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_ROCEV2);
		assert_int_equal(packet.outers[0].kind, FCK_TUNNEL_GRE);
	}
}

// Too little was captured to say that nothing is there, or enough.
TEST(test_how_far_is_searched)
{
	struct frame inner = {.size = 200};
	struct fck_packet packet;
	struct buffer buffer;

	wrap(&buffer, &(struct row){"", BYTES(0, 0, 0x89, 0x49), FCK_TUNNEL_GRE, -1, -1, 0}, 6, &inner);
	assert_int_equal(parse_exact(&user_set, buffer.data, 54 + 4 + 63, buffer.size, &packet), FCK_FRAME_TRUNCATED_TUNNEL);
	assert_int_equal(parse_exact(&user_set, buffer.data, 54 + 4 + 64, buffer.size, &packet), FCK_FRAME_GRE);
	assert_int_equal(parse_exact(&user_set, buffer.data, buffer.size, buffer.size, &packet), FCK_FRAME_GRE);
}

TEST(test_trimmed_by_dscp)
{
	static const struct fck_config config = {.trimmed_dscp = 5};
	struct frame frame;
	struct fck_packet packet;

	for (int family = 4; family <= 6; family += 2) {
		frame_make(&frame, &(struct wish){.opcode = OP_WRITE_MIDDLE, .payload = 256, .ipv4 = family == 4});
		assert_int_equal(fck_parse(&config, frame.data, frame.size, frame.size, &packet), FCK_FRAME_ROCEV2);
		if (family == 4) {
			frame.data[15] = 5 << 2 | 3;
		} else {
			frame.data[14] |= 5 >> 2;
			frame.data[15] |= (5 & 3) << 6 | 3 << 4;
		}
		assert_int_equal(fck_parse(&config, frame.data, 80, 80, &packet), FCK_FRAME_TRIMMED);
		assert_true(packet.attributes & FCK_ATTRIBUTE(ECN_CE));
		assert_int_equal(fck_parse(&user_set, frame.data, frame.size, frame.size, &packet), FCK_FRAME_ROCEV2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_opened),
		cmocka_unit_test(test_a_type_that_the_user_did_not_set),
		cmocka_unit_test(test_addresses_that_begin_like_erspan),
		cmocka_unit_test(test_how_far_is_searched),
		cmocka_unit_test(test_trimmed_by_dscp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
