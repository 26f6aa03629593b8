// SPDX-License-Identifier: Apache-2.0
//
// Windows: from where to where iterations follow one another without a break.
#include "track.h"

#include <errno.h>
#include <string.h>

#include "psn.h"

#define PSN_SPACE (INT64_C(1) << 24)
#define POSITION_LIMIT (INT64_C(1) << 60)

static void forget_current(struct fck_track_state *track)
{
	track->current = NULL;
	track->open = FCK_NOWHERE;
}

struct fck_window *fck_window_at(const struct fck_track_state *track, int64_t position)
{
	uint64_t low = 0, high = track->window_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (track->windows[middle].from <= position)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 ? NULL : &track->windows[low - 1];
}

void fck_window_close(struct fck_track_state *track, struct fck_window *window, int64_t until)
{
	if (until < window->from)
		until = window->from;
	if (until < window->until)
		window->until = until;
	forget_current(track);
}

// What was placed from `until` on stood in a window that turns out shorter.
static void shorten(struct fck_tracker *tracker, struct fck_track_state *track, struct fck_window *window, int64_t until)
{
	int64_t before = window->until;

	fck_window_close(track, window, until);
	if (before > window->until && track->highest != FCK_NOWHERE && track->highest >= window->until)
		fck_track_revoke(tracker, track, window->until, track->highest);
}

int fck_window_open(struct fck_track_state *track, int64_t from, uint64_t iteration, uint64_t iterations)
{
	uint64_t most = (uint64_t)(FCK_FOREVER - from) / track->pattern->span;

	if (fck_reserve((void **)&track->windows, &track->window_room, track->window_count, sizeof(*track->windows)) != 0)
		return -ENOMEM;
	track->windows[track->window_count++] = (struct fck_window){
		.from = from,
		.until = iterations == 0 || iterations > most ? FCK_FOREVER
							      : from + (int64_t)(iterations * track->pattern->span),
		.iteration = iteration,
	};
	track->suspect = false;
	track->counts.candidate = FCK_NOWHERE;
	track->gapless = FCK_NOWHERE;
	fck_search_forget(track);
	forget_current(track);
	return 0;
}

int fck_tracker_anchor(
	struct fck_tracker *tracker, uint32_t number, int64_t position, uint64_t iteration, uint64_t iterations
)
{
	struct fck_track_state *track = number < tracker->track_count ? tracker->tracks[number] : NULL;
	struct fck_window *last = track != NULL && track->window_count > 0 ? &track->windows[track->window_count - 1] : NULL;

	if (track == NULL || position < -POSITION_LIMIT || position > POSITION_LIMIT || iteration > INT64_MAX)
		return -EINVAL;
	if (last != NULL && (position <= last->from || iteration <= last->iteration))
		return -EINVAL;
	if (last != NULL) {
		uint64_t whole = (uint64_t)(position - last->from) / track->pattern->span;

		whole = whole < iteration - last->iteration ? whole : iteration - last->iteration;
		shorten(tracker, track, last, last->from + (int64_t)(whole * track->pattern->span));
	}
	return fck_window_open(track, position, iteration, iterations);
}

// Positions behind a restart lie above all before it, and keep their PSN in the low 24 bits.
void fck_track_start_over(struct fck_track_state *track, int64_t lowest)
{
	int64_t lift = PSN_SPACE;

	if (track->highest != FCK_NOWHERE && track->highest >= lowest)
		lift = ((track->highest - lowest) / PSN_SPACE + 1) * PSN_SPACE;
	track->lift += lift;
	if (track->window_count > 0) {
		struct fck_window *last = &track->windows[track->window_count - 1];

		if (track->highest != FCK_NOWHERE)
			fck_window_close(track, last, track->highest + 1);
		last->lost = true;
	}
	track->suspect = false;
	track->pending_count = 0;
	forget_current(track);
}

int fck_tracker_restart(struct fck_tracker *tracker, uint32_t number)
{
	struct fck_track_state *track;

	if (number >= tracker->track_count)
		return -EINVAL;
	track = tracker->tracks[number];
	fck_track_start_over(track, track->lift);
	fck_search_forget(track);
	track->gapless = FCK_NOWHERE;
	track->fresh = true;
	return 0;
}

int64_t fck_tracker_lift(const struct fck_tracker *tracker, uint32_t track)
{
	return track < tracker->track_count ? tracker->tracks[track]->lift : -EINVAL;
}

int fck_tracker_expect(struct fck_tracker *tracker, uint32_t track, uint64_t iteration)
{
	if (track >= tracker->track_count || iteration > INT64_MAX)
		return -EINVAL;
	tracker->tracks[track]->expects = true;
	tracker->tracks[track]->expected = iteration;
	return 0;
}
