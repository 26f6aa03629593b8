// SPDX-License-Identifier: Apache-2.0
//
// From Ethernet to the RDMA payload. Lengths come from the IP and UDP headers, never from the frame: what follows the IP
// packet (padding, FCS) is not looked at, and what a truncated mirror copy lacks is not read.
#include <string.h>

#include "cursor.h"
#include "packet.h"

#define ETHERNET_SIZE 14
#define ETHERTYPE_SMALLEST 0x0600
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_ARP 0x0806
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_LLDP 0x88cc
#define ETHERTYPE_PTP 0x88f7
#define VLAN_TAGS 2

#define IPV4_SIZE 20
#define IPV4_FRAGMENTED 0x3fff // more-fragments flag and offset
#define IPV6_SIZE 40
#define IPV6_EXTENSIONS 8 // more than any honest packet has
#define PROTO_HOP_BY_HOP 0
#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ROUTING 43
#define PROTO_FRAGMENT 44
#define PROTO_GRE 47
#define PROTO_ICMPV6 58
#define PROTO_DESTINATION 60
#define ECN_CE 3

#define UDP_SIZE 8
#define UDP_PORT_PTP_EVENT 319
#define UDP_PORT_PTP_GENERAL 320
#define UDP_PORT_ROCEV2 4791

#define BTH_SIZE 12
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

#define ATTRIBUTE(name) (1u << FCK_ATTRIBUTE_##name)

// A header of `size` bytes was not captured: is it the frame or the capture that ends too early?
static enum fck_frame_kind short_of(
	const struct fck_cursor *cursor, uint32_t size, enum fck_frame_kind malformed, enum fck_frame_kind truncated
)
{
	return size > cursor->wire ? malformed : truncated;
}

static int64_t ll_flag(const struct fck_cursor *payload)
{
	uint32_t flag;

	if (payload->captured < LL_LINE)
		return -1;
	flag = fck_le32(payload->data + LL_FLAG_1);
	if (flag == 0 || flag != fck_le32(payload->data + LL_FLAG_2))
		return -1;
	return flag;
}

// An acknowledge is an ACK, a NAK or a "receiver not ready"; a small write without immediate is NCCL's clear to send.
static void refine_class(struct fck_packet *packet, const uint8_t *extension)
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
		packet->icrc = fck_be32(cursor->data + cursor->wire - FCK_ICRC_SIZE);
	}
	extension = fck_cursor_take(cursor, size);
	if (extension == NULL)
		return FCK_FRAME_ROCEV2; // as far as known: the class by its opcode alone
	refine_class(packet, extension);
	fck_cursor_cut(cursor, packet->length);
	packet->ll_flag = ll_flag(cursor);
	return FCK_FRAME_ROCEV2;
}

