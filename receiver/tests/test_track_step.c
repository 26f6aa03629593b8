// SPDX-License-Identifier: Apache-2.0
//
// Placement by hand: contradictions, a step that is lost and found again, restarts.
#include "track_bench.h"

// Each way in which a packet can contradict, with what was expected and found.
TEST(test_contradictions)
{
	struct { uint32_t place; struct wish wish; enum fck_finding_kind kind; int64_t expected, found; bool lost; } cases[] = {
		{0, {.opcode = OP_WRITE_FIRST, .payload = 256, .reth_length = 601}, FCK_FINDING_MESSAGE_LENGTH, 600, 601, true},
		{0, {.opcode = OP_WRITE_ONLY_IMM, .payload = 100, .reth_length = 100, .immediate = 100}, FCK_FINDING_PART, 1, 3, true},
		{1, {.opcode = OP_WRITE_LAST_IMM, .payload = 256, .immediate = 512}, FCK_FINDING_PART, 0, 2, true},
		{1, {.opcode = OP_SEND_MIDDLE, .payload = 256}, FCK_FINDING_CLASS, FCK_CLASS_WRITE, FCK_CLASS_SEND, true},
		{1, {.opcode = OP_WRITE_MIDDLE, .payload = 252}, FCK_FINDING_PACKET_LENGTH, 256, 252, false},
		{5, {.opcode = OP_WRITE_LAST_IMM, .payload = 256, .immediate = 513}, FCK_FINDING_IMMEDIATE, 512, 513, false},
		{5, {.opcode = OP_WRITE_LAST, .payload = 256}, FCK_FINDING_IMMEDIATE, 512, -1, false},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t place = cases[i].place;
		struct fck_finding first;
		struct bench bench;

		open_bench(&bench, plain, 3, &config);
		assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
		if (place > 0)
			feed_row(&bench, 0, 0, place - 1);
		feed(&bench, cases[i].wish, place);
		first = finding(&bench, 0);
		assert_int_equal(first.kind, cases[i].kind);
		assert_int_equal(first.expected, cases[i].expected);
		assert_int_equal(first.found, cases[i].found);
		assert_int_equal(first.packet, place + 1);
		assert_int_equal(first.position, place);
		assert_int_equal(first.slot, place == 5 ? 2 : 0);
		assert_int_equal(findings(&bench, FCK_FINDING_STEP_LOST), cases[i].lost);
		assert_int_equal(counts(&bench).places[FCK_PLACE_CONFLICT], 1);
		assert_int_equal(bench.iterations[0].present[0], place == 5 ? 0x3 : 0);
		close_bench(&bench);
	}
}

// Foreign messages push the pattern on. The packets that fit by chance are taken back; the next whole iteration is the
// one that follows, since every position was seen.
TEST(test_step_lost_and_found)
{
	struct wish foreign = {.opcode = OP_WRITE_ONLY_IMM, .payload = 40, .reth_length = 40, .immediate = 40};
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_row(&bench, 0, 0, 5);
	feed(&bench, foreign, 6);
	assert_int_equal(counts(&bench).waiting, 1);
	feed_row(&bench, 7, 0, 11);
	assert_int_equal(findings(&bench, FCK_FINDING_ANCHOR_FOUND), 1);
	assert_int_equal(counts(&bench).waiting, 0);
	assert_int_equal(bench.iterations[1].present[0], 0x4); // its base was known at packet 4 only, whose bytes were past
	assert_int_equal(bench.iterations[2].present[0], 0x7);
	assert_int_equal(bench.iterations[3].present[0], 0);
	close_bench(&bench);
}

// As before, but a packet is lost where the step was lost: how many iterations lie between cannot be known.
TEST(test_number_unknown_is_a_candidate)
{
	struct wish foreign = {.opcode = OP_WRITE_ONLY_IMM, .payload = 40, .reth_length = 40, .immediate = 40};
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed_row(&bench, 0, 0, 5);
	feed(&bench, foreign, 6);
	feed(&bench, foreign, 8);
	feed_row(&bench, 9, 0, 5);
	assert_int_equal(counts(&bench).candidate, 9);
	assert_int_equal(counts(&bench).waiting, 1);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 9, 4, 0), 0);
	feed_row(&bench, 9, 6, 11);
	assert_int_equal(bench.iterations[5].present[0], 0x7);
	assert_int_equal(bench.iterations[1].present[0], 0);
	close_bench(&bench);
}

