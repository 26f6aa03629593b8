// SPDX-License-Identifier: Apache-2.0
//
// The parser against packets written out byte by byte. fck_parse() is internal, so the library is linked statically.
#include "frames.h"

#define MAC 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1
#define IPV4_SOURCE 10, 0, 0, 1
#define IPV4_DESTINATION 10, 0, 0, 2
#define IPV6_SOURCE 0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1
#define IPV6_DESTINATION 0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2
#define UDP_4791 0xc0, 0x00, 0x12, 0xb7 // 49152 -> 4791
#define CRC 0xde, 0xad, 0xbe, 0xef
// RDMA WRITE Only with immediate, no payload: BTH, RETH (address, key, length 0), immediate 0x4000 little-endian.
#define BTH_WRITE_ONLY_IMM 11, 0x00, 0xff, 0xff, 0, 0x00, 0x05, 0x14, 0, 0x00, 0x00, 0x51
#define RETH_0 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0
#define IMMEDIATE_16384 0x00, 0x40, 0x00, 0x00
#define BTH_ACK 17, 0x00, 0xff, 0xff, 0, 0x00, 0x05, 0x14, 0, 0x00, 0x00, 0x51

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct fck_config plain;

struct row {
	const char *what;
	const uint8_t *data;
	uint32_t size;
	enum fck_frame_kind kind;
};

static const struct row rows[] = {
	{"empty", NULL, 0, FCK_FRAME_MALFORMED_ETHERNET},
	{"13 bytes", BYTES(MAC, 8), FCK_FRAME_MALFORMED_ETHERNET},
	{"tag cut off", BYTES(MAC, 0x81, 0, 0, 100), FCK_FRAME_MALFORMED_ETHERNET},
	{"arp", BYTES(MAC, 8, 6, 0, 1), FCK_FRAME_ARP},
	{"lldp", BYTES(MAC, 0x88, 0xcc, 2), FCK_FRAME_LLDP},
	{"ptp over Ethernet", BYTES(MAC, 0x88, 0xf7, 0), FCK_FRAME_PTP},
	{"spanning tree", BYTES(MAC, 0, 0x26, 0x42, 0x42, 3), FCK_FRAME_LLC},
	{"1500 is still a length", BYTES(MAC, 0x05, 0xdc), FCK_FRAME_LLC},
	{"unknown ethertype", BYTES(MAC, 0x89, 0x06), FCK_FRAME_ETHERTYPE_OTHER}, // FCoE
	{"RoCE version 1", BYTES(MAC, 0x89, 0x15), FCK_FRAME_ROCEV1},
	{"three tags", BYTES(MAC, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0), FCK_FRAME_ETHERTYPE_OTHER},
	{"IPv4 version 5", BYTES(MAC, 8, 0, 0x55, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_MALFORMED_IP},
	{"IPv4 header of 16", BYTES(MAC, 8, 0, 0x44, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_MALFORMED_IP},
	{"IPv4 total 19", BYTES(MAC, 8, 0, 0x45, 0, 0, 19, 0, 0, 0, 0, 64, 6, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_MALFORMED_IP},
	{"IPv4 header cut", BYTES(MAC, 8, 0, 0x45, 0, 0, 40), FCK_FRAME_MALFORMED_IP},
	{"TCP", BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, IPV4_SOURCE, IPV4_DESTINATION), FCK_FRAME_TCP},
	{"ICMP", BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, IPV4_SOURCE, IPV4_DESTINATION), FCK_FRAME_ICMP},
	{"IPv4 in GRE", BYTES(MAC, 8, 0, 0x45, 0, 0, 24, 0, 0, 0, 0, 64, 47, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, 0, 0, 8, 0),
	 FCK_FRAME_GRE},
	{"OSPF", BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 1, 89, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_IP_OTHER},
	{"first fragment", BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0x20, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_IPV4_FRAGMENT},
	{"later fragment", BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 9, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION),
	 FCK_FRAME_IPV4_FRAGMENT},
	{"do not fragment is no fragment",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 6, 0, 0, IPV4_SOURCE, IPV4_DESTINATION), FCK_FRAME_TCP},
	{"UDP header beyond the IP length",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, UDP_4791, 0, 8, 0, 0),
	 FCK_FRAME_MALFORMED_UDP},
	{"UDP length 7",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, UDP_4791, 0, 7, 0, 0),
	 FCK_FRAME_MALFORMED_UDP},
	{"UDP longer than IP",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, UDP_4791, 0, 9, 0, 0),
	 FCK_FRAME_MALFORMED_UDP},
	{"UDP without BTH",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, UDP_4791, 0, 8, 0, 0),
	 FCK_FRAME_MALFORMED_BTH},
	{"DNS", BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION,
		      0xc0, 0, 0, 53, 0, 8, 0, 0), FCK_FRAME_UDP_OTHER},
	{"Ultra Ethernet Transport",
	 BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, 0xc0, 0, 0x12, 0xb9, 0, 8, 0, 0),
	 FCK_FRAME_UET},
	{"PTP over UDP", BYTES(MAC, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION,
			       1, 0x3f, 1, 0x3f, 0, 8, 0, 0), FCK_FRAME_PTP},
	{"ACK without ICRC", BYTES(MAC, 8, 0, 0x45, 0, 0, 44, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION,
				   UDP_4791, 0, 24, 0, 0, BTH_ACK, 0, 0, 0, 0), FCK_FRAME_MALFORMED_BTH},
	{"ACK", BYTES(MAC, 8, 0, 0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION,
		      UDP_4791, 0, 28, 0, 0, BTH_ACK, 0, 0, 0, 0, CRC), FCK_FRAME_ROCEV2},
	{"IPv4 options",
	 BYTES(MAC, 8, 0, 0x46, 0, 0, 52, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, 1, 1, 1, 1,
	       UDP_4791, 0, 28, 0, 0, BTH_ACK, 0, 0, 0, 0, CRC), FCK_FRAME_ROCEV2},
	{"IPv6 version 4", BYTES(MAC, 0x86, 0xdd, 0x40, 0, 0, 0, 0, 0, 59, 64, IPV6_SOURCE, IPV6_DESTINATION),
	 FCK_FRAME_MALFORMED_IP},
	{"ICMPv6", BYTES(MAC, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 58, 255, IPV6_SOURCE, IPV6_DESTINATION), FCK_FRAME_ICMPV6},
	{"IPv6 fragment", BYTES(MAC, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 44, 64, IPV6_SOURCE, IPV6_DESTINATION,
				17, 0, 0, 1, 0, 0, 0, 0), FCK_FRAME_IPV6_FRAGMENT},
	{"IPv6 extension header cut by its own length",
	 BYTES(MAC, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 0, 64, IPV6_SOURCE, IPV6_DESTINATION, 17, 1, 0, 0, 0, 0, 0, 0),
	 FCK_FRAME_MALFORMED_IP},
	{"IPv6 hop-by-hop, then destination options, then RoCE",
	 BYTES(MAC, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 52, 0, 64, IPV6_SOURCE, IPV6_DESTINATION,
	       60, 0, 1, 4, 0, 0, 0, 0, 17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	       UDP_4791, 0, 28, 0, 0, BTH_ACK, 0, 0, 0, 0, CRC), FCK_FRAME_ROCEV2},
};

