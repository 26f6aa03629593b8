// SPDX-License-Identifier: Apache-2.0
//
// Counts frames. There are four ways, each for what the one before does not take, and all with the same result: a packet that
// looks like the one before, the next packet of a message under way, any other plain packet, and the rest.
#include <errno.h>

#include "ahead.h"
#include "core.h"
#include "plain.h"

// What frames add to the counters of a capture, while they are counted.
struct tally {
	uint64_t packets;
	uint64_t bytes;
	uint64_t first_time;
	uint64_t last_time;
	uint64_t rocev2;  // of those that the short ways took
	uint32_t changes; // of the flow
};

static inline void tally_frame(struct tally *tally, const struct fck_input *frame)
{
	if (frame->time_ns < tally->first_time)
		tally->first_time = frame->time_ns;
	if (frame->time_ns > tally->last_time)
		tally->last_time = frame->time_ns;
	tally->packets++;
	tally->bytes += frame->original;
}

static inline void add_tally(struct fck_capture *capture, const struct tally *tally)
{
	if (capture->packets == 0 || tally->first_time < capture->first_time)
		capture->first_time = tally->first_time;
	if (tally->last_time > capture->last_time)
		capture->last_time = tally->last_time;
	capture->packets += tally->packets;
	capture->bytes += tally->bytes;
	capture->frames[FCK_FRAME_ROCEV2] += tally->rocev2;
}

static void count_attributes(struct fck_capture *capture, uint32_t attributes)
{
	for (; attributes != 0; attributes &= attributes - 1)
		capture->attributes[__builtin_ctz(attributes)]++;
}

// The flow of a packet, made when it is new; NULL with *rc == 0: refused because of max_flows.
static struct fck_flow_state *flow_of(struct fck_core *core, const struct fck_key *key, int *rc)
{
	uint32_t hash = fck_flow_hash(key);
	struct fck_flow_state *flow = fck_flow_find(&core->table, key, hash);

	if (flow != NULL)
		return flow;
	if (core->config.max_flows > 0 && core->table.count >= core->config.max_flows) {
		if (!core->refusing && core->config.log != NULL)
			core->config.log(core->config.log_context, FCK_LOG_WARNING, "flow table full: new flows are not followed");
		core->refusing = true;
		return NULL;
	}
	flow = fck_flow_make(&core->table, key, hash);
	if (flow == NULL)
		*rc = -ENOMEM;
	return flow;
}

// Counts the tunnels that a frame came through. -ENOMEM.
static int note_outers(struct fck_core *core, uint32_t capture, const struct fck_packet *packet)
{
	struct fck_capture *counters = &core->captures[capture];

	for (uint32_t i = 0; i < packet->outer_count; i++) {
		int64_t missing;
		int rc = fck_tunnels_note(&core->tunnels, capture, &packet->outers[i], &missing);

		if (rc < 0)
			return rc;
		counters->attributes[FCK_ATTRIBUTE_TUNNEL_REFUSED] += (uint64_t)rc;
		counters->attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS] += (uint64_t)missing; // may be below 0
	}
	return 0;
}

// Is the packet one that a network card would take? Always true where the ICRC is not to be checked.
static bool sound(const struct fck_core *core, struct fck_capture *counters, const struct fck_packet *packet)
{
	enum fck_attribute found;

	if (core->icrc == NULL)
		return true;
	found = fck_icrc_judge(core->icrc, packet);
	counters->attributes[found]++;
	return found != FCK_ATTRIBUTE_ICRC_BAD;
}

// Hands a request packet that the flow has counted to the tracker.
static int place_packet(struct fck_core *core, struct fck_flow_state *flow, const struct fck_packet *packet)
{
	struct fck_tracker *tracker = core->tracker;

	if (flow->tracker != tracker || flow->tracks_asked != tracker->track_count) {
		flow->tracker = tracker;
		flow->tracks_asked = tracker->track_count;
		flow->track = fck_track_find(tracker, &flow->key);
	}
	if (flow->track == NULL) {
		tracker->unfollowed++;
		return 0;
	}
	return fck_track_packet(
		tracker, flow->track, packet, fck_sequence_place(&flow->sequence, packet->psn), core->frames
	);
}

