// SPDX-License-Identifier: Apache-2.0
//
// Frames to several cores: by flow, and by nothing else.
#include "outers.h"

#include <string.h>

#include "spread.h"

#define CORES 5

static uint32_t place(struct fck_spreader *spreader, const uint8_t *data, uint32_t size)
{
	uint32_t core = fck_spread(spreader, CORES, data, size, size);

	assert_true(core < CORES);
	return core;
}

static uint32_t place_wish(struct fck_spreader *spreader, const struct wish *wish)
{
	struct frame frame;

	frame_make(&frame, wish);
	return place(spreader, frame.data, frame.size);
}

// ERSPAN II with session 3 and a sequence number.
static uint32_t place_tunnelled(struct fck_spreader *spreader, const struct wish *wish, uint8_t sequence, struct fck_core *core)
{
	const struct row row = {
		"", BYTES(0x10, 0, 0x88, 0xbe, 0, 0, 0, sequence, 0x10, 0, 0, 3, 0, 0, 0, 0), FCK_TUNNEL_ERSPAN2, 3, sequence, 0,
	};
	struct frame inner;
	struct buffer outer = {0};

	frame_make(&inner, wish);
	wrap(&outer, &row, 4, &inner);
	if (core != NULL)
		assert_int_equal(fck_frame(core, 0, 1, outer.data, outer.size, outer.size), 0);
	return place(spreader, outer.data, outer.size);
}

TEST(test_a_flow_has_one_core)
{
	struct fck_spreader spreader = {0};

	for (uint32_t qp = 2; qp < 200; qp++) {
		struct wish wish = {.opcode = OP_WRITE_FIRST, .dest_qp = qp, .payload = 1024, .ipv4 = qp & 1};
		uint32_t core = place_wish(&spreader, &wish);

		assert_int_equal(place_tunnelled(&spreader, &wish, 0, NULL), core);
		wish.psn = 77 * qp;
		wish.opcode = OP_ACK;
		wish.payload = 0;
		wish.source_port = (uint16_t)(50000 + qp);
		assert_int_equal(place_wish(&spreader, &wish), core);
		wish.vlan_tags = 2; // not plain any more
		wish.tail = 4;
		assert_int_equal(place_wish(&spreader, &wish), core);
	}
	fck_spreader_free(&spreader);
}

TEST(test_flows_are_spread)
{
	enum { FLOWS = 5000 };
	struct fck_spreader spreader = {0};
	uint32_t counts[CORES] = {0};

	for (uint32_t qp = 2; qp < 2 + FLOWS; qp++)
		counts[place_wish(&spreader, &(struct wish){.opcode = OP_ACK, .dest_qp = qp})]++;
	for (int i = 0; i < CORES; i++) // five standard deviations around the mean: sqrt(5000 * 0.2 * 0.8) is 28
		assert_in_range(counts[i], FLOWS / CORES - 142, FLOWS / CORES + 142);
	fck_spreader_free(&spreader);
}

TEST(test_what_is_in_no_flow)
{
	struct fck_spreader spreader = {0};
	uint8_t arp[60] = {[12] = 8, [13] = 6};
	struct frame frame;

	assert_int_equal(place(&spreader, arp, sizeof(arp)), 0);
	assert_int_equal(place(&spreader, arp, 0), 0);
	frame_make(&frame, &(struct wish){.opcode = OP_WRITE_FIRST, .dest_qp = 0x123});
	for (uint32_t cut = 0; cut < frame.bth; cut++)
		assert_int_equal(fck_spread(&spreader, CORES, frame.data, cut, frame.size), 0);
	fck_spreader_free(&spreader);
}

// All frames pass here: the gaps are those that one core alone would see, which the cores behind must not count again.
TEST(test_sequence_numbers_are_counted_once)
{
	static const uint8_t sequences[] = {5, 6, 9, 8, 12};
	struct fck_spreader spreader = {0};
	struct fck_core *behind;
	struct fck_capture counted;
	struct fck_tunnel tunnel;

	assert_int_equal(fck_new(&(struct fck_config){.tunnels_elsewhere = 1}, &behind), 0);
	assert_int_equal(fck_capture_add(behind, "x"), 0);
	for (uint32_t i = 0; i < sizeof(sequences); i++) {
		const struct wish wish = {.opcode = OP_ACK, .dest_qp = 0x20 + i};

		place_tunnelled(&spreader, &wish, sequences[i], behind);
	}
	assert_int_equal(spreader.sequence_gaps, 2 + 2 - 1); // 7 and 8, then 10 and 11; 8 came late
	tunnel = fck_tunnels_get(&spreader.tunnels, 0);
	assert_int_equal(tunnel.packets, 5);
	assert_int_equal(tunnel.sequence_gaps, 3);
	assert_int_equal(spreader.refused + spreader.unnoted, 0);
	assert_int_equal(fck_tunnel_count(behind), 0);
	fck_capture_get(behind, 0, &counted);
	assert_int_equal(counted.attributes[FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN2], 5);
	assert_int_equal(counted.attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS], 0);
	fck_free(behind);
	fck_spreader_free(&spreader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_flow_has_one_core),
		cmocka_unit_test(test_flows_are_spread),
		cmocka_unit_test(test_what_is_in_no_flow),
		cmocka_unit_test(test_sequence_numbers_are_counted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
