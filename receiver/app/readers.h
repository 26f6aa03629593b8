// SPDX-License-Identifier: Apache-2.0
//
// Readers of gradient boards that died: what they held would stay in use for ever. Each holds a lock of the open file
// (F_OFD_SETLK) while it holds a slot or keeps a board; the kernel ends it with the reader.
#ifndef RECEIVER_READERS_H
#define RECEIVER_READERS_H

#include <stdint.h>

#include "fck_board.h"

// Lets go of what no living reader holds; how many such there were.
uint32_t readers_gone(struct fck_board *board, int file);

#endif
