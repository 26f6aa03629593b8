// SPDX-License-Identifier: Apache-2.0
//
// Two workers and one board: the queue pair of track_bench.h, seen at two places. Three units carry gradient bytes.
#include "track_bench.h"

#include <errno.h>
#include <stdlib.h>

#include "fck_online.h"

struct worker {
	struct bench bench; // its memory is not used
	bool took;
	uint32_t copies;
	struct {
		uint8_t *to;
		const uint8_t *from;
		uint32_t bytes;
	} held[16];
};

static const struct fck_board_shape shape = {.slots = 3, .cycle = 1, .group = 9, .size = DATA, .units = 64, .carrying = 3};

static struct fck_board *make_board(void)
{
	uint64_t bytes = fck_board_bytes(&shape);
	struct fck_board *board = aligned_alloc(4096, bytes);

	assert_non_null(board);
	memset(board, 0, bytes);
	assert_int_equal(fck_board_begin(board, bytes, &shape, "dp0", "", 1), 0);
	memset(fck_board_data(board, 0), 0xee, 3 * board->stride);
	return board;
}

static void open_worker(struct worker *worker, struct fck_board *board)
{
	struct bench *bench = &worker->bench;

	memset(worker, 0, sizeof(*worker));
	bench->core = core_make();
	assert_int_equal(fck_tracker_new(&bench->tracker), 0);
	assert_int_equal(fck_tracker_pattern(bench->tracker, plain, 3, &config), 0);
	assert_int_equal(fck_tracker_follow(bench->tracker, 0, 6, source, destination, 0x11, 0, 9), 0);
	assert_int_equal(fck_tracker_board(bench->tracker, 9, board), 0);
	assert_int_equal(fck_tracker_board(bench->tracker, 9, board), -EEXIST);
	assert_int_equal(fck_tracker_anchor(bench->tracker, 0, 0, 0, 0), 0);
	fck_core_track(bench->core, bench->tracker);
}

static void end_worker(struct worker *worker)
{
	fck_tracker_let_go(worker->bench.tracker, 99);
	close_bench(&worker->bench);
}

static uint64_t present(struct fck_board *board, uint32_t slot)
{
	return fck_board_present(board, slot)[0];
}

TEST(test_present_only_when_published)
{
	struct fck_board *board = make_board();
	struct worker one;

	open_worker(&one, board);
	feed_row(&one.bench, 0, 0, 5);
	assert_int_equal(present(board, 0), 0);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	fck_tracker_publish(one.bench.tracker, 5);
	assert_int_equal(present(board, 0), 0x7);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_COMPLETE);
	assert_int_equal(fck_board_data(board, 0)[DATA - 1], 0);
	assert_int_equal(fck_board_data(board, 0)[DATA], 0xee);
	assert_int_equal(board->slot[0].closed_ns, 5);
	end_worker(&one);
	free(board);
}

TEST(test_two_workers_complete_one_iteration)
{
	struct fck_board *board = make_board();
	struct worker one, two;

	open_worker(&one, board);
	open_worker(&two, board);
	feed_row(&one.bench, 0, 0, 3);
	feed_row(&two.bench, 0, 0, 3); // claimed by the first, which has not published yet
	assert_int_equal(counts(&two.bench).lays[FCK_LAY_IN_FLIGHT], 1);
	feed_row(&two.bench, 0, 4, 5);
	fck_tracker_publish(two.bench.tracker, 5);
	assert_int_equal(present(board, 0), 0x6);
	fck_tracker_publish(one.bench.tracker, 6);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_COMPLETE);
	feed_row(&one.bench, 0, 4, 5); // compared, though closed
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_PRESENT], 2);
	end_worker(&one);
	end_worker(&two);
	free(board);
}

TEST(test_a_repeat_in_the_same_burst_is_compared)
{
	struct fck_board *board = make_board();
	struct worker one;

	open_worker(&one, board);
	feed_row(&one.bench, 0, 3, 3);
	feed_row(&one.bench, 0, 3, 3);
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_PRESENT], 1);
	assert_int_equal(present(board, 0), 0x1);
	end_worker(&one);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_GAPS);
	free(board);
}

TEST(test_other_bytes_are_withdrawn_also_after_all_were_there)
{
	struct fck_board *board = make_board();
	struct worker one;

	open_worker(&one, board);
	feed_row(&one.bench, 0, 0, 5);
	fck_tracker_publish(one.bench.tracker, 5);
	feed(&one.bench, (struct wish){.opcode = OP_WRITE_ONLY_IMM, .payload = 100, .reth_length = 100, .immediate = 100, .ll_flag = 7}, 3);
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_DIFFERS], 1);
	assert_int_equal(present(board, 0), 0x6);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	feed_row(&one.bench, 0, 3, 3);
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_DOUBTFUL], 1);
	end_worker(&one);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_GAPS);
	free(board);
}

