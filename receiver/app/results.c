// SPDX-License-Identifier: Apache-2.0
#include "results.h"

#include <errno.h>
#include <string.h>

#include "loss.h"

void results_head(struct control *control)
{
	struct spool_head head = {
		.version = SPOOL_VERSION,
		.frame_kinds = FCK_FRAME_KINDS,
		.attributes = FCK_ATTRIBUTES,
		.classes = FCK_CLASSES,
	};

	spool_block(&control->spool, SPOOL_HEAD, 0, control->worker_count, &head, sizeof(head));
	for (uint32_t i = 0; i < control->worker_count; i++) {
		const char *name = control->config->ports[control->workers[i].config_port].name;

		spool_block(&control->spool, SPOOL_WORKER, i, 0, name, strlen(name));
	}
	for (uint32_t i = 0; i < control->config->port_count; i++) {
		const char *name = control->config->ports[i].name;

		if (control->dealers[i].lane_count > 0)
			spool_block(&control->spool, SPOOL_WORKER, control_dealer_chain(control, i), 0, name, strlen(name));
	}
}

static void write_capture(struct control *control, uint32_t chain, const struct fck_capture *capture)
{
	struct spool_capture made = {
		.packets = capture->packets,
		.bytes = capture->bytes,
		.first_time = capture->first_time,
		.last_time = capture->last_time,
	};

	memcpy(made.frames, capture->frames, sizeof(made.frames));
	memcpy(made.attributes, capture->attributes, sizeof(made.attributes));
	spool_block(&control->spool, SPOOL_CAPTURE, chain, 0, &made, sizeof(made));
}

// What only the dealer of a port can count.
void results_dealt(struct control *control)
{
	for (uint32_t i = 0; i < control->config->port_count; i++) {
		const struct dealer *dealer = &control->dealers[i];
		struct fck_capture counted = {0};

		if (dealer->lane_count == 0)
			continue;
		counted.attributes[FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS] = dealer->sequence_gaps;
		counted.attributes[FCK_ATTRIBUTE_TUNNEL_REFUSED] = dealer->refused;
		write_capture(control, control_dealer_chain(control, i), &counted);
	}
}

void results_exchange(struct control *control, uint32_t chain)
{
	const struct exchange *exchange = control->workers[chain].exchange;
	struct flow_book *book = &control->workers[chain].book;
	const struct fck_message *rows = exchange->rows;
	struct spool *spool = &control->spool;

	for (uint32_t i = 0; i < exchange->key_count; i++) {
		book_add(book, exchange->first_key + i, &exchange->keys[i]);
		spool_block(spool, SPOOL_KEY, chain, exchange->first_key + i, &exchange->keys[i], sizeof(exchange->keys[i]));
	}
	for (uint32_t i = 0; i < exchange->part_count; i++) {
		uint32_t count = exchange->parts[i].rows;

		spool_block(spool, 1, chain, exchange->parts[i].flow, rows, count * sizeof(*rows));
		book_messages(book, exchange->parts[i].flow, rows, count);
		rows += count;
	}
	if (exchange->complete)
		write_capture(control, chain, &exchange->capture);
}

static void write_flow(struct spool *spool, uint32_t chain, uint32_t number, const struct fck_flow *flow)
{
	struct spool_flow made = spool_flow_of(flow);

	spool_block(spool, SPOOL_FLOW, chain, number, &made, sizeof(made));
	if (flow->messages_count > 0)
		spool_block(spool, 1, chain, number, flow->messages, flow->messages_count * sizeof(*flow->messages));
	if (flow->seen_count > 0)
		spool_block(spool, 2, chain, number, flow->seen, flow->seen_count * sizeof(*flow->seen));
	if (flow->repeats_count > 0)
		spool_block(spool, 3, chain, number, flow->repeats, flow->repeats_count * sizeof(*flow->repeats));
	if (flow->missing_count > 0)
		spool_block(spool, 4, chain, number, flow->missing, flow->missing_count * sizeof(*flow->missing));
	if (flow->gaps_count > 0)
		spool_block(spool, 5, chain, number, flow->gaps, flow->gaps_count * sizeof(*flow->gaps));
}

static void write_dealt_tunnels(struct control *control, uint32_t port)
{
	const struct fck_tunnels *tunnels = &control->dealers[port].spreader.tunnels;

	for (uint32_t number = 0; number < tunnels->count; number++) {
		struct fck_tunnel tunnel = fck_tunnels_get(tunnels, number);

		spool_block(&control->spool, SPOOL_TUNNELS, control_dealer_chain(control, port), 0, &tunnel, sizeof(tunnel));
	}
}

static void write_tunnels(struct spool *spool, uint32_t chain, const struct fck_core *core)
{
	for (uint32_t i = 0; i < fck_tunnel_count(core); i++) {
		struct fck_tunnel tunnel;

		fck_tunnel_get(core, i, &tunnel);
		spool_block(spool, SPOOL_TUNNELS, chain, 0, &tunnel, sizeof(tunnel));
	}
}

static uint64_t lost_of(const struct fck_flow *flow)
{
	uint64_t lost = 0;

	for (uint64_t i = 0; i < flow->missing_count; i++)
		if (flow->missing[i].cause == FCK_CAUSE_LOST)
			lost += flow->missing[i].packets;
	return lost;
}

int results_worker(struct control *control, uint32_t chain)
{
	struct fck_core *core = control->workers[chain].core;
	struct fck_flow flow;
	int rc = fck_finish(core);

	for (uint32_t i = 0; rc == 0 && i < fck_flow_count(core); i++) {
		rc = fck_flow_get(core, i, &flow);
		if (rc == 0)
			write_flow(&control->spool, chain, i, &flow);
		if (rc == 0)
			control->workers[chain].missing += lost_of(&flow);
	}
	control->workers[chain].ended = rc == 0;
	write_tunnels(&control->spool, chain, core);
	return rc;
}

void results_port(struct control *control, uint32_t number)
{
	struct spool_counter counters[LOSS_MOST];
	uint32_t count = loss_of(control, number, counters);

	write_dealt_tunnels(control, number);
	spool_block(&control->spool, SPOOL_LOSS, number, control->first_worker[number], counters, count * sizeof(*counters));
}
