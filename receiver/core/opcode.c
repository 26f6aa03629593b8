// SPDX-License-Identifier: Apache-2.0
//
// The opcodes of InfiniBand's base transport header (IBA volume 1, table "OpCode field"): 3 bits transport, 5 bits what.
#include "packet.h"

#define TRANSPORT_UC 0x20
#define UC_OPCODES 12 // sends and writes, numbered as those of RC

// clang-format off
const struct fck_opcode fck_reliable[FCK_RC_OPCODES] = {
	[0]  = {FCK_CLASS_SEND, FCK_PART_FIRST, .request = true},
	[1]  = {FCK_CLASS_SEND, FCK_PART_MIDDLE, .request = true},
	[2]  = {FCK_CLASS_SEND, FCK_PART_LAST, .request = true},
	[3]  = {FCK_CLASS_SEND, FCK_PART_LAST, 4, .request = true, .immediate = true},
	[4]  = {FCK_CLASS_SEND, FCK_PART_ONLY, .request = true},
	[5]  = {FCK_CLASS_SEND, FCK_PART_ONLY, 4, .request = true, .immediate = true},
	[6]  = {FCK_CLASS_WRITE, FCK_PART_FIRST, 16, .request = true, .reth = true},
	[7]  = {FCK_CLASS_WRITE, FCK_PART_MIDDLE, .request = true},
	[8]  = {FCK_CLASS_WRITE, FCK_PART_LAST, .request = true},
	[9]  = {FCK_CLASS_WRITE, FCK_PART_LAST, 4, .request = true, .immediate = true},
	[10] = {FCK_CLASS_WRITE, FCK_PART_ONLY, 16, .request = true, .reth = true},
	[11] = {FCK_CLASS_WRITE, FCK_PART_ONLY, 20, .request = true, .reth = true, .immediate = true},
	[12] = {FCK_CLASS_READ_REQUEST, FCK_PART_ONLY, 16, .request = true, .reth = true},
	[13] = {FCK_CLASS_READ_RESPONSE, FCK_PART_FIRST, 4, .request = false},  // AETH
	[14] = {FCK_CLASS_READ_RESPONSE, FCK_PART_MIDDLE, 0, .request = false},
	[15] = {FCK_CLASS_READ_RESPONSE, FCK_PART_LAST, 4, .request = false},   // AETH
	[16] = {FCK_CLASS_READ_RESPONSE, FCK_PART_ONLY, 4, .request = false},   // AETH
	[17] = {FCK_CLASS_ACK, FCK_PART_ONLY, 4, .aeth = true},
	[18] = {FCK_CLASS_ATOMIC_ACK, FCK_PART_ONLY, 12, .request = false},     // AETH, AtomicAckETH
	[19] = {FCK_CLASS_ATOMIC, FCK_PART_ONLY, 28, .request = true},          // CmpSwap
	[20] = {FCK_CLASS_ATOMIC, FCK_PART_ONLY, 28, .request = true},          // FetchAdd
	[21] = {FCK_CLASS_UNSUPPORTED, FCK_PART_ONLY, .request = false},
	[22] = {FCK_CLASS_SEND, FCK_PART_LAST, 4, .request = true},             // with Invalidate
	[23] = {FCK_CLASS_SEND, FCK_PART_ONLY, 4, .request = true},             // with Invalidate
};
// clang-format on

static const struct fck_opcode datagram = {FCK_CLASS_DATAGRAM, FCK_PART_ONLY, 8, .request = false};            // DETH
static const struct fck_opcode datagram_immediate = {FCK_CLASS_DATAGRAM, FCK_PART_ONLY, 12, .request = false}; // DETH, imm
static const struct fck_opcode congestion = {FCK_CLASS_CNP, FCK_PART_ONLY, 16, .request = false}; // 16 reserved bytes
static const struct fck_opcode unsupported = {FCK_CLASS_UNSUPPORTED, FCK_PART_ONLY, .request = false};

const struct fck_opcode *fck_opcode_other(uint8_t opcode)
{
	if (opcode >= TRANSPORT_UC && opcode < TRANSPORT_UC + UC_OPCODES)
		return &fck_reliable[opcode - TRANSPORT_UC];
	switch (opcode) {
	case 0x64:
		return &datagram;
	case 0x65:
		return &datagram_immediate;
	case 0x81:
		return &congestion;
	default:
		return &unsupported;
	}
}
