// SPDX-License-Identifier: Apache-2.0
//
// Which tunnels mirrored frames came through, and what their sequence numbers say is lost.
#ifndef FCK_TUNNEL_H
#define FCK_TUNNEL_H

#include "packet.h"

struct fck_tunnel_state {
	struct fck_tunnel counts;
	uint32_t hash;
	uint32_t highest; // sequence number
	uint64_t seen;    // bit n: `highest` - n is not missing
	bool sequenced;   // had a sequence number
	bool numbered;    // had one that is not 0
	int64_t gaps;
};

// Never more than FCK_TUNNEL_LIMIT.
struct fck_tunnels {
	struct fck_tunnel_state *items; // in the order of their first packet
	uint64_t count;
	uint64_t room;
	uint16_t *slots; // number of an item + 1; 0: free. NULL before the first tunnel
};

void fck_tunnels_free(struct fck_tunnels *tunnels);
// Counts one outer header. `*missing`: how many more sequence numbers (fewer, below 0) are missing since. 1: the table is
// full; -ENOMEM.
int fck_tunnels_note(struct fck_tunnels *tunnels, uint32_t capture, const struct fck_outer *outer, int64_t *missing);
struct fck_tunnel fck_tunnels_get(const struct fck_tunnels *tunnels, uint32_t index);

#endif
