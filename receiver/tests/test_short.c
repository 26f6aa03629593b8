// SPDX-License-Identifier: Apache-2.0
//
// The short ways of counting against the long one: three cores see the same frames, one by fck_frame(), one by fck_frames()
// in bursts, one that sends every frame the long way. At random moments, and in the end, all three must tell the same.
// Frames: flows that take turns in IPv4 and IPv6, with tags, in tunnels, truncated, damaged, as fragments; lost, repeated, in
// disorder; reads and acknowledges between writes and sends of both transports; messages taken meanwhile.
#include "outers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "same.h"

#define FLOWS 40
#define STREAM 700
#define BURST 70
#define ROUNDS 150

static const struct row erspan = {
	"ERSPAN II", BYTES(0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 0, 0, 5, 0, 0, 0, 0), FCK_TUNNEL_ERSPAN2, 5, 9, 0,
};

struct sender {
	uint32_t psn;
	uint32_t left;   // packets of the message under way
	uint32_t length; // of it
	uint8_t base;    // opcode of its First
	uint32_t payload;
	bool ipv4;
	int tags;
	bool tunnelled;
};

struct cores {
	struct fck_core *one;
	struct fck_core *burst;
	struct fck_core *general;
};

static struct sender sender_of(uint64_t *seed)
{
	static const uint32_t payloads[] = {24, 256, 1024, 1000};

	return (struct sender){
		.psn = draw(seed, 3) == 0 ? 0xffffff - draw(seed, 60) : draw(seed, 5000),
		.payload = payloads[draw(seed, 4)],
		.ipv4 = draw(seed, 2),
		.tags = draw(seed, 4) == 0 ? (int)draw(seed, 4) : 0,
		.tunnelled = draw(seed, 6) == 0,
	};
}

// The flow's next packet. Most are of messages with several.
static struct wish next_packet(struct sender *sender, uint32_t number, uint64_t *seed)
{
	struct wish wish = {
		.dest_qp = number % 39 + 1, // 1 is for connection management
		.ipv4 = sender->ipv4,
		.vlan_tags = sender->tags,
		.payload = sender->payload,
		.icrc = draw(seed, UINT32_MAX),
	};
	uint32_t place;

	if (sender->left == 0) {
		uint32_t kind = draw(seed, 12);

		if (kind < 3) {
			wish.opcode = kind == 0 ? OP_ACK : kind == 1 ? OP_READ_REQUEST : OP_WRITE_ONLY_IMM;
			wish.reth_length = kind == 1 ? 2000 : 24;
			wish.payload = kind == 2 ? 24 : 0;
			wish.psn = sender->psn & FCK_PSN_MASK;
			sender->psn += kind > 0;
			return wish;
		}
		sender->length = sender->left = 2 + draw(seed, 12);
		sender->base = (uint8_t)((draw(seed, 3) == 0 ? OP_SEND_FIRST : OP_WRITE_FIRST) | (draw(seed, 4) == 0 ? 0x20 : 0));
	}
	place = sender->length - sender->left--;
	wish.opcode = (uint8_t)(sender->base + (place == 0 ? 0 : sender->left == 0 ? 2 : 1));
	wish.reth_length = sender->length * sender->payload;
	if (draw(seed, 12) == 0)
		wish.payload = draw(seed, 2) ? 256 : 512;
	if (draw(seed, 8) == 0) // a length that what comes contradicts
		wish.reth_length = draw(seed, 2) ? 77777 : sender->payload + 1;
	wish.psn = sender->psn++ & FCK_PSN_MASK;
	return wish;
}

static void damage(uint8_t *data, uint32_t size, uint64_t *seed)
{
	uint32_t reach = size < 80 ? size : 80;

	data[draw(seed, reach)] ^= (uint8_t)(1u << draw(seed, 8));
}

// One frame in memory of exactly its captured size.
static struct fck_input input_of(const struct sender *sender, const struct wish *wish, uint64_t now, uint64_t *seed)
{
	static struct frame frame;
	static struct buffer buffer;
	struct fck_input input = {.time_ns = now};
	uint8_t *data;

