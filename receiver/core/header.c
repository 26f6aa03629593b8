// SPDX-License-Identifier: Apache-2.0
//
// From Ethernet to the transport header. Lengths come from the IP and UDP headers, never from the frame: what follows the IP
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
#define ETHERTYPE_ROCEV1 0x8915
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
#define UDP_PORT_VXLAN 4789
#define UDP_PORT_ROCEV2 4791
#define UDP_PORT_UET 4793

// Facts that a tunnel's frame keeps when the frame inside is looked at. That the outer packet was cut holds until the
// inner IP header says more.
#define OUTER_ATTRIBUTES                                                                                                 \
	(FCK_ATTRIBUTE(ENCAPSULATED_GRE) | FCK_ATTRIBUTE(ENCAPSULATED_ERSPAN1) | FCK_ATTRIBUTE(ENCAPSULATED_ERSPAN2) |     \
	 FCK_ATTRIBUTE(ENCAPSULATED_ERSPAN3) | FCK_ATTRIBUTE(ENCAPSULATED_VXLAN) | FCK_ATTRIBUTE(ERSPAN_TRUNCATED) |       \
	 FCK_ATTRIBUTE(ERSPAN_BAD_FRAME) | FCK_ATTRIBUTE(TRUNCATED))

static enum fck_frame_kind parse_udp(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *udp = fck_cursor_take(cursor, UDP_SIZE);
	uint16_t port;
	uint32_t length;

	if (udp == NULL)
		return fck_short_of(cursor, UDP_SIZE, FCK_FRAME_MALFORMED_UDP, FCK_FRAME_TRUNCATED_UDP);
	port = fck_be16(udp + 2);
	length = fck_be16(udp + 4);
	if (length < UDP_SIZE || length - UDP_SIZE > cursor->wire)
		return FCK_FRAME_MALFORMED_UDP;
	fck_cursor_cut(cursor, length - UDP_SIZE);
	switch (port) {
	case UDP_PORT_ROCEV2:
		return fck_parse_bth(cursor, packet);
	case UDP_PORT_VXLAN:
		return fck_parse_vxlan(cursor, packet);
	case UDP_PORT_UET:
		return FCK_FRAME_UET;
	case UDP_PORT_PTP_EVENT:
	case UDP_PORT_PTP_GENERAL:
		return FCK_FRAME_PTP;
	default:
		return FCK_FRAME_UDP_OTHER;
	}
}

static enum fck_frame_kind parse_transport(
	struct fck_cursor *cursor, const struct fck_config *config, uint8_t protocol, uint8_t traffic_class,
	struct fck_packet *packet
)
{
	if ((traffic_class & 3) == ECN_CE)
		packet->attributes |= FCK_ATTRIBUTE(ECN_CE);
	switch (protocol) {
	case PROTO_UDP:
		if (config->trimmed_dscp != 0 && config->trimmed_dscp == traffic_class >> 2)
			return FCK_FRAME_TRIMMED;
		return parse_udp(cursor, packet);
	case PROTO_TCP:
		return FCK_FRAME_TCP;
	case PROTO_ICMP:
		return FCK_FRAME_ICMP;
	case PROTO_ICMPV6:
		return FCK_FRAME_ICMPV6;
	case PROTO_GRE:
		return fck_parse_gre(cursor, config, packet);
	default:
		return FCK_FRAME_IP_OTHER;
	}
}

// `wire` bytes of IP payload follow, by the IP header.
static void cut_by_ip(struct fck_cursor *cursor, uint32_t wire, struct fck_packet *packet)
{
	fck_cursor_cut(cursor, wire);
	packet->truncated = cursor->captured < wire;
	packet->attributes &= ~FCK_ATTRIBUTE(TRUNCATED);
	if (packet->truncated)
		packet->attributes |= FCK_ATTRIBUTE(TRUNCATED);
}

