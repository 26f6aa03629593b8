// SPDX-License-Identifier: Apache-2.0
//
// From what was kept packet by packet to what is handed out.
#include <errno.h>
#include <stdlib.h>

#include "flow.h"

static uint32_t psn_of(int64_t position)
{
	return (uint32_t)((uint64_t)position & FCK_PSN_MASK);
}

static struct fck_missing missing_between(int64_t first, int64_t last, enum fck_cause cause)
{
	return (struct fck_missing){
		.position = first,
		.packets = (uint64_t)(last - first) + 1,
		.first_psn = psn_of(first),
		.last_psn = psn_of(last),
		.cause = cause,
	};
}

// The first packet seen is no First or Only: at least one packet was sent before it.
static bool began_before(const struct fck_pieces *pieces)
{
	return pieces->count > 0 && !pieces->items[0].headed;
}

// Packets that the last message still lacks: by its length, or one where only the missing Last is certain.
static uint64_t still_to_come(const struct fck_flow_state *flow)
{
	const struct fck_piece *piece;

	if (flow->pieces.count == 0)
		return 0;
	piece = &flow->pieces.items[flow->pieces.count - 1];
	if (piece->end == FCK_OPEN)
		return 1;
	return piece->end > flow->sequence.highest ? (uint64_t)(piece->end - flow->sequence.highest) : 0;
}

static int make_missing(struct fck_flow_state *flow)
{
	const struct fck_ranges *seen = &flow->sequence.seen;
	uint64_t to_come = still_to_come(flow), count = 0;
	struct fck_missing *missing;

	if (seen->count == 0)
		return 0;
	missing = calloc(seen->count + 1, sizeof(*missing)); // holes are one less than ranges, and both ends
	if (missing == NULL)
		return -ENOMEM;
	if (began_before(&flow->pieces)) {
		int64_t before = seen->items[0].first - 1;

		missing[count++] = missing_between(before, before, FCK_CAUSE_CAPTURE_START);
	}
	for (uint64_t i = 1; i < seen->count; i++)
		missing[count++] =
			missing_between(seen->items[i - 1].last + 1, seen->items[i].first - 1, FCK_CAUSE_LOST);
	if (to_come > 0) {
		int64_t next = flow->sequence.highest + 1;

		missing[count++] = missing_between(next, next + (int64_t)to_come - 1, FCK_CAUSE_CAPTURE_END);
	}
	flow->results.missing = missing;
	flow->results.missing_count = count;
	return 0;
}

static int make_gaps(struct fck_flow_state *flow)
{
	const struct fck_ranges *jumps = &flow->sequence.jumps;
	struct fck_gap *gaps;

	if (jumps->count == 0)
		return 0;
	gaps = calloc(jumps->count, sizeof(*gaps));
	if (gaps == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < jumps->count; i++) {
		int64_t first = jumps->items[i].first, last = jumps->items[i].last;

		gaps[i] = (struct fck_gap){
			.position = first,
			.packets = (uint64_t)(last - first) + 1,
			.filled = fck_ranges_covered(&flow->sequence.seen, first, last),
			.first_psn = psn_of(first),
			.last_psn = psn_of(last),
		};
	}
	flow->results.gaps = gaps;
	flow->results.gaps_count = jumps->count;
	return 0;
}

struct fck_message fck_message_of(const struct fck_flow_state *flow, uint64_t at, uint64_t packets)
{
	const struct fck_piece *piece = &flow->pieces.items[at];

	return (struct fck_message){
		.position = piece->start,
		.bytes = piece->bytes,
		.packets = packets,
		.expected_packets = piece->expected,
		.immediate = piece->immediate,
		.ll_flag = piece->ll_flag,
		.icrc_sum = piece->icrc_sum,
		.first_time = piece->first_time,
		.last_time = piece->last_time,
		.first_psn = psn_of(piece->start),
		.opcode = piece->opcode,
	};
}

// How many packets were seen of the piece at index `at`.
static uint64_t packets_of(const struct fck_flow_state *flow, uint64_t at)
{
	const struct fck_piece *piece = &flow->pieces.items[at];
	int64_t last = piece->end == FCK_OPEN ? piece->last : piece->end;

	if (at + 1 < flow->pieces.count && last >= piece[1].start)
		last = piece[1].start - 1; // the RETH length contradicts what follows
	return fck_ranges_covered(&flow->sequence.seen, piece->start, last);
}

static int make_messages(struct fck_flow_state *flow)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < flow->pieces.count; i++)
		count += flow->pieces.items[i].packet_class == FCK_CLASS_WRITE;
	if (count == 0)
		return 0;
	flow->results.messages = calloc(count, sizeof(*flow->results.messages));
	if (flow->results.messages == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < flow->pieces.count; i++)
		if (flow->pieces.items[i].packet_class == FCK_CLASS_WRITE)
			flow->results.messages[flow->results.messages_count++] = fck_message_of(flow, i, packets_of(flow, i));
	return 0;
}

void fck_results_free(struct fck_results *results)
{
	free(results->missing);
	free(results->gaps);
	free(results->messages);
	*results = (struct fck_results){0};
}

int fck_results_make(struct fck_flow_state *flow)
{
	int rc;

	fck_flow_settle(flow);
	fck_results_free(&flow->results);
	rc = make_missing(flow);
	if (rc == 0)
		rc = make_gaps(flow);
	if (rc == 0)
		rc = make_messages(flow);
	if (rc != 0)
		fck_results_free(&flow->results);
	return rc;
}
