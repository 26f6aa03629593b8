// SPDX-License-Identifier: Apache-2.0
//
// Boards: which slot an iteration has, and when what was laid becomes present.
#include "track_online.h"

#include <errno.h>
#include <stdlib.h>

#define WORD_BITS 64u
#define LAYING 256u   // units of a burst; more are published at once
#define COPYING 8192u // in the hands of the copier; a power of two

struct laying {
	struct fck_gradient *gradient;
	uint64_t unit;
};

struct fck_online_state {
	struct fck_copier copier;
	struct laying *copying; // COPYING; NULL: no copier
	uint64_t taken;
	uint64_t copied;
	uint32_t count;
	struct laying laying[LAYING];
	uint64_t now_ns;
};

static int make_state(struct fck_tracker *tracker)
{
	if (tracker->online == NULL)
		tracker->online = calloc(1, sizeof(*tracker->online));
	return tracker->online == NULL ? -ENOMEM : 0;
}

void fck_online_free(struct fck_tracker *tracker)
{
	if (tracker->online != NULL)
		free(tracker->online->copying);
	free(tracker->online);
}

static struct fck_gradient *gradient_at(const struct fck_tracker *tracker, uint32_t group, uint32_t slot)
{
	for (uint64_t i = 0; i < tracker->gradient_count; i++) {
		struct fck_gradient *gradient = tracker->gradients[i];

		if (gradient->board != NULL && gradient->group == group && gradient->slot == slot)
			return gradient;
	}
	return NULL;
}

int fck_tracker_board(struct fck_tracker *tracker, uint32_t group, struct fck_board *board)
{
	if (gradient_at(tracker, group, 0) != NULL)
		return -EEXIST;
	if (make_state(tracker) != 0)
		return -ENOMEM;
	for (uint32_t slot = 0; slot < board->slots; slot++) {
		struct fck_gradient *made;
		int rc = fck_tracker_gradient(
			tracker, group, FCK_NO_ITERATION - slot, fck_board_data(board, slot), board->size,
			fck_board_present(board, slot), board->units
		);

		if (rc != 0)
			return rc;
		made = tracker->gradients[tracker->gradient_count - 1];
		free(made->withdrawn);
		made->withdrawn = fck_board_withdrawn(board, slot);
		made->claimed = fck_board_claimed(board, slot);
		made->board = board;
		made->slot = slot;
	}
	board->trackers++;
	return 0;
}

int fck_tracker_copier(struct fck_tracker *tracker, const struct fck_copier *copier)
{
	if (make_state(tracker) != 0)
		return -ENOMEM;
	tracker->online->copying = calloc(COPYING, sizeof(*tracker->online->copying));
	if (tracker->online->copying == NULL)
		return -ENOMEM;
	tracker->online->copier = *copier;
	return 0;
}

// Bits of the same word are one change.
static void publish(const struct fck_online_state *online, const struct laying *laying, uint64_t count)
{
	for (uint64_t i = 0, next; i < count; i = next) {
		const struct fck_gradient *gradient = laying[i].gradient;
		uint64_t word = laying[i].unit / WORD_BITS, bits = 0;

		for (next = i; next < count && laying[next].gradient == gradient && laying[next].unit / WORD_BITS == word; next++)
			bits |= UINT64_C(1) << laying[next].unit % WORD_BITS;
		fck_board_publish(gradient->board, gradient->slot, word, bits, online->now_ns);
	}
}

// Stores that went past the cache are seen by others before the bit is that says so.
static void publish_laid(struct fck_online_state *online)
{
	if (online->count == 0)
		return;
#if defined(__x86_64__)
	__builtin_ia32_sfence();
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	publish(online, online->laying, online->count);
	online->count = 0;
}

void fck_tracker_publish(struct fck_tracker *tracker, uint64_t now_ns)
{
	if (tracker->online == NULL)
		return;
	tracker->online->now_ns = now_ns;
	publish_laid(tracker->online);
}

void fck_tracker_copied(struct fck_tracker *tracker, uint64_t count)
{
	struct fck_online_state *online = tracker->online;

	while (count > 0) {
		uint64_t from = online->copied % COPYING, run = COPYING - from < count ? COPYING - from : count;

		publish(online, &online->copying[from], run);
		online->copied += run;
		count -= run;
	}
}

