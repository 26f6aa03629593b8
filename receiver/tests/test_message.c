// SPDX-License-Identifier: Apache-2.0
//
// Messages through the public functions: by hand, then many random streams with loss, disorder and truncation against a
// naive reader that goes through all packets in PSN order.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#define MTU 1024

static void write_part(struct fck_core *core, uint8_t opcode, uint32_t psn, uint32_t payload, uint32_t length, uint32_t imm)
{
	struct wish wish = {
		.opcode = opcode, .psn = psn, .payload = payload, .reth_length = length, .immediate = imm, .ll_flag = 9,
		.icrc = 0xf0000000 + psn,
	};

	core_feed(core, 1000 + psn, &wish);
}

TEST(test_complete_message)
{
	struct fck_core *core = core_make();
	const struct fck_message *message;
	struct fck_flow flow;

	write_part(core, OP_WRITE_FIRST, 0xffffff, MTU, 2100, 0);
	write_part(core, OP_WRITE_MIDDLE, 0, MTU, 0, 0);
	write_part(core, OP_WRITE_LAST_IMM, 1, 52, 0, 2100);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 1);
	message = &flow.messages[0];
	assert_int_equal(message->position, 0xffffff);
	assert_int_equal(message->first_psn, 0xffffff);
	assert_int_equal(message->bytes, 2100);
	assert_int_equal(message->packets, 3);
	assert_int_equal(message->expected_packets, 3);
	assert_int_equal(message->immediate, 2100);
	assert_int_equal(message->opcode, OP_WRITE_FIRST);
	assert_int_equal(message->ll_flag, 9);
	assert_int_equal(message->icrc_sum, INT64_C(0x2d1000000)); // 3 * 0xf0000000 + 0xffffff + 0 + 1
	assert_int_equal(message->first_time, 1001);
	assert_int_equal(message->last_time, 1000 + 0xffffff);
	assert_int_equal(flow.missing_count, 0);
	assert_int_equal(flow.bytes, 2100);
	assert_int_equal(flow.mtu, MTU);
	fck_free(core);
}

TEST(test_empty_message_and_clear_to_send)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_ONLY_IMM, 7, 0, 0, 0);
	write_part(core, OP_WRITE_ONLY, 8, 32, 32, 0);
	write_part(core, OP_WRITE_ONLY, 9, 64, 64, 0);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 1);
	assert_int_equal(flow.messages[0].bytes, 0);
	assert_int_equal(flow.messages[0].packets, 1);
	assert_int_equal(flow.messages[0].expected_packets, 1);
	assert_int_equal(flow.messages[0].immediate, 0);
	assert_int_equal(flow.packets[FCK_CLASS_WRITE], 1);
	assert_int_equal(flow.packets[FCK_CLASS_CLEAR_TO_SEND], 2);
	assert_int_equal(flow.seen_count, 1); // but their PSNs count
	assert_int_equal(flow.missing_count, 0);
	fck_free(core);
}

// As in samples/captures/iter_80000.pcapng, QP 0xc99: PSN 41-61 and 77 of a message of 39 040 bytes.
TEST(test_loss_inside_and_after_the_capture)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_FIRST, 41, MTU, 39040, 0);
	for (uint32_t psn = 42; psn <= 61; psn++)
		write_part(core, OP_WRITE_MIDDLE, psn, MTU, 0, 0);
	write_part(core, OP_WRITE_MIDDLE, 77, MTU, 0, 0);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 1);
	assert_int_equal(flow.messages[0].packets, 22);
	assert_int_equal(flow.messages[0].expected_packets, 39); // ceil(39040 / 1024)
	assert_int_equal(flow.messages[0].immediate, -1);
	assert_int_equal(flow.missing_count, 2);
	assert_int_equal(flow.missing[0].cause, FCK_CAUSE_LOST);
	assert_int_equal(flow.missing[0].first_psn, 62);
	assert_int_equal(flow.missing[0].last_psn, 76);
	assert_int_equal(flow.missing[1].cause, FCK_CAUSE_CAPTURE_END);
	assert_int_equal(flow.missing[1].first_psn, 78);
	assert_int_equal(flow.missing[1].last_psn, 79);
	fck_free(core);
}

