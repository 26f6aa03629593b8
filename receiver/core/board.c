// SPDX-License-Identifier: Apache-2.0
//
// All that several workers and processes change together is changed by atomic operations of the compiler.
#include "fck_board.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MAGIC UINT64_C(0x31647262616b6366) // "fckabrd1"
#define WORD_BITS 64u
#define STATE UINT64_C(0xff)
#define TAKEN UINT64_C(0x100)
#define HELD UINT64_C(0x200)
#define REFERENCE UINT64_C(0x10000)
#define REFERENCES UINT64_C(0xffff0000)
#define LARGEST (UINT64_C(1) << 46)

static uint64_t pages(uint64_t bytes)
{
	return (bytes + FCK_BOARD_PAGE - 1) / FCK_BOARD_PAGE * FCK_BOARD_PAGE;
}

static uint64_t bits_bytes(uint64_t units)
{
	return pages((units + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t));
}

uint64_t fck_board_bytes(const struct fck_board_shape *shape)
{
	if (shape->slots < 2 || shape->slots > FCK_BOARD_SLOTS || shape->cycle == 0 || shape->carrying > shape->units)
		return 0;
	if (shape->size > LARGEST / FCK_BOARD_SLOTS || shape->units > LARGEST / FCK_BOARD_SLOTS)
		return 0;
	return pages(sizeof(struct fck_board)) + shape->slots * (3 * bits_bytes(shape->units) + pages(shape->size));
}

static void describe(struct fck_board *board, const struct fck_board_shape *shape)
{
	board->version = FCK_BOARD_VERSION;
	board->slots = shape->slots;
	board->bytes = fck_board_bytes(shape);
	board->size = shape->size;
	board->units = shape->units;
	board->carrying = shape->carrying;
	board->cycle = shape->cycle;
	board->group = shape->group;
	board->bits_at = pages(sizeof(*board));
	board->bits = bits_bytes(shape->units);
	board->data_at = board->bits_at + shape->slots * 3 * board->bits;
	board->stride = pages(shape->size);
}

