// SPDX-License-Identifier: Apache-2.0
//
// The table of tunnels, and what sequence numbers say is lost.
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tunnel.h"

// ERSPAN II (sequence < 0: type I) from 192.0.2.`host` around an acknowledge.
static void feed(struct fck_core *core, uint32_t capture, uint8_t host, uint16_t session, int64_t sequence)
{
	uint8_t data[200] = {
		2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 47, 0, 0, 192, 0, 2, host, 192, 0, 2, 99,
	};
	bool numbered = sequence >= 0;
	uint32_t size = 34;
	struct frame inner;

	memcpy(data + size, (uint8_t[]){numbered ? 0x10 : 0, 0, 0x88, 0xbe}, 4);
	size += 4;
	if (numbered) {
		for (int i = 0; i < 4; i++)
			data[size + (uint32_t)i] = (uint8_t)(sequence >> (24 - 8 * i));
		memcpy(data + size + 4, (uint8_t[]){0x10, 0, (uint8_t)(session >> 8), (uint8_t)session, 0, 0, 0, 0}, 8);
		size += 12;
	}
	frame_make(&inner, &(struct wish){.opcode = OP_ACK, .ipv4 = true});
	memcpy(data + size, inner.data, inner.size);
	size += inner.size;
	data[17] = (uint8_t)(size - 14);
	assert_int_equal(fck_frame(core, capture, 1, data, size, size), 0);
}

static struct fck_tunnel tunnel_of(const struct fck_core *core, uint32_t index)
{
	struct fck_tunnel tunnel;

	assert_int_equal(fck_tunnel_get(core, index, &tunnel), 0);
	return tunnel;
}

static uint64_t attribute_of(const struct fck_core *core, enum fck_attribute attribute)
{
	struct fck_capture capture;

	assert_int_equal(fck_capture_get(core, 0, &capture), 0);
	return capture.attributes[attribute];
}

struct stream {
	const char *what;
	int64_t gaps;
	int64_t sequences[8];
	int count;
};

static const struct stream streams[] = {
	{"in order", 0, {5, 6, 7, 8}, 4},
	{"three lost", 3, {5, 9, 10}, 3},
	{"late ones fill", 1, {5, 9, 7, 6, 10}, 5},
	{"a copy of a late one fills once", 2, {5, 9, 7, 7, 7}, 5},
	{"copies", 0, {5, 5, 6, 6, 5}, 5},
	{"older than the first is not late", 0, {5, 3, 4, 6}, 4},
	{"older than the first by the whole memory", 0, {70, 7, 71}, 3},
	{"all 0: no numbers at all", -1, {0, 0, 0, 0}, 4},
	{"one 0", -1, {0}, 1},
	{"from 0", 1, {0, 1, 3}, 3},
	{"through the wrap", 1, {0xfffffffe, 0xffffffff, 1, 2}, 4},
	{"late through the wrap", 0, {0xfffffffe, 0, 0xffffffff}, 3},
	{"the switch starts again", 0, {1000000, 1000001, 0, 1, 2}, 5},
	{"lost before and after it starts again", 7, {1000000, 1000003, 0, 6}, 4},
	{"63 back fills", 62, {100, 164, 101}, 3},
	{"64 back is a beginning", 64 + 2, {100, 165, 101, 104}, 4},
};

TEST(test_sequence_gaps)
{
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		struct fck_core *core = core_make();
		struct fck_tunnel tunnel;

		for (int n = 0; n < streams[i].count; n++)
			feed(core, 0, 1, 5, streams[i].sequences[n]);
		assert_int_equal(fck_tunnel_count(core), 1);
		tunnel = tunnel_of(core, 0);
		if (tunnel.sequence_gaps != streams[i].gaps)
			fail_msg("%s: %lld", streams[i].what, (long long)tunnel.sequence_gaps);
		assert_int_equal(tunnel.packets, streams[i].count);
		assert_int_equal(attribute_of(core, FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS), streams[i].gaps > 0 ? streams[i].gaps : 0);
		fck_free(core);
	}
}

// Sessions are counted apart, and so are senders, kinds and captures.
TEST(test_what_makes_a_tunnel)
{
	struct fck_core *core = core_make();
	struct fck_tunnel tunnel;

	assert_int_equal(fck_capture_add(core, "ckpt1:cap1"), 1);
	for (int64_t sequence = 10; sequence < 20; sequence += 2) {
		feed(core, 0, 1, 5, sequence / 2);
		feed(core, 0, 1, 6, sequence);
		feed(core, 0, 2, 5, sequence + 1);
		feed(core, 1, 1, 5, -1);
	}
	assert_int_equal(fck_tunnel_count(core), 4);
	tunnel = tunnel_of(core, 0);
	assert_int_equal(tunnel.session, 5);
	assert_int_equal(tunnel.sequence_gaps, 0);
	assert_int_equal(tunnel.family, 4);
	assert_memory_equal(tunnel.source, ((uint8_t[16]){192, 0, 2, 1}), 16);
	assert_int_equal(tunnel_of(core, 1).session, 6);
	assert_int_equal(tunnel_of(core, 1).sequence_gaps, 4);
	assert_int_equal(tunnel_of(core, 2).source[3], 2);
	tunnel = tunnel_of(core, 3);
	assert_int_equal(tunnel.capture, 1);
	assert_int_equal(tunnel.kind, FCK_TUNNEL_ERSPAN1);
	assert_int_equal(tunnel.session, -1);
	assert_int_equal(tunnel.sequence_gaps, -1);
	assert_int_equal(tunnel.packets, 5);
	assert_int_equal(fck_tunnel_get(core, 4, &tunnel), -EINVAL);
	assert_int_equal(attribute_of(core, FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN2), 15);
	fck_free(core);
}

TEST(test_a_full_table)
{
	struct fck_core *core = core_make();
	uint64_t packets = 0;

	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++)
			feed(core, 0, (uint8_t)(i / 1000), (uint16_t)(i % 1000), round);
	assert_int_equal(fck_tunnel_count(core), FCK_TUNNEL_LIMIT);
	for (uint32_t i = 0; i < FCK_TUNNEL_LIMIT; i++) {
		assert_int_equal(tunnel_of(core, i).session, i % 1000);
		packets += tunnel_of(core, i).packets;
	}
	assert_int_equal(packets, 2 * FCK_TUNNEL_LIMIT);
	assert_int_equal(attribute_of(core, FCK_ATTRIBUTE_TUNNEL_REFUSED), 2 * (5000 - FCK_TUNNEL_LIMIT));
	assert_int_equal(attribute_of(core, FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN2), 10000);
	fck_free(core);
}

TEST(test_names)
{
	assert_string_equal(fck_tunnel_name(FCK_TUNNEL_ERSPAN2), "erspan2");
	for (uint32_t i = 0; i < FCK_TUNNEL_KINDS; i++)
		assert_non_null(fck_tunnel_name(i));
	assert_null(fck_tunnel_name(FCK_TUNNEL_KINDS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sequence_gaps),
		cmocka_unit_test(test_what_makes_a_tunnel),
		cmocka_unit_test(test_a_full_table),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
