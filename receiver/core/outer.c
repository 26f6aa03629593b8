// SPDX-License-Identifier: Apache-2.0
//
// Outer headers of mirrored frames: GRE (RFC 2784, 2890), ERSPAN (draft-foschiano-erspan-03), VXLAN (RFC 7348). What is
// there is decided by the flags of the headers; only GRE types that say nothing of their content are searched for a frame.
#include <string.h>

#include "packet.h"

#define GRE_SIZE 4
#define GRE_CHECKSUM 0x8000
#define GRE_ROUTING 0x4000
#define GRE_KEY 0x2000
#define GRE_SEQUENCE 0x1000
#define GRE_VERSION 0x0007
#define GRE_ETHERNET 0x6558
#define GRE_ERSPAN 0x88be // I and II
#define GRE_ERSPAN3 0x22eb
#define GRE_NVIDIA 0x8949 // Spectrum switches: 22 bytes of their own before the frame

#define ERSPAN2_SIZE 8
#define ERSPAN3_SIZE 12
#define ERSPAN3_SUBHEADER_SIZE 8
#define ERSPAN2_VERSION 1
#define ERSPAN3_VERSION 2
#define ERSPAN_SESSION 0x03ff
#define ERSPAN_TRUNCATED 0x0400
#define ERSPAN_BAD_FRAME 0x1800  // III only: both bits
#define ERSPAN3_FRAME_TYPE 0x7c00 // 0: Ethernet
#define ERSPAN3_SUBHEADER 0x0001

#define VXLAN_SIZE 8
#define VXLAN_HAS_NETWORK 0x08

#define NVIDIA_SIZE 22
#define SEARCHED (NVIDIA_SIZE + 12 + 2 * 4 + 2 + 20) // up to an IPv4 header behind two VLAN tags

_Static_assert(
	FCK_ATTRIBUTE_ENCAPSULATED_VXLAN - FCK_ATTRIBUTE_ENCAPSULATED_GRE == FCK_TUNNEL_VXLAN, "kinds and attributes go together"
);

struct gre {
	uint16_t type;
	int64_t key;
	int64_t sequence;
};

// Notes a header that was taken off, unless too many were.
static enum fck_frame_kind take_off(
	struct fck_packet *packet, enum fck_tunnel_kind kind, int64_t session, int64_t sequence, enum fck_frame_kind closed
)
{
	struct fck_outer *outer;

	if (packet->outer_count == FCK_OUTERS) {
		packet->attributes |= FCK_ATTRIBUTE(ENCAPSULATED_TOO_DEEP);
		return closed;
	}
	outer = &packet->outers[packet->outer_count++];
	*outer = (struct fck_outer){.family = packet->key.family, .kind = kind, .session = session, .sequence = sequence};
	memcpy(outer->source, packet->key.source, sizeof(outer->source));
	packet->attributes |= 1u << (FCK_ATTRIBUTE_ENCAPSULATED_GRE + kind);
	return FCK_FRAME_INSIDE;
}

static enum fck_frame_kind tunnel_short_of(const struct fck_cursor *cursor, uint32_t size)
{
	return fck_short_of(cursor, size, FCK_FRAME_MALFORMED_TUNNEL, FCK_FRAME_TRUNCATED_TUNNEL);
}

// Flags, type and the words that the flags announce: checksum, key, sequence number, in this order.
static enum fck_frame_kind take_gre(struct fck_cursor *cursor, struct gre *gre)
{
	const uint8_t *head = fck_cursor_take(cursor, GRE_SIZE), *words;
	uint16_t flags;
	uint32_t size;

	if (head == NULL)
		return tunnel_short_of(cursor, GRE_SIZE);
	flags = fck_be16(head);
	*gre = (struct gre){.type = fck_be16(head + 2), .key = -1, .sequence = -1};
	if (flags & (GRE_ROUTING | GRE_VERSION))
		return FCK_FRAME_GRE;
	size = 4u * (uint32_t)__builtin_popcount(flags & (GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE));
	words = fck_cursor_take(cursor, size);
	if (words == NULL)
		return tunnel_short_of(cursor, size);
	if (flags & GRE_CHECKSUM)
		words += 4;
	if (flags & GRE_KEY) {
		gre->key = fck_be32(words);
		words += 4;
	}
	if (flags & GRE_SEQUENCE)
		gre->sequence = fck_be32(words);
	return FCK_FRAME_INSIDE;
}

// Size of the ERSPAN II or III header here; 0: it is neither, or too little of it was captured.
static uint32_t erspan_size(const struct fck_cursor *cursor)
{
	if (cursor->captured < ERSPAN2_SIZE)
		return 0;
	if (cursor->data[0] >> 4 == ERSPAN2_VERSION)
		return ERSPAN2_SIZE;
	if (cursor->data[0] >> 4 != ERSPAN3_VERSION || cursor->captured < ERSPAN3_SIZE)
		return 0;
	return fck_be16(cursor->data + 10) & ERSPAN3_SUBHEADER ? ERSPAN3_SIZE + ERSPAN3_SUBHEADER_SIZE : ERSPAN3_SIZE;
}

static enum fck_frame_kind take_erspan3(struct fck_cursor *cursor, struct fck_packet *packet, uint16_t flags, int64_t sequence)
{
	const uint8_t *more = fck_cursor_take(cursor, ERSPAN3_SIZE - ERSPAN2_SIZE);