// The start of a foreign message is lost, so that its middle fits by chance: laid, then taken back when the next
// message contradicts.
TEST(test_bytes_are_taken_back)
{
	struct wish start = {.opcode = OP_WRITE_FIRST, .payload = 256, .reth_length = 700};
	static const struct fck_slot slots[1] = {
		{.packets = 4, .bytes = 1024, .immediate = 1024, .data_bytes = 600, .unit = 0, .reduced = 1},
	};
	struct bench bench;

	open_bench(&bench, slots, 1, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 0, 0, 0), 0);
	feed(&bench, packet_at(1), 1);
	feed(&bench, packet_at(1), 2);
	assert_int_equal(bench.iterations[0].present[0], 0x6);
	assert_int_equal(counts(&bench).unconfirmed, 2);
	feed(&bench, start, 4);
	assert_int_equal(bench.iterations[0].present[0], 0);
	assert_int_equal(counts(&bench).revoked, 2);
	assert_int_equal(counts(&bench).unconfirmed, 0);
	close_bench(&bench);
}

// A queue pair that begins anew at a lower PSN. Nothing is placed until a whole iteration was seen; then the caller
// says which it was. Old holes are not filled with new bytes.
TEST(test_restart)
{
	struct bench bench;
	int64_t base;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 100, 0, 0), 0);
	feed_row(&bench, 100, 0, 4);
	feed_row(&bench, 100, 6, 29); // packet 105 lacks
	feed_row(&bench, 102, 0, 5);  // from PSN 102 on again: its packet 3 comes at 105
	assert_int_equal(bench.iterations[0].present[0], 0x3);
	base = counts(&bench).candidate;
	assert_int_equal(base, 102 + (1 << 24));
	assert_int_equal(fck_tracker_lift(bench.tracker, 0), 1 << 24);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, base, 6, 0), 0);
	feed_row(&bench, 102, 5, 11);
	assert_int_equal(bench.iterations[6].present[0], 0x4);
	assert_int_equal(bench.iterations[7].present[0], 0x7);
	close_bench(&bench);
}

TEST(test_restart_by_the_caller)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, 5000, 0, 0), 0);
	feed_row(&bench, 5000, 0, 5);
	assert_int_equal(fck_tracker_restart(bench.tracker, 0), 0);
	assert_int_equal(fck_tracker_anchor(bench.tracker, 0, fck_tracker_lift(bench.tracker, 0) + 9000000, 1, 0), 0);
	feed_row(&bench, 9000000, 0, 5);
	assert_int_equal(bench.iterations[1].present[0], 0x7);
	assert_int_equal(counts(&bench).places[FCK_PLACE_PLACED], 12);
	close_bench(&bench);
}

// All messages alike: no base can be told from another, so none is guessed.
TEST(test_self_similar_pattern_waits)
{
	static const struct fck_slot slots[2] = {
		{.packets = 1, .bytes = 100, .immediate = 100, .data_at = 0, .data_bytes = 100, .unit = 0, .reduced = 1},
		{.packets = 1, .bytes = 100, .immediate = 100, .data_at = 100, .data_bytes = 100, .unit = 1, .reduced = 1},
	};
	struct bench bench;

	open_bench(&bench, slots, 2, &config);
	assert_int_equal(fck_tracker_expect(bench.tracker, 0, 0), 0);
	for (uint32_t i = 0; i < 20; i++)
		feed(&bench, packet_at(3), i);
	assert_int_equal(counts(&bench).places[FCK_PLACE_WAITING], 20);
	assert_int_equal(counts(&bench).candidate, INT64_MIN);
	close_bench(&bench);
}

TEST(test_search_from_the_middle)
{
	struct bench bench;

	open_bench(&bench, plain, 3, &config);
	assert_int_equal(fck_tracker_expect(bench.tracker, 0, 5), 0);
	feed_row(&bench, 0, 2, 17); // the first whole iteration begins at 6, known when its last message begins at 10
	assert_int_equal(counts(&bench).places[FCK_PLACE_WAITING], 9);
	assert_int_equal(bench.iterations[5].present[0], 0x4);
	assert_int_equal(bench.iterations[6].present[0], 0x7);
	close_bench(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_step_lost_and_found),
		cmocka_unit_test(test_number_unknown_is_a_candidate),
		cmocka_unit_test(test_bytes_are_taken_back),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_restart_by_the_caller),
		cmocka_unit_test(test_self_similar_pattern_waits),
		cmocka_unit_test(test_search_from_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
