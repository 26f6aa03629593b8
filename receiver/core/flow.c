// SPDX-License-Identifier: Apache-2.0
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64
#define SPAN_LARGEST ((1u << 23) - 1) // half the PSN space: more cannot be told from a step back
// Fractions of the golden ratio, of the root of 2 and of pi, in 64 bits and odd.
#define ODD_1 0x9e3779b97f4a7c15u
#define ODD_2 0x6a09e667f3bcc909u
#define ODD_3 0x243f6a8885a308d3u

// Both halves of the product: every bit of it hangs on all bits of both.
static uint64_t fold(uint64_t a, uint64_t b)
{
	__extension__ typedef unsigned __int128 wide;
	wide product = (wide)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t hash_key(const struct fck_key *key)
{
	uint64_t a[2], b[2], rest = (uint64_t)key->where << 32 | key->dest_qp;

	memcpy(a, key->source, sizeof(a));
	memcpy(b, key->destination, sizeof(b));
	return (uint32_t)fold(fold(a[0] ^ ODD_1, b[0] ^ ODD_2) ^ fold(a[1] ^ ODD_3, b[1] ^ ODD_1) ^ rest, ODD_2);
}

static void put(struct fck_flow_table *table, struct fck_flow_state *flow)
{
	uint32_t at = flow->hash & (table->slot_count - 1);

	while (table->slots[at] != NULL)
		at = (at + 1) & (table->slot_count - 1);
	table->slots[at] = flow;
}

// Keeps the table at most half full. -ENOMEM.
static int grow(struct fck_flow_table *table)
{
	uint32_t wanted = table->slot_count == 0 ? FIRST_SLOTS : table->slot_count * 2;
	struct fck_flow_state **slots;

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

struct fck_flow_state *fck_flow_find(struct fck_flow_table *table, const struct fck_key *key)
{
	struct fck_flow_state *flow;
	uint32_t hash;

	if (table->count == 0)
		return NULL;
	hash = hash_key(key);
	for (uint32_t at = hash & (table->slot_count - 1); (flow = table->slots[at]) != NULL;
	     at = (at + 1) & (table->slot_count - 1)) {
		if (flow->hash == hash && fck_same_key(&flow->key, key)) {
			table->latest = flow;
			return flow;
		}
	}
	return NULL;
}

struct fck_flow_state *fck_flow_make(struct fck_flow_table *table, const struct fck_key *key)
{
	struct fck_flow_state *flow;

	if (grow(table) != 0)
		return NULL;
	if (fck_reserve((void **)&table->flows, &table->room, table->count, sizeof(*table->flows)) != 0)
		return NULL;
	flow = calloc(1, sizeof(*flow));
	if (flow == NULL)
		return NULL;
	flow->key = *key;
	flow->hash = hash_key(key);
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
		free(flow);
	}
	free(table->flows);
	free(table->slots);
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

int fck_flow_packet(struct fck_flow_state *flow, const struct fck_packet *packet, uint64_t time, uint64_t window)
{
	bool full = packet->info.part == FCK_PART_FIRST || packet->info.part == FCK_PART_MIDDLE;
	struct fck_sighting sighting = {.time = time, .icrc = packet->icrc, .has_icrc = packet->has_icrc};
	uint32_t mtu = 0;
	bool front;
	int rc;

	flow->packets[packet->info.packet_class]++;
	flow->truncated += packet->truncated;
	if (!packet->info.request)
		return 0;
	if (full && fck_is_mtu(packet->length))
		flow->mtu = mtu = packet->length;
	sighting.position = fck_sequence_place(&flow->sequence, packet->psn);
	front = flow->sequence.recent == NULL || sighting.position > flow->sequence.highest;
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
