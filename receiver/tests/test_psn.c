// SPDX-License-Identifier: Apache-2.0
//
// PSN sequences through the public functions: wrap, gaps, reorder, retransmission, double mirroring, reads; at the end a
// comparison with a naive model that marks every position in an array.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#define US 1000u
#define MS 1000000u

// One packet after the other, `step` apart.
struct feeder {
	struct fck_core *core;
	uint64_t now;
	uint64_t step;
};

static void feed(struct feeder *feeder, uint32_t psn)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .psn = psn, .payload = 100, .reth_length = 100, .icrc = psn};

	feeder->now += feeder->step;
	core_feed(feeder->core, feeder->now, &wish);
}

static void feed_all(struct feeder *feeder, const uint32_t *psns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		feed(feeder, psns[i]);
}

#define FEED(feeder, ...) \
	feed_all(feeder, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static struct feeder feeder_make(void)
{
	return (struct feeder){.core = core_make(), .now = MS, .step = US};
}

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
		feed(&feeder, 100 + cases[i].next);
		flow = core_flow(feeder.core);
		assert_int_equal(flow.missing_count, cases[i].missing);
		assert_int_equal(flow.gaps_count, cases[i].missing);
		fck_free(feeder.core);
	}
}

#define MODEL_SPACE 40000
#define MODEL_START 20000
#define MODEL_PACKETS 6000

struct model {
	uint32_t copies[MODEL_SPACE];
	uint32_t jump_of[MODEL_SPACE]; // number of the gap, from 1
	int64_t base;                  // position of index 0
	int64_t highest;
	uint32_t jumps;
};

static void model_see(struct model *model, int64_t position)
{
	uint32_t at = (uint32_t)(position - model->base);

	assert_in_range(at, 1, MODEL_SPACE - 2);
	if (position > model->highest + 1) {
		model->jumps++;
		for (int64_t lost = model->highest + 1; lost < position; lost++)
			model->jump_of[lost - model->base] = model->jumps;
	}
	if (position > model->highest)
		model->highest = position;
	model->copies[at]++;
}

static void compare_ranges(const struct model *model, const struct fck_flow *flow)
{
	uint64_t range = 0, repeat = 0, missing = 0;
	bool inside = false;

	for (uint32_t at = 0; at < MODEL_SPACE; at++) {
		int64_t position = model->base + at;

		if (model->copies[at] > 0 && !inside) {
			if (range > 0) { // a hole ends here
				assert_int_equal(flow->missing[missing].position, flow->seen[range - 1].last + 1);
				assert_int_equal(flow->missing[missing].packets, position - flow->seen[range - 1].last - 1);
				missing++;
			}
			assert_true(range < flow->seen_count);
			assert_int_equal(flow->seen[range].first, position);
		} else if (model->copies[at] == 0 && inside) {
			assert_int_equal(flow->seen[range++].last, position - 1);
		}
		inside = model->copies[at] > 0;
		if (model->copies[at] > 1) {
			assert_true(repeat < flow->repeats_count);
			assert_int_equal(flow->repeats[repeat].position, position);
			assert_int_equal(flow->repeats[repeat++].copies, model->copies[at] - 1);
		}
	}
	assert_int_equal(range, flow->seen_count);
	assert_int_equal(repeat, flow->repeats_count);
	assert_int_equal(missing, flow->missing_count);
}

static void compare_gaps(const struct model *model, const struct fck_flow *flow)
{
	uint64_t packets = 0, filled = 0, extra = 0;

	assert_int_equal(flow->gaps_count, model->jumps);
	for (uint32_t at = 0; at < MODEL_SPACE; at++) {
		packets += model->jump_of[at] > 0;
		filled += model->jump_of[at] > 0 && model->copies[at] > 0;
		extra += model->copies[at] > 1 ? model->copies[at] - 1 : 0;
	}
	for (uint64_t i = 0; i < flow->gaps_count; i++) {
		packets -= flow->gaps[i].packets;
		filled -= flow->gaps[i].filled;
		assert_int_equal(model->jump_of[flow->gaps[i].position - model->base], i + 1);
	}
	assert_int_equal(packets, 0);
	assert_int_equal(filled, 0);
	assert_int_equal(flow->retransmitted + flow->duplicated, extra);
}

static int64_t model_next(struct model *model, uint64_t *seed)
{
	switch (draw(seed, 12)) {
	case 0: // a jump
		return model->highest + 1 + draw(seed, 5);
	case 1: // anything behind, before the first packet too
		return model->highest - draw(seed, 200);
	case 2:
		return model->highest;
	default:
		return model->highest + 1;
	}
}

TEST(test_against_model)
{
	static struct model model;

	for (uint64_t round = 1; round <= 20; round++) {
		struct feeder feeder = feeder_make();
		uint64_t seed = round * 7919;
		int64_t first = (int64_t)draw(&seed, 2000) + 0xffffff - 1000; // the wrap is near
		struct fck_flow flow;

		first = (round % 2) ? first & 0xffffff : 100 + (int64_t)draw(&seed, 100); // or positions below zero are
		memset(&model, 0, sizeof(model));
		model.base = first - MODEL_START;
		model.highest = first - 1;
		for (int i = 0; i < MODEL_PACKETS; i++) {
			int64_t position = i == 0 ? first : model_next(&model, &seed);

			model_see(&model, position);
			feed(&feeder, (uint32_t)((uint64_t)position & 0xffffff));
		}
		flow = core_flow(feeder.core);
		compare_ranges(&model, &flow);
		compare_gaps(&model, &flow);
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
		cmocka_unit_test(test_rewind_after_a_duplicate),
		cmocka_unit_test(test_other_sequences_make_no_gaps),
		cmocka_unit_test(test_read_with_known_mtu),
		cmocka_unit_test(test_read_with_unknown_mtu),
		cmocka_unit_test(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