TEST(test_capture_starts_inside_a_message)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_MIDDLE, 0, MTU, 0, 0);
	write_part(core, OP_WRITE_LAST_IMM, 1, 52, 0, 2100);
	write_part(core, OP_WRITE_ONLY_IMM, 2, 16, 16, 16);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 2);
	assert_int_equal(flow.messages[0].bytes, -1);
	assert_int_equal(flow.messages[0].expected_packets, -1);
	assert_int_equal(flow.messages[0].packets, 2);
	assert_int_equal(flow.messages[0].immediate, 2100);
	assert_int_equal(flow.messages[0].opcode, OP_WRITE_MIDDLE);
	assert_int_equal(flow.missing_count, 1);
	assert_int_equal(flow.missing[0].cause, FCK_CAUSE_CAPTURE_START);
	assert_int_equal(flow.missing[0].position, -1);
	assert_int_equal(flow.missing[0].first_psn, 0xffffff);
	assert_int_equal(flow.missing[0].packets, 1);
	fck_free(core);
}

// Without its First the length is unknown; that a Last must come is not.
TEST(test_capture_ends_inside_a_message_of_unknown_length)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_MIDDLE, 5, MTU, 0, 0);
	flow = core_flow(core);
	assert_int_equal(flow.missing_count, 2);
	assert_int_equal(flow.missing[0].cause, FCK_CAUSE_CAPTURE_START);
	assert_int_equal(flow.missing[1].cause, FCK_CAUSE_CAPTURE_END);
	assert_int_equal(flow.missing[1].first_psn, 6);
	assert_int_equal(flow.missing[1].packets, 1);
	fck_free(core);
}

TEST(test_first_comes_late)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_ONLY_IMM, 9, 16, 16, 16);
	write_part(core, OP_WRITE_LAST_IMM, 12, 52, 0, 2100);
	write_part(core, OP_WRITE_MIDDLE, 11, MTU, 0, 0);
	write_part(core, OP_WRITE_FIRST, 10, MTU, 2100, 0);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 2);
	assert_int_equal(flow.messages[1].position, 10);
	assert_int_equal(flow.messages[1].packets, 3);
	assert_int_equal(flow.messages[1].immediate, 2100);
	assert_int_equal(flow.messages[1].opcode, OP_WRITE_FIRST);
	fck_free(core);
}

TEST(test_retransmitted_packets_count_once)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_FIRST, 10, MTU, 3 * MTU, 0);
	write_part(core, OP_WRITE_LAST, 12, MTU, 0, 0);
	write_part(core, OP_WRITE_FIRST, 10, MTU, 3 * MTU, 0);
	write_part(core, OP_WRITE_MIDDLE, 11, MTU, 0, 0);
	write_part(core, OP_WRITE_LAST, 12, MTU, 0, 0);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 1);
	assert_int_equal(flow.messages[0].packets, 3);
	assert_int_equal(flow.retransmitted, 2);
	assert_int_equal(flow.bytes, 3 * MTU);
	fck_free(core);
}

// A RETH length that what follows contradicts: the later message wins its place.
TEST(test_message_inside_the_length_of_another)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	write_part(core, OP_WRITE_FIRST, 10, MTU, 10 * MTU, 0);
	write_part(core, OP_WRITE_MIDDLE, 15, MTU, 0, 0);
	write_part(core, OP_WRITE_ONLY_IMM, 12, 16, 16, 16);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 3);
	assert_int_equal(flow.messages[0].packets, 1);
	assert_int_equal(flow.messages[0].expected_packets, 10);
	assert_int_equal(flow.messages[1].position, 12);
	assert_int_equal(flow.messages[1].packets, 1);
	assert_int_equal(flow.messages[2].position, 15);
	assert_int_equal(flow.messages[2].bytes, -1);
	assert_int_equal(flow.messages[2].expected_packets, -1);
	assert_int_equal(flow.messages[2].opcode, OP_WRITE_MIDDLE);
	fck_free(core);
}

