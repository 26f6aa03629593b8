// SPDX-License-Identifier: Apache-2.0
// The receiver's placement beside memcpy() of blocks of 1 KiB, both into the same 4 GiB: receiver_placement MILLIONS ROUNDS.
//
// A packet's way in a worker, without the device: bursts of 32 frames out of 512 that lie in buffers as mbufs do, their PSNs
// and opcodes written anew so that placement walks through the whole memory; fck_frames(), and fck_tracker_publish() after
// each burst. memcpy() takes the payload of the same buffers and knows the target. Prints packets and the best seconds of
// processor time of both.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fck.h"
#include "fck_online.h"

enum {
	MTU = 1024,
	MESSAGE = 512, // packets
	BUFFERS = 512,
	STRIDE = 2176, // of an mbuf with 2 KiB of room
	HEADROOM = 256,
	BURST = 32,
	HEADERS = 14 + 20 + 8 + 12,
	RETH = 16,
	IMMEDIATE = 4,
	DEST_QP = 7,
	FIRST = 6,
	MIDDLE = 7,
	LAST_IMMEDIATE = 9,
};

static uint64_t units; // of the memory

static void need(bool met, const char *what)
{
	if (!met) {
		fprintf(stderr, "%s\n", what);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

// Buffer n holds packet n of a message, and is used again by the next one.
static uint32_t make_frame(uint8_t *frame, uint32_t packet)
{
	uint32_t extension = (packet == 0 ? RETH : 0) + (packet == MESSAGE - 1 ? IMMEDIATE : 0);
	uint8_t *ip = frame + 14, *udp = ip + 20, *bth = udp + 8;
	uint32_t size = HEADERS + extension + MTU + 4, length = MESSAGE * MTU;

	memset(frame, (int)packet, size);
	memset(frame, 0, HEADERS + extension);
	put16(frame + 12, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, size - 14);
	ip[8] = 64;
	ip[9] = 17;
	put32(ip + 12, 0x0a000001);
	put32(ip + 16, 0x0a000002);
	put16(udp, 50000);
	put16(udp + 2, 4791);
	put16(udp + 4, size - 34);
	bth[0] = packet == 0 ? FIRST : packet == MESSAGE - 1 ? LAST_IMMEDIATE : MIDDLE;
	put32(bth + 4, DEST_QP);
	if (packet == 0)
		put32(bth + 12 + 12, length);
	if (packet == MESSAGE - 1)
		memcpy(bth + 12, &length, sizeof(length));
	return size;
}

static struct fck_tracker *make_tracker(struct fck_board *board)
{
	static const uint8_t source[4] = {10, 0, 0, 1}, destination[4] = {10, 0, 0, 2};
	struct fck_pattern_config config = {.mtu = MTU, .protocol = FCK_PROTOCOL_SIMPLE, .steps = (uint32_t)(units / MESSAGE), .compare = 1};
	struct fck_slot *slots = calloc(units / MESSAGE, sizeof(*slots));
	struct fck_tracker *tracker;

	need(slots != NULL && fck_tracker_new(&tracker) == 0, "no tracker");
	for (uint32_t i = 0; i < units / MESSAGE; i++)
		slots[i] = (struct fck_slot){
			.packets = MESSAGE,
			.bytes = MESSAGE * MTU,
			.immediate = MESSAGE * MTU,
			.data_at = (uint64_t)i * MESSAGE * MTU,
			.data_bytes = MESSAGE * MTU,
			.unit = i * MESSAGE,
			.reduced = 1,
			.step = i,
		};
	need(fck_tracker_pattern(tracker, slots, (uint32_t)(units / MESSAGE), &config) == 0, "pattern refused");
	need(fck_tracker_follow(tracker, 0, 4, source, destination, DEST_QP, 0, 0) == 0, "queue pair refused");
	need(fck_tracker_board(tracker, 0, board) == 0, "board refused");
	need(fck_tracker_anchor(tracker, 0, 0, 0, 0) == 0, "anchor refused");
	free(slots);
	return tracker;
}

static double place(uint8_t *buffers, const uint32_t *sizes, struct fck_tracker *tracker, struct fck_core *core, uint64_t *at)
{
	struct fck_input frames[BURST];
	double start = now();

	for (uint64_t end = *at + units; *at < end; *at += BURST) {
		for (uint32_t i = 0; i < BURST; i++) {
			uint32_t number = (uint32_t)((*at + i) % BUFFERS);
			uint8_t *frame = buffers + (uint64_t)number * STRIDE + HEADROOM;

			put32(frame + 14 + 20 + 8 + 8, (uint32_t)(*at + i) & 0xffffff);
			frames[i] = (struct fck_input){.data = frame, .time_ns = *at, .captured = sizes[number], .original = sizes[number]};
		}
		need(fck_frames(core, 0, frames, BURST) == 0, "a frame was not counted");
		fck_tracker_publish(tracker, *at);
	}
	return now() - start;
}

static double copy(const uint8_t *buffers, uint8_t *data)
{
	double start = now();

	for (uint64_t i = 0; i < units; i++) {
		uint64_t number = i % BUFFERS;
		uint32_t extension = (number == 0 ? RETH : 0) + (number == MESSAGE - 1 ? IMMEDIATE : 0);

		memcpy(data + i * MTU, buffers + number * STRIDE + HEADROOM + HEADERS + extension, MTU);
	}
	return now() - start;
}

int main(int argc, char **argv)
{
	struct fck_board_shape shape = {.slots = 2, .cycle = 1};
	double best[2] = {1e9, 1e9};
	struct fck_tracker *tracker;
	struct fck_track count;
	struct fck_board *board;
	struct fck_core *core;
	uint32_t sizes[BUFFERS];
	uint8_t *buffers;
	uint64_t at = 0;

	need(argc == 3, "use: receiver_placement MILLIONS ROUNDS");
	units = (uint64_t)atoi(argv[1]) << 20;
	shape.size = units * MTU;
	shape.units = shape.carrying = units;
	buffers = aligned_alloc(4096, BUFFERS * STRIDE);
	board = mmap(NULL, fck_board_bytes(&shape), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE, -1, 0);
	need(buffers != NULL && board != MAP_FAILED, "no memory");
	for (uint32_t i = 0; i < BUFFERS; i++)
		sizes[i] = make_frame(buffers + (uint64_t)i * STRIDE + HEADROOM, i);
	need(fck_board_begin(board, fck_board_bytes(&shape), &shape, "dp0", "", 0) == 0, "no board");
	tracker = make_tracker(board);
	need(fck_new(NULL, &core) == 0 && fck_capture_add(core, "cap0") == 0, "no core");
	fck_core_track(core, tracker);
	for (int round = 0; round < atoi(argv[2]); round++) {
		double seconds[2] = {copy(buffers, fck_board_data(board, (uint32_t)(round % 2))), place(buffers, sizes, tracker, core, &at)};

		for (int way = 0; way < 2; way++)
			best[way] = seconds[way] < best[way] ? seconds[way] : best[way];
	}
	need(fck_tracker_track(tracker, 0, &count) == 0 && count.lays[FCK_LAY_LAID] == at, "not every packet was laid");
	need(board->complete == (uint64_t)atoi(argv[2]), "not every iteration is complete");
	printf("%llu %.6f %.6f\n", (unsigned long long)units, best[0], best[1]);
	return 0;
}
