// SPDX-License-Identifier: Apache-2.0
//
// The public functions: captures, the flow key, counters that add up, limits, results that can be taken twice.
#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct fck_capture capture_of(const struct fck_core *core, uint32_t index)
{
	struct fck_capture capture;

	assert_int_equal(fck_capture_get(core, index, &capture), 0);
	return capture;
}

static uint64_t sum(const uint64_t *counters, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += counters[i];
	return total;
}

TEST(test_captures)
{
	struct fck_core *core = core_make();

	assert_int_equal(fck_capture_add(core, "ckpt1:cap1"), 1);
	assert_int_equal(fck_capture_add(core, "ckpt1:cap0"), 0); // again
	assert_int_equal(fck_capture_count(core), 2);
	assert_int_equal(fck_capture_add(core, ""), -EINVAL);
	assert_int_equal(fck_capture_add(core, NULL), -EINVAL);
	assert_int_equal(fck_frame(core, 2, 0, NULL, 0, 0), -EINVAL);
	assert_int_equal(fck_frame_foreign(core, 2, 0, 0), -EINVAL);
	assert_string_equal(capture_of(core, 1).name, "ckpt1:cap1");
	assert_int_equal(fck_capture_get(core, 2, &(struct fck_capture){0}), -EINVAL);
	fck_free(core);
	fck_free(NULL);
}

TEST(test_frame_times_and_bytes)
{
	static const uint8_t arp[60] = {[0] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, [12] = 8, 6};
	struct fck_core *core = core_make();
	struct fck_capture capture;

	fck_frame(core, 0, 900, arp, sizeof(arp), sizeof(arp));
	fck_frame(core, 0, 700, arp, 20, sizeof(arp)); // older, and cut
	fck_frame_foreign(core, 0, 800, 1000);
	capture = capture_of(core, 0);
	assert_int_equal(capture.packets, 3);
	assert_int_equal(capture.bytes, 1120);
	assert_int_equal(capture.first_time, 700);
	assert_int_equal(capture.last_time, 900);
	assert_int_equal(capture.frames[FCK_FRAME_ARP], 2);
	assert_int_equal(capture.frames[FCK_FRAME_LINK_TYPE_UNSUPPORTED], 1);
	assert_int_equal(capture.attributes[FCK_ATTRIBUTE_ETHERNET_BROADCAST], 2);
	assert_int_equal(capture.attributes[FCK_ATTRIBUTE_ETHERNET_MULTICAST], 0);
	fck_free(core);
}

TEST(test_every_name_is_there)
{
	for (uint32_t i = 0; i < FCK_FRAME_KINDS; i++)
		assert_non_null(fck_frame_name(i));
	for (uint32_t i = 0; i < FCK_ATTRIBUTES; i++)
		assert_non_null(fck_attribute_name(i));
	for (uint32_t i = 0; i < FCK_CLASSES; i++)
		assert_non_null(fck_class_name(i));
	assert_null(fck_frame_name(FCK_FRAME_KINDS));
	assert_null(fck_attribute_name(FCK_ATTRIBUTES));
	assert_null(fck_class_name(FCK_CLASSES));
	assert_string_equal(fck_cause_name(FCK_CAUSE_CAPTURE_END), "capture_end");
	assert_null(fck_cause_name(3));
}

// UDP source port, VLAN tags and TTL are attributes; addresses, QP and capture make the flow.
TEST(test_flow_key)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY, .payload = 100, .reth_length = 100};
	struct fck_core *core = core_make();
	struct frame frame;
	struct fck_flow flow;

	core_feed(core, 1, &wish);
	wish.psn = 1;
	wish.source_port = 50000;
	wish.vlan_tags = 2;
	wish.ttl = 3;
	core_feed(core, 2, &wish);
	flow = core_flow(core);
	assert_int_equal(flow.packets[FCK_CLASS_WRITE], 2);
	assert_int_equal(flow.family, 6);
	assert_int_equal(flow.source[0], 0xfd);
	assert_int_equal(flow.source[15], 1);
	assert_int_equal(flow.destination[15], 2);
	assert_int_equal(flow.dest_qp, 0x11);

	wish.ipv4 = true;
	core_feed(core, 3, &wish);
	assert_int_equal(fck_flow_count(core), 2);
	wish.dest_qp = 0x12;
	core_feed(core, 4, &wish);
	assert_int_equal(fck_flow_count(core), 3);
	assert_int_equal(fck_capture_add(core, "ckpt1:cap1"), 1);
	frame_make(&frame, &wish);
	assert_int_equal(fck_frame(core, 1, 5, frame.data, frame.size, frame.size), 0);
	assert_int_equal(fck_flow_count(core), 4);
	assert_int_equal(fck_finish(core), 0);
	assert_int_equal(fck_flow_get(core, 3, &flow), 0);
	assert_int_equal(flow.capture, 1);
	assert_int_equal(flow.family, 4);
	assert_memory_equal(flow.source, ((uint8_t[]){10, 0, 0, 1, 0, 0}), 6);
	fck_free(core);
}

