// SPDX-License-Identifier: Apache-2.0
//
// Builds RoCEv2 frames for the tests, and holds what cmocka wants included before itself.
#ifndef FCK_TEST_FRAMES_H
#define FCK_TEST_FRAMES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fck.h"
#include "packet.h"

#define TEST(name) static void name(void **state __attribute__((unused)))
#define FRAME_ROOM 4400

// Opcodes of the reliable connection, from the IBA's table, written out apart from the library's own.
enum {
	OP_SEND_FIRST = 0,
	OP_SEND_MIDDLE = 1,
	OP_SEND_LAST = 2,
	OP_SEND_ONLY = 4,
	OP_WRITE_FIRST = 6,
	OP_WRITE_MIDDLE = 7,
	OP_WRITE_LAST = 8,
	OP_WRITE_LAST_IMM = 9,
	OP_WRITE_ONLY = 10,
	OP_WRITE_ONLY_IMM = 11,
	OP_READ_REQUEST = 12,
	OP_READ_RESPONSE_MIDDLE = 14,
	OP_ACK = 17,
	OP_ATOMIC_ACK = 18,
	OP_FETCH_ADD = 20,
};

// What a test wants to say; all zero is an ordinary IPv6 packet.
struct wish {
	uint8_t opcode;
	uint32_t psn;
	uint32_t dest_qp;     // 0: 0x11
	uint32_t payload;     // bytes of it
	uint32_t reth_length;
	uint32_t immediate;   // little-endian on the wire
	uint8_t syndrome;
	uint32_t icrc;
	uint16_t source_port; // 0: 49152
	uint8_t ttl;          // 0: 64
	int vlan_tags;
	bool ipv4;
	uint32_t tail;        // bytes behind the IP packet: padding, FCS
	uint32_t ll_flag;     // 0: payload of zeros
};

struct frame {
	uint8_t data[FRAME_ROOM];
	uint32_t size;
	uint32_t bth;     // offset of the BTH
	uint32_t ip_end;  // offset behind the ICRC
};

void frame_make(struct frame *frame, const struct wish *wish);

// fck_parse() of memory of exactly this size, so that one byte too many read is seen by the address sanitizer. It lives until the
// next call.
enum fck_frame_kind parse_exact(
	const struct fck_config *config, const uint8_t *data, uint32_t captured, uint32_t original, struct fck_packet *packet
);

// A core with one capture, index 0.
struct fck_core *core_make(void);
// Hands a whole frame over, from memory of exactly its size. Fails the test on an error.
void core_feed(struct fck_core *core, uint64_t time_ns, const struct wish *wish);
// The only flow, after fck_finish().
struct fck_flow core_flow(struct fck_core *core);

// Feeds packets one after the other, `step` apart.
struct feeder {
	struct fck_core *core;
	uint64_t now;
	uint64_t step;
};

#define US 1000u
#define MS 1000000u
#define FEED(feeder, ...) \
	feed_all(feeder, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

struct feeder feeder_make(void);
// A whole write of 100 bytes.
void feeder_feed(struct feeder *feeder, uint32_t psn);
void feed_all(struct feeder *feeder, const uint32_t *psns, size_t count);

// A small generator of our own, so that a seed means the same everywhere.
uint32_t draw(uint64_t *state, uint32_t below);

#endif
