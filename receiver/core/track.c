// SPDX-License-Identifier: Apache-2.0
//
// The tracker's tables: patterns, tracks, findings.
#include "track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "psn.h"
#include "track_online.h"

#define MTU_SMALLEST 256
#define MTU_LARGEST 4096
#define SPAN_LARGEST (1u << 30)
#define REMEMBERED 65536u // packets in the iterations that are remembered one by one, at least
#define LIVE_LEAST 4u
#define LIVE_MOST 256u
#define WORD_BITS 64u

int fck_tracker_new(struct fck_tracker **out)
{
	struct fck_tracker *made = calloc(1, sizeof(*made));

	if (made == NULL)
		return -ENOMEM;
	made->findings = calloc(FCK_FINDING_LIMIT, sizeof(*made->findings));
	if (made->findings == NULL) {
		free(made);
		return -ENOMEM;
	}
	made->ops = fck_lay_best();
	made->generation = 1;
	*out = made;
	return 0;
}

static void pattern_free(struct fck_pattern *pattern)
{
	if (pattern == NULL)
		return;
	free(pattern->slots);
	free(pattern->starts);
	free(pattern->alike);
	free(pattern);
}

static void track_free(struct fck_track_state *track)
{
	free(track->lives);
	free(track->bits);
	free(track->windows);
	free(track->rows);
	free(track->heads.items);
	free(track);
}

void fck_tracker_free(struct fck_tracker *tracker)
{
	if (tracker == NULL)
		return;
	for (uint64_t i = 0; i < tracker->pattern_count; i++)
		pattern_free(tracker->patterns[i]);
	for (uint64_t i = 0; i < tracker->track_count; i++)
		track_free(tracker->tracks[i]);
	for (uint64_t i = 0; i < tracker->group_count; i++)
		free(tracker->groups[i].extents);
	for (uint64_t i = 0; i < tracker->gradient_count; i++) {
		if (tracker->gradients[i]->board == NULL)
			free(tracker->gradients[i]->withdrawn);
		free(tracker->gradients[i]);
	}
	fck_online_free(tracker);
	free(tracker->patterns);
	free(tracker->tracks);
	free(tracker->groups);
	free(tracker->gradients);
	free(tracker->findings);
	free(tracker);
}

static int check_slot(const struct fck_slot *slot, const struct fck_pattern_config *config)
{
	uint64_t packets = ((uint64_t)slot->bytes + config->mtu - 1) / config->mtu;
	uint32_t line = config->protocol == FCK_PROTOCOL_LL ? FCK_LL_LINE : FCK_LL128_LINE;

	if (slot->packets != (packets > 0 ? packets : 1) || slot->reduced > 1 || slot->immediate < -2)
		return -EINVAL;
	if ((uint64_t)slot->wire_at + slot->bytes > UINT32_MAX || (uint64_t)slot->unit + slot->packets > UINT32_MAX)
		return -EINVAL;
	if (slot->data_at > INT64_MAX || (config->steps > 0 && slot->step >= config->steps))
		return -EINVAL;
	if (config->protocol != FCK_PROTOCOL_SIMPLE && slot->reduced && (slot->wire_at % line != 0 || slot->bytes % line != 0))
		return -EOPNOTSUPP;
	return 0;
}

static int check_config(const struct fck_pattern_config *config)
{
	if (config->mtu < MTU_SMALLEST || config->mtu > MTU_LARGEST || (config->mtu & (config->mtu - 1)) != 0)
		return -EINVAL;
	if (config->protocol > FCK_PROTOCOL_LL128 || config->immediate > FCK_IMMEDIATE_IGNORED)
		return -EINVAL;
	if (config->fifo_bytes > 0 && (config->fifo_steps == 0 || config->fifo_steps > FCK_FIFO_STEPS_LIMIT))
		return -EINVAL;
	return 0;
}

static bool alike(const struct fck_slot *a, const struct fck_slot *b)
{
	return a->packets == b->packets && a->bytes == b->bytes;
}

// Is the row of messages, repeated without end, the same after a shift by fewer messages? By the failure function of
// Knuth, Morris and Pratt, in `border` (count + 1 numbers).
static bool is_periodic(const struct fck_slot *slots, uint32_t count, uint32_t *border)
{
	uint32_t matched = 0, period;

	border[0] = border[1] = 0;
	for (uint32_t at = 1; at < count; at++) {
		while (matched > 0 && !alike(&slots[at], &slots[matched]))
			matched = border[matched];
		matched += alike(&slots[at], &slots[matched]);
		border[at + 1] = matched;
	}
	period = count - border[count];
	return period < count && count % period == 0;
}

