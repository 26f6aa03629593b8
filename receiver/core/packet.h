// SPDX-License-Identifier: Apache-2.0
//
// What one frame says, as read by header.c.
#ifndef FCK_PACKET_H
#define FCK_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "cursor.h"
#include "fck.h"

#define FCK_ATTRIBUTE(name) (1u << FCK_ATTRIBUTE_##name)
#define FCK_PSN_MASK 0xffffffu
#define FCK_ICRC_SIZE 4u
#define FCK_OUTERS 2 // tunnels in one another that are opened
#define FCK_BTH_SIZE 12
// Of a parser's step: what follows is the Ethernet frame inside a tunnel.
#define FCK_FRAME_INSIDE FCK_FRAME_KINDS

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
	union {
		struct {
			uint16_t capture;
			uint16_t family;
		};
		uint32_t where; // both, for comparing
	};
};

// A tunnel's header that was taken off.
struct fck_outer {
	uint8_t source[16];
	uint32_t family;
	uint32_t kind;    // enum fck_tunnel_kind
	int64_t session;  // -1: none
	int64_t sequence; // -1: none
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
	uint64_t address;      // remote address of the RETH
	uint32_t icrc;
	int64_t immediate;     // -1: none
	const uint8_t *ip;     // its header in the caller's frame
	const uint8_t *bth;
	const uint8_t *icrc_at; // where `has_icrc`
	const uint8_t *payload; // in the caller's frame; NULL: the headers before it were not captured
	uint32_t payload_captured;
	uint32_t outer_count;
	struct fck_outer outers[FCK_OUTERS]; // the outermost first; those behind `outer_count` are not initialised
};

// Fills `packet` for FCK_FRAME_ROCEV2, of the rest only `attributes` and the outers.
enum fck_frame_kind fck_parse(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet
);

// The parts of the parser. The cursor stands behind the header before, which cut it to the payload.
enum fck_frame_kind fck_parse_bth(struct fck_cursor *cursor, struct fck_packet *packet);
// Take a tunnel's headers off: FCK_FRAME_INSIDE, or what the frame is if that cannot be.
enum fck_frame_kind fck_parse_gre(struct fck_cursor *cursor, const struct fck_config *config, struct fck_packet *packet);
enum fck_frame_kind fck_parse_vxlan(struct fck_cursor *cursor, struct fck_packet *packet);

// A header of `size` bytes was not captured: is it the frame or the capture that ends too early?
static inline enum fck_frame_kind fck_short_of(
	const struct fck_cursor *cursor, uint32_t size, enum fck_frame_kind malformed, enum fck_frame_kind truncated
)
{
	return size > cursor->wire ? malformed : truncated;
}

// What the extension headers say that an RoCEv2 packet has by its opcode.
void fck_refine(struct fck_packet *packet, const uint8_t *extension);
// The flag of the LL line that the payload begins with; -1: it does not, or too little of it was captured.
int64_t fck_ll_flag(const struct fck_packet *packet);

// The opcode of Middle packets of the message that a packet of class WRITE or SEND belongs to.
static inline uint8_t fck_middle_of(uint8_t opcode, uint8_t packet_class)
{
	return (uint8_t)((opcode & 0xe0) | (packet_class == FCK_CLASS_WRITE ? 7 : 1));
}

#define FCK_RC_OPCODES 24
extern const struct fck_opcode fck_reliable[FCK_RC_OPCODES];
const struct fck_opcode *fck_opcode_other(uint8_t opcode);

// What the opcode says, for any of the 256.
static inline const struct fck_opcode *fck_opcode_lookup(uint8_t opcode)
{
	return opcode < FCK_RC_OPCODES ? &fck_reliable[opcode] : fck_opcode_other(opcode);
}

#endif