void fck_online_settle(struct fck_tracker *tracker)
{
	publish_laid(tracker->online);
	if (tracker->online->copying != NULL && tracker->online->taken != tracker->online->copied)
		tracker->online->copier.finish(tracker->online->copier.context);
}

static void let_go(struct fck_tracker *tracker, struct fck_gradient *gradient)
{
	gradient->iteration = FCK_NO_ITERATION - gradient->slot;
	tracker->generation++;
	fck_board_release(gradient->board, gradient->slot, tracker->online->now_ns);
}

static bool is_held(const struct fck_gradient *gradient)
{
	return gradient->board != NULL && gradient->iteration != FCK_NO_ITERATION - gradient->slot;
}

void fck_tracker_let_go(struct fck_tracker *tracker, uint64_t now_ns)
{
	if (tracker->online == NULL)
		return;
	tracker->online->now_ns = now_ns;
	fck_online_settle(tracker);
	for (uint64_t i = 0; i < tracker->gradient_count; i++)
		if (is_held(tracker->gradients[i]))
			let_go(tracker, tracker->gradients[i]);
}

// Workers are not equally far: the slots of the last iterations stay, but one is free for those that are ahead.
static void let_go_before(struct fck_tracker *tracker, uint32_t group, const struct fck_board *board, uint64_t iteration)
{
	uint64_t kept = board->slots > 2 ? board->slots - 1 : 2;
	bool settled = false;

	for (uint64_t i = 0; i < tracker->gradient_count; i++) {
		struct fck_gradient *gradient = tracker->gradients[i];

		if (gradient->board != board || gradient->group != group || !is_held(gradient) || gradient->iteration + kept > iteration)
			continue;
		if (!settled)
			fck_online_settle(tracker);
		settled = true;
		let_go(tracker, gradient);
	}
}

struct fck_gradient *fck_online_find(struct fck_tracker *tracker, uint32_t group, uint64_t iteration, bool closed)
{
	struct fck_gradient *first = gradient_at(tracker, group, 0), *gradient;
	int slot;

	if (first == NULL)
		return NULL;
	if (!closed)
		let_go_before(tracker, group, first->board, iteration);
	slot = fck_board_acquire(first->board, iteration, tracker->online->now_ns, closed);
	if (slot < 0)
		return NULL;
	gradient = gradient_at(tracker, group, (uint32_t)slot);
	gradient->iteration = iteration;
	tracker->generation++;
	return gradient;
}

static bool test(const uint64_t *bits, uint64_t unit)
{
	return __atomic_load_n(&bits[unit / WORD_BITS], __ATOMIC_ACQUIRE) >> unit % WORD_BITS & 1;
}

enum fck_claim fck_online_claim(struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << unit % WORD_BITS, before;

	if (test(gradient->present, unit))
		return FCK_CLAIM_PRESENT;
	if (gradient->board->trackers == 1) { // a locked operation would wait for all stores that went past the cache
		before = gradient->claimed[unit / WORD_BITS];
		gradient->claimed[unit / WORD_BITS] = before | bit;
	} else {
		before = __atomic_fetch_or(&gradient->claimed[unit / WORD_BITS], bit, __ATOMIC_ACQ_REL);
	}
	if ((before & bit) == 0)
		return FCK_CLAIM_OURS;
	fck_online_settle(tracker); // if it is ours, it lies then
	return test(gradient->present, unit) ? FCK_CLAIM_PRESENT : FCK_CLAIM_OTHERS;
}

void fck_online_lay(
	struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit, uint32_t protocol,
	const struct fck_piece_of *piece, uint8_t *data
)
{
	struct fck_online_state *online = tracker->online;
	struct laying laying = {gradient, unit};
	uint32_t bytes = piece->data_bytes - piece->wire_at; // where it is Simple, and carries

	if (online->copying != NULL && protocol == FCK_PROTOCOL_SIMPLE && online->taken - online->copied < COPYING) {
		bytes = bytes < piece->length ? bytes : piece->length;
		online->copying[online->taken % COPYING] = laying;
		if (online->copier.take(online->copier.context, data + piece->wire_at, piece->payload, bytes)) {
			online->taken++;
			return;
		}
	}
	fck_lay(tracker->ops, protocol, piece, data);
	if (online->count == LAYING)
		publish_laid(online);
	online->laying[online->count++] = laying;
}

void fck_online_withdraw(struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit, bool contradicted)
{
	fck_board_withdraw(gradient->board, gradient->slot, unit, contradicted, tracker->online->now_ns);
}