TEST(test_iterations_are_closed_when_others_have_begun)
{
	struct fck_board *board = make_board();
	struct worker one;

	open_worker(&one, board);
	feed_row(&one.bench, 0, 0, 3);            // iteration 0, in part
	feed_row(&one.bench, 0, SPAN, SPAN + 3);  // 1
	fck_tracker_publish(one.bench.tracker, 5);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	feed_row(&one.bench, 0, 2 * SPAN, 2 * SPAN); // partial sums only: nothing to lay
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	feed_row(&one.bench, 0, 2 * SPAN + 3, 2 * SPAN + 3);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_GAPS);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_OPEN);
	feed_row(&one.bench, 0, 4, 5); // late
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_NO_MEMORY], 2);
	assert_int_equal(present(board, 0), 0x1);
	end_worker(&one);
	free(board);
}

TEST(test_what_was_laid_on_trust_is_taken_back)
{
	// one message of 3 packets: its second one is laid on trust of its PSN
	static const struct fck_slot slot = {.packets = 3, .bytes = 612, .immediate = 612, .data_bytes = 612, .reduced = 1};
	struct fck_board *board = make_board();
	struct worker one;

	memset(&one, 0, sizeof(one));
	one.bench.core = core_make();
	assert_int_equal(fck_tracker_new(&one.bench.tracker), 0);
	assert_int_equal(fck_tracker_pattern(one.bench.tracker, &slot, 1, &config), 0);
	assert_int_equal(fck_tracker_follow(one.bench.tracker, 0, 6, source, destination, 0x11, 0, 9), 0);
	assert_int_equal(fck_tracker_board(one.bench.tracker, 9, board), 0);
	assert_int_equal(fck_tracker_anchor(one.bench.tracker, 0, 0, 0, 0), 0);
	fck_core_track(one.bench.core, one.bench.tracker);
	feed(&one.bench, (struct wish){.opcode = OP_WRITE_FIRST, .payload = 256, .reth_length = 612}, 0);
	feed(&one.bench, (struct wish){.opcode = OP_WRITE_MIDDLE, .payload = 256}, 4);
	fck_tracker_publish(one.bench.tracker, 5);
	assert_int_equal(present(board, 0), 0x1);
	assert_int_equal(present(board, 1), 0x2);
	feed(&one.bench, (struct wish){.opcode = OP_WRITE_MIDDLE, .payload = 256}, 5); // where a Last belongs
	assert_int_equal(findings(&one.bench, FCK_FINDING_STEP_LOST), 1);
	assert_int_equal(present(board, 0), 0x1);
	assert_int_equal(present(board, 1), 0);
	assert_int_equal(board->slot[1].withdrawn, 1);
	assert_int_equal(counts(&one.bench).revoked, 1);
	end_worker(&one);
	free(board);
}

static bool take(void *context, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	struct worker *worker = context;

	if (worker->copies == 16 || !worker->took)
		return false;
	worker->held[worker->copies].to = to;
	worker->held[worker->copies].from = memcpy(malloc(bytes), from, bytes); // the frame lives no longer here
	worker->held[worker->copies++].bytes = bytes;
	return true;
}

static void finish(void *context)
{
	struct worker *worker = context;

	for (uint32_t i = 0; i < worker->copies; i++) {
		memcpy(worker->held[i].to, worker->held[i].from, worker->held[i].bytes);
		free((void *)worker->held[i].from);
	}
	fck_tracker_copied(worker->bench.tracker, worker->copies);
	worker->copies = 0;
}

TEST(test_copies_that_another_makes)
{
	struct fck_board *board = make_board();
	struct worker one;
	struct fck_copier copier = {take, finish, &one};

	open_worker(&one, board);
	assert_int_equal(fck_tracker_copier(one.bench.tracker, &copier), 0);
	one.took = true;
	feed_row(&one.bench, 0, 0, 4);
	one.took = false; // its queue is full
	feed_row(&one.bench, 0, 5, 5);
	assert_int_equal(one.copies, 2);
	fck_tracker_publish(one.bench.tracker, 5);
	assert_int_equal(present(board, 0), 0x4);
	assert_int_equal(fck_board_data(board, 0)[0], 0xee);
	feed_row(&one.bench, 0, 3, 3); // waits for its own copy, and compares
	assert_int_equal(counts(&one.bench).lays[FCK_LAY_PRESENT], 1);
	assert_int_equal(present(board, 0), 0x7);
	assert_int_equal(fck_board_data(board, 0)[0], 0);
	one.took = true;
	feed_row(&one.bench, 0, SPAN, 2 * SPAN - 1);
	assert_int_equal(one.copies, 3);
	end_worker(&one); // waits
	assert_int_equal(one.copies, 0);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_COMPLETE);
	free(board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_present_only_when_published),
		cmocka_unit_test(test_two_workers_complete_one_iteration),
		cmocka_unit_test(test_a_repeat_in_the_same_burst_is_compared),
		cmocka_unit_test(test_other_bytes_are_withdrawn_also_after_all_were_there),
		cmocka_unit_test(test_iterations_are_closed_when_others_have_begun),
		cmocka_unit_test(test_what_was_laid_on_trust_is_taken_back),
		cmocka_unit_test(test_copies_that_another_makes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
