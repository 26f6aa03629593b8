// SPDX-License-Identifier: Apache-2.0
//
// The public functions.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define DUPLICATE_WINDOW_NS 1000000

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
	if (fck_flow_unsettled(flow) > 0)
		out->packets[flow->pieces.items[flow->pieces.count - 1].packet_class] += fck_flow_unsettled(flow);
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
