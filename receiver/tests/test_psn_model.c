// SPDX-License-Identifier: Apache-2.0
//
// PSN sequences against a naive model that marks every position in an array.
#include "frames.h"

#include <string.h>

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
			feeder_feed(&feeder, (uint32_t)((uint64_t)position & 0xffffff));
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
		cmocka_unit_test(test_against_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