static int count_packet(
	struct fck_core *core, struct fck_packet *packet, struct fck_capture *counters, uint64_t time_ns
)
{
	struct fck_flow_state *flow;
	int rc = 0;

	if (!sound(core, counters, packet))
		return 0;
	flow = fck_flow_latest(&core->table, &packet->key);
	if (flow == NULL)
		flow = flow_of(core, &packet->key, &rc);
	if (flow == NULL) {
		counters->attributes[FCK_ATTRIBUTE_FLOW_REFUSED] += rc == 0;
		return rc;
	}
	if (!core->general && packet->info.request && fck_flow_goes_on(flow, packet->opcode, packet->psn)) {
		flow->truncated += packet->truncated;
		fck_flow_go_on(flow, packet->length, time_ns, packet->icrc, packet->has_icrc);
	} else {
		rc = fck_flow_packet(flow, packet, time_ns, core->config.duplicate_window_ns);
	}
	if (rc != 0 || core->tracker == NULL || !packet->info.request)
		return rc;
	return place_packet(core, flow, packet);
}

// A frame that is not plain. Not inlined, so that what is plain pays nothing for it.
static __attribute__((noinline)) int count_other(struct fck_core *core, uint32_t capture, const struct fck_input *frame)
{
	struct fck_capture *counters = &core->captures[capture];
	struct fck_packet packet;
	enum fck_frame_kind kind = fck_parse(&core->config, frame->data, frame->captured, frame->original, &packet);
	int outers = 0, rc = 0;

	packet.key.capture = (uint16_t)capture;
	counters->frames[kind]++;
	count_attributes(counters, packet.attributes);
	if (packet.outer_count > 0 && !core->config.tunnels_elsewhere)
		outers = note_outers(core, capture, &packet);
	if (kind == FCK_FRAME_ROCEV2)
		rc = count_packet(core, &packet, counters, frame->time_ns);
	return rc != 0 ? rc : outers;
}

static bool takes_plain(const struct fck_core *core)
{
	return core->config.trimmed_dscp == 0 && !core->general;
}

// Must somebody see whole packets, not only what the flow keeps of them?
static bool wants_packets(const struct fck_core *core)
{
	return core->tracker != NULL || core->icrc != NULL;
}

// What the short ways have in common: a Middle that goes on has no headers of its own, and an ICRC.
static inline uint32_t go_on(struct fck_flow_state *flow, const struct fck_plain *plain, uint64_t time_ns)
{
	uint32_t length = plain->length - FCK_PLAIN_BTH - FCK_BTH_SIZE - plain->behind;

	fck_flow_go_on(flow, length, time_ns, fck_be32(plain->udp + plain->length - FCK_ICRC_SIZE), true);
	return length;
}

static inline __attribute__((always_inline)) int count_frame(
	struct fck_core *core, uint32_t capture, const struct fck_input *frame, struct tally *tally
)
{
	struct fck_flow_state *flow;
	struct fck_packet packet;
	struct fck_plain plain;
	bool again = true; // in the flow of the packet before

	core->frames++;
	tally_frame(tally, frame);
	if (!takes_plain(core) || !fck_plain_head(frame->data, frame->captured, (uint16_t)capture, &plain, &packet.key))
		return count_other(core, capture, frame);
	flow = fck_flow_latest(&core->table, &packet.key);
	if (flow == NULL) {
		flow = fck_flow_find(&core->table, &packet.key, fck_flow_hash(&packet.key));
		tally->changes++;
		again = false;
	}
	if (flow != NULL && !wants_packets(core) && fck_flow_goes_on(flow, plain.opcode, plain.psn)) {
		uint32_t length = go_on(flow, &plain, frame->time_ns);

		if (again)
			fck_shape_take(
				&core->shape, flow, frame->data, plain.udp == frame->data + FCK_PLAIN_UDP4, plain.opcode,
				(uint32_t)(plain.udp + plain.length - frame->data), length
			);
		tally->rocev2++;
		return 0;
	}
	if (!fck_plain_rest(frame->data, &plain, &packet))
		return count_other(core, capture, frame);
	tally->rocev2++;
	return count_packet(core, &packet, &core->captures[capture], frame->time_ns);
}

int fck_frame(
	struct fck_core *core, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct fck_input frame = {.data = data, .time_ns = time_ns, .captured = captured, .original = original};
	struct tally tally = {.first_time = UINT64_MAX};
	int rc;

	if (capture >= core->capture_count)
		return -EINVAL;
	core->finished = false;
	rc = count_frame(core, capture, &frame, &tally);
	add_tally(&core->captures[capture], &tally);
	return rc;
}

// Counts frames that were looked at ahead; those that do not go on in their flow as any other.
static int64_t count_ahead(
	struct fck_core *core, uint32_t capture, const struct fck_input *frames, uint32_t count, struct tally *tally
)
{
	struct fck_ahead ahead[FCK_AHEAD];
	bool short_way = !wants_packets(core);
	int64_t uncounted = 0;

	fck_look_ahead(&core->table, capture, frames, count, ahead);
	for (uint32_t i = 0; i < count; i++) {
		struct fck_ahead *at = &ahead[i];

		if (short_way && at->flow != NULL && fck_flow_goes_on(at->flow, at->plain.opcode, at->plain.psn) &&
		    fck_same_key(&at->flow->key, &at->key)) {
			core->frames++;
			tally_frame(tally, &frames[i]);
			tally->rocev2++;
			tally->changes += core->table.latest != at->flow;
			core->table.latest = at->flow;
			go_on(at->flow, &at->plain, frames[i].time_ns);
		} else {
			uncounted += count_frame(core, capture, &frames[i], tally) != 0;
		}
	}
	return uncounted;
}

