// SPDX-License-Identifier: Apache-2.0
//
// Placement by hand: where packets and bytes go, what confirms them, and what is refused.
#include "track_bench.h"

#include <errno.h>

TEST(test_places_and_lays)
{
	const struct fck_track_iteration *rows;
	uint8_t out[DATA];
	struct bench bench;
	uint64_t count;

	open_bench(&bench, plain, 3, &config);
	memset(bench.iterations[3].data, 0xee, DATA);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 1000, 3, 0), 0);
	feed_row(&bench, 1000, 0, 4);   // iteration 3 without its last packet
	feed_row(&bench, 1000, 7, 11);  // iteration 4 without its first
	feed_row(&bench, 1000, 3, 3);   // again
	assert_int_equal(counts(&bench).places[FCK_PLACE_PLACED], 10);
	assert_int_equal(counts(&bench).places[FCK_PLACE_REPEATED], 1);
	assert_int_equal(counts(&bench).lays[FCK_LAY_NOT_REDUCED], 5);
	assert_int_equal(counts(&bench).lays[FCK_LAY_LAID], 5);
	assert_int_equal(counts(&bench).lays[FCK_LAY_PRESENT], 1);
	assert_int_equal(bench.iterations[3].present[0], 0x3);
	assert_int_equal(bench.iterations[4].present[0], 0x7);
	assert_int_equal(bench.iterations[3].data[355], 0);
	assert_int_equal(bench.iterations[3].data[356], 0xee); // the packet that lacks
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 3, 0, 356, out), 0);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 3, 0, 357, out), -ENODATA);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 4, 0, DATA, out), 0);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 4, 0, DATA + 1, out), -ENODATA);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 99, 0, 1, out), -ENOENT);
	assert_int_equal(fck_tracker_iterations(bench.tracker, 0, &rows, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(rows[0].iteration, 3);
	assert_int_equal(rows[0].distinct, 5);
	assert_int_equal(rows[0].repeats, 1);
	assert_int_equal(rows[0].laid, 2);
	assert_int_equal(rows[1].position, 1006);
	assert_int_equal(rows[1].expected, SPAN);
	close_bench(&bench);
}

TEST(test_wrap)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0xfffffd, 0, 0), 0);
	feed_row(&bench, 0xfffffd, 0, 2 * SPAN - 1);
	feed_row(&bench, 0xfffffd, 1, 1); // from before the wrap
	assert_int_equal(bench.iterations[0].present[0], 0x7);
	assert_int_equal(bench.iterations[1].present[0], 0x7);
	assert_int_equal(counts(&bench).places[FCK_PLACE_REPEATED], 1);
	close_bench(&bench);
}

TEST(test_outside_the_windows)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	feed_row(&bench, 0, 0, 0); // no anchor yet
	assert_int_equal(counts(&bench).places[FCK_PLACE_WAITING], 1);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 100, 0, 1), 0);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 120, 1, 0), 0);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 120, 2, 0), -EINVAL);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 126, 1, 0), -EINVAL);
	feed_row(&bench, 50, 0, 5);
	feed_row(&bench, 100, 0, 5);
	feed_row(&bench, 106, 0, 5);
	feed_row(&bench, 120, 0, 5);
	assert_int_equal(counts(&bench).places[FCK_PLACE_OUTSIDE], 12);
	assert_int_equal(counts(&bench).places[FCK_PLACE_PLACED], 12);
	assert_int_equal(bench.iterations[1].present[0], 0x7);
	close_bench(&bench);
}

// FIFO of 4 steps of 4096 bytes, 3 steps an iteration: addresses 0x7000, 0x8000, 0x5000 (around), 0x6000 ... frames.c
// writes 0 as address, so an address is put into the frame here.
static void feed_at(struct bench *bench, uint32_t place, uint32_t psn, uint64_t address)
{
	struct wish wish = packet_at(place);
	struct frame frame;
	uint8_t *reth;

	wish.psn = psn;
	frame_make(&frame, &wish);
	reth = frame.data + frame.bth + 12;
	for (int i = 0; i < 8; i++)
		reth[i] = (uint8_t)(address >> (56 - 8 * i));
	assert_int_equal(fck_frame(bench->core, 0, ++bench->time, frame.data, frame.size, frame.size), 0);
}

