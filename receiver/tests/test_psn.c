// SPDX-License-Identifier: Apache-2.0
//
// PSN sequences through the public functions: wrap, gaps, reorder, retransmission, double mirroring, reads.
#include "frames.h"

static void assert_tally(const struct fck_flow *flow, uint64_t retransmitted, uint64_t duplicated, uint64_t reordered)
{
	assert_int_equal(flow->retransmitted, retransmitted);
	assert_int_equal(flow->duplicated, duplicated);
	assert_int_equal(flow->reordered, reordered);
}

static void assert_one_range(const struct fck_flow *flow, int64_t first, int64_t last)
{
	assert_int_equal(flow->seen_count, 1);
	assert_int_equal(flow->seen[0].first, first);
	assert_int_equal(flow->seen[0].last, last);
}

TEST(test_unwrap)
{
	assert_int_equal(fck_psn_unwrap(0, 5), 5);
	assert_int_equal(fck_psn_unwrap(0xffffff, 0), 0x1000000);
	assert_int_equal(fck_psn_unwrap(0x1000000, 0xffffff), 0xffffff);
	assert_int_equal(fck_psn_unwrap(3, 0xfffffe), -2);
	assert_int_equal(fck_psn_unwrap(-2, 3), 3);
	assert_int_equal(fck_psn_unwrap(0, 0x7fffff), 0x7fffff);
	assert_int_equal(fck_psn_unwrap(0, 0x800000), -0x800000); // half way counts as backwards
	assert_int_equal(fck_psn_unwrap(0x2abcdef, 0xabcdef), 0x2abcdef);
}

TEST(test_wrap_forward)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 0xfffffd, 0xfffffe, 0xffffff, 0, 1);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, 0xfffffd, 0x1000001);
	assert_int_equal(flow.missing_count, 0);
	assert_int_equal(flow.gaps_count, 0);
	fck_free(feeder.core);
}

TEST(test_loss_across_the_wrap)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 0xfffffd, 2);
	flow = core_flow(feeder.core);
	assert_int_equal(flow.missing_count, 1);
	assert_int_equal(flow.missing[0].position, 0xfffffe);
	assert_int_equal(flow.missing[0].packets, 4);
	assert_int_equal(flow.missing[0].first_psn, 0xfffffe);
	assert_int_equal(flow.missing[0].last_psn, 1);
	assert_int_equal(flow.missing[0].cause, FCK_CAUSE_LOST);
	fck_free(feeder.core);
}

TEST(test_reorder_backwards_across_first_packet_and_wrap)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 1, 0xffffff, 2, 0, 3);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, -1, 3);
	assert_tally(&flow, 0, 0, 2);
	assert_int_equal(flow.repeats_count, 0);
	fck_free(feeder.core);
}

TEST(test_reorder_fills_a_gap)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 13, 11, 14, 12, 15);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, 10, 15);
	assert_int_equal(flow.gaps_count, 1);
	assert_int_equal(flow.gaps[0].first_psn, 11);
	assert_int_equal(flow.gaps[0].last_psn, 12);
	assert_int_equal(flow.gaps[0].filled, 2);
	assert_tally(&flow, 0, 0, 2);
	fck_free(feeder.core);
}

// 12 is lost before the mirror; the receiver asks again and the sender goes back.
TEST(test_go_back_n)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11, 13, 14, 15, 12, 13, 14, 15, 16);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, 10, 16);
	assert_int_equal(flow.gaps_count, 1);
	assert_int_equal(flow.gaps[0].filled, 1);
	assert_int_equal(flow.missing_count, 0);
	assert_int_equal(flow.repeats_count, 3);
	assert_int_equal(flow.repeats[0].position, 13);
	assert_int_equal(flow.repeats[2].copies, 1);
	assert_tally(&flow, 3, 0, 0);
	assert_int_equal(flow.bytes, 700); // distinct packets only
	fck_free(feeder.core);
}

TEST(test_timeout_repeats_the_last_packet)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11);
	feeder.now += 60 * MS;
	FEED(&feeder, 11, 12);
	flow = core_flow(feeder.core);
	assert_tally(&flow, 1, 0, 0);
	fck_free(feeder.core);
}

// Seen in samples/rxe: the sender repeats its last packet after microseconds, then is silent for a long time.
TEST(test_quick_repeat_before_a_pause_is_the_sender)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11, 11);
	feeder.now += 60 * MS;
	FEED(&feeder, 12);
	flow = core_flow(feeder.core);
	assert_tally(&flow, 1, 0, 0);
	fck_free(feeder.core);
}

TEST(test_double_mirroring_at_once)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 10, 11, 11, 12, 12);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, 10, 12);
	assert_int_equal(flow.repeats_count, 3);
	assert_tally(&flow, 0, 3, 0);
	fck_free(feeder.core);
}

TEST(test_double_mirroring_with_delay)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11, 12, 10, 13, 11, 14, 12, 13, 14);
	flow = core_flow(feeder.core);
	assert_int_equal(flow.repeats_count, 5);
	assert_tally(&flow, 0, 5, 0); // 12, 13, 14 at the end go on where 10 and 11 left off
	fck_free(feeder.core);
}

TEST(test_triple_mirroring)
{
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 10, 10, 11, 11, 11, 12);
	flow = core_flow(feeder.core);
	assert_int_equal(flow.repeats_count, 2);
	assert_int_equal(flow.repeats[0].copies, 2);
	assert_tally(&flow, 0, 4, 0);
	fck_free(feeder.core);
}

TEST(test_other_icrc_is_no_mirror_duplicate)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .psn = 11, .payload = 100, .reth_length = 100, .icrc = 77};
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11);
	core_feed(feeder.core, feeder.now, &wish);
	FEED(&feeder, 12);
	flow = core_flow(feeder.core);
	assert_tally(&flow, 1, 0, 0);
	fck_free(feeder.core);
}