static int by_kind(const void *a, const void *b)
{
	const struct fck_slot *left = *(const struct fck_slot *const *)a, *right = *(const struct fck_slot *const *)b;

	if (left->bytes != right->bytes)
		return left->bytes < right->bytes ? -1 : 1;
	return left < right ? -1 : 1; // packets follow from bytes
}

// The smallest set of slots that are alike, by sorting.
static void find_rare(struct fck_pattern *pattern, const struct fck_slot **sorted)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < pattern->count; i++)
		sorted[i] = &pattern->slots[i];
	qsort(sorted, pattern->count, sizeof(*sorted), by_kind);
	for (uint32_t from = 0, to; from < pattern->count; from = to) {
		for (to = from + 1; to < pattern->count && alike(sorted[from], sorted[to]);)
			to++;
		if (to - from >= best)
			continue;
		best = to - from;
		for (uint32_t i = from; i < to; i++)
			pattern->alike[i - from] = (uint32_t)(sorted[i] - pattern->slots);
	}
	pattern->alike_count = best;
	pattern->rare = pattern->alike[0];
}

static int describe(struct fck_pattern *pattern)
{
	const struct fck_slot **sorted = calloc(pattern->count, sizeof(*sorted));

	pattern->alike = calloc((uint64_t)pattern->count + 1, sizeof(*pattern->alike));
	if (sorted == NULL || pattern->alike == NULL) {
		free(sorted);
		return -ENOMEM;
	}
	pattern->periodic = is_periodic(pattern->slots, pattern->count, pattern->alike);
	find_rare(pattern, sorted);
	free(sorted);
	return 0;
}

static int pattern_make(struct fck_pattern *pattern, const struct fck_slot *slots)
{
	uint64_t span = 0;

	pattern->slots = calloc(pattern->count, sizeof(*slots));
	pattern->starts = calloc((uint64_t)pattern->count + 1, sizeof(*pattern->starts));
	if (pattern->slots == NULL || pattern->starts == NULL)
		return -ENOMEM;
	memcpy(pattern->slots, slots, pattern->count * sizeof(*slots));
	for (uint32_t i = 0; i < pattern->count; i++) {
		int rc = check_slot(&slots[i], &pattern->config);

		pattern->starts[i] = (uint32_t)span;
		span += slots[i].packets;
		if (rc != 0 || span > SPAN_LARGEST)
			return rc != 0 ? rc : -EINVAL;
	}
	pattern->starts[pattern->count] = pattern->span = (uint32_t)span;
	return describe(pattern);
}

int fck_tracker_pattern(
	struct fck_tracker *tracker, const struct fck_slot *slots, uint32_t count, const struct fck_pattern_config *config
)
{
	struct fck_pattern *pattern;
	int rc;

	if (slots == NULL || config == NULL || count == 0 || check_config(config) != 0)
		return -EINVAL;
	if (fck_reserve((void **)&tracker->patterns, &tracker->pattern_room, tracker->pattern_count, sizeof(pattern)) != 0)
		return -ENOMEM;
	pattern = calloc(1, sizeof(*pattern));
	if (pattern == NULL)
		return -ENOMEM;
	pattern->config = *config;
	pattern->count = count;
	rc = pattern_make(pattern, slots);
	if (rc != 0) {
		pattern_free(pattern);
		return rc;
	}
	tracker->patterns[tracker->pattern_count] = pattern;
	return (int)tracker->pattern_count++;
}

struct fck_track_state *fck_track_find(const struct fck_tracker *tracker, const struct fck_key *key)
{
	for (uint64_t i = 0; i < tracker->track_count; i++) // once a flow and change of tracks, not once a packet
		if (memcmp(&tracker->tracks[i]->key, key, sizeof(*key)) == 0)
			return tracker->tracks[i];
	return NULL;
}