// ---- the naive reader

#define PACKETS 300

enum kind { KIND_WRITE, KIND_SEND, KIND_CLEAR_TO_SEND };

struct sent {
	struct wish wish;
	enum kind kind;
	bool first;
	bool last;
	bool cut; // captured up to the BTH only
	bool lost;
	int64_t position;
};

struct expected {
	int64_t position, bytes, packets, expected_packets, immediate, end, icrc_sum;
	uint8_t opcode;
	enum kind kind;
};

static uint32_t make_message(struct sent *sent, uint32_t room, uint64_t *seed)
{
	uint32_t packets = draw(seed, 3) == 0 ? 1 : 1 + draw(seed, 8);
	enum kind kind = draw(seed, 4) == 0 ? KIND_SEND : draw(seed, 5) == 0 ? KIND_CLEAR_TO_SEND : KIND_WRITE;
	bool immediate = draw(seed, 2) && kind == KIND_WRITE;
	uint32_t rest = 100 + draw(seed, MTU - 100), length;

	packets = kind == KIND_CLEAR_TO_SEND ? 1 : packets > room ? room : packets;
	length = kind == KIND_CLEAR_TO_SEND ? 32 : (packets - 1) * MTU + rest;
	for (uint32_t i = 0; i < packets; i++) {
		bool first = i == 0, last = i + 1 == packets;
		uint8_t opcode = first && last ? 4 : first ? 0 : last ? 2 : 1;

		if (kind != KIND_SEND)
			opcode += 6;
		sent[i] = (struct sent){.kind = kind, .first = first, .last = last, .lost = draw(seed, 4) == 0};
		sent[i].wish = (struct wish){
			.opcode = opcode + (last && immediate),
			.payload = last ? length - i * MTU : MTU,
			.reth_length = length,
			.immediate = draw(seed, 100000),
			.icrc = draw(seed, UINT32_MAX),
		};
		sent[i].cut = draw(seed, 6) == 0;
		if (sent[i].cut && kind == KIND_CLEAR_TO_SEND)
			sent[i].kind = KIND_WRITE; // its length was not captured: a write like any other
	}
	return packets;
}

static bool has_imm(const struct sent *sent)
{
	return !sent->cut && (sent->wish.opcode == OP_WRITE_LAST_IMM || sent->wish.opcode == OP_WRITE_ONLY_IMM);
}

// Goes through the packets in order; a piece takes what follows until its known end or the next piece.
static uint32_t read_in_order(const struct sent *sent, uint32_t count, struct expected *out)
{
	struct expected *piece = NULL;
	uint32_t pieces = 0;

	for (const struct sent *packet = sent; packet < sent + count; packet++) {
		bool covered = piece != NULL && piece->kind == packet->kind &&
			       (piece->end == INT64_MAX || packet->position <= piece->end);

		if (packet->lost)
			continue;
		if (packet->first || !covered) {
			piece = &out[pieces++];
			*piece = (struct expected){packet->position, -1, 0, -1, -1, INT64_MAX, 0, packet->wish.opcode, packet->kind};
		}
		piece->packets++;
		piece->icrc_sum = packet->cut || piece->icrc_sum < 0 ? -1 : piece->icrc_sum + packet->wish.icrc;
		if (packet->first && packet->kind != KIND_SEND && !packet->cut) {
			piece->bytes = packet->wish.reth_length;
			piece->expected_packets = (piece->bytes + MTU - 1) / MTU;
			piece->end = piece->position + piece->expected_packets - 1;
		}
		if (packet->first && packet->last)
			piece->expected_packets = 1;
		if (packet->last)
			piece->end = packet->position;
		if (has_imm(packet))
			piece->immediate = packet->wish.immediate;
	}
	return pieces;
}

