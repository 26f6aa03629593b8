// SPDX-License-Identifier: Apache-2.0
// Numbers that stand on the wire or are read by a control plane.
#ifndef FC_IDS_P4
#define FC_IDS_P4

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_QINQ = 0x88a8;
const bit<16> ETHERTYPE_FC = 0x88b5;        // IEEE 802 local experimental ethertype 1: our mirror header follows

const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_ROCE = 4791;

const bit<8> FC_HEADER_VERSION = 1;

// Why a packet was copied, or not: the mirror header's `verdict` and the low three bits of an fc.verdicts index.
const bit<8> FC_RULE = 0;        // copied: the rule has no window
const bit<8> FC_INSIDE = 1;      // copied: in order, its message is inside the window
const bit<8> FC_OUTSIDE = 2;     // not copied: in order, its message is outside the window
const bit<8> FC_AHEAD = 3;       // copied: something before it is missing here, so its message is not known
const bit<8> FC_REPEAT = 4;      // copied: it passed before
const bit<8> FC_LOST = 5;        // copied: the count of this queue pair cannot be trusted until it is anchored again
const bit<8> FC_UNFOLLOWED = 6;  // copied: the rule has a window, but no entry follows the queue pair
const bit<8> FC_OTHER = 7;       // not copied: the rule has a window, the packet is not an RDMA write or send

// Where a packet stands beside the next one in order (FcPlace).
const bit<2> FC_PLACE_NEXT = 0;
const bit<2> FC_PLACE_AHEAD = 1;
const bit<2> FC_PLACE_BEHIND = 2;
const bit<2> FC_PLACE_FAR = 3;

// Where a test rule loses a packet.
const bit<2> FC_LOSE_BEFORE = 0;  // before the switch sees it
const bit<2> FC_LOSE_AFTER = 1;   // after it was followed and copied: its receiver misses it
const bit<2> FC_LOSE_COPY = 2;    // the copy only

#endif
