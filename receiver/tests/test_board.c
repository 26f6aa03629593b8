// SPDX-License-Identifier: Apache-2.0
//
// A board by hand: slots of four units, of which three carry.
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fck_board.h"

static const struct fck_board_shape shape = {.slots = 2, .cycle = 1, .group = 5, .size = 100, .units = 4, .carrying = 3};

static struct fck_board *make(void)
{
	uint64_t bytes = fck_board_bytes(&shape);
	struct fck_board *board = aligned_alloc(4096, bytes);

	assert_non_null(board);
	memset(board, 0, bytes);
	assert_int_equal(fck_board_begin(board, bytes, &shape, "dp0", "digest", 1), 0);
	return board;
}

static struct fck_board_closing closing(const struct fck_board *board, uint64_t number)
{
	struct fck_board_closing found;

	assert_int_equal(fck_board_closing_get(board, number, &found), 0);
	return found;
}

TEST(test_shape)
{
	struct fck_board_shape wrong = shape;

	assert_int_equal(fck_board_bytes(&shape) % FCK_BOARD_PAGE, 0);
	wrong.slots = 1;
	assert_int_equal(fck_board_bytes(&wrong), 0);
	wrong = shape;
	wrong.carrying = 5;
	assert_int_equal(fck_board_bytes(&wrong), 0);
	wrong = shape;
	wrong.units = UINT64_MAX;
	assert_int_equal(fck_board_bytes(&wrong), 0);
}

TEST(test_complete)
{
	struct fck_board *board = make();
	int slot = fck_board_acquire(board, 7, 10, 0);

	assert_int_equal(slot, 1);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_OPEN);
	assert_int_equal(board->newest, 8);
	fck_board_publish(board, 1, 0, 0x3, 11);
	fck_board_publish(board, 1, 0, 0x1, 12); // again: no other unit
	assert_int_equal(board->slot[1].laid, 2);
	assert_int_equal(fck_board_hold(board, 1, 99), -EBUSY);
	fck_board_publish(board, 1, 0, 0x4, 13);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_COMPLETE);
	assert_int_equal(board->complete, 8);
	assert_int_equal(closing(board, 0).event, FCK_BOARD_CLOSED_COMPLETE);
	assert_int_equal(closing(board, 0).iteration, 7);
	assert_int_equal(closing(board, 0).time_ns, 13);
	fck_board_release(board, 1, 14);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_COMPLETE);
	assert_int_equal(board->journal_next, 1);
	free(board);
}

TEST(test_gaps_and_late)
{
	struct fck_board *board = make();
	struct fck_board_closing found;

	assert_int_equal(fck_board_acquire(board, 0, 10, 0), 0);
	assert_int_equal(fck_board_acquire(board, 0, 10, 0), 0); // another worker
	fck_board_publish(board, 0, 0, 0x1, 11);
	fck_board_release(board, 0, 12);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	fck_board_release(board, 0, 13);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_GAPS);
	found = closing(board, 0);
	assert_int_equal(found.event, FCK_BOARD_CLOSED_GAPS);
	assert_int_equal(found.laid, 1);
	assert_int_equal(fck_board_closing_get(board, 1, &found), -ENOENT);
	assert_int_equal(fck_board_acquire(board, 0, 14, 0), -ESTALE);
	assert_int_equal(fck_board_acquire(board, 0, 14, 1), 0); // to take something back
	fck_board_release(board, 0, 15);
	assert_int_equal(fck_board_acquire(board, 2, 16, 0), 0);
	assert_int_equal(board->overwritten, 1);
	assert_int_equal(fck_board_present(board, 0)[0], 0);
	assert_int_equal(board->slot[0].laid, 0);
	assert_int_equal(fck_board_acquire(board, 0, 17, 0), -ESTALE);
	assert_int_equal(fck_board_acquire(board, 4, 17, 0), -EAGAIN);
	assert_int_equal(board->no_room, 1);
	free(board);
}

TEST(test_a_unit_taken_back_after_all_were_there)
{
	struct fck_board *board = make();

	fck_board_acquire(board, 0, 10, 0);
	fck_board_claimed(board, 0)[0] = 0x7;
	fck_board_publish(board, 0, 0, 0x7, 11);
	fck_board_withdraw(board, 0, 1, 0, 12);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_OPEN);
	assert_int_equal(fck_board_claimed(board, 0)[0], 0x5);
	assert_int_equal(closing(board, 1).event, FCK_BOARD_REOPENED);
	fck_board_withdraw(board, 0, 1, 0, 12); // lies no more: no second time
	assert_int_equal(board->slot[0].withdrawn, 1);
	fck_board_publish(board, 0, 0, 0x2, 13);
	assert_int_equal(closing(board, 2).event, FCK_BOARD_CLOSED_COMPLETE);
	fck_board_withdraw(board, 0, 2, 1, 14);
	assert_int_equal(fck_board_withdrawn(board, 0)[0], 0x4);
	fck_board_release(board, 0, 15);
	assert_int_equal(closing(board, 4).event, FCK_BOARD_CLOSED_GAPS);
	free(board);
}

