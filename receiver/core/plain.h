// SPDX-License-Identifier: Apache-2.0
//
// The short way through the parser for what nearly every packet is: untagged unicast Ethernet, IPv4 without options or IPv6
// without extension headers, UDP 4791, captured whole, nothing to remark on. Whatever it takes, fck_parse() reads the same;
// what is different in any point it leaves to fck_parse().
#ifndef FCK_PLAIN_H
#define FCK_PLAIN_H

#include <string.h>

#include "packet.h"

enum {
	FCK_PLAIN_IP = 14,
	FCK_PLAIN_UDP4 = FCK_PLAIN_IP + 20,
	FCK_PLAIN_UDP6 = FCK_PLAIN_IP + 40,
	FCK_PLAIN_BTH = 8, // behind the start of the UDP header
	FCK_PLAIN_LEAST = FCK_PLAIN_BTH + FCK_BTH_SIZE + FCK_ICRC_SIZE, // from the UDP header on
};

// Keys are written in the widths in which they are compared: a processor waits for a narrow store before a wide load.
static inline void fck_plain_address4(const uint8_t *ip, uint8_t *address)
{
	uint64_t halves[2] = {0, 0};

	memcpy(halves, ip, 4);
	memcpy(address, &halves[0], 8);
	memcpy(address + 8, &halves[1], 8);
}

static inline uint32_t fck_plain_where(uint16_t capture, uint16_t family)
{
	return ((struct fck_key){.capture = capture, .family = family}).where;
}

static inline void fck_plain_key4(const uint8_t *ip, uint16_t capture, struct fck_key *key)
{
	fck_plain_address4(ip + 12, key->source);
	fck_plain_address4(ip + 16, key->destination);
	key->where = fck_plain_where(capture, 4);
}

static inline void fck_plain_key6(const uint8_t *ip, uint16_t capture, struct fck_key *key)
{
	memcpy(key->source, ip + 8, 16);
	memcpy(key->destination, ip + 24, 16);
	key->where = fck_plain_where(capture, 6);
}

// The UDP header, and the length that the IP header says follows; NULL: not plain.
static inline const uint8_t *fck_plain_ip(
	const uint8_t *data, uint32_t captured, uint16_t capture, uint32_t *length, uint8_t *traffic_class, struct fck_key *key
)
{
	const uint8_t *ip = data + FCK_PLAIN_IP;
	uint16_t ethertype;

	if (captured < FCK_PLAIN_UDP4 + FCK_PLAIN_LEAST || data[0] & 1)
		return NULL;
	ethertype = fck_be16(data + 12);
	if (ethertype == 0x0800 && ip[0] == 0x45 && ip[9] == 17 && (fck_be16(ip + 6) & 0x3fff) == 0) {
		*length = fck_be16(ip + 2) - 20u;
		*traffic_class = ip[1];
		fck_plain_key4(ip, capture, key);
		return data + FCK_PLAIN_UDP4;
	}
	if (ethertype == 0x86dd && ip[0] >> 4 == 6 && ip[6] == 17 && captured >= FCK_PLAIN_UDP6 + FCK_PLAIN_LEAST) {
		*length = fck_be16(ip + 4);
		*traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
		fck_plain_key6(ip, capture, key);
		return data + FCK_PLAIN_UDP6;
	}
	return NULL;
}

// False: not plain, `packet` is undefined. True: `packet` is what fck_parse() makes of an FCK_FRAME_ROCEV2, and its key is whole.
static inline bool fck_parse_plain(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint16_t capture, struct fck_packet *packet
)
{
	uint32_t length, headers, behind;
	uint8_t traffic_class;
	const uint8_t *udp = fck_plain_ip(data, captured, capture, &length, &traffic_class, &packet->key), *bth;

	if (udp == NULL || fck_be16(udp + 2) != 4791 || fck_be16(udp + 4) != length)
		return false;
	if (length > captured - (uint32_t)(udp - data) || (traffic_class & 3) == 3 || config->trimmed_dscp != 0)
		return false;
	bth = udp + FCK_PLAIN_BTH;
	packet->info = *fck_opcode_lookup(bth[0]);
	packet->key.dest_qp = fck_be24(bth + 5);
	headers = FCK_PLAIN_BTH + FCK_BTH_SIZE + packet->info.extension;
	behind = (bth[1] >> 4 & 3) + FCK_ICRC_SIZE;
	if ((bth[1] & 0x0f) != 0 || packet->key.dest_qp == 1 || length < headers + behind)
		return false;
	packet->attributes = 0;
	packet->opcode = bth[0];
	packet->truncated = packet->has_reth = false;
	packet->has_icrc = true;
	packet->psn = fck_be24(bth + 9);
	packet->length = packet->payload_captured = length - headers - behind;
	packet->icrc_at = udp + length - FCK_ICRC_SIZE;
	packet->icrc = fck_be32(packet->icrc_at);
	packet->immediate = -1;
	packet->ip = data + FCK_PLAIN_IP;
	packet->bth = bth;
	packet->payload = udp + headers;
	packet->outer_count = 0;
	packet->reth_length = 0;
	packet->address = 0;
	if (packet->info.extension > 0)
		fck_refine(packet, bth + FCK_BTH_SIZE);
	return true;
}

#endif
