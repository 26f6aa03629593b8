// SPDX-License-Identifier: Apache-2.0
//
// One queue pair, iterations of 6 packets, MTU 256.
//   slot 0: 600 bytes, packets 0-2 (partial sums); slot 1: 100 bytes, packet 3; slot 2: 512 bytes, packets 4-5.
// Slots 1 and 2 are reduced: slot 1 gives bytes 0-99 (unit 0), slot 2 bytes 100-611 (units 1 and 2).
#ifndef FCK_TEST_TRACK_BENCH_H
#define FCK_TEST_TRACK_BENCH_H

#include <string.h>

#include "fck_track.h"
#include "frames.h"

enum { MTU = 256, SPAN = 6, DATA = 612, WORDS = 1 };

static const uint8_t source[16] = {0xfd, [15] = 1}, destination[16] = {0xfd, [15] = 2}; // as frames.c makes them

struct memory {
	uint8_t data[DATA];
	uint64_t present[WORDS];
};

struct bench {
	struct fck_core *core;
	struct fck_tracker *tracker;
	struct memory iterations[8];
	uint64_t time;
};

static const struct fck_slot plain[3] = {
	{.packets = 3, .bytes = 600, .immediate = 600, .step = 0},
	{.packets = 1, .bytes = 100, .immediate = 100, .data_at = 0, .data_bytes = 100, .unit = 0, .reduced = 1, .step = 1},
	{.packets = 2, .bytes = 512, .immediate = 512, .data_at = 100, .data_bytes = 512, .unit = 1, .reduced = 1, .step = 2},
};

static const struct fck_pattern_config config = {.mtu = MTU, .protocol = FCK_PROTOCOL_SIMPLE, .compare = 1, .search = 1};

static inline void open_bench(struct bench *bench, const struct fck_slot *slots, uint32_t count, const struct fck_pattern_config *with)
{
	memset(bench, 0, sizeof(*bench));
	bench->core = core_make();
	assert_int_equal(fck_tracker_new(&bench->tracker), 0);
	assert_int_equal(fck_tracker_pattern(bench->tracker, slots, count, with), 0);
	assert_int_equal(fck_tracker_follow(bench->tracker, 0, 6, source, destination, 0x11, 0, 9), 0);
	for (uint64_t i = 0; i < 8; i++) {
		struct memory *memory = &bench->iterations[i];

		assert_int_equal(
			fck_tracker_gradient(bench->tracker, 9, i, memory->data, DATA, memory->present, 64 * WORDS), 0
		);
	}
	fck_core_track(bench->core, bench->tracker);
}

static inline void close_bench(struct bench *bench)
{
	struct fck_track track;
	uint64_t sum = 0, lays = 0;

	assert_int_equal(fck_tracker_track(bench->tracker, 0, &track), 0);
	for (int i = 0; i < FCK_PLACES; i++)
		sum += track.places[i];
	for (int i = 0; i < FCK_LAYS; i++)
		lays += track.lays[i];
	assert_int_equal(sum, track.packets);
	assert_int_equal(lays, track.places[FCK_PLACE_PLACED] + track.places[FCK_PLACE_REPEATED]);
	fck_free(bench->core);
	fck_tracker_free(bench->tracker);
}

static inline struct fck_track counts(const struct bench *bench)
{
	struct fck_track track;

	assert_int_equal(fck_tracker_track(bench->tracker, 0, &track), 0);
	return track;
}

static inline uint64_t findings(const struct bench *bench, enum fck_finding_kind kind)
{
	uint64_t numbers[FCK_FINDING_KINDS];
	const struct fck_finding *rows;

	fck_tracker_findings(bench->tracker, &rows, numbers);
	return numbers[kind];
}

static inline struct fck_finding finding(const struct bench *bench, uint32_t number)
{
	uint64_t numbers[FCK_FINDING_KINDS];
	const struct fck_finding *rows;

	assert_true(number < fck_tracker_findings(bench->tracker, &rows, numbers));
	return rows[number];
}

// The packet of the pattern at a place of the iteration. Its payload is made of zeros by frames.c.
static inline struct wish packet_at(uint32_t place)
{
	static const struct wish wishes[SPAN] = {
		{.opcode = OP_WRITE_FIRST, .payload = 256, .reth_length = 600},
		{.opcode = OP_WRITE_MIDDLE, .payload = 256},
		{.opcode = OP_WRITE_LAST_IMM, .payload = 88, .immediate = 600},
		{.opcode = OP_WRITE_ONLY_IMM, .payload = 100, .reth_length = 100, .immediate = 100},
		{.opcode = OP_WRITE_FIRST, .payload = 256, .reth_length = 512},
		{.opcode = OP_WRITE_LAST_IMM, .payload = 256, .immediate = 512},
	};

	return wishes[place];
}

static inline void feed(struct bench *bench, struct wish wish, uint32_t psn)
{
	wish.psn = psn & 0xffffff;
	bench->time += 10000000; // far apart: repeats are no mirror duplicates
	core_feed(bench->core, bench->time, &wish);
}

// Packets first to last of an endless row of iterations that began at PSN `base`.
static inline void feed_row(struct bench *bench, uint32_t base, uint32_t first, uint32_t last)
{
	for (uint32_t at = first; at <= last; at++)
		feed(bench, packet_at(at % SPAN), base + at);
}

#endif
