// SPDX-License-Identifier: Apache-2.0
#include "spread.h"

#include <string.h>

#include "packet.h"
#include "plain.h"

// Fractions of the roots of 3 and 5, in 64 bits and odd: others than in the flow table, whose slots would be half empty
// if the same bits had chosen the core.
#define ODD_1 0xbb67ae8584caa73bu
#define ODD_2 0x3c6ef372fe94f82bu

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * ODD_1;
	return hash ^ hash >> 29;
}

static uint32_t core_of(const struct fck_key *key, uint32_t cores)
{
	uint64_t words[4], hash = ODD_2 ^ key->dest_qp;

	memcpy(words, key->source, sizeof(key->source));
	memcpy(words + 2, key->destination, sizeof(key->destination));
	for (int i = 0; i < 4; i++)
		hash = mix(hash, words[i]);
	return (uint32_t)((mix(hash, ODD_2) >> 32) * cores >> 32);
}

static void note(struct fck_spreader *spreader, const struct fck_packet *packet)
{
	for (uint32_t i = 0; i < packet->outer_count; i++) {
		int64_t missing;
		int rc = fck_tunnels_note(&spreader->tunnels, 0, &packet->outers[i], &missing);

		if (rc < 0) {
			spreader->unnoted++;
			return;
		}
		spreader->refused += (uint64_t)rc;
		spreader->sequence_gaps += (uint64_t)missing; // may be below 0
	}
}

uint32_t fck_spread(
	struct fck_spreader *spreader, uint32_t cores, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	struct fck_packet packet;
	enum fck_frame_kind kind;

	if (fck_parse_plain(&spreader->config, data, captured, 0, &packet))
		return core_of(&packet.key, cores);
	kind = fck_parse(&spreader->config, data, captured, original, &packet);
	note(spreader, &packet);
	return kind == FCK_FRAME_ROCEV2 ? core_of(&packet.key, cores) : 0;
}

void fck_spreader_free(struct fck_spreader *spreader)
{
	fck_tunnels_free(&spreader->tunnels);
}