// Of the latest 64 positions one knows what they were. `last` is the front when position 10 comes again. No ICRC tells packets apart.
static struct fck_flow repeat_behind(struct feeder *feeder, uint32_t last)
{
	for (uint32_t number = 10; number <= last + 2; number++) {
		uint32_t psn = number <= last ? number : number == last + 1 ? 10 : last + 1;
		struct wish wish = {.opcode = OP_WRITE_ONLY, .psn = psn, .payload = 100, .reth_length = 100};

		core_feed(feeder->core, feeder->now += feeder->step, &wish);
	}
	return core_flow(feeder->core);
}

TEST(test_mirror_duplicate_of_long_ago)
{
	struct feeder near = feeder_make(), far = feeder_make();
	struct fck_flow flow = repeat_behind(&near, 10 + 63);

	assert_tally(&flow, 0, 1, 0);
	flow = repeat_behind(&far, 10 + 64); // has taken its place
	assert_tally(&flow, 1, 0, 0);
	fck_free(near.core);
	fck_free(far.core);
}

// A run is a mirror's only if every packet of it is.
TEST(test_rewind_after_a_duplicate)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .psn = 11, .payload = 100, .reth_length = 100, .icrc = 77};
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11, 10, 12);
	core_feed(feeder.core, feeder.now, &wish);
	FEED(&feeder, 12, 13);
	flow = core_flow(feeder.core);
	assert_tally(&flow, 2, 1, 0);
	fck_free(feeder.core);
}

// Packets that carry PSNs of other sequences: not one gap may come of them.
TEST(test_other_sequences_make_no_gaps)
{
	static const uint8_t others[] = {OP_READ_RESPONSE_MIDDLE, OP_ACK, OP_ATOMIC_ACK, 0x64, 0x81, 0xaa};
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	FEED(&feeder, 10, 11);
	for (size_t i = 0; i < sizeof(others); i++) {
		struct wish wish = {.opcode = others[i], .psn = 5000 + 100 * (uint32_t)i, .payload = 1024};

		core_feed(feeder.core, feeder.now, &wish);
	}
	FEED(&feeder, 12);
	flow = core_flow(feeder.core);
	assert_one_range(&flow, 10, 12);
	assert_int_equal(flow.gaps_count, 0);
	assert_int_equal(flow.mtu, 0); // a read response says nothing about what this flow sends
	assert_int_equal(flow.packets[FCK_CLASS_WRITE], 3);
	assert_int_equal(flow.packets[FCK_CLASS_READ_RESPONSE], 1);
	assert_int_equal(flow.packets[FCK_CLASS_CNP], 1);
	fck_free(feeder.core);
}

// A read of 10 000 bytes at MTU 1024 uses ceil(10000/1024) = 10 PSNs.
TEST(test_read_with_known_mtu)
{
	struct wish first = {.opcode = OP_SEND_FIRST, .psn = 10, .payload = 1024};
	struct wish last = {.opcode = OP_SEND_LAST, .psn = 11, .payload = 10};
	struct wish read = {.opcode = OP_READ_REQUEST, .psn = 12, .reth_length = 10000};
	struct feeder feeder = feeder_make();
	struct fck_flow flow;

	core_feed(feeder.core, 1, &first);
	core_feed(feeder.core, 2, &last);
	core_feed(feeder.core, 3, &read);
	FEED(&feeder, 22, 24);
	flow = core_flow(feeder.core);
	assert_int_equal(flow.mtu, 1024);
	assert_int_equal(flow.missing_count, 1); // 12-21 belong to the read
	assert_int_equal(flow.missing[0].first_psn, 23);
	fck_free(feeder.core);
}

// Without an MTU the next PSN tells: 3 packets fit MTU 4096, 10 fit 1024; 11 is one more than 10.
TEST(test_read_with_unknown_mtu)
{
	static const struct { uint32_t next; uint64_t missing; } cases[] = {{3, 0}, {5, 0}, {10, 0}, {20, 0}, {40, 0}, {11, 1}, {2, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wish read = {.opcode = OP_READ_REQUEST, .psn = 100, .reth_length = 10000};
		struct feeder feeder = feeder_make();
		struct fck_flow flow;

		core_feed(feeder.core, 1, &read);
		feeder_feed(&feeder, 100 + cases[i].next);
		flow = core_flow(feeder.core);
		assert_int_equal(flow.missing_count, cases[i].missing);
		assert_int_equal(flow.gaps_count, cases[i].missing);
		fck_free(feeder.core);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unwrap),
		cmocka_unit_test(test_wrap_forward),
		cmocka_unit_test(test_loss_across_the_wrap),
		cmocka_unit_test(test_reorder_backwards_across_first_packet_and_wrap),
		cmocka_unit_test(test_reorder_fills_a_gap),
		cmocka_unit_test(test_go_back_n),
		cmocka_unit_test(test_timeout_repeats_the_last_packet),
		cmocka_unit_test(test_quick_repeat_before_a_pause_is_the_sender),
		cmocka_unit_test(test_double_mirroring_at_once),
		cmocka_unit_test(test_double_mirroring_with_delay),
		cmocka_unit_test(test_triple_mirroring),
		cmocka_unit_test(test_other_icrc_is_no_mirror_duplicate),
		cmocka_unit_test(test_mirror_duplicate_of_long_ago),
		cmocka_unit_test(test_rewind_after_a_duplicate),
		cmocka_unit_test(test_other_sequences_make_no_gaps),
		cmocka_unit_test(test_read_with_known_mtu),
		cmocka_unit_test(test_read_with_unknown_mtu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