static enum fck_frame_kind parse_ipv4(
	struct fck_cursor *cursor, const struct fck_config *config, struct fck_packet *packet
)
{
	const uint8_t *ip = fck_cursor_take(cursor, IPV4_SIZE);
	uint32_t header, total;

	if (ip == NULL)
		return fck_short_of(cursor, IPV4_SIZE, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
	header = (ip[0] & 0x0fu) * 4;
	total = fck_be16(ip + 2);
	if (ip[0] >> 4 != 4 || header < IPV4_SIZE || total < header)
		return FCK_FRAME_MALFORMED_IP;
	cut_by_ip(cursor, total - IPV4_SIZE, packet);
	if (fck_be16(ip + 6) & IPV4_FRAGMENTED)
		return FCK_FRAME_IPV4_FRAGMENT;
	if (fck_cursor_take(cursor, header - IPV4_SIZE) == NULL)
		return FCK_FRAME_TRUNCATED_IP;
	packet->ip = ip;
	packet->key.family = 4;
	memcpy(packet->key.source, ip + 12, 4);
	memcpy(packet->key.destination, ip + 16, 4);
	return parse_transport(cursor, config, ip[9], ip[1], packet);
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
			return fck_short_of(cursor, 8, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
		rest = extension[1] * 8u;
		if (!fck_cursor_skip(cursor, rest))
			return FCK_FRAME_MALFORMED_IP;
		*protocol = extension[0];
	}
	return FCK_FRAME_IP_OTHER;
}

static enum fck_frame_kind parse_ipv6(
	struct fck_cursor *cursor, const struct fck_config *config, struct fck_packet *packet
)
{
	const uint8_t *ip = fck_cursor_take(cursor, IPV6_SIZE);
	enum fck_frame_kind kind;
	uint8_t protocol;

	if (ip == NULL)
		return fck_short_of(cursor, IPV6_SIZE, FCK_FRAME_MALFORMED_IP, FCK_FRAME_TRUNCATED_IP);
	if (ip[0] >> 4 != 6)
		return FCK_FRAME_MALFORMED_IP;
	protocol = ip[6];
	cut_by_ip(cursor, fck_be16(ip + 4), packet);
	kind = skip_ipv6_extensions(cursor, &protocol);
	if (kind != FCK_FRAME_KINDS)
		return kind;
	packet->ip = ip;
	packet->key.family = 6;
	memcpy(packet->key.source, ip + 8, 16);
	memcpy(packet->key.destination, ip + 24, 16);
	return parse_transport(cursor, config, protocol, (uint8_t)(ip[0] << 4 | ip[1] >> 4), packet);
}

static uint32_t address_attributes(const uint8_t *destination)
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	if ((destination[0] & 1) == 0)
		return 0;
	if (memcmp(destination, broadcast, sizeof(broadcast)) == 0)
		return FCK_ATTRIBUTE(ETHERNET_BROADCAST);
	return FCK_ATTRIBUTE(ETHERNET_MULTICAST);
}

static enum fck_frame_kind parse_ethertype(
	struct fck_cursor *cursor, const struct fck_config *config, uint16_t ethertype, struct fck_packet *packet
)
{
	if (ethertype < ETHERTYPE_SMALLEST)
		return FCK_FRAME_LLC;
	switch (ethertype) {
	case ETHERTYPE_IPV4:
		return parse_ipv4(cursor, config, packet);
	case ETHERTYPE_IPV6:
		return parse_ipv6(cursor, config, packet);
	case ETHERTYPE_ARP:
		return FCK_FRAME_ARP;
	case ETHERTYPE_LLDP:
		return FCK_FRAME_LLDP;
	case ETHERTYPE_PTP:
		return FCK_FRAME_PTP;
	case ETHERTYPE_ROCEV1:
		return FCK_FRAME_ROCEV1;
	default:
		return FCK_FRAME_ETHERTYPE_OTHER;
	}
}

static enum fck_frame_kind parse_ethernet(
	struct fck_cursor *cursor, const struct fck_config *config, struct fck_packet *packet
)
{
	const uint8_t *ethernet = fck_cursor_take(cursor, ETHERNET_SIZE);
	uint16_t ethertype;
	int tags = 0;

	if (ethernet == NULL)
		return fck_short_of(cursor, ETHERNET_SIZE, FCK_FRAME_MALFORMED_ETHERNET, FCK_FRAME_TRUNCATED_ETHERNET);
	packet->attributes |= address_attributes(ethernet);
	ethertype = fck_be16(ethernet + 12);
	while ((ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ) && tags < VLAN_TAGS) {
		const uint8_t *tag = fck_cursor_take(cursor, 4);

		if (tag == NULL)
			return fck_short_of(cursor, 4, FCK_FRAME_MALFORMED_ETHERNET, FCK_FRAME_TRUNCATED_ETHERNET);
		ethertype = fck_be16(tag + 2);
		tags++;
	}
	if (tags > 0)
		packet->attributes |= tags == 1 ? FCK_ATTRIBUTE(VLAN) : FCK_ATTRIBUTE(VLAN_STACKED);
	return parse_ethertype(cursor, config, ethertype, packet);
}

enum fck_frame_kind fck_parse(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet
)
{
	struct fck_cursor cursor = {data, captured, original > captured ? original : captured};
	enum fck_frame_kind kind;

	memset(packet, 0, offsetof(struct fck_packet, outers));
	packet->immediate = -1;
	for (;;) { // ends: only FCK_OUTERS headers are taken off
		kind = parse_ethernet(&cursor, config, packet);
		if (kind != FCK_FRAME_INSIDE)
			return kind;
		packet->attributes &= OUTER_ATTRIBUTES;
		packet->key = (struct fck_key){0};
	}
}
