// SPDX-License-Identifier: Apache-2.0
//
// The public functions.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fck.h"
#include "flow.h"
#include "icrc.h"
#include "packet.h"
#include "plain.h"
#include "track.h"
#include "tunnel.h"

#define DUPLICATE_WINDOW_NS 1000000

struct fck_core {
	struct fck_config config;
	struct fck_capture *captures;
	uint64_t capture_count;
	uint64_t capture_room;
	struct fck_flow_table table;
	struct fck_tunnels tunnels;
	struct fck_icrc *icrc; // NULL: not to be checked
	struct fck_tracker *tracker; // NULL: nothing is placed
	uint64_t frames;
	bool refusing; // max_flows was reached
	bool finished; // results match what was counted
};

int fck_new(const struct fck_config *config, struct fck_core **core)
{
	struct fck_core *made = calloc(1, sizeof(*made));

	if (made == NULL)
		return -ENOMEM;
	if (config != NULL)
		made->config = *config;
	if (made->config.duplicate_window_ns == 0)
		made->config.duplicate_window_ns = DUPLICATE_WINDOW_NS;
	if (made->config.check_icrc) {
		made->icrc = malloc(sizeof(*made->icrc));
		if (made->icrc == NULL) {
			free(made);
			return -ENOMEM;
		}
		fck_icrc_init(made->icrc);
	}
	*core = made;
	return 0;
}

void fck_free(struct fck_core *core)
{
	if (core == NULL)
		return;
	for (uint64_t i = 0; i < core->capture_count; i++)
		free((char *)core->captures[i].name);
	free(core->captures);
	fck_flow_table_free(&core->table);
	fck_tunnels_free(&core->tunnels);
	free(core->icrc);
	free(core);
}

int fck_capture_add(struct fck_core *core, const char *name)
{
	char *copy;

	if (name == NULL || name[0] == '\0')
		return -EINVAL;
	for (uint64_t i = 0; i < core->capture_count; i++)
		if (strcmp(core->captures[i].name, name) == 0)
			return (int)i;
	if (core->capture_count > UINT16_MAX) // the flow key has 16 bits for it
		return -ENOSPC;
	if (fck_reserve((void **)&core->captures, &core->capture_room, core->capture_count, sizeof(*core->captures)) != 0)
		return -ENOMEM;
	copy = strdup(name);
	if (copy == NULL)
		return -ENOMEM;
	core->captures[core->capture_count] = (struct fck_capture){.name = copy};
	return (int)core->capture_count++;
}

static void count_frame(struct fck_capture *capture, uint64_t time_ns, uint32_t original)
{
	if (capture->packets == 0 || time_ns < capture->first_time)
		capture->first_time = time_ns;
	if (time_ns > capture->last_time)
		capture->last_time = time_ns;
	capture->packets++;
	capture->bytes += original;
}

static void count_attributes(struct fck_capture *capture, uint32_t attributes)
{
	for (; attributes != 0; attributes &= attributes - 1)
		capture->attributes[__builtin_ctz(attributes)]++;
}

// The flow of a packet, made when it is new; NULL with *rc == 0: refused because of max_flows.
static struct fck_flow_state *flow_of(struct fck_core *core, const struct fck_key *key, int *rc)
{
	struct fck_flow_state *flow = fck_flow_find(&core->table, key);

	if (flow != NULL)
		return flow;
	if (core->config.max_flows > 0 && core->table.count >= core->config.max_flows) {
		if (!core->refusing && core->config.log != NULL)
			core->config.log(core->config.log_context, FCK_LOG_WARNING, "flow table full: new flows are not followed");
		core->refusing = true;
		return NULL;
	}
	flow = fck_flow_make(&core->table, key);
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

static inline __attribute__((always_inline)) int count_packet(struct fck_core *core, struct fck_packet *packet, struct fck_capture *counters, uint64_t time_ns)
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
	if (fck_flow_goes_on(flow, packet))
		fck_flow_go_on(flow, packet, time_ns);
	else
		rc = fck_flow_packet(flow, packet, time_ns, core->config.duplicate_window_ns);
	if (rc != 0 || core->tracker == NULL || !packet->info.request)
		return rc;
	return place_packet(core, flow, packet);
}

