// SPDX-License-Identifier: Apache-2.0
#include "outers.h"

#include <string.h>

#define OUTER_MAC 2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3

const struct fck_config user_set = {.gre_types = {0x4321, 0x1234}};

const struct wish inners[2] = {
	{.opcode = OP_WRITE_ONLY_IMM, .psn = 77, .payload = 40, .reth_length = 40, .immediate = 9, .ll_flag = 3, .ipv4 = true,
	 .vlan_tags = 1, .tail = 4, .icrc = 0x01020304},
	{.opcode = OP_WRITE_FIRST, .psn = 0xffffff, .payload = 256, .reth_length = 512, .icrc = 0x05060708, .vlan_tags = 2},
};

void append(struct buffer *buffer, const uint8_t *bytes, uint32_t size)
{
	assert_true(buffer->size + size <= OUTER_ROOM);
	memcpy(buffer->data + buffer->size, bytes, size);
	buffer->size += size;
}

void append_ip(struct buffer *buffer, int family, bool options, uint8_t protocol, uint32_t payload)
{
	uint32_t total = 20 + 4 * options + payload;

	append(buffer, BYTES(OUTER_MAC));
	if (family == 4) {
		append(buffer, BYTES(8, 0, (uint8_t)(0x45 + options), 3, (uint8_t)(total >> 8), (uint8_t)total, 0, 0, 0x40, 0, 60,
				     protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 99));
		append(buffer, (const uint8_t[]){1, 1, 1, 1}, options ? 4 : 0);
	} else {
		append(buffer, BYTES(0x86, 0xdd, 0x60, 0x30, 0, 0, (uint8_t)(payload >> 8), (uint8_t)payload, protocol, 60));
		append(buffer, BYTES(0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1));
		append(buffer, BYTES(0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99));
	}
}

void wrap(struct buffer *buffer, const struct row *row, int family, const struct frame *inner)
{
	buffer->size = 0;
	append_ip(buffer, family, family == 4, 47, row->size + inner->size);
	append(buffer, row->header, row->size);
	append(buffer, inner->data, inner->size);
	append(buffer, BYTES(0xfc, 0xfc, 0xfc, 0xfc));
}
