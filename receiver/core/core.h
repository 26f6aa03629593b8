// SPDX-License-Identifier: Apache-2.0
//
// What a core is made of: core.c keeps it, count.c counts into it.
#ifndef FCK_CORE_H
#define FCK_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "fck.h"
#include "flow.h"
#include "icrc.h"
#include "packet.h"
#include "shape.h"
#include "track.h"
#include "tunnel.h"

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
	struct fck_shape shape; // of the packet before, where it went on in the flow of the one before it
	uint32_t changes; // of flow from a packet to the next in the latest frames, the more the more flows take turns
	bool refusing; // max_flows was reached
	bool finished; // results match what was counted
	bool general;  // every frame takes the long way; for tests, which hold the short ones against it
};

#endif
