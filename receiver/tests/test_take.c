// SPDX-License-Identifier: Apache-2.0
//
// Messages taken out while packets go on coming: two flows see the same random packets (loss, repetition, disorder, reads,
// unknown lengths), one is never asked, of the other messages are taken at random moments. What was taken and what is left must
// be what the first one has, and all the rest the same.
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "flow.h"

#define PACKETS 400
#define WINDOW 1000000
#define MTU 1024

static struct fck_packet packet_of(uint8_t opcode, uint32_t psn, uint32_t length, uint64_t *seed)
{
	struct fck_packet packet = {.opcode = opcode, .psn = psn & FCK_PSN_MASK, .length = length, .immediate = -1};

	packet.info = *fck_opcode_lookup(opcode);
	packet.has_icrc = draw(seed, 50) != 0;
	packet.icrc = draw(seed, UINT32_MAX);
	if (packet.info.immediate)
		packet.immediate = draw(seed, 1000);
	return packet;
}

// One message at `packets`; returns how many packets it has. A read uses three PSNs and is one packet.
static uint32_t make_message(struct fck_packet *packets, uint32_t room, uint32_t *psn, uint64_t *seed)
{
	uint32_t kind = draw(seed, 8), count = kind == 0 || draw(seed, 3) == 0 ? 1 : 1 + draw(seed, 6);
	uint8_t base = kind == 1 ? 0 : 6; // some are sends

	if (kind == 0) {
		packets[0] = packet_of(OP_READ_REQUEST, *psn, 0, seed);
		packets[0].has_reth = true;
		packets[0].reth_length = 3 * MTU;
		*psn += 3;
		return 1;
	}
	count = count > room ? room : count;
	for (uint32_t i = 0; i < count; i++) {
		bool last = i + 1 == count;
		uint8_t part = count == 1 ? 4 : i == 0 ? 0 : last ? 2 : 1;

		part += last && base == 6 && draw(seed, 2); // with immediate
		packets[i] = packet_of(base + part, (*psn)++, last ? 100 : MTU, seed);
		packets[i].has_reth = packets[i].info.reth && draw(seed, 10) != 0; // else not captured
		if (packets[i].has_reth)
			packets[i].reth_length = (count - 1) * MTU + 100;
	}
	return count;
}

// Packets in sending order, then some lost, some twice, places exchanged.
static uint32_t make_stream(struct fck_packet *stream, uint64_t *seed)
{
	static struct fck_packet sent[PACKETS];
	uint32_t psn = draw(seed, 2) ? 0xffffff - draw(seed, 200) : draw(seed, 1000), total = 0, count = 0;
	uint32_t loss = draw(seed, 2) ? 8 : 40, reach = 1 + draw(seed, draw(seed, 2) ? 4 : 60);

	while (total < PACKETS)
		total += make_message(sent + total, PACKETS - total, &psn, seed);
	for (uint32_t i = 0; i < total; i++) {
		if (draw(seed, loss) != 0)
			stream[count++] = sent[i];
		if (draw(seed, 10) == 0) // anything of a moment ago once more: repeats, and late fills
			stream[count++] = sent[i - draw(seed, i < 30 ? i + 1 : 30)];
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + draw(seed, reach);
		struct fck_packet kept = stream[i];

		if (other < count) {
			stream[i] = stream[other];
			stream[other] = kept;
		}
	}
	return count;
}

static int by_position(const void *a, const void *b)
{
	int64_t left = ((const struct fck_message *)a)->position, right = ((const struct fck_message *)b)->position;

	return left < right ? -1 : left > right;
}

static void assert_equal_arrays(const void *a, uint64_t a_count, const void *b, uint64_t b_count, size_t size)
{
	assert_int_equal(a_count, b_count);
	if (a_count > 0)
		assert_memory_equal(a, b, a_count * size);
}

static void assert_same_flow(const struct fck_flow_state *whole, const struct fck_flow_state *taken)
{
	const struct fck_sequence *a = &whole->sequence, *b = &taken->sequence;

	assert_equal_arrays(a->seen.items, a->seen.count, b->seen.items, b->seen.count, sizeof(struct fck_range));
	assert_equal_arrays(a->jumps.items, a->jumps.count, b->jumps.items, b->jumps.count, sizeof(struct fck_range));
	assert_equal_arrays(a->repeats, a->repeats_count, b->repeats, b->repeats_count, sizeof(struct fck_repeat));
	assert_int_equal(whole->results.missing_count, taken->results.missing_count);
	for (uint64_t i = 0; i < whole->results.missing_count; i++) {
		assert_int_equal(whole->results.missing[i].position, taken->results.missing[i].position);
		assert_int_equal(whole->results.missing[i].packets, taken->results.missing[i].packets);
		assert_int_equal(whole->results.missing[i].cause, taken->results.missing[i].cause);
	}
	assert_int_equal(a->tally.retransmitted, b->tally.retransmitted);
	assert_int_equal(a->tally.duplicated, b->tally.duplicated);
	assert_int_equal(a->tally.reordered, b->tally.reordered);
	assert_int_equal(whole->bytes, taken->bytes);
}

