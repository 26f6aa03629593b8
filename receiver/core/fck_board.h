// SPDX-License-Identifier: Apache-2.0
//
// Gradient memory that the receiver's workers fill together and other processes read: one board a group, in memory that
// the caller maps. docs/payload.md describes it for readers. Nothing here allocates, waits for long or calls the kernel.
//
// A board is a head, then for each slot three bitmaps, then for each slot its data. A slot holds one cycle: the iterations
// after which the queue pairs of a group carry the same again, most often one. Workers hold references to a slot while
// they may write to it; it is used again when none is left.
#ifndef FCK_BOARD_H
#define FCK_BOARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// cffi: begin

enum {
	FCK_BOARD_VERSION = 1,
	FCK_BOARD_SLOTS = 16,     // at most
	FCK_BOARD_JOURNAL = 1024, // closings that are kept
	FCK_BOARD_PAGE = 4096,    // data and bitmaps of a slot begin at multiples of it
	FCK_BOARD_NAME = 64,
	FCK_BOARD_LOCKS = 1 << 30, // a reader locks this byte of the file + number of the slot that it holds; + SLOTS to keep all
};

enum fck_board_state {
	FCK_BOARD_FREE,
	FCK_BOARD_OPENING,
	FCK_BOARD_OPEN,
	FCK_BOARD_COMPLETE, // every unit that carries gradient bytes is present
	FCK_BOARD_GAPS,     // closed, and units are missing
	FCK_BOARD_STATES
};

enum fck_board_event {
	FCK_BOARD_CLOSED_COMPLETE,
	FCK_BOARD_CLOSED_GAPS,
	FCK_BOARD_REOPENED, // was complete, and units were taken back or contradicted since
	FCK_BOARD_BROKEN,   // was open when the receiver ended without closing it
	FCK_BOARD_EVENTS
};

// Shared between processes; `word` is changed by compare and swap only.
struct fck_board_slot {
	uint64_t word;      // bits 0-7 enum fck_board_state, bit 8 taken by a reader, bit 9 held by a reader, 16-31 references
	uint64_t iteration; // number of the cycle
	uint64_t life;      // of the receiver that opened it
	uint64_t laid;      // units that are present
	uint64_t withdrawn; // units taken back or contradicted, so far
	uint64_t opened_ns; // CLOCK_REALTIME
	uint64_t closed_ns;
	uint64_t holder;    // process id of the reader
};

struct fck_board_closing {
	uint64_t ready; // 1 + running number of the entry, once it is whole
	uint64_t iteration;
	uint64_t life;
	uint64_t event; // enum fck_board_event
	uint64_t laid;
	uint64_t time_ns;
};

struct fck_board {
	uint64_t magic;
	uint32_t version;
	uint32_t slots;
	uint64_t bytes;    // of the whole board
	uint64_t size;     // of the data of a slot
	uint64_t units;    // of a slot
	uint64_t carrying; // units that carry gradient bytes: so many make a slot complete
	uint32_t cycle;    // iterations in a slot
	uint32_t group;    // number
	uint64_t life;     // of the receiver that writes now
	uint64_t keeper;   // process id of a reader that wants every iteration: nothing is used again before it was taken; 0: none
	uint64_t no_room;  // times that a worker found no slot for an iteration
	uint64_t overwritten; // slots used again though nobody had taken them
	uint64_t newest;   // 1 + highest cycle that was begun; 0: none
	uint64_t complete; // 1 + highest cycle that was complete; 0: none
	uint64_t bits_at;  // of slot 0: present, claimed, withdrawn, each `bits` bytes
	uint64_t bits;
	uint64_t data_at;  // of slot 0
	uint64_t stride;   // from one slot's data to the next one's
	uint64_t journal_next;
	uint64_t trackers; // that fill it: alone, one needs no locked operation a packet
	char name[FCK_BOARD_NAME];
	char plan[FCK_BOARD_NAME + 1]; // digest
	struct fck_board_slot slot[FCK_BOARD_SLOTS];
	struct fck_board_closing journal[FCK_BOARD_JOURNAL];
};

// What a board is to hold.
struct fck_board_shape {
	uint32_t slots;
	uint32_t cycle;
	uint32_t group;
	uint64_t size;
	uint64_t units;
	uint64_t carrying;
};

// Bytes that a board takes; 0: the shape cannot be.
uint64_t fck_board_bytes(const struct fck_board_shape *shape);
// Makes a board in zeroed memory, or goes on with one that lies there: what was open is closed as broken, what was closed
// stays. -EINVAL: too little memory, or a board of another shape or plan.
int fck_board_begin(
	void *memory, uint64_t bytes, const struct fck_board_shape *shape, const char *name, const char *plan, uint64_t now_ns
);
// Is it a board of this version that lies in the memory wholly? -EINVAL.
int fck_board_check(const void *memory, uint64_t bytes);

uint8_t *fck_board_data(struct fck_board *board, uint32_t slot);
uint64_t *fck_board_present(struct fck_board *board, uint32_t slot);
uint64_t *fck_board_claimed(struct fck_board *board, uint32_t slot);
uint64_t *fck_board_withdrawn(struct fck_board *board, uint32_t slot);
uint32_t fck_board_state_of(const struct fck_board *board, uint32_t slot);

// A reference to the slot of an iteration, opened where it is not. -ESTALE: closed with gaps, or too old; -EAGAIN: its slot
// is still in use. With `closed` also one that is closed with gaps, but none is opened.
int fck_board_acquire(struct fck_board *board, uint64_t iteration, uint64_t now_ns, uint32_t closed);
// Gives it back; the last one closes what is not complete.
void fck_board_release(struct fck_board *board, uint32_t slot, uint64_t now_ns);
// Sets bits of the present map that were 0 ("word" counts 64 bits).
void fck_board_publish(struct fck_board *board, uint32_t slot, uint64_t word, uint64_t bits, uint64_t now_ns);
// Takes one unit back, where it is present. `contradicted`: for good.
void fck_board_withdraw(struct fck_board *board, uint32_t slot, uint64_t unit, uint32_t contradicted, uint64_t now_ns);

// For readers. The newest closed cycle not taken yet and not before `from` with the lowest number; -ENOENT: none.
int fck_board_next(const struct fck_board *board, uint64_t life, uint64_t from);
// Keeps a closed slot from being used again. -EBUSY: not closed, or held by another.
int fck_board_hold(struct fck_board *board, uint32_t slot, uint64_t process);
// Does a reader hold it?
uint32_t fck_board_is_held(const struct fck_board *board, uint32_t slot);
// Ends that; `taken`: it may be used again.
void fck_board_let_go(struct fck_board *board, uint32_t slot, uint32_t taken);
// The entry of a closing by its running number. -ENOENT: not there yet; -ENODATA: overwritten.
int fck_board_closing_get(const struct fck_board *board, uint64_t number, struct fck_board_closing *out);

// cffi: end

#ifdef __cplusplus
}
#endif

#endif