	frame_make(&frame, wish);
	memcpy(buffer.data, frame.data, frame.size);
	buffer.size = frame.size;
	if (sender->tunnelled) {
		buffer.size = 0;
		wrap(&buffer, &erspan, sender->ipv4 ? 4 : 6, &frame);
	}
	input.original = input.captured = buffer.size;
	if (draw(seed, 12) == 0)
		input.captured = draw(seed, 3) ? 60 + draw(seed, buffer.size - 59) : draw(seed, 60);
	if (input.captured > buffer.size)
		input.captured = buffer.size;
	if (draw(seed, 15) == 0)
		damage(buffer.data, buffer.size, seed);
	data = malloc(input.captured + 1u);
	assert_non_null(data);
	memcpy(data, buffer.data, input.captured);
	input.data = realloc(data, input.captured > 0 ? input.captured : 1);
	assert_non_null(input.data);
	return input;
}

// Frames in the order in which they come. A frame that is lost stays in the array, behind the `count` that come.
static uint32_t make_stream(struct fck_input *stream, uint32_t *order, uint64_t *seed)
{
	struct sender senders[FLOWS];
	uint32_t flows = 1 + draw(seed, draw(seed, 2) ? 3 : FLOWS), flow = 0, count = 0;
	uint32_t loss = draw(seed, 2) ? 1000 : 12, disorder = draw(seed, 2) ? 10 : 1000, reach = 1 + draw(seed, 20);

	for (uint32_t i = 0; i < flows; i++)
		senders[i] = sender_of(seed);
	for (uint32_t i = 0; i < STREAM; i++) {
		struct wish wish;

		if (draw(seed, 4) == 0)
			flow = draw(seed, flows);
		wish = next_packet(&senders[flow], flow, seed);
		stream[i] = input_of(&senders[flow], &wish, 1000000 + i * (uint64_t)draw(seed, 2000), seed);
		if (draw(seed, loss) != 0)
			order[count++] = i;
		if (draw(seed, loss) == 0) // once more, of a moment ago
			order[count++] = i - draw(seed, i < reach ? i + 1 : reach);
	}
	for (uint32_t i = 0; i + 1 < count; i++)
		if (draw(seed, disorder) == 0) {
			uint32_t other = i + draw(seed, count - i < reach ? count - i : reach), kept = order[i];

			order[i] = order[other];
			order[other] = kept;
		}
	return count;
}

// Takes up to a few messages of every flow, of all three.
static void take(struct cores *cores, uint64_t *seed)
{
	for (uint32_t flow = 0; flow < fck_flow_count(cores->general); flow++) {
		struct fck_message messages[3][4];
		uint64_t room = 1 + draw(seed, 4);
		int64_t count = fck_flow_take(cores->general, flow, messages[0], room);

		assert_int_equal(fck_flow_take(cores->one, flow, messages[1], room), count);
		assert_int_equal(fck_flow_take(cores->burst, flow, messages[2], room), count);
		for (int64_t i = 0; i < count; i++) {
			same_message(&messages[0][i], &messages[1][i]);
			same_message(&messages[0][i], &messages[2][i]);
		}
	}
}

static struct fck_core *make(const struct fck_config *config)
{
	struct fck_core *core;

	assert_int_equal(fck_new(config, &core), 0);
	assert_int_equal(fck_capture_add(core, "x"), 0);
	return core;
}

// Hands a frame over to the two that take one by one.
static void feed(struct cores *cores, const struct fck_input *frame)
{
	struct fck_core *both[] = {cores->one, cores->general};

	for (int i = 0; i < 2; i++)
		assert_int_equal(
			fck_frame(both[i], 0, frame->time_ns, frame->data, frame->captured, frame->original), 0
		);
}

static void compare_one_stream(const struct fck_config *config, uint64_t seed)
{
	static struct fck_input stream[STREAM];
	static uint32_t order[2 * STREAM];
	struct cores cores;
	struct fck_input burst[BURST];
	uint32_t count = make_stream(stream, order, &seed);

	cores = (struct cores){make(config), make(config), make(config)};
	cores.general->general = true;
	for (uint32_t at = 0; at < count;) {
		uint32_t size = 1 + draw(&seed, BURST);

		size = size > count - at ? count - at : size;
		for (uint32_t i = 0; i < size; i++) {
			burst[i] = stream[order[at + i]];
			feed(&cores, &burst[i]);
		}
		assert_int_equal(fck_frames(cores.burst, 0, burst, size), 0);
		at += size;
		same_so_far(cores.one, cores.general);
		same_so_far(cores.burst, cores.general);
		if (draw(&seed, 4) == 0)
			take(&cores, &seed);
	}
	same_at_the_end(cores.one, cores.general);
	same_at_the_end(cores.burst, cores.general);
	fck_free(cores.one);
	fck_free(cores.burst);
	fck_free(cores.general);
	for (uint32_t i = 0; i < STREAM; i++)
		free((void *)stream[i].data);
}

