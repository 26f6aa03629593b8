// SPDX-License-Identifier: Apache-2.0
//
// Are two cores the same in all that they tell? For the tests and the fuzz target that hold the short ways of counting
// against the long one. Aborts where they are not.
#ifndef FCK_TEST_SAME_H
#define FCK_TEST_SAME_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fck.h"

static inline void same_require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "the cores differ: %s\n", what);
	abort();
}

#define SAME(condition) same_require(condition, #condition)
#define SAME_ARRAY(a, b, field)                                                                                          \
	SAME((a)->field##_count == (b)->field##_count &&                                                                 \
	     ((a)->field##_count == 0 || memcmp((a)->field, (b)->field, (a)->field##_count * sizeof(*(a)->field)) == 0))

static inline void same_captures(const struct fck_core *a, const struct fck_core *b)
{
	SAME(fck_capture_count(a) == fck_capture_count(b));
	for (uint32_t i = 0; i < fck_capture_count(a); i++) {
		struct fck_capture left, right;

		SAME(fck_capture_get(a, i, &left) == 0 && fck_capture_get(b, i, &right) == 0);
		left.name = right.name = NULL;
		SAME(memcmp(&left, &right, sizeof(left)) == 0);
	}
}

static inline void same_tunnels(const struct fck_core *a, const struct fck_core *b)
{
	SAME(fck_tunnel_count(a) == fck_tunnel_count(b));
	for (uint32_t i = 0; i < fck_tunnel_count(a); i++) {
		struct fck_tunnel left, right;

		SAME(fck_tunnel_get(a, i, &left) == 0 && fck_tunnel_get(b, i, &right) == 0);
		SAME(memcmp(left.source, right.source, sizeof(left.source)) == 0 && left.kind == right.kind);
		SAME(left.capture == right.capture && left.family == right.family && left.session == right.session);
		SAME(left.packets == right.packets && left.sequence_gaps == right.sequence_gaps);
	}
}

static inline void same_message(const struct fck_message *a, const struct fck_message *b)
{
	SAME(a->position == b->position && a->bytes == b->bytes && a->packets == b->packets);
	SAME(a->expected_packets == b->expected_packets && a->immediate == b->immediate && a->ll_flag == b->ll_flag);
	SAME(a->icrc_sum == b->icrc_sum && a->first_time == b->first_time && a->last_time == b->last_time);
	SAME(a->first_psn == b->first_psn && a->opcode == b->opcode);
}

// The scalars, which fck_flow_peek() tells at any time.
static inline void same_counters(const struct fck_flow *a, const struct fck_flow *b)
{
	SAME(a->capture == b->capture && a->family == b->family && a->dest_qp == b->dest_qp && a->mtu == b->mtu);
	SAME(memcmp(a->source, b->source, 16) == 0 && memcmp(a->destination, b->destination, 16) == 0);
	SAME(memcmp(a->packets, b->packets, sizeof(a->packets)) == 0);
	SAME(a->truncated == b->truncated && a->bytes == b->bytes);
	SAME(a->retransmitted == b->retransmitted && a->duplicated == b->duplicated && a->reordered == b->reordered);
}

static inline void same_flows(const struct fck_core *a, const struct fck_core *b, int finished)
{
	SAME(fck_flow_count(a) == fck_flow_count(b));
	for (uint32_t i = 0; i < fck_flow_count(a); i++) {
		struct fck_flow left, right;

		SAME((finished ? fck_flow_get : fck_flow_peek)(a, i, &left) == 0);
		SAME((finished ? fck_flow_get : fck_flow_peek)(b, i, &right) == 0);
		same_counters(&left, &right);
		SAME_ARRAY(&left, &right, seen);
		SAME_ARRAY(&left, &right, repeats);
		SAME(left.missing_count == right.missing_count && left.gaps_count == right.gaps_count);
		for (uint64_t at = 0; at < left.missing_count; at++)
			SAME(left.missing[at].position == right.missing[at].position &&
			     left.missing[at].packets == right.missing[at].packets &&
			     left.missing[at].cause == right.missing[at].cause);
		for (uint64_t at = 0; at < left.gaps_count; at++)
			SAME(left.gaps[at].position == right.gaps[at].position &&
			     left.gaps[at].packets == right.gaps[at].packets &&
			     left.gaps[at].filled == right.gaps[at].filled);
		SAME(left.messages_count == right.messages_count);
		for (uint64_t at = 0; at < left.messages_count; at++)
			same_message(&left.messages[at], &right.messages[at]);
	}
}

// All of it, while frames still come.
static inline void same_so_far(const struct fck_core *a, const struct fck_core *b)
{
	same_captures(a, b);
	same_tunnels(a, b);
	same_flows(a, b, 0);
}

static inline void same_at_the_end(struct fck_core *a, struct fck_core *b)
{
	SAME(fck_finish(a) == 0 && fck_finish(b) == 0);
	same_captures(a, b);
	same_tunnels(a, b);
	same_flows(a, b, 1);
}

#endif