static uint64_t load(const uint64_t *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

static bool swap(uint64_t *word, uint64_t *before, uint64_t after)
{
	return __atomic_compare_exchange_n(word, before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void raise_to(uint64_t *most, uint64_t value)
{
	uint64_t before = load(most);

	while (before < value && !swap(most, &before, value))
		;
}

static void note(struct fck_board *board, uint32_t slot, enum fck_board_event event, uint64_t now_ns)
{
	uint64_t number = __atomic_fetch_add(&board->journal_next, 1, __ATOMIC_ACQ_REL);
	struct fck_board_closing *entry = &board->journal[number % FCK_BOARD_JOURNAL];

	__atomic_store_n(&entry->ready, 0, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	entry->iteration = board->slot[slot].iteration;
	entry->life = board->slot[slot].life;
	entry->event = event;
	entry->laid = load(&board->slot[slot].laid);
	entry->time_ns = now_ns;
	__atomic_store_n(&entry->ready, number + 1, __ATOMIC_RELEASE);
}

int fck_board_check(const void *memory, uint64_t bytes)
{
	const struct fck_board *board = memory;
	struct fck_board wanted;
	struct fck_board_shape shape;

	if (bytes < sizeof(*board) || board->magic != MAGIC || board->version != FCK_BOARD_VERSION)
		return -EINVAL;
	shape = (struct fck_board_shape){board->slots, board->cycle, board->group, board->size, board->units, board->carrying};
	if (fck_board_bytes(&shape) == 0 || fck_board_bytes(&shape) > bytes)
		return -EINVAL;
	describe(&wanted, &shape);
	if (board->bytes != wanted.bytes || board->bits_at != wanted.bits_at || board->bits != wanted.bits ||
	    board->data_at != wanted.data_at || board->stride != wanted.stride)
		return -EINVAL;
	return 0;
}

// A receiver that is gone left references and open slots.
static void go_on(struct fck_board *board, uint64_t now_ns)
{
	for (uint32_t i = 0; i < board->slots; i++) {
		struct fck_board_slot *slot = &board->slot[i];
		uint64_t word = load(&slot->word), state = word & STATE;

		if (state == FCK_BOARD_OPENING)
			slot->word = FCK_BOARD_FREE;
		else if (state == FCK_BOARD_OPEN)
			slot->word = FCK_BOARD_GAPS;
		else
			slot->word = word & ~REFERENCES;
		if (state != FCK_BOARD_OPEN)
			continue;
		slot->closed_ns = now_ns;
		note(board, i, FCK_BOARD_BROKEN, now_ns);
	}
	board->newest = board->complete = board->trackers = 0;
	__atomic_add_fetch(&board->life, 1, __ATOMIC_ACQ_REL);
}

int fck_board_begin(
	void *memory, uint64_t bytes, const struct fck_board_shape *shape, const char *name, const char *plan, uint64_t now_ns
)
{
	struct fck_board *board = memory;
	struct fck_board wanted;

	if (fck_board_bytes(shape) == 0 || fck_board_bytes(shape) > bytes)
		return -EINVAL;
	if (strlen(name) >= sizeof(board->name) || strlen(plan) >= sizeof(board->plan))
		return -EINVAL;
	if (board->magic == 0) {
		describe(board, shape);
		strcpy(board->name, name);
		strcpy(board->plan, plan);
		__atomic_store_n(&board->magic, MAGIC, __ATOMIC_RELEASE);
		return 0;
	}
	describe(&wanted, shape);
	if (fck_board_check(memory, bytes) != 0 || board->bytes != wanted.bytes || board->size != wanted.size ||
	    board->units != wanted.units || board->carrying != wanted.carrying || board->cycle != wanted.cycle ||
	    board->group != wanted.group || strcmp(board->name, name) != 0 || strcmp(board->plan, plan) != 0)
		return -EINVAL;
	go_on(board, now_ns);
	return 0;
}

static uint64_t *bitmap(struct fck_board *board, uint32_t slot, uint32_t which)
{
	return (uint64_t *)(void *)((uint8_t *)board + board->bits_at + (3 * (uint64_t)slot + which) * board->bits);
}

uint8_t *fck_board_data(struct fck_board *board, uint32_t slot)
{
	return (uint8_t *)board + board->data_at + slot * board->stride;
}

uint64_t *fck_board_present(struct fck_board *board, uint32_t slot)
{
	return bitmap(board, slot, 0);
}

uint64_t *fck_board_claimed(struct fck_board *board, uint32_t slot)
{
	return bitmap(board, slot, 1);
}

uint64_t *fck_board_withdrawn(struct fck_board *board, uint32_t slot)
{
	return bitmap(board, slot, 2);
}

uint32_t fck_board_state_of(const struct fck_board *board, uint32_t slot)
{
	return (uint32_t)(load(&board->slot[slot].word) & STATE);
}

static bool is_closed(uint64_t word)
{
	return (word & STATE) == FCK_BOARD_COMPLETE || (word & STATE) == FCK_BOARD_GAPS;
}

// May the slot be used for another iteration? Bits that nobody took count where somebody wants them all.
static bool reusable(const struct fck_board *board, uint64_t word)
{
	if ((word & (REFERENCES | HELD)) != 0)
		return false;
	if ((word & STATE) == FCK_BOARD_FREE)
		return true;
	return is_closed(word) && ((word & TAKEN) != 0 || load(&board->keeper) == 0);
}

static void open_slot(struct fck_board *board, uint32_t number, uint64_t iteration, uint64_t now_ns, uint64_t before)
{
	struct fck_board_slot *slot = &board->slot[number];

	if (is_closed(before) && (before & TAKEN) == 0)
		__atomic_add_fetch(&board->overwritten, 1, __ATOMIC_RELAXED);
	memset(bitmap(board, number, 0), 0, 3 * board->bits);
	slot->iteration = iteration;
	slot->life = board->life;
	slot->laid = slot->withdrawn = slot->closed_ns = slot->holder = 0;
	slot->opened_ns = now_ns;
	raise_to(&board->newest, iteration + 1);
	__atomic_store_n(&slot->word, FCK_BOARD_OPEN | REFERENCE, __ATOMIC_RELEASE);
}

int fck_board_acquire(struct fck_board *board, uint64_t iteration, uint64_t now_ns, uint32_t closed)
{
	uint32_t number = (uint32_t)(iteration % board->slots);
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t word = load(&slot->word);

	for (;;) {
		bool same;

		if ((word & STATE) == FCK_BOARD_OPENING) { // by another worker, which writes bitmaps and nothing else
			word = load(&slot->word);
			continue;
		}
		same = (word & STATE) != FCK_BOARD_FREE && slot->iteration == iteration && slot->life == board->life;
		if (same && (word & STATE) == FCK_BOARD_GAPS && !closed)
			return -ESTALE;
		if (same) {
			if (swap(&slot->word, &word, word + REFERENCE))
				return (int)number;
			continue;
		}
		if (closed)
			return -ESTALE;
		if ((word & STATE) != FCK_BOARD_FREE && slot->life == board->life && slot->iteration > iteration)
			return -ESTALE;
		if (!reusable(board, word)) {
			__atomic_add_fetch(&board->no_room, 1, __ATOMIC_RELAXED);
			return -EAGAIN;
		}
		if (swap(&slot->word, &word, FCK_BOARD_OPENING)) {
			open_slot(board, number, iteration, now_ns, word);
			return (int)number;
		}
	}
}

void fck_board_release(struct fck_board *board, uint32_t number, uint64_t now_ns)
{
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t word = load(&slot->word), after;

	do {
		after = word - REFERENCE;
		if ((after & REFERENCES) == 0 && (word & STATE) == FCK_BOARD_OPEN) {
			// closed only after all is written, so that a reader who sees the state sees the rest
			slot->closed_ns = now_ns;
			after = (after & ~STATE) | FCK_BOARD_GAPS;
		}
	} while (!swap(&slot->word, &word, after));
	if ((after & STATE) == FCK_BOARD_GAPS && (word & STATE) == FCK_BOARD_OPEN)
		note(board, number, FCK_BOARD_CLOSED_GAPS, now_ns);
}

// Exchanges the state, whatever references come and go. False: it is another one already.
static bool change(struct fck_board_slot *slot, enum fck_board_state from, enum fck_board_state to)
{
	uint64_t word = load(&slot->word);

	do {
		if ((word & STATE) != from)
			return false;
	} while (!swap(&slot->word, &word, (word & ~(STATE | (to == FCK_BOARD_OPEN ? TAKEN : 0))) | to));
	return true;
}

static void reopen(struct fck_board *board, uint32_t number, uint64_t now_ns)
{
	if (change(&board->slot[number], FCK_BOARD_COMPLETE, FCK_BOARD_OPEN))
		note(board, number, FCK_BOARD_REOPENED, now_ns);
}

void fck_board_publish(struct fck_board *board, uint32_t number, uint64_t word, uint64_t bits, uint64_t now_ns)
{
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t laid, before;

	before = __atomic_fetch_or(&fck_board_present(board, number)[word], bits, __ATOMIC_ACQ_REL);
	laid = __atomic_add_fetch(&slot->laid, (uint64_t)__builtin_popcountll(bits & ~before), __ATOMIC_ACQ_REL);
	if (laid < board->carrying)
		return;
	slot->closed_ns = now_ns;
	if (!change(slot, FCK_BOARD_OPEN, FCK_BOARD_COMPLETE))
		return;
	raise_to(&board->complete, slot->iteration + 1);
	note(board, number, FCK_BOARD_CLOSED_COMPLETE, now_ns);
	if (load(&slot->laid) < board->carrying) // somebody took a unit back meanwhile, and did not see it complete yet
		reopen(board, number, now_ns);
}

void fck_board_withdraw(struct fck_board *board, uint32_t number, uint64_t unit, uint32_t contradicted, uint64_t now_ns)
{
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t word = unit / WORD_BITS, bit = UINT64_C(1) << unit % WORD_BITS, before;

	if (contradicted)
		__atomic_fetch_or(&fck_board_withdrawn(board, number)[word], bit, __ATOMIC_ACQ_REL);
	before = __atomic_fetch_and(&fck_board_present(board, number)[word], ~bit, __ATOMIC_ACQ_REL);
	if (!contradicted)
		__atomic_fetch_and(&fck_board_claimed(board, number)[word], ~bit, __ATOMIC_ACQ_REL);
	if ((before & bit) == 0)
		return;
	__atomic_add_fetch(&slot->withdrawn, 1, __ATOMIC_ACQ_REL);
	__atomic_sub_fetch(&slot->laid, 1, __ATOMIC_ACQ_REL);
	reopen(board, number, now_ns);
}

int fck_board_next(const struct fck_board *board, uint64_t life, uint64_t from)
{
	int found = -ENOENT;

	for (uint32_t i = 0; i < board->slots; i++) {
		const struct fck_board_slot *slot = &board->slot[i];
		uint64_t word = load(&slot->word);

		if (!is_closed(word) || (word & TAKEN) != 0 || slot->life != life || slot->iteration < from)
			continue;
		if (found < 0 || slot->iteration < board->slot[found].iteration)
			found = (int)i;
	}
	return found;
}

int fck_board_hold(struct fck_board *board, uint32_t number, uint64_t process)
{
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t word = load(&slot->word);

	do {
		if (!is_closed(word) || (word & HELD) != 0)
			return -EBUSY;
	} while (!swap(&slot->word, &word, word | HELD));
	__atomic_store_n(&slot->holder, process, __ATOMIC_RELEASE);
	return 0;
}

uint32_t fck_board_is_held(const struct fck_board *board, uint32_t number)
{
	return (load(&board->slot[number].word) & HELD) != 0;
}

void fck_board_let_go(struct fck_board *board, uint32_t number, uint32_t taken)
{
	struct fck_board_slot *slot = &board->slot[number];
	uint64_t word = load(&slot->word), after;

	__atomic_store_n(&slot->holder, 0, __ATOMIC_RELEASE);
	do
		after = (word & ~HELD) | (taken && is_closed(word) ? TAKEN : 0);
	while (!swap(&slot->word, &word, after));
}

int fck_board_closing_get(const struct fck_board *board, uint64_t number, struct fck_board_closing *out)
{
	const struct fck_board_closing *entry = &board->journal[number % FCK_BOARD_JOURNAL];
	uint64_t next = load(&board->journal_next);

	if (number >= next)
		return -ENOENT;
	if (next - number > FCK_BOARD_JOURNAL)
		return -ENODATA;
	if (load(&entry->ready) != number + 1)
		return -ENOENT;
	*out = *entry;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return load(&entry->ready) == number + 1 ? 0 : -ENODATA;
}
