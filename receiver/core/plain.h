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

// Not through the halves of the union, for the same reason.
static inline uint32_t fck_plain_where(uint16_t capture, uint16_t family)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint32_t)family << 16 | capture;
#else
	return (uint32_t)capture << 16 | family;
#endif
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
	uint64_t head;

	if (captured < FCK_PLAIN_UDP4 + FCK_PLAIN_LEAST || data[0] & 1)
		return NULL;
	head = fck_be64(data + FCK_PLAIN_IP - 2); // the ethertype and what the IP header begins with
	if (head >> 40 == 0x080045 && (fck_be32(ip + 6) & 0x3fff00ff) == 17) { // neither a fragment nor anything but UDP
		*length = (uint32_t)(head >> 16 & 0xffff) - 20u;
		*traffic_class = (uint8_t)(head >> 32);
		fck_plain_key4(ip, capture, key);
		return data + FCK_PLAIN_UDP4;
	}
	if (head >> 44 == 0x86dd6 && ip[6] == 17 && captured >= FCK_PLAIN_UDP6 + FCK_PLAIN_LEAST) {
		*length = fck_be16(ip + 4);
		*traffic_class = (uint8_t)(head >> 36);
		fck_plain_key6(ip, capture, key);
		return data + FCK_PLAIN_UDP6;
	}
	return NULL;
}

// What the headers up to the BTH say, where nothing but the opcode's own headers can make a frame another one than plain.
struct fck_plain {
	const uint8_t *udp;
	uint32_t length; // of the UDP datagram; the BTH and an ICRC are in it
	uint32_t behind; // of it, bytes behind the payload
	uint32_t psn;
	uint8_t opcode;
};

// False: not plain, `plain` and `key` are undefined. For where no DSCP marks trimmed packets.
static inline bool fck_plain_head(
	const uint8_t *data, uint32_t captured, uint16_t capture, struct fck_plain *plain, struct fck_key *key
)
{
	uint8_t traffic_class;
	const uint8_t *udp = fck_plain_ip(data, captured, capture, &plain->length, &traffic_class, key);
	uint32_t ports, bth;

	if (udp == NULL)
		return false;
	ports = fck_be32(udp + 2); // the destination port and the length
	if (ports != (4791u << 16 | plain->length) || plain->length > captured - (uint32_t)(udp - data))
		return false;
	bth = fck_be32(udp + FCK_PLAIN_BTH);
	plain->udp = udp;
	plain->opcode = (uint8_t)(bth >> 24);
	plain->behind = (bth >> 20 & 3) + FCK_ICRC_SIZE;
	key->dest_qp = fck_be32(udp + FCK_PLAIN_BTH + 4) & 0xffffff;
	plain->psn = fck_be32(udp + FCK_PLAIN_BTH + 8) & FCK_PSN_MASK;
	return (traffic_class & 3) != 3 && (bth >> 16 & 0x0f) == 0 && key->dest_qp != 1 &&
	       plain->length >= FCK_PLAIN_BTH + FCK_BTH_SIZE + plain->behind;
}

// False: too short for the opcode's headers. True: `packet`, whose key is there, is what fck_parse() makes of the frame.
static inline bool fck_plain_rest(const uint8_t *data, const struct fck_plain *plain, struct fck_packet *packet)
{
	const uint8_t *udp = plain->udp;
	uint32_t headers;

	packet->info = *fck_opcode_lookup(plain->opcode);
	headers = FCK_PLAIN_BTH + FCK_BTH_SIZE + packet->info.extension;
	if (plain->length < headers + plain->behind)
		return false;
	packet->attributes = 0;
	packet->opcode = plain->opcode;
	packet->truncated = packet->has_reth = false;
	packet->has_icrc = true;
	packet->psn = plain->psn;
	packet->length = packet->payload_captured = plain->length - headers - plain->behind;
	packet->icrc_at = udp + plain->length - FCK_ICRC_SIZE;
	packet->icrc = fck_be32(packet->icrc_at);
	packet->immediate = -1;
	packet->ip = data + FCK_PLAIN_IP;
	packet->bth = udp + FCK_PLAIN_BTH;
	packet->payload = udp + headers;
	packet->outer_count = 0;
	packet->reth_length = 0;
	packet->address = 0;
	if (packet->info.extension > 0)
		fck_refine(packet, packet->bth + FCK_BTH_SIZE);
	return true;
}

// Both. False: not plain, `packet` is undefined. True: `packet` is what fck_parse() makes of an FCK_FRAME_ROCEV2, its key whole.
static inline bool fck_parse_plain(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint16_t capture, struct fck_packet *packet
)
{
	struct fck_plain plain;

	return config->trimmed_dscp == 0 && fck_plain_head(data, captured, capture, &plain, &packet->key) &&
	       fck_plain_rest(data, &plain, packet);
}

#endif
