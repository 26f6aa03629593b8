// SPDX-License-Identifier: Apache-2.0
//
// What confirms a place: opcode, lengths, immediate, remote address, flags.
#include "track.h"

#include "packet.h"

static enum fck_part part_at(const struct fck_place *place)
{
	bool first = place->packet == 0, last = place->packet + 1 == place->slot->packets;

	return (enum fck_part)((first ? FCK_PART_FIRST : 0) | (last ? FCK_PART_LAST : 0));
}

static uint32_t length_at(const struct fck_place *place, uint32_t mtu)
{
	return place->packet + 1 < place->slot->packets ? mtu : place->slot->bytes - place->packet * mtu;
}

// FIFO steps since the window began.
static uint64_t steps_before(const struct fck_track_state *track, const struct fck_place *place)
{
	uint64_t iterations = place->live->iteration - track->windows[place->live->window].iteration;

	return iterations * track->pattern->config.steps + place->slot->step;
}

// Flags and addresses are learned anew in each window: what was sent between two took steps as well.
static void learn_window(struct fck_track_state *track, uint64_t window)
{
	if (track->learned_window == window)
		return;
	track->learned_window = window;
	track->flag_known = false;
	track->addresses_known = 0;
}

// Each step has its place in the FIFO; where that begins is learned.
static bool address_agrees(struct fck_track_state *track, const struct fck_place *place, uint64_t address, uint64_t *wanted)
{
	const struct fck_pattern_config *config = &track->pattern->config;
	uint32_t step = (uint32_t)(steps_before(track, place) % config->fifo_steps), other, ahead;
	uint64_t up, around;

	address -= place->slot->wire_at;
	if (track->addresses_known >> step & 1) {
		*wanted = track->addresses[step] + place->slot->wire_at;
		return track->addresses[step] == address;
	}
	if (track->addresses_known != 0) {
		other = (uint32_t)__builtin_ctz(track->addresses_known);
		ahead = (step + config->fifo_steps - other) % config->fifo_steps;
		up = track->addresses[other] + (uint64_t)ahead * config->fifo_bytes;
		around = up - (uint64_t)config->fifo_steps * config->fifo_bytes;
		*wanted = up + place->slot->wire_at;
		if (address != up && address != around)
			return false;
	}
	track->addresses_known |= 1u << step;
	track->addresses[step] = address;
	return true;
}

static int64_t immediate_of(const struct fck_packet *packet, uint32_t order)
{
	if (packet->immediate < 0 || order != FCK_IMMEDIATE_BIG)
		return packet->immediate;
	return (int64_t)__builtin_bswap32((uint32_t)packet->immediate);
}

static bool immediate_agrees(const struct fck_packet *packet, int64_t expected, uint32_t order)
{
	if (expected == -2)
		return !packet->info.immediate;
	if (expected == -1)
		return true;
	if (order == FCK_IMMEDIATE_IGNORED)
		return packet->info.immediate;
	return immediate_of(packet, order) == expected;
}

static enum fck_check check_start(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
)
{
	uint64_t wanted = 0;

	if (packet->reth_length != place->slot->bytes) {
		fck_find_add(
			tracker, track, FCK_FINDING_MESSAGE_LENGTH, place, place->slot->bytes, packet->reth_length
		);
		return FCK_CHECK_STEP_LOST;
	}
	if (track->pattern->config.fifo_bytes == 0 || track->pattern->config.steps == 0 || place->slot->bytes == 0)
		return FCK_CHECK_AGREES;
	learn_window(track, place->live->window);
	if (address_agrees(track, place, packet->address, &wanted))
		return FCK_CHECK_AGREES;
	fck_find_add(tracker, track, FCK_FINDING_ADDRESS, place, (int64_t)wanted, (int64_t)packet->address);
	return FCK_CHECK_STEP_LOST;
}

enum fck_check fck_check_headers(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_packet *packet, const struct fck_place *place
)
{
	const struct fck_pattern_config *config = &track->pattern->config;
	uint32_t packet_class = packet->info.packet_class, length = length_at(place, config->mtu);
	enum fck_part part = part_at(place);

	if (packet_class != FCK_CLASS_WRITE && packet_class != FCK_CLASS_CLEAR_TO_SEND) {
		fck_find_add(tracker, track, FCK_FINDING_CLASS, place, FCK_CLASS_WRITE, packet_class);
		return FCK_CHECK_STEP_LOST;
	}
	if (packet->info.part != part) {
		fck_find_add(tracker, track, FCK_FINDING_PART, place, part, packet->info.part);
		return FCK_CHECK_STEP_LOST;
	}
	if (part & FCK_PART_FIRST) {
		enum fck_check start = check_start(tracker, track, packet, place);

		if (start != FCK_CHECK_AGREES)
			return start;
	}
	if (packet->length != length) {
		fck_find_add(tracker, track, FCK_FINDING_PACKET_LENGTH, place, length, packet->length);
		return FCK_CHECK_CONFLICT;
	}
	if ((part & FCK_PART_LAST) && !immediate_agrees(packet, place->slot->immediate, config->immediate)) {
		fck_find_add(
			tracker, track, FCK_FINDING_IMMEDIATE, place, place->slot->immediate,
			immediate_of(packet, config->immediate)
		);
		return FCK_CHECK_CONFLICT;
	}
	return FCK_CHECK_AGREES;
}

enum fck_check fck_check_flag(
	struct fck_tracker *tracker, struct fck_track_state *track, const struct fck_place *place, bool whole, uint64_t flag
)
{
	uint64_t mask = track->pattern->config.protocol == FCK_PROTOCOL_LL ? UINT32_MAX : UINT64_MAX, steps, wanted;

	if (!whole) {
		fck_find_add(tracker, track, FCK_FINDING_FLAG_TORN, place, -1, (int64_t)flag);
		return FCK_CHECK_CONFLICT;
	}
	if (track->pattern->config.steps == 0)
		return FCK_CHECK_AGREES;
	learn_window(track, place->live->window);
	steps = steps_before(track, place);
	if (!track->flag_known) {
		track->flag_known = true;
		track->flag = flag - steps;
		return FCK_CHECK_AGREES;
	}
	wanted = (track->flag + steps) & mask;
	if (wanted == flag)
		return FCK_CHECK_AGREES;
	fck_find_add(tracker, track, FCK_FINDING_FLAG_VALUE, place, (int64_t)wanted, (int64_t)flag);
	return FCK_CHECK_STEP_LOST;
}