TEST(test_addresses)
{
	static const struct fck_pattern_config with = {
		.mtu = MTU, .protocol = FCK_PROTOCOL_SIMPLE, .fifo_bytes = 4096, .fifo_steps = 4, .steps = 3,
	};
	static const uint64_t addresses[6] = {0x7000, 0x8000, 0x5000, 0x6000, 0x7000, 0x9000};
	static const uint32_t places[3] = {0, 3, 4};
	struct fck_finding wrong;
	struct bench bench;

	open_bench(&bench, plain, 3, &with);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	for (uint32_t i = 0; i < 6; i++)
		feed_at(&bench, places[i % 3], i / 3 * SPAN + places[i % 3], addresses[i]);
	wrong = finding(&bench, 0);
	assert_int_equal(wrong.kind, FCK_FINDING_ADDRESS);
	assert_int_equal(wrong.position, 10);
	assert_int_equal(wrong.expected, 0x8000);
	assert_int_equal(wrong.found, 0x9000);
	assert_int_equal(counts(&bench).places[FCK_PLACE_PLACED], 5);
	close_bench(&bench);
}

TEST(test_immediates)
{
	static const struct fck_slot adaptive[2] = { // a write without, then a 0-byte write with the length
		{.packets = 1, .bytes = 100, .immediate = -2, .data_bytes = 100, .unit = 0, .reduced = 1},
		{.packets = 1, .bytes = 0, .immediate = 100},
	};
	struct fck_pattern_config with = config;
	struct bench bench;

	with.immediate = FCK_IMMEDIATE_BIG;
	open_bench(&bench, plain + 1, 1, &with);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed(&bench, (struct wish){.opcode = OP_WRITE_ONLY_IMM, .payload = 100, .reth_length = 100, .immediate = 100u << 24}, 0);
	feed(&bench, packet_at(3), 1);
	assert_int_equal(findings(&bench, FCK_FINDING_IMMEDIATE), 1);
	close_bench(&bench);

	with.immediate = FCK_IMMEDIATE_IGNORED;
	open_bench(&bench, plain + 1, 1, &with);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed(&bench, (struct wish){.opcode = OP_WRITE_ONLY_IMM, .payload = 100, .reth_length = 100, .immediate = 3}, 0);
	feed(&bench, (struct wish){.opcode = OP_WRITE_ONLY, .payload = 100, .reth_length = 100}, 1);
	assert_int_equal(findings(&bench, FCK_FINDING_IMMEDIATE), 1);
	close_bench(&bench);

	open_bench(&bench, adaptive, 2, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed(&bench, (struct wish){.opcode = OP_WRITE_ONLY, .payload = 100, .reth_length = 100}, 0);
	feed(&bench, (struct wish){.opcode = OP_WRITE_ONLY_IMM, .immediate = 100}, 1);
	feed(&bench, packet_at(3), 2);
	assert_int_equal(finding(&bench, 0).position, 2);
	assert_int_equal(bench.iterations[0].present[0], 1);
	close_bench(&bench);
}

// Ten LL lines with one flag; the last line's second one is `torn` off it.
static void feed_lines(struct bench *bench, uint32_t psn, uint32_t flag, uint32_t torn)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY_IMM, .payload = 160, .reth_length = 160, .immediate = 160};
	struct frame frame;
	uint8_t *payload;

	wish.psn = psn;
	frame_make(&frame, &wish);
	payload = frame.data + frame.ip_end - 4 - wish.payload;
	for (uint32_t at = 4; at < 160; at += 8)
		payload[at] = (uint8_t)flag;
	payload[156] ^= (uint8_t)torn;
	assert_int_equal(fck_frame(bench->core, 0, ++bench->time, frame.data, frame.size, frame.size), 0);
}