TEST(test_many_flows)
{
	struct fck_core *core = core_make();
	struct fck_flow flow;

	for (uint32_t psn = 0; psn < 3; psn++)
		for (uint32_t qp = 2; qp < 5002; qp++)
			core_feed(core, 1, &(struct wish){.opcode = OP_WRITE_MIDDLE, .payload = 256, .psn = psn, .dest_qp = qp});
	assert_int_equal(fck_flow_count(core), 5000);
	assert_int_equal(fck_finish(core), 0);
	for (uint32_t i = 0; i < 5000; i++) {
		assert_int_equal(fck_flow_get(core, i, &flow), 0);
		assert_int_equal(flow.dest_qp, i + 2);
		assert_int_equal(flow.packets[FCK_CLASS_WRITE], 3);
	}
	fck_free(core);
}

static void count_warning(void *context, int level, const char *message)
{
	assert_int_equal(level, FCK_LOG_WARNING);
	assert_non_null(strstr(message, "flow table full"));
	++*(int *)context;
}

TEST(test_flow_limit)
{
	int warnings = 0;
	struct fck_config config = {.max_flows = 2, .log = count_warning, .log_context = &warnings};
	struct fck_core *core;
	struct fck_capture capture;

	assert_int_equal(fck_new(&config, &core), 0);
	assert_int_equal(fck_capture_add(core, "x"), 0);
	for (uint32_t i = 0; i < 10; i++)
		core_feed(core, 1, &(struct wish){.opcode = OP_ACK, .dest_qp = 2 + i % 5});
	capture = capture_of(core, 0);
	assert_int_equal(fck_flow_count(core), 2);
	assert_int_equal(capture.frames[FCK_FRAME_ROCEV2], 10);
	assert_int_equal(capture.attributes[FCK_ATTRIBUTE_FLOW_REFUSED], 6);
	assert_int_equal(warnings, 1);
	fck_free(core);
}

TEST(test_results_need_finish_and_can_be_taken_again)
{
	struct wish wish = {.opcode = OP_WRITE_ONLY_IMM, .payload = 16, .reth_length = 16};
	struct fck_core *core = core_make();
	struct fck_flow flow;

	core_feed(core, 1, &wish);
	assert_int_equal(fck_flow_get(core, 0, &flow), -EINVAL);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 1);
	wish.psn = 2;
	core_feed(core, 2, &wish);
	assert_int_equal(fck_flow_get(core, 0, &flow), -EINVAL);
	assert_int_equal(fck_flow_peek(core, 0, &flow), 0);
	assert_int_equal(flow.packets[FCK_CLASS_WRITE], 2);
	assert_int_equal(flow.bytes, 32);
	assert_int_equal(flow.seen_count + flow.messages_count, 0);
	assert_int_equal(fck_flow_peek(core, 1, &flow), -EINVAL);
	flow = core_flow(core);
	assert_int_equal(flow.messages_count, 2);
	assert_int_equal(flow.missing_count, 1);
	flow = core_flow(core); // without a frame in between
	assert_int_equal(flow.missing_count, 1);
	assert_int_equal(fck_flow_get(core, 1, &flow), -EINVAL);
	fck_free(core);
}

// Every length of every kind of packet: each frame ends in one counter, and each RoCE packet in one class.
TEST(test_truncation_counts_add_up)
{
	static const uint8_t opcodes[] = {OP_WRITE_FIRST, OP_WRITE_ONLY_IMM, OP_READ_REQUEST, OP_ACK, OP_FETCH_ADD, 0x81, 0xaa};
	struct fck_core *core = core_make();
	struct fck_capture capture;
	uint64_t frames = 0, truncated = 0, in_flows = 0;
	struct fck_flow flow;

	for (size_t i = 0; i < sizeof(opcodes); i++) {
		struct wish wish = {.opcode = opcodes[i], .psn = (uint32_t)i, .payload = 48, .reth_length = 48, .tail = 4};
		struct frame frame;

		frame_make(&frame, &wish);
		for (uint32_t captured = 0; captured <= frame.size; captured++, frames++) {
			uint8_t *exact = malloc(captured > 0 ? captured : 1);

			assert_non_null(exact);
			memcpy(exact, frame.data, captured);
			assert_int_equal(fck_frame(core, 0, frames, exact, captured, frame.size), 0);
			truncated += captured >= 14 + 40 && captured < frame.ip_end;
			free(exact);
		}
	}
	capture = capture_of(core, 0);
	assert_int_equal(capture.packets, frames);
	assert_int_equal(sum(capture.frames, FCK_FRAME_KINDS), frames);
	assert_int_equal(capture.attributes[FCK_ATTRIBUTE_TRUNCATED], truncated);
	assert_int_equal(fck_finish(core), 0);
	for (uint32_t i = 0; i < fck_flow_count(core); i++) {
		assert_int_equal(fck_flow_get(core, i, &flow), 0);
		in_flows += sum(flow.packets, FCK_CLASSES);
	}
	assert_int_equal(in_flows, capture.frames[FCK_FRAME_ROCEV2]);
	fck_free(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_captures),
		cmocka_unit_test(test_frame_times_and_bytes),
		cmocka_unit_test(test_every_name_is_there),
		cmocka_unit_test(test_flow_key),
		cmocka_unit_test(test_many_flows),
		cmocka_unit_test(test_flow_limit),
		cmocka_unit_test(test_results_need_finish_and_can_be_taken_again),
		cmocka_unit_test(test_truncation_counts_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
