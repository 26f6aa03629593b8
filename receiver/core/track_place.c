// SPDX-License-Identifier: Apache-2.0
//
// One packet: from its position to iteration and message, and what follows from agreement or contradiction.
#include "track.h"

#include <errno.h>
#include <string.h>

#include "psn.h"

#define WORD_BITS 64u

static int64_t position_of(struct fck_track_state *track, uint32_t psn, int64_t of_flow)
{
	int64_t position = of_flow;

	if (track->fresh)
		position = track->lift + psn;
	else if (track->lift != 0)
		position = fck_psn_unwrap(track->highest, psn);
	track->fresh = false;
	if (position > track->highest)
		track->highest = position;
	return position;
}

static void revoke_pending(struct fck_tracker *tracker, struct fck_track_state *track)
{
	for (uint32_t i = 0; i < track->pending_count; i++)
		fck_track_revoke(tracker, track, track->pending[i].first, track->pending[i].last);
	track->pending_count = 0;
}

// Takes the memory of an older iteration for the one that begins at `base`. -ENOMEM.
static int live_claim(
	struct fck_tracker *tracker, struct fck_track_state *track, struct fck_live *live, const struct fck_window *window,
	int64_t base
)
{
	uint32_t span = track->pattern->span;

	if (fck_reserve((void **)&track->rows, &track->row_room, track->row_count, sizeof(*track->rows)) != 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < track->pending_count; i++)
		if (live->base != FCK_NOWHERE && track->pending[i].first < live->base + span)
			revoke_pending(tracker, track); // or it could not be taken back any more
	live->base = base;
	live->iteration = window->iteration + (uint64_t)(base - window->from) / span;
	live->window = (uint64_t)(window - track->windows);
	live->row = track->row_count++;
	live->generation = 0;
	live->gradient = NULL;
	memset(live->seen, 0, 2 * ((span + WORD_BITS - 1) / WORD_BITS) * sizeof(*live->seen));
	track->rows[live->row] = (struct fck_track_iteration){
		.iteration = live->iteration,
		.position = base,
		.expected = span,
	};
	return 0;
}

// Finds the iteration of a position. FCK_PLACE_PLACED: `place->live` is set; else why not. -ENOMEM.
static int locate_iteration(struct fck_tracker *tracker, struct fck_track_state *track, struct fck_place *place)
{
	const struct fck_window *window = fck_window_at(track, place->position);
	uint32_t span = track->pattern->span;
	struct fck_live *live;
	int64_t base;

	if (track->suspect || track->window_count == 0)
		return FCK_PLACE_WAITING;
	if (window == NULL)
		return FCK_PLACE_OUTSIDE;
	if (place->position >= window->until)
		return window->lost ? FCK_PLACE_WAITING : FCK_PLACE_OUTSIDE;
	base = place->position - (place->position - window->from) % span;
	live = &track->lives[(window->iteration + (uint64_t)(base - window->from) / span) & (track->live_count - 1)];
	if (live->base > base)
		return FCK_PLACE_LATE;
	if (live->base != base) {
		int rc = live_claim(tracker, track, live, window, base);

		if (rc != 0)
			return rc;
	}
	track->current = live;
	track->current_end = window->until - base < span ? window->until : base + span;
	place->live = live;
	return FCK_PLACE_PLACED;
}

static void locate_slot(struct fck_track_state *track, struct fck_place *place)
{
	const struct fck_pattern *pattern = track->pattern;
	uint32_t offset = (uint32_t)(place->position - place->live->base), low = track->slot;

	if (offset >= pattern->starts[low] && offset >= pattern->starts[low + 1] && low + 1 < pattern->count)
		low++;
	if (offset < pattern->starts[low] || offset >= pattern->starts[low + 1]) {
		uint32_t high = pattern->count;

		for (low = 0; high - low > 1;) {
			uint32_t middle = low + (high - low) / 2;

			if (pattern->starts[middle] <= offset)
				low = middle;
			else
				high = middle;
		}
	}
	track->slot = low;
	place->number = low;
	place->slot = &pattern->slots[low];
	place->offset = offset;
	place->packet = offset - pattern->starts[low];
}

static bool is_start(const struct fck_packet *packet)
{
	return packet->info.packet_class == FCK_CLASS_WRITE && (packet->info.part & FCK_PART_FIRST) != 0;
}

static int not_placed(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet,
	const struct fck_place *place, int why
)
{
	if (why < 0)
		return why;
	track->counts.places[why]++;
	if (why != FCK_PLACE_WAITING)
		return 0;
	if (track->gapless != FCK_NOWHERE && place->position >= track->gapless)
		track->gapless = place->position == track->gapless ? track->gapless + 1 : FCK_NOWHERE;
	return is_start(packet) && packet->has_reth ? fck_search(tracker, track, packet, place) : 0;
}