static int make_lives(struct fck_track_state *track)
{
	uint32_t words = (track->pattern->span + WORD_BITS - 1) / WORD_BITS;

	track->live_count = LIVE_LEAST;
	while (track->live_count < LIVE_MOST && track->live_count * (uint64_t)track->pattern->span < REMEMBERED)
		track->live_count *= 2;
	track->lives = calloc(track->live_count, sizeof(*track->lives));
	track->bits = calloc(2 * (uint64_t)words * track->live_count, sizeof(*track->bits));
	if (track->lives == NULL || track->bits == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < track->live_count; i++) {
		track->lives[i].base = FCK_NOWHERE;
		track->lives[i].seen = track->bits + 2 * (uint64_t)words * i;
		track->lives[i].laid = track->lives[i].seen + words;
	}
	return 0;
}

static struct fck_track_state *track_make(const struct fck_key *key, const struct fck_pattern *pattern)
{
	struct fck_track_state *track = calloc(1, sizeof(*track));

	if (track == NULL)
		return NULL;
	track->key = *key;
	track->pattern = pattern;
	track->highest = track->confirmed = track->open = track->gapless = FCK_NOWHERE;
	track->counts.candidate = track->heads.rare = FCK_NOWHERE;
	if (make_lives(track) != 0) {
		track_free(track);
		return NULL;
	}
	return track;
}

int fck_tracker_follow(
	struct fck_tracker *tracker, uint32_t capture, uint32_t family, const uint8_t *source, const uint8_t *destination,
	uint32_t dest_qp, uint32_t pattern, uint32_t group
)
{
	uint32_t size = family == 4 ? 4 : 16;
	struct fck_key key = {.dest_qp = dest_qp, .capture = (uint16_t)capture, .family = (uint16_t)family};
	struct fck_track_state *track;
	int rc;

	if (pattern >= tracker->pattern_count || (family != 4 && family != 6) || capture > UINT16_MAX)
		return -EINVAL;
	memcpy(key.source, source, size);
	memcpy(key.destination, destination, size);
	if (fck_track_find(tracker, &key) != NULL)
		return -EEXIST;
	if (fck_reserve((void **)&tracker->tracks, &tracker->track_room, tracker->track_count, sizeof(track)) != 0)
		return -ENOMEM;
	rc = fck_group_join(tracker, group, tracker->patterns[pattern]);
	if (rc != 0)
		return rc;
	track = track_make(&key, tracker->patterns[pattern]);
	if (track == NULL)
		return -ENOMEM;
	track->number = (uint32_t)tracker->track_count;
	track->group = track->counts.group = group;
	track->counts.pattern = pattern;
	tracker->generation++;
	tracker->tracks[tracker->track_count] = track;
	return (int)tracker->track_count++;
}

void fck_find_add(
	struct fck_tracker *tracker, struct fck_track_state *track, enum fck_finding_kind kind, const struct fck_place *place,
	int64_t expected, int64_t found
)
{
	tracker->finding_counts[kind]++;
	if (tracker->finding_count == FCK_FINDING_LIMIT)
		return;
	tracker->findings[tracker->finding_count++] = (struct fck_finding){
		.kind = kind,
		.track = track->number,
		.packet = place->frame,
		.position = place->position,
		.iteration = place->live != NULL ? place->live->iteration : 0,
		.slot = place->number,
		.expected = expected,
		.found = found,
	};
}

uint32_t fck_tracker_findings(const struct fck_tracker *tracker, const struct fck_finding **rows, uint64_t *counts)
{
	*rows = tracker->findings;
	memcpy(counts, tracker->finding_counts, sizeof(tracker->finding_counts));
	return tracker->finding_count;
}

int fck_tracker_track(const struct fck_tracker *tracker, uint32_t track, struct fck_track *out)
{
	const struct fck_track_state *state;

	if (track >= tracker->track_count)
		return -EINVAL;
	state = tracker->tracks[track];
	*out = state->counts;
	out->iterations = (uint32_t)state->row_count;
	out->waiting = state->window_count == 0 || state->windows[state->window_count - 1].lost;
	for (uint32_t i = 0; i < state->pending_count; i++)
		out->unconfirmed += (uint64_t)(state->pending[i].last - state->pending[i].first) + 1;
	return 0;
}

int fck_tracker_iterations(
	const struct fck_tracker *tracker, uint32_t track, const struct fck_track_iteration **rows, uint64_t *count
)
{
	if (track >= tracker->track_count)
		return -EINVAL;
	*rows = tracker->tracks[track]->rows;
	*count = tracker->tracks[track]->row_count;
	return 0;
}

uint64_t fck_tracker_unfollowed(const struct fck_tracker *tracker)
{
	return tracker->unfollowed;
}