// Counts the packets that go on in the flow and have the shape of the one before, up to the first that does not.
static inline __attribute__((always_inline)) uint32_t count_row_of(
	const struct fck_shape *shape, const struct fck_input *frames, uint32_t count, struct tally *tally, uint32_t words
)
{
	struct fck_flow_state *flow = shape->flow;
	struct fck_sequence *sequence = &flow->sequence;
	uint64_t latest = flow->front.time;
	int64_t highest = sequence->highest, icrcs = flow->front.icrc;
	uint32_t i;

	for (i = 0; i < count && highest < flow->front.until; i++) {
		const struct fck_input *frame = &frames[i];
		struct fck_sighting sighting = {.position = highest + 1, .time = frame->time_ns, .has_icrc = true};

		if (frame->captured < shape->end || !fck_shape_fits(shape, frame->data, words) ||
		    fck_be24(frame->data + shape->psn_at) != ((uint64_t)sighting.position & FCK_PSN_MASK))
			break;
		sighting.icrc = fck_be32(frame->data + shape->end - FCK_ICRC_SIZE);
		icrcs += sighting.icrc;
		latest = frame->time_ns > latest ? frame->time_ns : latest;
		highest++;
		fck_remember(sequence, &sighting);
		tally_frame(tally, frame);
	}
	if (i == 0)
		return 0;
	if (fck_is_mtu(shape->length))
		flow->mtu = shape->length;
	sequence->highest = highest;
	flow->bytes += (uint64_t)i * shape->length;
	flow->front.time = latest;
	flow->front.icrc = icrcs;
	tally->rocev2 += i;
	return i;
}

static uint32_t count_row(
	struct fck_core *core, uint32_t capture, const struct fck_input *frames, uint32_t count, struct tally *tally
)
{
	const struct fck_shape *shape = &core->shape;
	const struct fck_flow_state *flow = shape->flow;
	uint32_t counted;

	if (flow == NULL || flow != core->table.latest || flow->front.opcode != shape->opcode || flow->key.capture != capture)
		return 0;
	if (shape->count == FCK_SHAPE_WORDS4)
		counted = count_row_of(shape, frames, count, tally, FCK_SHAPE_WORDS4);
	else
		counted = count_row_of(shape, frames, count, tally, FCK_SHAPE_WORDS6);
	core->frames += counted;
	return counted;
}

static int64_t count_chunk(struct fck_core *core, uint32_t capture, const struct fck_input *frames, uint32_t count)
{
	struct tally tally = {.first_time = UINT64_MAX};
	bool rows = takes_plain(core) && !wants_packets(core);
	int64_t uncounted = 0;

	if (core->changes > count / 4 && core->table.count > 0 && takes_plain(core)) {
		uncounted = count_ahead(core, capture, frames, count, &tally);
	} else {
		for (uint32_t i = 0; i < count;) {
			if (rows)
				i += count_row(core, capture, frames + i, count - i, &tally);
			if (i < count)
				uncounted += count_frame(core, capture, &frames[i++], &tally) != 0;
		}
	}
	add_tally(&core->captures[capture], &tally);
	core->changes = tally.changes;
	return uncounted;
}

int64_t fck_frames(struct fck_core *core, uint32_t capture, const struct fck_input *frames, uint32_t count)
{
	int64_t uncounted = 0;

	if (capture >= core->capture_count)
		return -EINVAL;
	core->finished = false;
	for (uint32_t from = 0; from < count; from += FCK_AHEAD) {
		uint32_t size = count - from < FCK_AHEAD ? count - from : FCK_AHEAD;

		uncounted += count_chunk(core, capture, frames + from, size);
	}
	return uncounted;
}

int fck_frame_foreign(struct fck_core *core, uint32_t capture, uint64_t time_ns, uint32_t original)
{
	struct fck_input frame = {.time_ns = time_ns, .original = original};
	struct tally tally = {.first_time = UINT64_MAX};

	if (capture >= core->capture_count)
		return -EINVAL;
	core->frames++;
	core->finished = false;
	tally_frame(&tally, &frame);
	add_tally(&core->captures[capture], &tally);
	core->captures[capture].frames[FCK_FRAME_LINK_TYPE_UNSUPPORTED]++;
	return 0;
}
