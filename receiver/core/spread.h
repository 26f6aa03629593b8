// SPDX-License-Identifier: Apache-2.0
//
// Frames of one capture to several cores: which of them a frame is for, so that all packets of a flow come to one.
//
// What can only be counted where all frames pass, the sequence numbers of tunnels, is counted here; the cores that the frames
// are handed to leave it out (`tunnels_elsewhere`).
#ifndef FCK_SPREAD_H
#define FCK_SPREAD_H

#include "fck.h"
#include "tunnel.h"

struct fck_spreader {
	struct fck_config config;
	struct fck_tunnels tunnels;
	uint64_t sequence_gaps; // FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS
	uint64_t refused;       // FCK_ATTRIBUTE_TUNNEL_REFUSED
	uint64_t unnoted;       // frames for whose tunnel there was no memory
};

// `spreader` is all zero but for its config.
void fck_spreader_free(struct fck_spreader *spreader);
// A number below `cores`: the same for all packets of a flow, whatever tunnel they come through; 0 for what is in no flow.
uint32_t fck_spread(
	struct fck_spreader *spreader, uint32_t cores, const uint8_t *data, uint32_t captured, uint32_t original
);

#endif
