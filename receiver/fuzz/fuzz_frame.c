// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the input is a row of frames, each with a head of four bytes: captured length (2, little-endian), how many
// bytes longer the frame was on the wire, and microseconds since the frame before. Whatever comes, the counters add up
// and the results are well formed; reading beyond a frame is for the address sanitizer to find. A core that sends all
// frames the long way, one that gets them in one burst, and one that gets them in bursts of 1 to 32 and gives finished
// messages away in between, as a receiver does, must tell the same.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "fck.h"
#include "../tests/same.h"

#define HEAD 4
#define MAX_FLOWS 8
#define BURST 256
#define LIVE_BURST 32

static void require(int condition)
{
	if (!condition)
		abort();
}

static uint64_t sum(const uint64_t *counters, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += counters[i];
	return total;
}

static uint64_t seen_between(const struct fck_flow *flow, int64_t first, int64_t last)
{
	uint64_t packets = 0;

	for (uint64_t i = 0; i < flow->seen_count; i++) {
		int64_t from = flow->seen[i].first > first ? flow->seen[i].first : first;
		int64_t to = flow->seen[i].last < last ? flow->seen[i].last : last;

		packets += to >= from ? (uint64_t)(to - from) + 1 : 0;
	}
	return packets;
}

static void check_flow(const struct fck_flow *flow)
{
	uint64_t extra = 0, distinct = 0;

	for (uint64_t i = 0; i < flow->seen_count; i++) {
		require(flow->seen[i].first <= flow->seen[i].last);
		require(i == 0 || flow->seen[i].first > flow->seen[i - 1].last + 1);
		distinct += (uint64_t)(flow->seen[i].last - flow->seen[i].first) + 1;
	}
	for (uint64_t i = 0; i < flow->repeats_count; i++) {
		require(i == 0 || flow->repeats[i].position > flow->repeats[i - 1].position);
		require(seen_between(flow, flow->repeats[i].position, flow->repeats[i].position) == 1);
		extra += flow->repeats[i].copies;
	}
	require(extra == flow->retransmitted + flow->duplicated);
	for (uint64_t i = 0; i < flow->missing_count; i++) {
		const struct fck_missing *missing = &flow->missing[i];

		require(missing->packets > 0);
		require(seen_between(flow, missing->position, missing->position + (int64_t)missing->packets - 1) == 0);
	}
	for (uint64_t i = 0; i < flow->gaps_count; i++)
		require(flow->gaps[i].filled <= flow->gaps[i].packets);
	for (uint64_t i = 0; i < flow->messages_count; i++) {
		const struct fck_message *message = &flow->messages[i];

		require(i == 0 || message->position > flow->messages[i - 1].position);
		require(message->packets > 0 && message->packets <= distinct);
		require(seen_between(flow, message->position, message->position) == 1);
		require(message->first_time <= message->last_time);
	}
}

// Each header taken off is in one tunnel, and a frame went through two tunnels at most.
static void check_tunnels(const struct fck_core *core, const struct fck_capture *capture)
{
	const uint64_t *attributes = capture->attributes;
	uint64_t of_kind[FCK_TUNNEL_KINDS] = {0};
	uint64_t gaps = 0;

	for (uint32_t i = 0; i < fck_tunnel_count(core); i++) {
		struct fck_tunnel tunnel;

		require(fck_tunnel_get(core, i, &tunnel) == 0);
		require(tunnel.kind < FCK_TUNNEL_KINDS && tunnel.packets > 0 && (tunnel.family == 4 || tunnel.family == 6));
		of_kind[tunnel.kind] += tunnel.packets;
		require(tunnel.sequence_gaps >= -1 && tunnel.session >= -1);
		gaps += tunnel.sequence_gaps > 0 ? (uint64_t)tunnel.sequence_gaps : 0;
	}
	require(gaps == attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS]);
	require(attributes[FCK_ATTRIBUTE_TUNNEL_REFUSED] == 0); // too few frames fit into an input
	for (uint32_t kind = 0; kind < FCK_TUNNEL_KINDS; kind++) {
		uint64_t frames = attributes[FCK_ATTRIBUTE_ENCAPSULATED_GRE + kind];

		require(of_kind[kind] >= frames && of_kind[kind] <= 2 * frames);
	}
}

static void check(struct fck_core *core)
{
	struct fck_capture capture;
	uint64_t packets = 0;

	require(fck_finish(core) == 0);
	require(fck_capture_get(core, 0, &capture) == 0);
	require(sum(capture.frames, FCK_FRAME_KINDS) == capture.packets);
	for (uint32_t i = 0; i < fck_flow_count(core); i++) {
		struct fck_flow flow;

		require(fck_flow_get(core, i, &flow) == 0);
		check_flow(&flow);
		packets += sum(flow.packets, FCK_CLASSES);
	}
	packets += capture.attributes[FCK_ATTRIBUTE_FLOW_REFUSED] + capture.attributes[FCK_ATTRIBUTE_ICRC_BAD];
	require(packets == capture.frames[FCK_FRAME_ROCEV2]);
	check_tunnels(core, &capture);
}