// LL, one packet a message, step 0: flags 5, 6, 7 as learned; the fourth message has the flag of another step.
TEST(test_flags)
{
	static const struct fck_slot slots[1] = {
		{.packets = 1, .bytes = 160, .immediate = 160, .data_bytes = 77, .unit = 0, .reduced = 1},
	};
	static const struct fck_pattern_config with = {.mtu = MTU, .protocol = FCK_PROTOCOL_LL, .steps = 1};
	struct bench bench;

	open_bench(&bench, slots, 1, &with);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	for (uint32_t i = 0; i < 4; i++)
		feed_lines(&bench, i, i < 3 ? 5 + i : 7, 0);
	assert_int_equal(finding(&bench, 0).kind, FCK_FINDING_FLAG_VALUE);
	assert_int_equal(finding(&bench, 0).expected, 8);
	assert_int_equal(finding(&bench, 0).found, 7);
	assert_int_equal(bench.iterations[2].present[0], 1);
	assert_int_equal(bench.iterations[3].present[0], 0);
	close_bench(&bench);

	open_bench(&bench, slots, 1, &with);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_lines(&bench, 0, 5, 1);
	assert_int_equal(findings(&bench, FCK_FINDING_FLAG_TORN), 1);
	assert_int_equal(counts(&bench).lays[FCK_LAY_FLAG_TORN], 1);
	assert_int_equal(counts(&bench).places[FCK_PLACE_PLACED], 1);
	assert_int_equal(bench.iterations[0].present[0], 0);
	close_bench(&bench);
}

static void feed_filled(struct bench *bench, uint32_t place, uint32_t psn, uint8_t fill, uint32_t cut)
{
	struct wish wish = packet_at(place);
	struct frame frame;

	wish.psn = psn;
	frame_make(&frame, &wish);
	memset(frame.data + frame.ip_end - 4 - wish.payload, fill, wish.payload);
	bench->time += 10000000;
	assert_int_equal(fck_frame(bench->core, 0, bench->time, frame.data, frame.size - cut, frame.size), 0);
}

// A copy with other bytes withdraws the unit; a third one changes nothing. A short one is not laid, a whole one later is.
TEST(test_copies_and_short_packets)
{
	uint8_t out[DATA];
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_filled(&bench, 3, 3, 1, 0);
	feed_filled(&bench, 3, 3, 1, 0);
	assert_int_equal(counts(&bench).lays[FCK_LAY_PRESENT], 1);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 0, 0, 100, out), 0);
	feed_filled(&bench, 3, 3, 2, 0);
	assert_int_equal(findings(&bench, FCK_FINDING_PAYLOAD_DIFFERS), 1);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 0, 0, 1, out), -ENODATA);
	feed_filled(&bench, 3, 3, 1, 0);
	assert_int_equal(counts(&bench).lays[FCK_LAY_DOUBTFUL], 1);
	assert_int_equal(fck_gradient_read(bench.tracker, 9, 0, 0, 1, out), -ENODATA);
	feed_filled(&bench, 4, 4, 1, 30);
	assert_int_equal(counts(&bench).lays[FCK_LAY_SHORT], 1);
	assert_int_equal(bench.iterations[0].present[0], 0);
	feed_filled(&bench, 4, 4, 1, 0);
	assert_int_equal(bench.iterations[0].present[0], 2);
	feed_filled(&bench, 0, 6, 1, 256 + 4 + 8); // ends inside its RETH
	assert_int_equal(counts(&bench).places[FCK_PLACE_UNMEASURED], 1);
	close_bench(&bench);
}

TEST(test_memory_is_given_back)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_row(&bench, 0, 0, 3);
	assert_int_equal(fck_tracker_release(bench.tracker, 9, 0), 0);
	assert_int_equal(fck_tracker_release(bench.tracker, 9, 0), -ENOENT);
	feed_row(&bench, 0, 4, 4);
	assert_int_equal(counts(&bench).lays[FCK_LAY_NO_MEMORY], 1);
	assert_int_equal(bench.iterations[0].present[0], 1);
	close_bench(&bench);
}

