// SPDX-License-Identifier: Apache-2.0
//
// From a packet at its place to bytes in a gradient buffer, and back where the place turns out wrong.
#include "track.h"

#include "track_online.h"

#define WORD_BITS 64u

static bool test_bit(const uint64_t *bits, uint64_t bit)
{
	return bits[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

static void set_bit(uint64_t *bits, uint64_t bit)
{
	bits[bit / WORD_BITS] |= UINT64_C(1) << bit % WORD_BITS;
}

static void clear_bit(uint64_t *bits, uint64_t bit)
{
	bits[bit / WORD_BITS] &= ~(UINT64_C(1) << bit % WORD_BITS);
}

// With `closed` a board gives no slot to an iteration that has none.
static struct fck_gradient *gradient_of(
	struct fck_tracker *tracker, const struct fck_track_state *track, struct fck_live *live, bool closed
)
{
	if (live->generation == tracker->generation)
		return live->gradient;
	live->gradient = fck_gradient_find(tracker, track->group, live->iteration);
	if (live->gradient == NULL && tracker->online != NULL)
		live->gradient = fck_online_find(tracker, track->group, live->iteration, closed);
	if (live->gradient != NULL || tracker->online == NULL) // a slot may become free at any time
		live->generation = tracker->generation;
	return live->gradient;
}

static struct fck_piece_of piece_at(
	const struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
)
{
	return (struct fck_piece_of){
		.payload = packet->payload,
		.wire_at = place->slot->wire_at + place->packet * track->pattern->config.mtu,
		.length = packet->length,
		.data_bytes = place->slot->data_bytes,
	};
}

enum fck_lay_kind fck_track_weigh(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
)
{
	uint32_t protocol = track->pattern->config.protocol;
	struct fck_piece_of piece = piece_at(track, packet, place);
	uint64_t flag;
	bool whole;

	if (!place->slot->reduced || !fck_lay_carries(protocol, piece.wire_at, piece.length, piece.data_bytes))
		return FCK_LAY_NOT_REDUCED;
	if (packet->payload_captured < packet->length)
		return FCK_LAY_SHORT;
	if (protocol == FCK_PROTOCOL_SIMPLE)
		return FCK_LAY_LAID;
	whole = fck_lay_flag(tracker->ops, protocol, &piece, &flag);
	switch (fck_check_flag(tracker, track, place, whole, flag)) {
	case FCK_CHECK_STEP_LOST:
		return FCK_LAYS;
	case FCK_CHECK_CONFLICT:
		return FCK_LAY_FLAG_TORN;
	default:
		return FCK_LAY_LAID;
	}
}

// The bytes lie already: are they the same?
static enum fck_lay_kind again(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_piece_of *piece,
	const struct fck_place *place, struct fck_gradient *gradient
)
{
	uint64_t unit = (uint64_t)place->slot->unit + place->packet;
	const uint8_t *data = gradient->data + place->slot->data_at;
	int64_t at;

	if (!track->pattern->config.compare)
		return FCK_LAY_PRESENT;
	at = fck_lay_difference(track->pattern->config.protocol, piece, data);
	if (at < 0)
		return FCK_LAY_PRESENT;
	fck_find_add(
		tracker, track, FCK_FINDING_PAYLOAD_DIFFERS, place, (int64_t)place->slot->data_at + at, data[at]
	);
	if (gradient->board != NULL) {
		fck_online_withdraw(tracker, gradient, unit, true);
	} else {
		clear_bit(gradient->present, unit);
		set_bit(gradient->withdrawn, unit);
	}
	if (test_bit(place->live->laid, place->offset)) {
		clear_bit(place->live->laid, place->offset);
		track->rows[place->live->row].laid--;
	}
	return FCK_LAY_DIFFERS;
}

// For the first time, or by another's hand? FCK_LAY_LAID: it lies, or will once it is published.
static enum fck_lay_kind lay_first(
	struct fck_tracker *tracker, const struct fck_track_state *track, const struct fck_piece_of *piece,
	const struct fck_place *place, struct fck_gradient *gradient
)
{
	uint64_t unit = (uint64_t)place->slot->unit + place->packet;
	uint32_t protocol = track->pattern->config.protocol;
	uint8_t *data = gradient->data + place->slot->data_at;

	if (gradient->board == NULL) {
		if (test_bit(gradient->present, unit))
			return FCK_LAY_PRESENT;
		fck_lay(tracker->ops, protocol, piece, data);
		set_bit(gradient->present, unit);
		return FCK_LAY_LAID;
	}
	switch (fck_online_claim(tracker, gradient, unit)) {
	case FCK_CLAIM_PRESENT:
		return FCK_LAY_PRESENT;
	case FCK_CLAIM_OTHERS:
		return FCK_LAY_IN_FLIGHT;
	default:
		fck_online_lay(tracker, gradient, unit, protocol, piece, data);
		return FCK_LAY_LAID;
	}
}

enum fck_lay_kind fck_track_lay(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
)
{
	struct fck_gradient *gradient = gradient_of(tracker, track, place->live, false);
	struct fck_piece_of piece = piece_at(track, packet, place);
	uint64_t unit = (uint64_t)place->slot->unit + place->packet;
	enum fck_lay_kind kind;

	if (gradient == NULL)
		return FCK_LAY_NO_MEMORY;
	if (test_bit(gradient->withdrawn, unit))
		return FCK_LAY_DOUBTFUL;
	kind = lay_first(tracker, track, &piece, place, gradient);
	if (kind == FCK_LAY_PRESENT)
		return again(tracker, track, &piece, place, gradient);
	if (kind != FCK_LAY_LAID)
		return kind;
	set_bit(place->live->laid, place->offset);
	track->rows[place->live->row].laid++;
	return FCK_LAY_LAID;
}

// Takes one packet back.
static void revoke(struct fck_tracker *tracker, struct fck_track_state *track, struct fck_live *live, uint32_t offset)
{
	struct fck_gradient *gradient = gradient_of(tracker, track, live, true);
	uint32_t low = 0, high = track->pattern->count;
	uint64_t unit;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (track->pattern->starts[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	clear_bit(live->laid, offset);
	track->rows[live->row].laid--;
	track->counts.revoked++;
	unit = (uint64_t)track->pattern->slots[low].unit + offset - track->pattern->starts[low];
	if (gradient != NULL && gradient->board != NULL)
		fck_online_withdraw(tracker, gradient, unit, false);
	else if (gradient != NULL)
		clear_bit(gradient->present, unit);
}

void fck_track_revoke(struct fck_tracker *tracker, struct fck_track_state *track, int64_t first, int64_t last)
{
	uint32_t span = track->pattern->span;

	if (tracker->online != NULL)
		fck_online_settle(tracker); // or it would be present after all
	for (uint32_t i = 0; i < track->live_count; i++) {
		struct fck_live *live = &track->lives[i];
		int64_t from = first > live->base ? first : live->base, to;

		if (live->base == FCK_NOWHERE)
			continue;
		to = last < live->base + span ? last + 1 : live->base + span;
		for (int64_t at = from; at < to; at++)
			if (test_bit(live->laid, (uint64_t)(at - live->base)))
				revoke(tracker, track, live, (uint32_t)(at - live->base));
	}
}
