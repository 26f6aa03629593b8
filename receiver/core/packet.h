// SPDX-License-Identifier: Apache-2.0
//
// What one frame says, as read by header.c.
#ifndef FCK_PACKET_H
#define FCK_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "fck.h"

#define FCK_PSN_MASK 0xffffffu
#define FCK_ICRC_SIZE 4u

// Place of a packet in its message. ONLY is both.
enum fck_part { FCK_PART_MIDDLE = 0, FCK_PART_FIRST = 1, FCK_PART_LAST = 2, FCK_PART_ONLY = 3 };

// What the opcode alone tells.
struct fck_opcode {
	uint8_t packet_class; // enum fck_class; an acknowledge is told apart by its AETH only
	uint8_t part;         // enum fck_part
	uint8_t extension;    // bytes of extension headers between BTH and payload
	bool request;         // counts in the flow's own PSN sequence
	bool reth;
	bool aeth;
	bool immediate; // in the last four bytes of the extension headers
};

struct fck_key {
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t dest_qp;
	uint16_t capture;
	uint16_t family;
};

struct fck_packet {
	struct fck_key key;    // .capture is set by the caller of the parser
	uint32_t attributes;   // bits 1 << enum fck_attribute
	struct fck_opcode info;
	uint8_t opcode;
	bool truncated;        // the capture ends before the IP packet does
	bool has_reth;
	bool has_icrc;
	uint32_t psn;
	uint32_t length;       // RDMA payload on the wire, without padding
	uint32_t reth_length;
	uint32_t icrc;
	int64_t immediate;     // -1: none
	int64_t ll_flag;       // -1: the payload does not begin with an LL line, or too little of it was captured
};

// Fills `packet` for FCK_FRAME_ROCEV2, of the rest only `attributes`.
enum fck_frame_kind fck_parse(const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet);

// What the opcode says, for any of the 256.
const struct fck_opcode *fck_opcode_lookup(uint8_t opcode);

#endif