TEST(test_rows)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fck_packet packet;
		enum fck_frame_kind kind = parse_exact(&plain, rows[i].data, rows[i].size, rows[i].size, &packet);

		if (kind != rows[i].kind)
			fail_msg("%s: %s, not %s", rows[i].what, fck_frame_name(kind), fck_frame_name(rows[i].kind));
	}
}

TEST(test_fields_of_write_with_immediate)
{
	static const uint8_t bytes[] = {
		MAC, 0x81, 0x00, 0x00, 0x64, 0x08, 0x00, // VLAN 100
		0x45, 0x03, 0, 64, 0, 0, 0, 0, 64, 17, 0, 0, IPV4_SOURCE, IPV4_DESTINATION, // ECN: congestion experienced
		UDP_4791, 0, 44, 0, 0, BTH_WRITE_ONLY_IMM, RETH_0, IMMEDIATE_16384, CRC,
		9, 9, 9, 9, // FCS
	};
	struct fck_packet packet;

	assert_int_equal(parse_exact(&plain, bytes, sizeof(bytes), sizeof(bytes), &packet), FCK_FRAME_ROCEV2);
	assert_int_equal(packet.opcode, 11);
	assert_int_equal(packet.info.packet_class, FCK_CLASS_WRITE);
	assert_int_equal(packet.key.dest_qp, 0x514);
	assert_int_equal(packet.psn, 0x51);
	assert_int_equal(packet.key.family, 4);
	assert_memory_equal(packet.key.source, ((uint8_t[]){IPV4_SOURCE}), 4);
	assert_memory_equal(packet.key.destination, ((uint8_t[]){IPV4_DESTINATION}), 4);
	assert_int_equal(packet.length, 0);
	assert_true(packet.has_reth);
	assert_int_equal(packet.reth_length, 0);
	assert_int_equal(packet.immediate, 16384);
	assert_int_equal(packet.icrc, 0xdeadbeef);
	assert_int_equal(packet.attributes, 1u << FCK_ATTRIBUTE_VLAN | 1u << FCK_ATTRIBUTE_ECN_CE);
	assert_false(packet.truncated);
}

