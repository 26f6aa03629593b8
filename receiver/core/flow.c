// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64
#define SPAN_LARGEST ((1u << 23) - 1) // half the PSN space: more cannot be told from a step back

static void put(struct fck_flow_table *table, struct fck_flow_state *flow)
{
	uint32_t at = flow->hash & (table->slot_count - 1);

	while (table->slots[at].flow != NULL)
		at = (at + 1) & (table->slot_count - 1);
	table->slots[at] = (struct fck_flow_slot){flow, flow->hash};
}

// Keeps the table at most half full. -ENOMEM.
static int grow(struct fck_flow_table *table)
{
	uint32_t wanted = table->slot_count == 0 ? FIRST_SLOTS : table->slot_count * 2;
	struct fck_flow_slot *slots;

	if (table->count < table->slot_count / 2)
		return 0;
	if (wanted == 0)
		return -ENOMEM;
	slots = calloc(wanted, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(table->slots);
	table->slots = slots;
	table->slot_count = wanted;
	for (uint64_t i = 0; i < table->count; i++)
		put(table, table->flows[i]);
	return 0;
}

struct fck_flow_state *fck_flow_find(struct fck_flow_table *table, const struct fck_key *key, uint32_t hash)
{
	const struct fck_flow_slot *slot;

	if (table->count == 0)
		return NULL;
	for (uint32_t at = hash & (table->slot_count - 1); (slot = &table->slots[at])->flow != NULL;
	     at = (at + 1) & (table->slot_count - 1)) {
		if (slot->hash == hash && fck_same_key(&slot->flow->key, key)) {
			table->latest = slot->flow;
			return slot->flow;
		}
	}
	return NULL;
}

struct fck_flow_state *fck_flow_make(struct fck_flow_table *table, const struct fck_key *key, uint32_t hash)
{
	struct fck_flow_state *flow;

	if (grow(table) != 0)
		return NULL;
	if (fck_reserve((void **)&table->flows, &table->room, table->count, sizeof(*table->flows)) != 0)
		return NULL;
	flow = fck_slab_take(&table->states, sizeof(*flow));
	if (flow == NULL)
		return NULL;
	*flow = (struct fck_flow_state){.front.opcode = FCK_NO_FRONT};
	flow->key = *key;
	flow->hash = hash;
	table->flows[table->count++] = flow;
	table->latest = flow;
	put(table, flow);
	return flow;
}

void fck_flow_table_free(struct fck_flow_table *table)
{
	for (uint64_t i = 0; i < table->count; i++) {
		struct fck_flow_state *flow = table->flows[i];

		fck_sequence_free(&flow->sequence);
		free(flow->pieces.items);
		fck_results_free(&flow->results);
	}
	free(table->flows);
	free(table->slots);
	fck_slab_free(&table->states);
}

// PSNs that a read of `length` bytes uses: one for each response packet.
static uint32_t read_span(uint32_t length, uint32_t mtu)
{
	uint64_t span = ((uint64_t)length + mtu - 1) / mtu;

	if (span == 0)
		return 1;
	return span > SPAN_LARGEST ? SPAN_LARGEST : (uint32_t)span;
}

// A request came at `position`, ahead of a read whose span is open since no MTU is known: the read took as many PSNs as
// some MTU explains without reaching beyond this packet. Only what no MTU explains is left as missing.
static int settle_read(struct fck_flow_state *flow, int64_t position)
{
	uint64_t between = (uint64_t)(position - flow->sequence.highest) - 1;
	uint32_t best = 1;

	for (uint32_t mtu = FCK_MTU_SMALLEST; mtu <= FCK_MTU_LARGEST; mtu *= 2) {
		uint32_t span = read_span(flow->read_length, mtu);

		if (span - 1 <= between && span > best)
			best = span;
	}
	flow->read_length = 0;
	return best == 1 ? 0 : fck_sequence_extend(&flow->sequence, best - 1);
}

// PSNs that this packet uses; notes a read whose span is not known yet.
static uint32_t span_of(struct fck_flow_state *flow, const struct fck_packet *packet, bool front)
{
	if (packet->info.packet_class != FCK_CLASS_READ_REQUEST || !packet->has_reth)
		return 1;
	if (flow->mtu > 0)
		return read_span(packet->reth_length, flow->mtu);
	if (front)
		flow->read_length = packet->reth_length;
	return 1;
}

void fck_flow_settle(struct fck_flow_state *flow)
{
	uint64_t packets = fck_flow_unsettled(flow), at = flow->pieces.count - 1;
	struct fck_piece *piece;

	flow->front.opcode = FCK_NO_FRONT;
	if (packets == 0)
		return;
	piece = &flow->pieces.items[at];
	flow->packets[piece->packet_class] += packets;
	flow->sequence.seen.items[flow->sequence.seen.count - 1].last = piece->last = flow->sequence.highest;
	piece->last_time = flow->front.time;
	fck_piece_add_icrc(piece, flow->front.icrc);
	flow->pieces.current = at;
	if (at < flow->pieces.settled)
		flow->pieces.settled = at;
}

// Opens the short way where the flow's highest packet is in the middle of a message, and nothing is undecided. (Where the
// span of a read is, the highest packet is that read.)
static void open_front(struct fck_flow_state *flow)
{
	int64_t highest = flow->sequence.highest;
	const struct fck_piece *piece;

	if (flow->pieces.count == 0 || fck_in_run(&flow->sequence.run))
		return;
	piece = &flow->pieces.items[flow->pieces.count - 1];
	if (piece->last != highest || !fck_piece_covers(piece, highest + 1, piece->packet_class))
		return;
	if (piece->packet_class != FCK_CLASS_WRITE && piece->packet_class != FCK_CLASS_SEND)
		return;
	flow->front = (struct fck_front){
		.opcode = fck_middle_of(piece->opcode, piece->packet_class),
		.until = piece->end == FCK_OPEN ? INT64_MAX : piece->end,
		.time = piece->last_time,
		.from = highest,
	};
}

static int add_request(
	struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time, uint64_t window
)
{
	bool full = packet->info.part == FCK_PART_FIRST || packet->info.part == FCK_PART_MIDDLE;
	struct fck_sighting sighting = {.time = time, .icrc = packet->icrc, .has_icrc = packet->has_icrc};
	uint32_t mtu = 0;
	bool front;
	int rc;

	if (full && fck_is_mtu(packet->length))
		flow->mtu = mtu = packet->length;
	sighting.position = fck_sequence_place(&flow->sequence, packet->psn);
	front = flow->sequence.seen.count == 0 || sighting.position > flow->sequence.highest;
	if (front && flow->read_length > 0) {
		rc = settle_read(flow, sighting.position);
		if (rc != 0)
			return rc;
	}
	sighting.span = span_of(flow, packet, front);
	rc = fck_sequence_add(&flow->sequence, &sighting, window);
	if (rc != 1)
		return rc;
	flow->bytes += packet->length;
	return fck_pieces_add(&flow->pieces, &flow->sequence.seen, sighting.position, time, mtu, packet);
}

int fck_flow_packet(struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time, uint64_t window)
{
	int rc;

	flow->packets[packet->info.packet_class]++;
	flow->truncated += packet->truncated;
	if (!packet->info.request)
		return 0;
	flow->sequence.recent = flow->recents;
	fck_flow_settle(flow);
	rc = add_request(flow, packet, time, window);
	if (rc == 0)
		open_front(flow);
	return rc;
}
