// SPDX-License-Identifier: Apache-2.0
//
// What the tracker's counters and findings are called.
#include <stddef.h>

#include "fck_track.h"

static const char *const finding_names[FCK_FINDING_KINDS] = {
	[FCK_FINDING_PART] = "part",
	[FCK_FINDING_MESSAGE_LENGTH] = "message_length",
	[FCK_FINDING_PACKET_LENGTH] = "packet_length",
	[FCK_FINDING_IMMEDIATE] = "immediate",
	[FCK_FINDING_ADDRESS] = "address",
	[FCK_FINDING_FLAG_TORN] = "flag_torn",
	[FCK_FINDING_FLAG_VALUE] = "flag_value",
	[FCK_FINDING_CLASS] = "class",
	[FCK_FINDING_PAYLOAD_DIFFERS] = "payload_differs",
	[FCK_FINDING_STEP_LOST] = "step_lost",
	[FCK_FINDING_ANCHOR_FOUND] = "anchor_found",
};

static const char *const place_names[FCK_PLACES] = {
	[FCK_PLACE_PLACED] = "placed",
	[FCK_PLACE_REPEATED] = "repeated",
	[FCK_PLACE_CONFLICT] = "conflict",
	[FCK_PLACE_OUTSIDE] = "outside",
	[FCK_PLACE_WAITING] = "waiting",
	[FCK_PLACE_LATE] = "late",
	[FCK_PLACE_UNMEASURED] = "unmeasured",
};

static const char *const lay_names[FCK_LAYS] = {
	[FCK_LAY_LAID] = "laid",
	[FCK_LAY_PRESENT] = "present",
	[FCK_LAY_DIFFERS] = "differs",
	[FCK_LAY_DOUBTFUL] = "doubtful",
	[FCK_LAY_NOT_REDUCED] = "not_reduced",
	[FCK_LAY_NO_MEMORY] = "no_memory",
	[FCK_LAY_SHORT] = "short",
	[FCK_LAY_FLAG_TORN] = "flag_torn",
	[FCK_LAY_UNCONFIRMED] = "unconfirmed",
	[FCK_LAY_IN_FLIGHT] = "in_flight",
};

const char *fck_finding_name(uint32_t kind)
{
	return kind < FCK_FINDING_KINDS ? finding_names[kind] : NULL;
}

const char *fck_place_name(uint32_t kind)
{
	return kind < FCK_PLACES ? place_names[kind] : NULL;
}

const char *fck_lay_name(uint32_t kind)
{
	return kind < FCK_LAYS ? lay_names[kind] : NULL;
}
