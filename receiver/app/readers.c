// SPDX-License-Identifier: Apache-2.0
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // F_OFD_SETLK
#endif
#include "readers.h"

#include <fcntl.h>
#include <stdbool.h>

// With the lock, nobody else has it, and nobody can get it meanwhile.
static bool lock(int file, uint32_t which, short type)
{
	struct flock wanted = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)FCK_BOARD_LOCKS + which, .l_len = 1,
	};

	return fcntl(file, F_OFD_SETLK, &wanted) == 0;
}

static bool kept(const struct fck_board *board)
{
	return __atomic_load_n(&board->keeper, __ATOMIC_ACQUIRE) != 0;
}

uint32_t readers_gone(struct fck_board *board, int file)
{
	uint32_t gone = 0;

	for (uint32_t slot = 0; slot < board->slots; slot++) {
		if (!fck_board_is_held(board, slot) || !lock(file, slot, F_WRLCK))
			continue;
		if (fck_board_is_held(board, slot)) {
			fck_board_let_go(board, slot, 0);
			gone++;
		}
		lock(file, slot, F_UNLCK);
	}
	if (!kept(board) || !lock(file, FCK_BOARD_SLOTS, F_WRLCK))
		return gone;
	if (kept(board)) {
		__atomic_store_n(&board->keeper, 0, __ATOMIC_RELEASE);
		gone++;
	}
	lock(file, FCK_BOARD_SLOTS, F_UNLCK);
	return gone;
}
