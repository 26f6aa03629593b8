// SPDX-License-Identifier: Apache-2.0
//
// Looks for the first packet of an iteration where no anchor is known or the step was lost: all messages of a whole
// iteration must have been seen where the pattern has them, and at one place only.
#include "track.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_LEAST 64u
#define ITERATIONS_KEPT 4u

void fck_search_forget(struct fck_track_state *track)
{
	for (uint32_t i = 0; i < track->heads.room; i++)
		track->heads.items[i].position = FCK_NOWHERE;
	track->heads.count = 0;
	track->heads.rare = FCK_NOWHERE;
}

static int make_room(struct fck_track_state *track)
{
	uint32_t room = ROOM_LEAST;

	if (track->heads.room > 0)
		return 0;
	while (room < (uint64_t)track->pattern->count * ITERATIONS_KEPT)
		room *= 2;
	track->heads.items = calloc(room, sizeof(*track->heads.items));
	if (track->heads.items == NULL)
		return -ENOMEM;
	track->heads.room = room;
	fck_search_forget(track);
	return 0;
}

static struct fck_head *head_at(const struct fck_heads *heads, int64_t position)
{
	uint32_t at = (uint32_t)((uint64_t)position * 0x9e3779b97f4a7c15u >> 32) & (heads->room - 1);

	while (heads->items[at].position != FCK_NOWHERE && heads->items[at].position != position)
		at = (at + 1) & (heads->room - 1);
	return &heads->items[at];
}

static bool is_like(const struct fck_head *head, const struct fck_slot *slot)
{
	return head->bytes == slot->bytes && head->only == (slot->packets == 1);
}

// Were all messages seen where an iteration from `base` on has them? From behind: the last one is missing most often.
static bool agrees(const struct fck_track_state *track, int64_t base)
{
	const struct fck_pattern *pattern = track->pattern;

	for (uint32_t i = pattern->count; i-- > 0;) {
		int64_t position = base + pattern->starts[i];
		const struct fck_head *head = head_at(&track->heads, position);

		if (head->position != position || !is_like(head, &pattern->slots[i]))
			return false;
	}
	return true;
}

// The iteration that begins at a base behind the last window, where nothing can lie between: the window ended with a
// whole iteration, and every position since was seen.
static bool number_known(const struct fck_track_state *track, int64_t base, uint64_t *iteration)
{
	const struct fck_window *last = track->window_count > 0 ? &track->windows[track->window_count - 1] : NULL;
	uint32_t span = track->pattern->span;

	if (track->expects) {
		*iteration = track->expected;
		return true;
	}
	if (last == NULL || !last->lost || track->gapless == FCK_NOWHERE || track->gapless <= base || base < last->until)
		return false;
	*iteration = last->iteration + (uint64_t)(last->until - last->from) / span;
	return (last->until - last->from) % span == 0;
}

static int found(struct fck_tracker *tracker, struct fck_track_state *track, int64_t base, const struct fck_place *place)
{
	int64_t before = track->lift;
	uint64_t iteration;
	int rc;

	if (track->confirmed != FCK_NOWHERE && base < track->confirmed) {
		fck_track_start_over(track, base);
		base += track->lift - before;
		track->highest = place->position + track->lift - before;
		track->gapless = FCK_NOWHERE;
	}
	fck_search_forget(track);
	track->counts.candidate = base;
	if (!number_known(track, base, &iteration))
		return 0;
	fck_find_add(tracker, track, FCK_FINDING_ANCHOR_FOUND, place, -1, (int64_t)iteration);
	rc = fck_window_open(track, base, iteration, 0);
	track->expects = track->expects && rc != 0;
	return rc;
}

int fck_search(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet,
	const struct fck_place *place
)
{
	const struct fck_pattern *pattern = track->pattern;
	uint32_t bases = 0;
	struct fck_head *head;
	int64_t base = 0;

	if (!pattern->config.search || pattern->periodic)
		return 0;
	if (make_room(track) != 0)
		return -ENOMEM;
	if (track->heads.count >= track->heads.room / 2)
		fck_search_forget(track);
	head = head_at(&track->heads, place->position);
	track->heads.count += head->position == FCK_NOWHERE;
	*head = (struct fck_head){place->position, packet->reth_length, packet->info.part == FCK_PART_ONLY};
	if (is_like(head, &pattern->slots[pattern->rare]))
		track->heads.rare = place->position;
	for (uint32_t i = 0; i < pattern->alike_count && track->heads.rare != FCK_NOWHERE; i++) {
		int64_t at = track->heads.rare - pattern->starts[pattern->alike[i]];

		if (!agrees(track, at))
			continue;
		base = at;
		bases++;
	}
	return bases == 1 ? found(tracker, track, base, place) : 0;
}