// Takes what is finished out of every flow.
static void take(struct fck_core *core, uint64_t taken[MAX_FLOWS])
{
	struct fck_message messages[3];

	for (uint32_t i = 0; i < fck_flow_count(core); i++) {
		int64_t count = fck_flow_take(core, i, messages, 3);

		require(count >= 0 && count <= 3);
		taken[i] += (uint64_t)count;
	}
}

// `taker` saw the same frames, and gave messages away meanwhile: nothing else may differ.
static void check_taker(struct fck_core *core, struct fck_core *taker, const uint64_t taken[MAX_FLOWS])
{
	require(fck_finish(taker) == 0);
	require(fck_flow_count(taker) == fck_flow_count(core));
	for (uint32_t i = 0; i < fck_flow_count(core); i++) {
		struct fck_flow whole, rest;

		require(fck_flow_get(core, i, &whole) == 0 && fck_flow_get(taker, i, &rest) == 0);
		check_flow(&rest);
		require(rest.messages_count + taken[i] == whole.messages_count);
		require(rest.missing_count == whole.missing_count && rest.seen_count == whole.seen_count);
		require(rest.gaps_count == whole.gaps_count && rest.repeats_count == whole.repeats_count);
		for (uint64_t at = 0; at < rest.missing_count; at++)
			require(rest.missing[at].position == whole.missing[at].position &&
				rest.missing[at].packets == whole.missing[at].packets);
	}
}

static struct fck_core *make(const struct fck_config *config)
{
	struct fck_core *core;

	require(fck_new(config, &core) == 0 && fck_capture_add(core, "fuzz") == 0);
	return core;
}

// What a receiver does: a burst, whose length the input says, then what is finished goes away.
struct live {
	struct fck_core *core;
	struct fck_input frames[LIVE_BURST];
	uint32_t waiting;
	uint64_t taken[MAX_FLOWS];
};

static void live_burst(struct live *live)
{
	require(fck_frames(live->core, 0, live->frames, live->waiting) == 0);
	take(live->core, live->taken);
	live->waiting = 0;
}

// Hands over the frames that wait, and frees them.
static void flush(struct fck_core *core, struct live *live, struct fck_input *frames, uint32_t *waiting)
{
	require(fck_frames(core, 0, frames, *waiting) == 0);
	live_burst(live); // its frames are among these
	for (uint32_t i = 0; i < *waiting; i++)
		free((void *)frames[i].data);
	*waiting = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	// The first byte chooses: most inputs are to reach the flows, so the ICRC is checked in few.
	struct fck_config config = {
		.max_flows = MAX_FLOWS,
		.gre_types = {0x1234},
		.trimmed_dscp = 63,
		.check_icrc = size > 0 && data[0] == 0x3e, // frames of 62 bytes, such as an acknowledge over IPv4
	};
	struct fck_core *core = make(&config), *taker = make(&config), *burst = make(&config), *general = make(&config);
	uint64_t now = 0, taken[MAX_FLOWS] = {0};
	struct fck_input frames[BURST];
	struct live live = {.core = make(&config)};
	uint32_t waiting = 0;

	general->general = true;
	while (size >= HEAD) {
		uint32_t captured = (uint32_t)data[0] | (uint32_t)data[1] << 8, longer = data[2];
		uint8_t *exact;

		now += data[3] * UINT64_C(1000);
		data += HEAD;
		size -= HEAD;
		captured = captured > size ? (uint32_t)size : captured;
		exact = malloc(captured > 0 ? captured : 1);
		require(exact != NULL);
		memcpy(exact, data, captured);
		require(fck_frame(core, 0, now, exact, captured, captured + longer) == 0);
		require(fck_frame(taker, 0, now, exact, captured, captured + longer) == 0);
		require(fck_frame(general, 0, now, exact, captured, captured + longer) == 0);
		take(taker, taken);
		frames[waiting] = live.frames[live.waiting++] = (struct fck_input){exact, now, captured, captured + longer};
		if (++waiting == BURST)
			flush(burst, &live, frames, &waiting);
		else if (live.waiting == LIVE_BURST || longer % 2 == 1)
			live_burst(&live);
		data += captured;
		size -= captured;
	}
	flush(burst, &live, frames, &waiting);
	same_so_far(burst, general);
	same_at_the_end(burst, general);
	same_at_the_end(core, general);
	check(core);
	check_taker(core, taker, taken);
	check_taker(core, live.core, live.taken);
	fck_free(core);
	fck_free(live.core);
	fck_free(taker);
	fck_free(burst);
	fck_free(general);
	return 0;
}
