// SPDX-License-Identifier: Apache-2.0
#include "psn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "packet.h"

#define PSN_BITS 24
#define PSN_HALF (1 << (PSN_BITS - 1))
#define FIRST_ROOM 8

int fck_reserve(void **items, uint64_t *room, uint64_t count, uint64_t size)
{
	uint64_t more;
	void *grown;

	if (count < *room)
		return 0;
	more = *room == 0 ? FIRST_ROOM : *room * 2;
	if (more > SIZE_MAX / size)
		return -ENOMEM;
	grown = realloc(*items, more * size);
	if (grown == NULL)
		return -ENOMEM;
	*items = grown;
	*room = more;
	return 0;
}

int64_t fck_psn_unwrap(int64_t reference, uint32_t psn)
{
	uint32_t forward = (psn - (uint32_t)((uint64_t)reference & FCK_PSN_MASK)) & FCK_PSN_MASK;

	return forward < PSN_HALF ? reference + forward : reference + forward - (1 << PSN_BITS);
}

// Index of the first range that ends at or behind `position`; `count` when there is none.
static uint64_t find(const struct fck_ranges *ranges, int64_t position)
{
	uint64_t low = 0, high = ranges->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (ranges->items[middle].last < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool fck_ranges_hold(const struct fck_ranges *ranges, int64_t first, int64_t last)
{
	uint64_t at = find(ranges, first);

	return at < ranges->count && ranges->items[at].first <= first && ranges->items[at].last >= last;
}

bool fck_ranges_hold_near(const struct fck_ranges *ranges, int64_t first, int64_t last, uint64_t *near)
{
	uint64_t at = *near;

	if (at + 1 < ranges->count && ranges->items[at].last < first)
		at++;
	if (at >= ranges->count || ranges->items[at].first > first || ranges->items[at].last < first)
		at = find(ranges, first);
	*near = at;
	return at < ranges->count && ranges->items[at].first <= first && ranges->items[at].last >= last;
}

uint64_t fck_ranges_covered(const struct fck_ranges *ranges, int64_t first, int64_t last)
{
	uint64_t covered = 0;

	for (uint64_t at = find(ranges, first); at < ranges->count && ranges->items[at].first <= last; at++) {
		int64_t from = ranges->items[at].first > first ? ranges->items[at].first : first;
		int64_t to = ranges->items[at].last < last ? ranges->items[at].last : last;

		covered += (uint64_t)(to - from) + 1;
	}
	return covered;
}

int64_t fck_ranges_above(const struct fck_ranges *ranges, int64_t position)
{
	const struct fck_range *range = &ranges->items[find(ranges, position + 1)];

	return range->first > position ? range->first : position + 1;
}

int64_t fck_ranges_below(const struct fck_ranges *ranges, int64_t position)
{
	uint64_t at = find(ranges, position);

	if (at < ranges->count && ranges->items[at].first < position)
		return position - 1;
	return ranges->items[at - 1].last;
}

static int append(struct fck_ranges *ranges, int64_t first, int64_t last)
{
	int rc = fck_reserve((void **)&ranges->items, &ranges->room, ranges->count, sizeof(*ranges->items));

	if (rc == 0)
		ranges->items[ranges->count++] = (struct fck_range){first, last};
	return rc;
}

// Adds first..last anywhere; what it touches becomes one range.
static int merge(struct fck_ranges *ranges, int64_t first, int64_t last)
{
	uint64_t from = find(ranges, first - 1), to = from;
	struct fck_range *items;
	int rc = fck_reserve((void **)&ranges->items, &ranges->room, ranges->count, sizeof(*ranges->items));

	if (rc != 0)
		return rc;
	items = ranges->items;
	for (; to < ranges->count && items[to].first <= last + 1; to++) {
		first = items[to].first < first ? items[to].first : first;
		last = items[to].last > last ? items[to].last : last;
	}
	if (to != from + 1)
		memmove(&items[from + 1], &items[to], (ranges->count - to) * sizeof(*items));
	ranges->count = ranges->count - (to - from) + 1;
	items[from] = (struct fck_range){first, last};
	return 0;
}

void fck_sequence_free(struct fck_sequence *sequence)
{
	free(sequence->seen.items);
	free(sequence->jumps.items);
	free(sequence->repeats);
}

int64_t fck_sequence_place(const struct fck_sequence *sequence, uint32_t psn)
{
	return sequence->seen.count == 0 ? (int64_t)psn : fck_psn_unwrap(sequence->highest, psn);
}

// One extra copy of `position`.
static int add_repeat(struct fck_sequence *sequence, int64_t position)
{
	uint64_t low = 0, high = sequence->repeats_count;
	struct fck_repeat *items;
	int rc;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (sequence->repeats[middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < sequence->repeats_count && sequence->repeats[low].position == position) {
		sequence->repeats[low].copies++;
		return 0;
	}
	rc = fck_reserve((void **)&sequence->repeats, &sequence->repeats_room, sequence->repeats_count, sizeof(*items));
	if (rc != 0)
		return rc;
	items = sequence->repeats;
	memmove(&items[low + 1], &items[low], (sequence->repeats_count - low) * sizeof(*items));
	items[low] = (struct fck_repeat){position, 1};
	sequence->repeats_count++;
	return 0;
}

// Decides what a run was, now that it is over. `followed`: a newer packet, or a third
// copy, comes without a pause.
static void close_run(const struct fck_run *run, bool followed, struct fck_tally *tally)
{
	bool lone = run->repeats == 1 && followed;
	bool series = run->first == tally->series;

	if (run->repeats == 0) {
		tally->reordered += run->fills;
	} else if (run->fills == 0 && run->like_mirror && (lone || series)) {
		tally->duplicated += run->repeats;
		tally->series = run->last + 1;
	} else {
		tally->retransmitted += run->repeats;
	}
}

struct fck_tally fck_sequence_tally(const struct fck_sequence *sequence)
{
	struct fck_tally tally = sequence->tally;

	if (fck_in_run(&sequence->run))
		close_run(&sequence->run, false, &tally);
	return tally;
}

static bool within(uint64_t a, uint64_t b, uint64_t window)
{
	return (a > b ? a - b : b - a) <= window;
}

// Same position, same ICRC as far as both are known, and near in time: a mirror's second copy may look so.
static bool like_mirror(const struct fck_sequence *sequence, const struct fck_sighting *sighting, uint64_t window)
{
	const struct fck_recent *before = fck_recent_slot(sequence, sighting->position);

	if ((before->mark | FCK_MARK_ICRC) != fck_mark(sighting->position, true))
		return false;
	if ((before->mark & FCK_MARK_ICRC) != 0 && sighting->has_icrc && before->icrc != sighting->icrc)
		return false;
	return within(sighting->time, before->time, window);
}

// Of a lower position, or of none.
static bool is_older(uint32_t mark, uint32_t than)
{
	return (mark & FCK_MARK_USED) == 0 || (int32_t)((mark & FCK_MARK_LAP) - (than & FCK_MARK_LAP)) < 0;
}

static int add_behind(struct fck_sequence *sequence, const struct fck_sighting *sighting, uint64_t window)
{
	struct fck_run *run = &sequence->run;
	bool repeat = fck_ranges_hold(&sequence->seen, sighting->position, sighting->position);
	int rc;

	if (fck_in_run(run) && sighting->position <= run->last) {
		bool third = sighting->position == run->last && within(sighting->time, run->time, window);

		close_run(run, third, &sequence->tally);
		*run = (struct fck_run){0};
	}
	if (!fck_in_run(run)) {
		run->first = sighting->position;
		run->like_mirror = true;
	}
	run->like_mirror = run->like_mirror && like_mirror(sequence, sighting, window);
	run->last = sighting->position;
	run->time = sighting->time;
	if (repeat) {
		run->repeats++;
		return add_repeat(sequence, sighting->position);
	}
	run->fills++;
	rc = merge(&sequence->seen, sighting->position, sighting->position + sighting->span - 1);
	if (rc != 0)
		return rc;
	if (sighting->position + sighting->span - 1 > sequence->highest)
		sequence->highest = sighting->position + sighting->span - 1;
	if (is_older(fck_recent_slot(sequence, sighting->position)->mark, fck_mark(sighting->position, false)))
		fck_remember(sequence, sighting);
	return 1;
}

static void start(struct fck_sequence *sequence, const struct fck_sighting *sighting)
{
	sequence->highest = sighting->position - 1;
	sequence->tally.series = INT64_MIN;
}

int fck_sequence_extend(struct fck_sequence *sequence, uint32_t more)
{
	sequence->highest += more;
	return merge(&sequence->seen, sequence->highest - more + 1, sequence->highest);
}

int fck_sequence_add(struct fck_sequence *sequence, const struct fck_sighting *sighting, uint64_t window)
{
	struct fck_ranges *seen = &sequence->seen;
	int64_t position = sighting->position;
	int64_t last = position + sighting->span - 1;
	int rc;

	if (seen->count == 0)
		start(sequence, sighting);
	if (position <= sequence->highest)
		return add_behind(sequence, sighting, window);
	if (fck_in_run(&sequence->run)) {
		close_run(&sequence->run, within(sighting->time, sequence->run.time, window), &sequence->tally);
		sequence->run = (struct fck_run){0};
	}
	if (position == sequence->highest + 1 && seen->count > 0) {
		seen->items[seen->count - 1].last = last;
	} else {
		rc = append(seen, position, last);
		if (rc == 0 && position > sequence->highest + 1)
			rc = append(&sequence->jumps, sequence->highest + 1, position - 1);
		if (rc != 0)
			return rc;
	}
	sequence->highest = last;
	fck_remember(sequence, sighting);
	return 1;
}
