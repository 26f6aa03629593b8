// SPDX-License-Identifier: Apache-2.0
//
// The invariant CRC of RoCEv2 packets.
#ifndef FCK_ICRC_H
#define FCK_ICRC_H

#include <stddef.h>
#include <stdint.h>

#include "packet.h"

struct fck_icrc {
	uint32_t table[8][256]; // [n][b]: what byte b does to the CRC when n bytes follow it in its group of eight
};

void fck_icrc_init(struct fck_icrc *icrc);
// The CRC-32 of Ethernet, bit-reversed; `crc` is that of what goes before, 0 at the beginning.
uint32_t fck_crc32(const struct fck_icrc *icrc, uint32_t crc, const uint8_t *data, size_t size);
// FCK_ATTRIBUTE_ICRC_VALID, _BAD or _UNCHECKED for a RoCEv2 packet that was just parsed.
enum fck_attribute fck_icrc_judge(const struct fck_icrc *icrc, const struct fck_packet *packet);

#endif