TEST(test_short_ways_count_as_the_long_one)
{
	static const struct fck_config configs[] = {
		{0}, {.check_icrc = 1}, {.max_flows = 7}, {.trimmed_dscp = 5}, {.duplicate_window_ns = 50},
	};

	for (uint64_t round = 0; round < ROUNDS; round++)
		compare_one_stream(&configs[round % 2 ? 0 : round / 2 % 5], round * 15485863 + 11);
}

// A message under way, of which the packet before the last comes in another form, at `capture`; the last one at 0 again.
static void compare_one_row(const struct frame *row, const uint8_t *other, uint32_t captured, uint32_t capture)
{
	struct fck_core *burst = make(&(struct fck_config){0}), *general = make(&(struct fck_config){0});
	struct fck_input frames[6];
	uint8_t *exact = malloc(captured > 0 ? captured : 1);

	general->general = true;
	assert_int_equal(fck_capture_add(burst, "y") + fck_capture_add(general, "y"), 2);
	assert_non_null(exact);
	memcpy(exact, other, captured);
	for (uint32_t i = 0; i < 6; i++)
		frames[i] = (struct fck_input){row[i].data, 1000 + i, row[i].size, row[i].size};
	frames[4].data = exact;
	frames[4].captured = captured;
	assert_int_equal(fck_frames(burst, 0, frames, 4), 0);
	assert_int_equal(fck_frames(burst, capture, frames + 4, 1), 0);
	assert_int_equal(fck_frames(burst, 0, frames + 5, 1), 0);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(
			fck_frame(general, i == 4 ? capture : 0, 1000 + i, frames[i].data, frames[i].captured, frames[i].original), 0
		);
	same_so_far(burst, general);
	same_at_the_end(burst, general);
	fck_free(burst);
	fck_free(general);
	free(exact);
}

TEST(test_rows_with_every_byte_changed_and_every_cut)
{
	static const uint8_t masks[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x03, 0xff};
	static struct frame row[6];

	for (int ipv4 = 0; ipv4 < 2; ipv4++) {
		struct frame other;

		for (uint32_t i = 0; i < 6; i++)
			frame_make(&row[i], &(struct wish){.opcode = i == 0 ? OP_WRITE_FIRST : OP_WRITE_MIDDLE, .psn = 100 + i,
							   .payload = 256, .reth_length = 4096, .ipv4 = ipv4, .icrc = 77 + i, .tail = 5});
		other = row[4];
		for (uint32_t at = 0; at < other.bth + 14; at++)
			for (size_t i = 0; i < sizeof(masks); i++) {
				other.data[at] ^= masks[i];
				compare_one_row(row, other.data, other.size, 0);
				other.data[at] ^= masks[i];
			}
		for (uint32_t captured = 0; captured <= other.size; captured++)
			compare_one_row(row, other.data, captured, 0);
		compare_one_row(row, other.data, other.size, 1);
	}
}

TEST(test_bursts_of_nothing_and_of_no_capture)
{
	struct fck_core *core = core_make();
	struct fck_input frame = {.time_ns = 5};
	struct fck_capture capture;

	assert_int_equal(fck_frames(core, 0, NULL, 0), 0);
	assert_int_equal(fck_capture_get(core, 0, &capture), 0);
	assert_int_equal(capture.packets + capture.first_time + capture.last_time, 0);
	assert_int_equal(fck_frames(core, 1, &frame, 1), -EINVAL);
	fck_free(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_ways_count_as_the_long_one),
		cmocka_unit_test(test_rows_with_every_byte_changed_and_every_cut),
		cmocka_unit_test(test_bursts_of_nothing_and_of_no_capture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