TEST(test_padding_and_fcs_are_no_payload)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .payload = 5, .reth_length = 5, .icrc = 0x01020304, .tail = 22};
	struct fck_packet packet;
	struct frame frame;

	frame_make(&frame, &wish);
	assert_int_equal(fck_parse(&plain, frame.data, frame.size, frame.size, &packet), FCK_FRAME_ROCEV2);
	assert_int_equal(packet.length, 5); // 3 bytes of padding
	assert_int_equal(packet.icrc, 0x01020304);
}

TEST(test_ll_flag)
{
	struct wish wish = {.opcode = OP_WRITE_FIRST, .payload = 1024, .reth_length = 4096, .ll_flag = 7};
	struct fck_packet packet;
	struct frame frame;

	frame_make(&frame, &wish);
	fck_parse(&plain, frame.data, frame.size, frame.size, &packet);
	assert_int_equal(fck_ll_flag(&packet), 7);
	frame.data[frame.bth + 12 + 16 + 12]++; // second flag differs
	fck_parse(&plain, frame.data, frame.size, frame.size, &packet);
	assert_int_equal(fck_ll_flag(&packet), -1);
	wish.ll_flag = 0; // zero is no flag
	frame_make(&frame, &wish);
	fck_parse(&plain, frame.data, frame.size, frame.size, &packet);
	assert_int_equal(fck_ll_flag(&packet), -1);
	wish.payload = wish.reth_length = 12; // less than a line; what looks like its second flag is the ICRC
	wish.icrc = 0x07000000;
	frame_make(&frame, &wish);
	frame.data[frame.bth + 12 + 16 + 4] = 7;
	fck_parse(&plain, frame.data, frame.size, frame.size, &packet);
	assert_int_equal(fck_ll_flag(&packet), -1);
}

struct class_row {
	struct wish wish;
	enum fck_class packet_class;
};

static const struct class_row class_rows[] = {
	{{.opcode = OP_SEND_FIRST, .payload = 1024}, FCK_CLASS_SEND},
	{{.opcode = 22, .payload = 8}, FCK_CLASS_SEND},
	{{.opcode = OP_WRITE_MIDDLE, .payload = 1024}, FCK_CLASS_WRITE},
	{{.opcode = OP_WRITE_ONLY, .payload = 32, .reth_length = 32}, FCK_CLASS_CLEAR_TO_SEND},
	{{.opcode = OP_WRITE_ONLY, .payload = 64, .reth_length = 64}, FCK_CLASS_CLEAR_TO_SEND},
	{{.opcode = OP_WRITE_ONLY, .payload = 48, .reth_length = 48}, FCK_CLASS_WRITE},
	{{.opcode = OP_WRITE_ONLY_IMM, .payload = 64, .reth_length = 64}, FCK_CLASS_WRITE},
	{{.opcode = 0x20, .payload = 1024}, FCK_CLASS_SEND}, // UC from here on, numbered as RC
	{{.opcode = 0x21, .payload = 1024}, FCK_CLASS_SEND},
	{{.opcode = 0x22, .payload = 8}, FCK_CLASS_SEND},
	{{.opcode = 0x23, .payload = 8}, FCK_CLASS_SEND}, // with immediate: the maker lays no extension header, the payload stands for it
	{{.opcode = 0x24, .payload = 8}, FCK_CLASS_SEND},
	{{.opcode = 0x25, .payload = 8}, FCK_CLASS_SEND},
	{{.opcode = 0x26, .payload = 1024}, FCK_CLASS_WRITE},
	{{.opcode = 0x27, .payload = 1024}, FCK_CLASS_WRITE},
	{{.opcode = 0x28, .payload = 8}, FCK_CLASS_WRITE},
	{{.opcode = 0x29, .payload = 8}, FCK_CLASS_WRITE},
	{{.opcode = 0x2a, .payload = 48}, FCK_CLASS_WRITE},
	{{.opcode = 0x2b, .payload = 20}, FCK_CLASS_WRITE},
	{{.opcode = OP_READ_REQUEST, .reth_length = 64}, FCK_CLASS_READ_REQUEST},
	{{.opcode = OP_READ_RESPONSE_MIDDLE, .payload = 1024}, FCK_CLASS_READ_RESPONSE},
	{{.opcode = OP_ACK, .syndrome = 0x1f}, FCK_CLASS_ACK},
	{{.opcode = OP_ACK, .syndrome = 0x2c}, FCK_CLASS_RNR_NAK},
	{{.opcode = OP_ACK, .syndrome = 0x60}, FCK_CLASS_NAK},
	{{.opcode = OP_ATOMIC_ACK}, FCK_CLASS_ATOMIC_ACK},
	{{.opcode = OP_FETCH_ADD}, FCK_CLASS_ATOMIC},
	{{.opcode = 0x81}, FCK_CLASS_CNP},
	{{.opcode = 0x64, .payload = 256, .dest_qp = 1}, FCK_CLASS_SETUP},
	{{.opcode = OP_SEND_ONLY, .payload = 256, .dest_qp = 1}, FCK_CLASS_SETUP},
	{{.opcode = 0x64, .payload = 64, .dest_qp = 0x13}, FCK_CLASS_DATAGRAM},
	{{.opcode = 0xaa, .dest_qp = 0xbbbbbb}, FCK_CLASS_UNSUPPORTED},
	{{.opcode = 21}, FCK_CLASS_UNSUPPORTED},
	{{.opcode = 24}, FCK_CLASS_UNSUPPORTED},
	{{.opcode = 0x2c}, FCK_CLASS_UNSUPPORTED},
};