// What was laid since the last message whose start was seen may be wrong, and so is what comes.
static void lose_step(struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_place *place)
{
	struct fck_window *window = &track->windows[place->live->window];

	revoke_pending(tracker, track);
	fck_find_add(tracker, track, FCK_FINDING_STEP_LOST, place, -1, -1);
	if (track->confirmed != FCK_NOWHERE && place->position < track->confirmed) {
		track->suspect = true;
		track->current = NULL;
		track->open = FCK_NOWHERE;
		return;
	}
	fck_window_close(track, window, track->confirmed == FCK_NOWHERE ? window->from : track->confirmed);
	window->lost = true;
	track->gapless = place->position == window->until ? place->position + 1 : FCK_NOWHERE;
}

static int conflict(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet,
	const struct fck_place *place, enum fck_check check
)
{
	track->counts.places[FCK_PLACE_CONFLICT]++;
	track->rows[place->live->row].conflicts++;
	if (check != FCK_CHECK_STEP_LOST)
		return 0;
	lose_step(tracker, track, place);
	return is_start(packet) ? fck_search(tracker, track, packet, place) : 0;
}

// Does the packet stand for the place of its whole message: its start, or an end that repeats the length?
static bool confirms(const struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place)
{
	if (packet->info.part & FCK_PART_FIRST)
		return true;
	return (packet->info.part & FCK_PART_LAST) && packet->info.immediate && place->slot->immediate >= 0 &&
	       track->pattern->config.immediate != FCK_IMMEDIATE_IGNORED;
}

static bool pend(struct fck_track_state *track, int64_t position)
{
	for (uint32_t i = 0; i < track->pending_count; i++) {
		struct fck_pending *range = &track->pending[i];

		if (position < range->first - 1 || position > range->last + 1)
			continue;
		range->first = position < range->first ? position : range->first;
		range->last = position > range->last ? position : range->last;
		return true;
	}
	if (track->pending_count == FCK_PENDING_LIMIT)
		return false;
	track->pending[track->pending_count++] = (struct fck_pending){position, position};
	return true;
}

// Positions below `end` are confirmed: had the step been lost before, this message could not stand where it does.
static void settle(struct fck_track_state *track, int64_t end)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < track->pending_count; i++) {
		struct fck_pending range = track->pending[i];

		range.first = range.first > end ? range.first : end;
		if (range.first <= range.last)
			track->pending[kept++] = range;
	}
	track->pending_count = kept;
}

// Is the packet's place sure enough to lay its bytes, at least until something contradicts?
static bool trust(struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place)
{
	int64_t first = place->live->base + track->pattern->starts[place->number];

	if (confirms(track, packet, place)) {
		int64_t end = first + place->slot->packets;

		settle(track, end);
		track->open = first;
		track->confirmed = end > track->confirmed ? end : track->confirmed;
		return true;
	}
	return track->open == first || pend(track, place->position);
}

static void count_seen(struct fck_track_state *track, const struct fck_place *place)
{
	uint64_t *word = &place->live->seen[place->offset / WORD_BITS], bit = UINT64_C(1) << place->offset % WORD_BITS;
	struct fck_track_iteration *row = &track->rows[place->live->row];

	if (*word & bit) {
		track->counts.places[FCK_PLACE_REPEATED]++;
		row->repeats++;
		return;
	}
	*word |= bit;
	track->counts.places[FCK_PLACE_PLACED]++;
	row->distinct++;
}

int fck_track_packet(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, int64_t position,
	uint64_t frame
)
{
	struct fck_place place = {.position = position_of(track, packet->psn, position), .frame = frame};
	enum fck_lay_kind kind;
	enum fck_check check;

	track->counts.packets++;
	if (track->current != NULL && place.position >= track->current->base && place.position < track->current_end) {
		place.live = track->current;
	} else {
		int why = locate_iteration(tracker, track, &place);

		if (why != FCK_PLACE_PLACED)
			return not_placed(tracker, track, packet, &place, why);
	}
	locate_slot(track, &place);
	if (packet->payload == NULL) {
		track->counts.places[FCK_PLACE_UNMEASURED]++;
		return 0;
	}
	check = fck_check_headers(tracker, track, packet, &place);
	if (check != FCK_CHECK_AGREES)
		return conflict(tracker, track, packet, &place, check);
	kind = fck_track_weigh(tracker, track, packet, &place);
	if (kind == FCK_LAYS) // the flag is another step's
		return conflict(tracker, track, packet, &place, FCK_CHECK_STEP_LOST);
	count_seen(track, &place);
	if (!trust(track, packet, &place) && kind == FCK_LAY_LAID)
		kind = FCK_LAY_UNCONFIRMED;
	if (kind == FCK_LAY_LAID)
		kind = fck_track_lay(tracker, track, packet, &place);
	track->counts.lays[kind]++;
	return 0;
}
