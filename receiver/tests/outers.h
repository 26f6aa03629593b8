// SPDX-License-Identifier: Apache-2.0
//
// Builds frames inside tunnels for the tests.
#ifndef FCK_TEST_OUTERS_H
#define FCK_TEST_OUTERS_H

#include "frames.h"

#define OUTER_ROOM 8192
#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

struct buffer {
	uint8_t data[OUTER_ROOM];
	uint32_t size;
};

struct row {
	const char *what;
	const uint8_t *header;
	uint32_t size;
	enum fck_tunnel_kind kind;
	int64_t session;
	int64_t sequence;
	uint32_t attributes; // beside the kind's own
};

// With GRE types that the user set: 0x4321 and 0x1234.
extern const struct fck_config user_set;
// Two inner packets: IPv4 with a tag and an FCS, and the longer IPv6.
extern const struct wish inners[2];

void append(struct buffer *buffer, const uint8_t *bytes, uint32_t size);
// Outer Ethernet and IP header for `payload` bytes; IPv4 has four bytes of options when `options`.
void append_ip(struct buffer *buffer, int family, bool options, uint8_t protocol, uint32_t payload);
// The frame of a row around `inner`, with FCS of the inner and padding of the outer frame.
void wrap(struct buffer *buffer, const struct row *row, int family, const struct frame *inner);

#endif