TEST(test_classes)
{
	for (size_t i = 0; i < sizeof(class_rows) / sizeof(class_rows[0]); i++) {
		const struct class_row *row = &class_rows[i];
		struct fck_packet packet;
		struct frame frame;

		frame_make(&frame, &row->wish);
		if (fck_parse(&plain, frame.data, frame.size, frame.size, &packet) != FCK_FRAME_ROCEV2)
			fail_msg("opcode %#x: no RoCE", row->wish.opcode);
		if (packet.info.packet_class != row->packet_class)
			fail_msg("opcode %#x: %s", row->wish.opcode, fck_class_name(packet.info.packet_class));
		frame.data[frame.bth + 1] |= 1; // a transport version that nobody has defined
		fck_parse(&plain, frame.data, frame.size, frame.size, &packet);
		assert_int_equal(packet.info.packet_class,
				 row->packet_class == FCK_CLASS_SETUP ? FCK_CLASS_SETUP : FCK_CLASS_UNSUPPORTED);
	}
}

// Cut at every byte, once as a snap length (the frame was longer) and once as a mirror that truncates (it was not).
TEST(test_cut_at_every_byte)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY_IMM, .payload = 40, .reth_length = 40, .vlan_tags = 2, .ll_flag = 3};

	for (int family = 0; family < 2; family++) {
		struct fck_packet whole, packet;
		struct frame frame;

		wish.ipv4 = family == 0;
		frame_make(&frame, &wish);
		assert_int_equal(fck_parse(&plain, frame.data, frame.size, frame.size, &whole), FCK_FRAME_ROCEV2);
		for (uint32_t captured = 0; captured < frame.size; captured++) {
			enum fck_frame_kind kind = parse_exact(&plain, frame.data, captured, frame.size, &packet);
			enum fck_frame_kind mirrored = parse_exact(&plain, frame.data, captured, captured, &packet);

			if (captured < frame.bth + 12) {
				assert_in_range(kind, FCK_FRAME_TRUNCATED_ETHERNET, FCK_FRAME_TRUNCATED_BTH);
				assert_int_not_equal(mirrored, FCK_FRAME_ROCEV2);
				continue;
			}
			assert_int_equal(kind, FCK_FRAME_ROCEV2);
			assert_int_equal(mirrored, FCK_FRAME_ROCEV2);
			assert_true(packet.truncated);
			assert_false(packet.has_icrc);
			assert_int_equal(packet.length, whole.length);
			assert_int_equal(packet.psn, whole.psn);
			assert_int_equal(packet.has_reth, captured >= frame.bth + 12 + 20);
			assert_int_equal(fck_ll_flag(&packet), captured >= frame.bth + 12 + 20 + 16 ? 3 : -1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_fields_of_write_with_immediate),
		cmocka_unit_test(test_padding_and_fcs_are_no_payload),
		cmocka_unit_test(test_ll_flag),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_cut_at_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
