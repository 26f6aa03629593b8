// SPDX-License-Identifier: Apache-2.0
//
// The ICRC is the CRC-32 of Ethernet over 8 bytes of ones (for the LRH, which RoCE does not have) and the packet from the
// IP header on, the fields that may change on the way set to ones: IBTA volume 1, annex A17. Least significant byte first.
#include "icrc.h"

#include <string.h>

#define POLYNOMIAL 0xedb88320u
#define ONES 8
#define IPV4_SIZE 20
#define IPV6_SIZE 40
#define UDP_SIZE 8
#define HEADERS_LARGEST (ONES + IPV6_SIZE + UDP_SIZE + FCK_BTH_SIZE)

void fck_icrc_init(struct fck_icrc *icrc)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		icrc->table[0][byte] = crc;
	}
	for (int group = 1; group < 8; group++)
		for (uint32_t byte = 0; byte < 256; byte++) {
			uint32_t before = icrc->table[group - 1][byte];

			icrc->table[group][byte] = before >> 8 ^ icrc->table[0][before & 0xff];
		}
}

uint32_t fck_crc32(const struct fck_icrc *icrc, uint32_t crc, const uint8_t *data, size_t size)
{
	const uint32_t(*table)[256] = icrc->table;

	crc = ~crc;
	for (; size >= 8; data += 8, size -= 8) {
		uint32_t low = crc ^ fck_le32(data), high = fck_le32(data + 4);

		crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
		      table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^ table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
	}
	for (; size > 0; data++, size--)
		crc = crc >> 8 ^ table[0][(crc ^ *data) & 0xff];
	return ~crc;
}

// Sets the fields that may change to ones; `ip` is the copy of the headers.
static void mask_ip(uint8_t *ip, uint16_t family)
{
	if (family == 4) {
		ip[1] = 0xff;           // type of service
		ip[8] = 0xff;           // time to live
		ip[10] = ip[11] = 0xff; // checksum
	} else {
		ip[0] |= 0x0f; // traffic class and flow label
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[7] = 0xff; // hop limit
	}
}

enum fck_attribute fck_icrc_judge(const struct fck_icrc *icrc, const struct fck_packet *packet)
{
	uint32_t ip_size = packet->key.family == 4 ? IPV4_SIZE : IPV6_SIZE;
	uint32_t size = ip_size + UDP_SIZE + FCK_BTH_SIZE;
	const uint8_t *rest = packet->bth + FCK_BTH_SIZE;
	uint8_t headers[HEADERS_LARGEST];
	uint32_t crc;

	if (packet->info.packet_class == FCK_CLASS_UNSUPPORTED)
		return FCK_ATTRIBUTE_ICRC_UNCHECKED; // vendors' packets are seen with a CRC over other fields
	if (!packet->has_icrc || packet->bth != packet->ip + ip_size + UDP_SIZE)
		return FCK_ATTRIBUTE_ICRC_UNCHECKED;
	memset(headers, 0xff, ONES);
	memcpy(headers + ONES, packet->ip, size);
	mask_ip(headers + ONES, packet->key.family);
	headers[ONES + ip_size + 6] = headers[ONES + ip_size + 7] = 0xff; // UDP checksum
	headers[ONES + ip_size + UDP_SIZE + 4] = 0xff;                   // BTH: congestion marks
	crc = fck_crc32(icrc, 0, headers, ONES + size);
	crc = fck_crc32(icrc, crc, rest, (size_t)(packet->icrc_at - rest));
	return crc == fck_le32(packet->icrc_at) ? FCK_ATTRIBUTE_ICRC_VALID : FCK_ATTRIBUTE_ICRC_BAD;
}
