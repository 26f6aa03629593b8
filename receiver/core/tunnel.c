// SPDX-License-Identifier: Apache-2.0
#include "tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "psn.h"

#define SLOTS (2u * FCK_TUNNEL_LIMIT) // a power of two, never more than half in use
#define SEEN_BITS 64
#define BEHIND 0x80000000u // a sequence number this far ahead is one behind

static uint32_t hash_outer(uint32_t capture, const struct fck_outer *outer)
{
	uint64_t words[4], hash = 0;

	memcpy(words, outer->source, sizeof(outer->source));
	words[2] = (uint64_t)capture << 32 | outer->kind;
	words[3] = (uint64_t)outer->session;
	for (int i = 0; i < 4; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u; // 2^64 / golden ratio
		hash ^= hash >> 32;
	}
	return (uint32_t)hash;
}

static bool same(const struct fck_tunnel *tunnel, uint32_t capture, const struct fck_outer *outer)
{
	return tunnel->capture == capture && tunnel->kind == outer->kind && tunnel->session == outer->session &&
	       tunnel->family == outer->family && memcmp(tunnel->source, outer->source, sizeof(outer->source)) == 0;
}

// The tunnel, made when it is new. 0, 1: no place; -ENOMEM.
static int tunnel_of(
	struct fck_tunnels *tunnels, uint32_t capture, const struct fck_outer *outer, struct fck_tunnel_state **found
)
{
	uint32_t hash = hash_outer(capture, outer), at = hash & (SLOTS - 1);

	if (tunnels->slots == NULL)
		tunnels->slots = calloc(SLOTS, sizeof(*tunnels->slots));
	if (tunnels->slots == NULL)
		return -ENOMEM;
	for (; tunnels->slots[at] != 0; at = (at + 1) & (SLOTS - 1)) {
		*found = &tunnels->items[tunnels->slots[at] - 1];
		if ((*found)->hash == hash && same(&(*found)->counts, capture, outer))
			return 0;
	}
	if (tunnels->count == FCK_TUNNEL_LIMIT)
		return 1;
	if (fck_reserve((void **)&tunnels->items, &tunnels->room, tunnels->count, sizeof(*tunnels->items)) != 0)
		return -ENOMEM;
	*found = &tunnels->items[tunnels->count++];
	**found = (struct fck_tunnel_state){
		.counts = {.capture = capture, .family = outer->family, .kind = outer->kind, .session = outer->session},
		.hash = hash,
	};
	memcpy((*found)->counts.source, outer->source, sizeof(outer->source));
	tunnels->slots[at] = (uint16_t)tunnels->count;
	return 0;
}

// How many more sequence numbers are missing after this one; below 0: it fills a gap. One that lies further back than the
// memory reaches is a new beginning: the switch or its session was started again.
static int64_t follow(struct fck_tunnel_state *tunnel, uint32_t sequence)
{
	uint32_t ahead = sequence - tunnel->highest, behind = tunnel->highest - sequence;
	uint64_t bit;

	if (!tunnel->sequenced || (ahead >= BEHIND && behind >= SEEN_BITS)) {
		tunnel->sequenced = true;
		tunnel->highest = sequence;
		tunnel->seen = UINT64_MAX; // what came before is not missed
		return 0;
	}
	if (ahead == 0)
		return 0;
	if (ahead < BEHIND) {
		tunnel->highest = sequence;
		tunnel->seen = ahead < SEEN_BITS ? tunnel->seen << ahead | 1 : 1;
		return (int64_t)ahead - 1;
	}
	bit = UINT64_C(1) << behind;
	if (tunnel->seen & bit)
		return 0;
	tunnel->seen |= bit;
	return -1;
}

int fck_tunnels_note(struct fck_tunnels *tunnels, uint32_t capture, const struct fck_outer *outer, int64_t *missing)
{
	struct fck_tunnel_state *tunnel;
	int rc = tunnel_of(tunnels, capture, outer, &tunnel);

	*missing = 0;
	if (rc != 0)
		return rc;
	tunnel->counts.packets++;
	if (outer->sequence < 0)
		return 0;
	tunnel->numbered |= outer->sequence > 0;
	*missing = follow(tunnel, (uint32_t)outer->sequence);
	tunnel->gaps += *missing;
	return 0;
}

struct fck_tunnel fck_tunnels_get(const struct fck_tunnels *tunnels, uint32_t index)
{
	struct fck_tunnel counts = tunnels->items[index].counts;

	counts.sequence_gaps = tunnels->items[index].numbered ? tunnels->items[index].gaps : -1;
	return counts;
}

void fck_tunnels_free(struct fck_tunnels *tunnels)
{
	free(tunnels->items);
	free(tunnels->slots);
}