static void flow_clear(struct fck_flow_state *flow)
{
	fck_sequence_free(&flow->sequence);
	free(flow->pieces.items);
	fck_results_free(&flow->results);
}

TEST(test_taking_changes_nothing)
{
	static struct fck_packet stream[2 * PACKETS];
	static struct fck_message messages[2 * PACKETS];
	uint64_t total = 0, early = 0;

	for (uint64_t round = 0; round < 600; round++) {
		struct fck_flow_state whole = {0}, taken = {0};
		uint64_t seed = round * 15485863 + 7, found = 0, often = 1 + draw(&seed, 40);
		uint32_t count = make_stream(stream, &seed);

		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(fck_flow_packet(&whole, &stream[i], i * UINT64_C(1000), WINDOW), 0);
			assert_int_equal(fck_flow_packet(&taken, &stream[i], i * UINT64_C(1000), WINDOW), 0);
			if (draw(&seed, (uint32_t)often) == 0)
				found += fck_messages_take(&taken, messages + found, draw(&seed, 9));
		}
		assert_int_equal(fck_results_make(&whole), 0);
		assert_int_equal(fck_results_make(&taken), 0);
		assert_same_flow(&whole, &taken);
		early += found;
		if (taken.results.messages_count > 0)
			memcpy(messages + found, taken.results.messages, taken.results.messages_count * sizeof(*messages));
		found += taken.results.messages_count;
		qsort(messages, found, sizeof(*messages), by_position);
		assert_equal_arrays(
			whole.results.messages, whole.results.messages_count, messages, found, sizeof(*messages)
		);
		total += found;
		flow_clear(&whole);
		flow_clear(&taken);
	}
	assert_in_range(early, total / 3, total - 1); // both ways were tried
}

// Every packet once and in order, then with every 50th lost: how many pieces are kept at most.
static uint64_t most_pieces(uint32_t packets, uint32_t loss)
{
	static struct fck_message messages[64];
	struct fck_flow_state flow = {0};
	uint64_t seed = 5, most = 0;

	for (uint32_t i = 0; i < packets; i++) {
		static const uint8_t opcodes[] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST};
		struct fck_packet packet = packet_of(opcodes[i % 4], i, MTU, &seed);

		packet.has_reth = i % 4 == 0;
		packet.reth_length = 4 * MTU;
		if (loss == 0 || i % loss != loss - 1)
			assert_int_equal(fck_flow_packet(&flow, &packet, i, WINDOW), 0);
		if (i % 100 == 0)
			while (fck_messages_take(&flow, messages, 64) == 64)
				;
		most = flow.pieces.room > most ? flow.pieces.room : most;
	}
	flow_clear(&flow);
	return most;
}

TEST(test_memory_grows_with_losses_only)
{
	assert_in_range(most_pieces(1000, 0), 1, 256);
	assert_int_equal(most_pieces(400000, 0), most_pieces(10000, 0));
	// 2 000 losses: 2 000 messages unfinished and as many places between them, and room for what came since.
	assert_in_range(most_pieces(100000, 50), 4000, 16384);
}

TEST(test_through_the_core)
{
	struct fck_core *core = core_make();
	struct fck_message messages[4];
	struct fck_flow flow;

	for (uint32_t psn = 0; psn < 6; psn++) // 16 bytes each: 4 is lost
		if (psn != 4)
			core_feed(core, psn, &(struct wish){.opcode = OP_WRITE_ONLY_IMM, .psn = psn, .payload = 16, .reth_length = 16});
	assert_int_equal(fck_flow_take(core, 0, messages, 2), 2);
	assert_int_equal(messages[0].position, 0);
	assert_int_equal(messages[1].position, 1);
	assert_int_equal(fck_flow_take(core, 0, messages, 0), 0);
	assert_int_equal(fck_flow_take(core, 1, messages, 4), -EINVAL);
	core_feed(core, 9, &(struct wish){.opcode = OP_WRITE_ONLY_IMM, .psn = 1, .payload = 16, .reth_length = 16});
	flow = core_flow(core);
	assert_int_equal(flow.repeats_count, 1); // of a position whose message was taken
	assert_int_equal(flow.messages_count, 3);
	assert_int_equal(flow.messages[0].position, 2);
	assert_int_equal(flow.missing_count, 1);
	assert_int_equal(fck_flow_take(core, 0, messages, 4), 3);
	assert_int_equal(fck_flow_get(core, 0, &flow), -EINVAL); // what it would hand out is not true any more
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 0);
	assert_int_equal(flow.seen_count, 2);
	fck_free(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taking_changes_nothing),
		cmocka_unit_test(test_memory_grows_with_losses_only),
		cmocka_unit_test(test_through_the_core),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