// A frame that is not plain. Not inlined, so that what is plain pays nothing for it.
static __attribute__((noinline)) int count_other(
	struct fck_core *core, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct fck_capture *counters = &core->captures[capture];
	struct fck_packet packet;
	enum fck_frame_kind kind = fck_parse(&core->config, data, captured, original, &packet);
	int outers = 0, rc = 0;

	packet.key.capture = (uint16_t)capture;
	counters->frames[kind]++;
	count_attributes(counters, packet.attributes);
	if (packet.outer_count > 0 && !core->config.tunnels_elsewhere)
		outers = note_outers(core, capture, &packet);
	if (kind == FCK_FRAME_ROCEV2)
		rc = count_packet(core, &packet, counters, time_ns);
	return rc != 0 ? rc : outers;
}

int fck_frame(
	struct fck_core *core, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct fck_capture *counters;
	struct fck_packet packet;

	if (capture >= core->capture_count)
		return -EINVAL;
	counters = &core->captures[capture];
	core->frames++;
	core->finished = false;
	count_frame(counters, time_ns, original);
	if (!fck_parse_plain(&core->config, data, captured, (uint16_t)capture, &packet))
		return count_other(core, capture, time_ns, data, captured, original);
	counters->frames[FCK_FRAME_ROCEV2]++;
	return count_packet(core, &packet, counters, time_ns);
}

int fck_frame_foreign(struct fck_core *core, uint32_t capture, uint64_t time_ns, uint32_t original)
{
	if (capture >= core->capture_count)
		return -EINVAL;
	core->frames++;
	core->finished = false;
	count_frame(&core->captures[capture], time_ns, original);
	core->captures[capture].frames[FCK_FRAME_LINK_TYPE_UNSUPPORTED]++;
	return 0;
}

void fck_core_track(struct fck_core *core, struct fck_tracker *tracker)
{
	core->tracker = tracker;
}

int fck_finish(struct fck_core *core)
{
	for (uint64_t i = 0; i < core->table.count; i++) {
		int rc = fck_results_make(core->table.flows[i]);

		if (rc != 0)
			return rc;
	}
	core->finished = true;
	return 0;
}

uint32_t fck_capture_count(const struct fck_core *core)
{
	return (uint32_t)core->capture_count;
}

uint32_t fck_flow_count(const struct fck_core *core)
{
	return (uint32_t)core->table.count;
}

uint32_t fck_tunnel_count(const struct fck_core *core)
{
	return (uint32_t)core->tunnels.count;
}

int fck_tunnel_get(const struct fck_core *core, uint32_t index, struct fck_tunnel *out)
{
	if (index >= core->tunnels.count)
		return -EINVAL;
	*out = fck_tunnels_get(&core->tunnels, index);
	return 0;
}

int fck_capture_get(const struct fck_core *core, uint32_t index, struct fck_capture *out)
{
	if (index >= core->capture_count)
		return -EINVAL;
	*out = core->captures[index];
	return 0;
}

int fck_flow_peek(const struct fck_core *core, uint32_t index, struct fck_flow *out)
{
	const struct fck_flow_state *flow;
	struct fck_tally tally;

	if (index >= core->table.count)
		return -EINVAL;
	flow = core->table.flows[index];
	tally = fck_sequence_tally(&flow->sequence);
	*out = (struct fck_flow){
		.capture = flow->key.capture,
		.family = flow->key.family,
		.dest_qp = flow->key.dest_qp,
		.mtu = flow->mtu,
		.truncated = flow->truncated,
		.bytes = flow->bytes,
		.retransmitted = tally.retransmitted,
		.duplicated = tally.duplicated,
		.reordered = tally.reordered,
	};
	memcpy(out->source, flow->key.source, sizeof(out->source));
	memcpy(out->destination, flow->key.destination, sizeof(out->destination));
	memcpy(out->packets, flow->packets, sizeof(out->packets));
	return 0;
}

int fck_flow_get(const struct fck_core *core, uint32_t index, struct fck_flow *out)
{
	const struct fck_flow_state *flow;

	if (!core->finished || fck_flow_peek(core, index, out) != 0)
		return -EINVAL;
	flow = core->table.flows[index];
	out->seen = flow->sequence.seen.items;
	out->seen_count = flow->sequence.seen.count;
	out->repeats = flow->sequence.repeats;
	out->repeats_count = flow->sequence.repeats_count;
	out->missing = flow->results.missing;
	out->missing_count = flow->results.missing_count;
	out->gaps = flow->results.gaps;
	out->gaps_count = flow->results.gaps_count;
	out->messages = flow->results.messages;
	out->messages_count = flow->results.messages_count;
	return 0;
}

int64_t fck_flow_take(struct fck_core *core, uint32_t index, struct fck_message *out, uint64_t room)
{
	if (index >= core->table.count)
		return -EINVAL;
	core->finished = false;
	return (int64_t)fck_messages_take(core->table.flows[index], out, room);
}