	if (more == NULL)
		return tunnel_short_of(cursor, ERSPAN3_SIZE - ERSPAN2_SIZE);
	if (fck_be16(more + 2) & ERSPAN3_FRAME_TYPE)
		return FCK_FRAME_GRE; // a bare IP packet, or what only the vendor knows
	if (fck_be16(more + 2) & ERSPAN3_SUBHEADER && fck_cursor_take(cursor, ERSPAN3_SUBHEADER_SIZE) == NULL)
		return tunnel_short_of(cursor, ERSPAN3_SUBHEADER_SIZE);
	if ((flags & ERSPAN_BAD_FRAME) == ERSPAN_BAD_FRAME)
		packet->attributes |= FCK_ATTRIBUTE(ERSPAN_BAD_FRAME);
	return take_off(packet, FCK_TUNNEL_ERSPAN3, flags & ERSPAN_SESSION, sequence, FCK_FRAME_GRE);
}

static enum fck_frame_kind take_erspan(struct fck_cursor *cursor, struct fck_packet *packet, int64_t sequence)
{
	const uint8_t *head = fck_cursor_take(cursor, ERSPAN2_SIZE);
	enum fck_frame_kind kind = FCK_FRAME_GRE;
	uint16_t flags;

	if (head == NULL)
		return tunnel_short_of(cursor, ERSPAN2_SIZE);
	flags = fck_be16(head + 2);
	if (head[0] >> 4 == ERSPAN2_VERSION)
		kind = take_off(packet, FCK_TUNNEL_ERSPAN2, flags & ERSPAN_SESSION, sequence, FCK_FRAME_GRE);
	else if (head[0] >> 4 == ERSPAN3_VERSION)
		kind = take_erspan3(cursor, packet, flags, sequence);
	if (kind == FCK_FRAME_INSIDE && flags & ERSPAN_TRUNCATED)
		packet->attributes |= FCK_ATTRIBUTE(ERSPAN_TRUNCATED);
	return kind;
}

// Does an Ethernet frame with IPv4, IPv6 or ARP begin `offset` bytes from here?
static bool frame_at(const struct fck_cursor *cursor, uint32_t offset)
{
	uint32_t type_at = offset + 12;
	const uint8_t *type;

	for (int tags = 0; tags <= 2; tags++, type_at += 4) {
		if (type_at + 2 + 6 > cursor->captured)
			return false;
		type = cursor->data + type_at;
		switch (fck_be16(type)) {
		case 0x8100:
		case 0x88a8:
			continue;
		case 0x0800: // version 4, a header of 20 bytes or more that is no longer than the packet
			return type[2] >> 4 == 4 && (type[2] & 15) >= 5 && fck_be16(type + 4) >= (type[2] & 15) * 4;
		case 0x86dd:
			return type[2] >> 4 == 6;
		case 0x0806: // Ethernet addresses for IPv4 addresses
			return fck_be32(type + 2) == 0x00010800 && fck_be16(type + 6) == 0x0604;
		default:
			return false;
		}
	}
	return false;
}

// The GRE type does not tell what comes: an ERSPAN header, a frame at once, or one behind the words of a Spectrum switch.
static enum fck_frame_kind search(struct fck_cursor *cursor, struct fck_packet *packet, const struct gre *gre)
{
	static const uint8_t offsets[] = {0, NVIDIA_SIZE};
	uint32_t size = erspan_size(cursor);

	if (size > 0 && frame_at(cursor, size))
		return take_erspan(cursor, packet, gre->sequence);
	for (unsigned i = 0; i < sizeof(offsets); i++) {
		if (!frame_at(cursor, offsets[i]))
			continue;
		fck_cursor_skip(cursor, offsets[i]);
		return take_off(packet, FCK_TUNNEL_GRE, gre->key, gre->sequence, FCK_FRAME_GRE);
	}
	return cursor->captured < cursor->wire && cursor->captured < SEARCHED ? FCK_FRAME_TRUNCATED_TUNNEL : FCK_FRAME_GRE;
}

static bool searched_type(const struct fck_config *config, uint16_t type)
{
	if (type == GRE_NVIDIA)
		return true;
	for (int i = 0; i < FCK_GRE_TYPES; i++)
		if (config->gre_types[i] == type && type != 0)
			return true;
	return false;
}

enum fck_frame_kind fck_parse_gre(struct fck_cursor *cursor, const struct fck_config *config, struct fck_packet *packet)
{
	struct gre gre;
	enum fck_frame_kind kind = take_gre(cursor, &gre);

	if (kind != FCK_FRAME_INSIDE)
		return kind;
	switch (gre.type) {
	case GRE_ETHERNET:
		return take_off(packet, FCK_TUNNEL_GRE, gre.key, gre.sequence, FCK_FRAME_GRE);
	case GRE_ERSPAN:
		if (gre.sequence < 0)
			return take_off(packet, FCK_TUNNEL_ERSPAN1, gre.key, -1, FCK_FRAME_GRE);
		return take_erspan(cursor, packet, gre.sequence);
	case GRE_ERSPAN3:
		return take_erspan(cursor, packet, gre.sequence);
	default:
		return searched_type(config, gre.type) ? search(cursor, packet, &gre) : FCK_FRAME_GRE;
	}
}

enum fck_frame_kind fck_parse_vxlan(struct fck_cursor *cursor, struct fck_packet *packet)
{
	const uint8_t *vxlan = fck_cursor_take(cursor, VXLAN_SIZE);

	if (vxlan == NULL)
		return tunnel_short_of(cursor, VXLAN_SIZE);
	if (!(vxlan[0] & VXLAN_HAS_NETWORK))
		return FCK_FRAME_UDP_OTHER;
	return take_off(packet, FCK_TUNNEL_VXLAN, fck_be24(vxlan + 4), -1, FCK_FRAME_UDP_OTHER);
}