static void feed_sent(struct fck_core *core, const struct sent *sent)
{
	struct frame frame;
	uint32_t captured;

	if (sent->lost)
		return;
	frame_make(&frame, &sent->wish);
	captured = sent->cut ? frame.bth + 12 : frame.size;
	assert_int_equal(fck_frame(core, 0, 5, frame.data, captured, frame.size), 0);
}

static void shuffle(struct sent *sent, uint32_t count, uint32_t reach, uint64_t *seed)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + draw(seed, reach);
		struct sent kept = sent[i];

		if (other >= count)
			continue;
		sent[i] = sent[other];
		sent[other] = kept;
	}
}

static void compare(const struct fck_flow *flow, const struct expected *expected, uint32_t count, uint64_t *known)
{
	uint64_t at = 0;

	for (const struct expected *wanted = expected; wanted < expected + count; wanted++) {
		const struct fck_message *found = &flow->messages[at];

		if (wanted->kind != KIND_WRITE)
			continue;
		assert_true(at++ < flow->messages_count);
		assert_int_equal(found->position, wanted->position);
		assert_int_equal(found->bytes, wanted->bytes);
		assert_int_equal(found->packets, wanted->packets);
		assert_int_equal(found->expected_packets, wanted->expected_packets);
		assert_int_equal(found->immediate, wanted->immediate);
		assert_int_equal(found->opcode, wanted->opcode);
		assert_true(found->icrc_sum == wanted->icrc_sum || found->icrc_sum == -1);
		*known += found->icrc_sum >= 0;
	}
	assert_int_equal(at, flow->messages_count);
}

TEST(test_against_naive_reader)
{
	static struct sent sent[PACKETS];
	static struct expected expected[PACKETS];
	uint64_t known = 0;

	for (uint64_t round = 0; round < 400; round++) {
		uint64_t seed = round * 104729 + 3;
		uint32_t start = draw(&seed, 1000) + 0xffffff - 500, reach = 1 + draw(&seed, round % 2 ? 4 : PACKETS);
		struct fck_core *core = core_make();
		int64_t first_position;
		struct fck_flow flow;
		uint32_t pieces;

		for (uint32_t count = 0; count < PACKETS;)
			count += make_message(sent + count, PACKETS - count, &seed);
		for (uint32_t i = 0; i < PACKETS; i++) {
			sent[i].position = start + i;
			sent[i].wish.psn = (start + i) & 0xffffff;
		}
		pieces = read_in_order(sent, PACKETS, expected);
		shuffle(sent, PACKETS, reach, &seed);
		for (first_position = 0; sent[first_position].lost; first_position++)
			;
		first_position = sent[first_position].position; // the flow's positions start from its PSN
		for (uint32_t i = 0; i < pieces; i++)
			expected[i].position -= first_position & ~INT64_C(0xffffff);
		for (uint32_t i = 0; i < PACKETS; i++)
			feed_sent(core, &sent[i]);
		flow = core_flow(core);
		compare(&flow, expected, pieces, &known);
		fck_free(core);
	}
	assert_in_range(known, 4000, 40000); // sums that survived the disorder; never a wrong one
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_complete_message),
		cmocka_unit_test(test_empty_message_and_clear_to_send),
		cmocka_unit_test(test_loss_inside_and_after_the_capture),
		cmocka_unit_test(test_capture_starts_inside_a_message),
		cmocka_unit_test(test_capture_ends_inside_a_message_of_unknown_length),
		cmocka_unit_test(test_first_comes_late),
		cmocka_unit_test(test_retransmitted_packets_count_once),
		cmocka_unit_test(test_message_inside_the_length_of_another),
		cmocka_unit_test(test_against_naive_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
