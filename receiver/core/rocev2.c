// SPDX-License-Identifier: Apache-2.0
//
// From the BTH to the RDMA payload and the ICRC.
#include "packet.h"

#define QP_SETUP 1 // the general services interface: connection management
#define AETH_CODE_MASK 0x60
#define AETH_RNR_NAK 0x20
#define AETH_NAK 0x60
#define RETH_LENGTH_OFFSET 12
#define LL_LINE 16
#define LL_FLAG_1 4
#define LL_FLAG_2 12
#define CLEAR_TO_SEND_SMALL 32 // NCCL up to 2.19
#define CLEAR_TO_SEND_LARGE 64 // NCCL from 2.20
#define OPCODE_WRITE_ONLY 10

int64_t fck_ll_flag(const struct fck_packet *packet)
{
	uint32_t flag;

	if (packet->payload_captured < LL_LINE)
		return -1;
	flag = fck_le32(packet->payload + LL_FLAG_1);
	if (flag == 0 || flag != fck_le32(packet->payload + LL_FLAG_2))
		return -1;
	return flag;
}

// An acknowledge is an ACK, a NAK or a "receiver not ready"; a small write without immediate is NCCL's clear to send.
void fck_refine(struct fck_packet *packet, const uint8_t *extension)
{
	if (packet->info.aeth) {
		uint8_t code = extension[0] & AETH_CODE_MASK;

		if (code == AETH_NAK)
			packet->info.packet_class = FCK_CLASS_NAK;
		else if (code == AETH_RNR_NAK)
			packet->info.packet_class = FCK_CLASS_RNR_NAK;
	}
	if (packet->info.reth) {
		packet->has_reth = true;
		packet->address = (uint64_t)fck_be32(extension) << 32 | fck_be32(extension + 4);
		packet->reth_length = fck_be32(extension + RETH_LENGTH_OFFSET);
		if (packet->opcode == OPCODE_WRITE_ONLY &&
		    (packet->reth_length == CLEAR_TO_SEND_SMALL || packet->reth_length == CLEAR_TO_SEND_LARGE))
			packet->info.packet_class = FCK_CLASS_CLEAR_TO_SEND;
	}
	if (packet->info.immediate)
		packet->immediate = fck_le32(extension + packet->info.extension - 4);
}

// Behind the BTH: extension headers, payload, padding, ICRC.
static enum fck_frame_kind parse_extension(struct fck_cursor *cursor, uint32_t padding, struct fck_packet *packet)
{
	uint32_t size = packet->info.extension;
	uint32_t behind = padding + FCK_ICRC_SIZE;
	const uint8_t *extension;

	if (cursor->wire < size + behind)
		return FCK_FRAME_MALFORMED_BTH;
	packet->length = cursor->wire - size - behind;
	if (cursor->captured == cursor->wire) {
		packet->has_icrc = true;
		packet->icrc_at = cursor->data + cursor->wire - FCK_ICRC_SIZE;
		packet->icrc = fck_be32(packet->icrc_at);
	}
	extension = fck_cursor_take(cursor, size);
	if (extension == NULL)
		return FCK_FRAME_ROCEV2; // as far as known: the class by its opcode alone
	fck_refine(packet, extension);
	fck_cursor_cut(cursor, packet->length);
	packet->payload = cursor->data;
	packet->payload_captured = cursor->captured;
	return FCK_FRAME_ROCEV2;
}

enum fck_frame_kind fck_parse_bth(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *bth = fck_cursor_take(cursor, FCK_BTH_SIZE);
	bool version_0;

	if (bth == NULL)
		return fck_short_of(cursor, FCK_BTH_SIZE, FCK_FRAME_MALFORMED_BTH, FCK_FRAME_TRUNCATED_BTH);
	packet->bth = bth;
	packet->payload = NULL;
	version_0 = (bth[1] & 0x0f) == 0;
	packet->opcode = bth[0];
	packet->info = *fck_opcode_lookup(version_0 ? bth[0] : UINT8_MAX);
	packet->key.dest_qp = fck_be24(bth + 5);
	packet->psn = fck_be24(bth + 9);
	if (packet->key.dest_qp == QP_SETUP) {
		packet->info.packet_class = FCK_CLASS_SETUP;
		packet->info.request = false;
		packet->info.reth = packet->info.aeth = packet->info.immediate = false;
	}
	return parse_extension(cursor, bth[1] >> 4 & 3, packet);
}