static enum fck_frame_kind parse_bth(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *bth = fck_cursor_take(cursor, BTH_SIZE);
	bool version_0;

	if (bth == NULL)
		return short_of(cursor, BTH_SIZE, FCK_FRAME_MALFORMED_BTH, FCK_FRAME_TRUNCATED_BTH);
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

static enum fck_frame_kind parse_udp(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *udp = fck_cursor_take(cursor, UDP_SIZE);
	uint16_t port;
	uint32_t length;

	if (udp == NULL)
		return short_of(cursor, UDP_SIZE, FCK_FRAME_MALFORMED_UDP, FCK_FRAME_TRUNCATED_UDP);
	port = fck_be16(udp + 2);
	length = fck_be16(udp + 4);
	if (length < UDP_SIZE || length - UDP_SIZE > cursor->wire)
		return FCK_FRAME_MALFORMED_UDP;
	fck_cursor_cut(cursor, length - UDP_SIZE);
	switch (port) {
	case UDP_PORT_ROCEV2:
		return parse_bth(cursor, packet);
	case UDP_PORT_PTP_EVENT:
	case UDP_PORT_PTP_GENERAL:
		return FCK_FRAME_PTP;
	default:
		return FCK_FRAME_UDP_OTHER;
	}
}

static enum fck_frame_kind parse_transport(struct fck_cursor *cursor, uint8_t protocol, struct fck_packet *packet)
{
	switch (protocol) {
	case PROTO_UDP:
		return parse_udp(cursor, packet);
	case PROTO_TCP:
		return FCK_FRAME_TCP;
	case PROTO_ICMP:
		return FCK_FRAME_ICMP;
	case PROTO_ICMPV6:
		return FCK_FRAME_ICMPV6;
	case PROTO_GRE:
		return FCK_FRAME_GRE;
	default:
		return FCK_FRAME_IP_OTHER;
	}
}

// `wire` bytes of IP payload follow, by the IP header.
static void cut_by_ip(struct fck_cursor *cursor, uint32_t wire, struct fck_packet *packet)
{
	fck_cursor_cut(cursor, wire);
	packet->truncated = cursor->captured < wire;
	if (packet->truncated)
		packet->attributes |= ATTRIBUTE(TRUNCATED);
}

static void note_ecn(uint8_t traffic_class, struct fck_packet *packet)
{
	if ((traffic_class & 3) == ECN_CE)
		packet->attributes |= ATTRIBUTE(ECN_CE);
}

static enum fck_frame_kind parse_ipv4(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *ip = fck_cursor_take(cursor, IPV4_SIZE);
	uint32_t header, total;

	if (ip == NULL)
		return short_of(cursor, IPV4_SIZE, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
	header = (ip[0] & 0x0fu) * 4;
	total = fck_be16(ip + 2);
	if (ip[0] >> 4 != 4 || header < IPV4_SIZE || total < header)
		return FCK_FRAME_MALFORMED_IP;
	cut_by_ip(cursor, total - IPV4_SIZE, packet);
	if (fck_be16(ip + 6) & IPV4_FRAGMENTED)
		return FCK_FRAME_IPV4_FRAGMENT;
	if (fck_cursor_take(cursor, header - IPV4_SIZE) == NULL)
		return FCK_FRAME_TRUNCATED_IP;
	note_ecn(ip[1], packet);
	packet->key.family = 4;
	memcpy(packet->key.source, ip + 12, 4);
	memcpy(packet->key.destination, ip + 16, 4);
	return parse_transport(cursor, ip[9], packet);
}

// Steps over extension headers; `*protocol` is what follows them. FCK_FRAME_KINDS: nothing is decided yet, go on.
static enum fck_frame_kind skip_ipv6_extensions(struct fck_cursor *cursor, uint8_t *protocol)
{
	for (int i = 0; i < IPV6_EXTENSIONS; i++) {
		const uint8_t *extension;
		uint32_t rest;

		if (*protocol == PROTO_FRAGMENT)
			return FCK_FRAME_IPV6_FRAGMENT;
		if (*protocol != PROTO_HOP_BY_HOP && *protocol != PROTO_DESTINATION && *protocol != PROTO_ROUTING)
			return FCK_FRAME_KINDS;
		extension = fck_cursor_take(cursor, 8);
		if (extension == NULL)
			return short_of(cursor, 8, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
		rest = extension[1] * 8u;
		if (!fck_cursor_skip(cursor, rest))
			return FCK_FRAME_MALFORMED_IP;
		*protocol = extension[0];
	}
	return FCK_FRAME_IP_OTHER;
}

static enum fck_frame_kind parse_ipv6(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *ip = fck_cursor_take(cursor, IPV6_SIZE);
	enum fck_frame_kind kind;
	uint8_t protocol;

	if (ip == NULL)
		return short_of(cursor, IPV6_SIZE, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
	if (ip[0] >> 4 != 6)
		return FCK_FRAME_MALFORMED_IP;
	protocol = ip[6];
	cut_by_ip(cursor, fck_be16(ip + 4), packet);
	kind = skip_ipv6_extensions(cursor, &protocol);
	if (kind != FCK_FRAME_KINDS)
		return kind;
	note_ecn((uint8_t)(ip[0] << 4 | ip[1] >> 4), packet);
	packet->key.family = 6;
	memcpy(packet->key.source, ip + 8, 16);
	memcpy(packet->key.destination, ip + 24, 16);
	return parse_transport(cursor, protocol, packet);
}

static uint32_t address_attributes(const uint8_t *destination)
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if ((destination[0] & 1) == 0)
		return 0;
	if (memcmp(destination, broadcast, sizeof(broadcast)) == 0)
		return ATTRIBUTE(ETHERNET_BROADCAST);
	return ATTRIBUTE(ETHERNET_MULTICAST);
}

static enum fck_frame_kind parse_ethertype(struct fck_cursor *cursor, uint16_t ethertype, struct fck_packet *packet)
{
	if (ethertype < ETHERTYPE_SMALLEST)
		return FCK_FRAME_LLC;
	switch (ethertype) {
	case ETHERTYPE_IPV4:
		return parse_ipv4(cursor, packet);
	case ETHERTYPE_IPV6:
		return parse_ipv6(cursor, packet);
	case ETHERTYPE_ARP:
		return FCK_FRAME_ARP;
	case ETHERTYPE_LLDP:
		return FCK_FRAME_LLDP;
	case ETHERTYPE_PTP:
		return FCK_FRAME_PTP;
	default:
		return FCK_FRAME_ETHERTYPE_OTHER;
	}
}

enum fck_frame_kind fck_parse(const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet)
{
	struct fck_cursor cursor = {data, captured, original > captured ? original : captured};
	const uint8_t *ethernet = fck_cursor_take(&cursor, ETHERNET_SIZE);
	uint16_t ethertype;
	int tags = 0;

	*packet = (struct fck_packet){.immediate = -1, .ll_flag = -1};
	if (ethernet == NULL)
		return short_of(&cursor, ETHERNET_SIZE, FCK_FRAME_MALFORMED_ETHERNET, FCK_FRAME_TRUNCATED_ETHERNET);
	packet->attributes = address_attributes(ethernet);
	ethertype = fck_be16(ethernet + 12);
	while ((ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ) && tags < VLAN_TAGS) {
		const uint8_t *tag = fck_cursor_take(&cursor, 4);

		if (tag == NULL)
			return short_of(&cursor, 4, FCK_FRAME_MALFORMED_ETHERNET, FCK_FRAME_TRUNCATED_ETHERNET);
		ethertype = fck_be16(tag + 2);
		tags++;
	}
	if (tags > 0)
		packet->attributes |= tags == 1 ? ATTRIBUTE(VLAN) : ATTRIBUTE(VLAN_STACKED);
	return parse_ethertype(&cursor, ethertype, packet);
}