TEST(test_late_packets_have_a_name)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_row(&bench, 0, 0, 0);
	feed_row(&bench, 0, 6 * 4096, 6 * 4096); // 256 iterations are remembered at a span of 6
	feed_row(&bench, 0, 1, 1);
	assert_int_equal(counts(&bench).places[FCK_PLACE_LATE], 1);
	close_bench(&bench);
}

TEST(test_what_is_refused)
{
	struct fck_slot slots[2] = {plain[1], plain[2]};
	struct fck_pattern_config with = config;
	struct fck_tracker *tracker;
	uint64_t present[1] = {0};
	uint8_t data[DATA];

	assert_int_equal(fck_tracker_new(&tracker), 0);
	assert_int_equal(fck_tracker_pattern(tracker, slots, 0, &with), -EINVAL);
	with.mtu = 1000;
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), -EINVAL);
	with.mtu = MTU;
	slots[1].packets = 3;
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), -EINVAL);
	slots[1].packets = 2;
	with.protocol = FCK_PROTOCOL_LL128; // 100 bytes are no whole lines
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), -EOPNOTSUPP);
	with.protocol = FCK_PROTOCOL_SIMPLE;
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), 0);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 1, 1, 0), -EINVAL);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 1, 0, 0), 0);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 1, 0, 0), -EEXIST);
	slots[1].data_at = 99; // overlaps the first message
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), 1);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 2, 1, 0), -EEXIST);
	slots[1].data_at = 100;
	slots[1].unit = 0; // used by the first message
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), 2);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 3, 2, 7), 1);
	assert_int_equal(fck_tracker_gradient(tracker, 7, 0, data, DATA, present, 64), -EINVAL);
	assert_int_equal(fck_tracker_gradient(tracker, 8, 0, data, DATA, present, 64), -EINVAL);
	assert_int_equal(fck_tracker_gradient(tracker, 0, 0, data, DATA - 1, present, 64), -EINVAL);
	assert_int_equal(fck_tracker_gradient(tracker, 0, 0, data, DATA, present, 2), -EINVAL);
	assert_int_equal(fck_tracker_gradient(tracker, 0, 0, data, DATA, present, 3), 0);
	assert_int_equal(fck_tracker_gradient(tracker, 0, 0, data, DATA, present, 3), -EEXIST);
	slots[1].data_at = 700;
	slots[1].unit = 1;
	assert_int_equal(fck_tracker_pattern(tracker, slots, 2, &with), 3);
	assert_int_equal(fck_tracker_follow(tracker, 0, 6, source, destination, 4, 3, 0), -EBUSY);
	assert_int_equal(fck_tracker_anchor(tracker, 9, 0, 0, 0), -EINVAL);
	assert_int_equal(fck_tracker_lift(tracker, 9), -EINVAL);
	fck_tracker_free(tracker);
	fck_tracker_free(NULL);
}

TEST(test_every_name_is_there)
{
	for (uint32_t i = 0; i < FCK_FINDING_KINDS; i++)
		assert_non_null(fck_finding_name(i));
	for (uint32_t i = 0; i < FCK_PLACES; i++)
		assert_non_null(fck_place_name(i));
	for (uint32_t i = 0; i < FCK_LAYS; i++)
		assert_non_null(fck_lay_name(i));
	assert_null(fck_finding_name(FCK_FINDING_KINDS));
	assert_null(fck_place_name(FCK_PLACES));
	assert_null(fck_lay_name(FCK_LAYS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places_and_lays),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_outside_the_windows),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_immediates),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_copies_and_short_packets),
		cmocka_unit_test(test_memory_is_given_back),
		cmocka_unit_test(test_late_packets_have_a_name),
		cmocka_unit_test(test_what_is_refused),
		cmocka_unit_test(test_every_name_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