TEST(test_a_reader_that_wants_all)
{
	struct fck_board *board = make();

	board->keeper = 99;
	fck_board_acquire(board, 0, 10, 0);
	assert_int_equal(fck_board_next(board, 0, 0), -ENOENT);
	fck_board_publish(board, 0, 0, 0x7, 11);
	fck_board_release(board, 0, 12);
	assert_int_equal(fck_board_acquire(board, 2, 13, 0), -EAGAIN); // not taken yet
	assert_int_equal(fck_board_next(board, 0, 0), 0);
	assert_int_equal(fck_board_hold(board, 0, 99), 0);
	assert_int_equal(fck_board_hold(board, 0, 98), -EBUSY);
	assert_int_equal(fck_board_is_held(board, 0), 1);
	fck_board_let_go(board, 0, 0);
	assert_int_equal(fck_board_is_held(board, 0), 0);
	assert_int_equal(fck_board_acquire(board, 2, 14, 0), -EAGAIN);
	assert_int_equal(fck_board_hold(board, 0, 99), 0);
	fck_board_let_go(board, 0, 1);
	assert_int_equal(fck_board_next(board, 0, 0), -ENOENT);
	assert_int_equal(fck_board_acquire(board, 2, 15, 0), 0);
	assert_int_equal(board->overwritten, 0);
	free(board);
}

TEST(test_a_receiver_that_died)
{
	uint64_t bytes = fck_board_bytes(&shape);
	struct fck_board *board = make();
	struct fck_board_shape other = shape;

	fck_board_acquire(board, 0, 10, 0);
	fck_board_publish(board, 0, 0, 0x7, 11);
	fck_board_acquire(board, 1, 12, 0);
	fck_board_publish(board, 1, 0, 0x1, 13);
	other.units = 5;
	assert_int_equal(fck_board_begin(board, bytes, &other, "dp0", "digest", 20), -EINVAL);
	assert_int_equal(fck_board_begin(board, bytes, &shape, "dp0", "another", 20), -EINVAL);
	assert_int_equal(fck_board_begin(board, bytes, &shape, "dp0", "digest", 20), 0);
	assert_int_equal(board->life, 1);
	assert_int_equal(fck_board_state_of(board, 0), FCK_BOARD_COMPLETE);
	assert_int_equal(fck_board_state_of(board, 1), FCK_BOARD_GAPS);
	assert_int_equal(closing(board, 1).event, FCK_BOARD_BROKEN);
	assert_int_equal(closing(board, 1).iteration, 1);
	assert_int_equal(fck_board_next(board, 0, 0), 0); // what the life before closed can still be taken
	assert_int_equal(fck_board_acquire(board, 0, 21, 0), 0); // the same number in this life is another iteration
	assert_int_equal(board->slot[0].laid, 0);
	free(board);
}

TEST(test_memory_that_is_no_board)
{
	struct fck_board *board = make();
	uint64_t bytes = board->bytes;

	assert_int_equal(fck_board_check(board, bytes), 0);
	assert_int_equal(fck_board_check(board, bytes - 1), -EINVAL);
	assert_int_equal(fck_board_check(board, 8), -EINVAL);
	board->data_at += 8;
	assert_int_equal(fck_board_check(board, bytes), -EINVAL);
	board->data_at -= 8;
	board->version++;
	assert_int_equal(fck_board_check(board, bytes), -EINVAL);
	free(board);
}

TEST(test_a_journal_that_was_overwritten)
{
	struct fck_board *board = make();
	struct fck_board_closing found;

	for (uint64_t i = 0; i <= FCK_BOARD_JOURNAL; i++) {
		int slot = fck_board_acquire(board, i, i, 0);

		fck_board_release(board, (uint32_t)slot, i);
	}
	assert_int_equal(fck_board_closing_get(board, 0, &found), -ENODATA);
	assert_int_equal(fck_board_closing_get(board, FCK_BOARD_JOURNAL, &found), 0);
	assert_int_equal(found.iteration, FCK_BOARD_JOURNAL);
	free(board);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_complete),
		cmocka_unit_test(test_gaps_and_late),
		cmocka_unit_test(test_a_unit_taken_back_after_all_were_there),
		cmocka_unit_test(test_a_reader_that_wants_all),
		cmocka_unit_test(test_a_receiver_that_died),
		cmocka_unit_test(test_memory_that_is_no_board),
		cmocka_unit_test(test_a_journal_that_was_overwritten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
