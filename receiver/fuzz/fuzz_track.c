// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: bytes become a pattern, then packets, anchors and other calls to a tracker of two queue pairs. Whatever
// comes, the counters add up, presence bits stand only for packets that were laid, and nothing is written beside the
// messages' bytes (the buffers have their exact size, for the address sanitizer).
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fck_track.h"

enum { MTU = 256, SLOTS = 6, HEADERS = 14 + 20 + 8 + 12, ITERATIONS = 4, FRAME = HEADERS + 20 + MTU + 4, UNITS = 64 };

struct input {
	const uint8_t *data;
	size_t size;
};

struct pair {
	struct fck_core *core;
	struct fck_tracker *tracker;
	uint64_t bytes;
	uint8_t *data[ITERATIONS];
	uint64_t present[ITERATIONS];
	uint64_t lent; // bits
	uint64_t frames;
};

static const uint8_t source[4] = {10, 0, 0, 1}, destination[4] = {10, 0, 0, 2};

static void require(int condition)
{
	if (!condition)
		abort();
}

static uint8_t next(struct input *input)
{
	if (input->size == 0)
		return 0;
	input->size--;
	return *input->data++;
}

static uint64_t sum(const uint64_t *counters, uint32_t count)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < count; i++)
		total += counters[i];
	return total;
}

// Messages one behind another; sizes are whole lines of all protocols.
static uint32_t make_slots(struct input *input, uint32_t protocol, struct fck_slot *slots, uint64_t *bytes)
{
	uint32_t count = next(input) % SLOTS + 1, unit = 0;

	*bytes = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t wire = next(input) % 8 * 128, most = protocol == FCK_PROTOCOL_LL ? wire / 2 : wire / 16 * 15;
		uint32_t data = protocol == FCK_PROTOCOL_SIMPLE ? wire : most - (most > 5 ? next(input) % 5 : 0);

		slots[i] = (struct fck_slot){
			.packets = wire <= MTU ? 1 : (wire + MTU - 1) / MTU,
			.bytes = wire,
			.immediate = next(input) % 4 == 0 ? -1 : (int64_t)wire,
			.data_at = *bytes,
			.data_bytes = data,
			.unit = unit,
			.reduced = next(input) & 1,
			.step = i,
		};
		*bytes += data;
		unit += slots[i].packets;
	}
	return count;
}

static void lend(struct pair *pair, uint64_t iteration)
{
	int rc = fck_tracker_gradient(
		pair->tracker, 1, iteration, pair->data[iteration], pair->bytes, &pair->present[iteration], UNITS
	);

	require(rc == (pair->lent >> iteration & 1 ? -17 : 0)); // EEXIST
	pair->lent |= UINT64_C(1) << iteration;
}

static void open_pair(struct input *input, struct pair *pair)
{
	uint32_t choice = next(input), protocol = choice % 3, count;
	struct fck_pattern_config config = {
		.mtu = MTU,
		.protocol = protocol,
		.immediate = choice / 3 % 3,
		.fifo_bytes = choice & 64 ? 4096 : 0,
		.fifo_steps = 8,
		.compare = 1,
		.search = choice >> 7,
	};
	struct fck_slot slots[SLOTS];

	memset(pair, 0, sizeof(*pair));
	count = make_slots(input, protocol, slots, &pair->bytes);
	config.steps = choice & 32 ? count : 0;
	require(fck_new(NULL, &pair->core) == 0 && fck_capture_add(pair->core, "fuzz") == 0);
	require(fck_tracker_new(&pair->tracker) == 0);
	require(fck_tracker_pattern(pair->tracker, slots, count, &config) == 0);
	for (uint32_t track = 0; track < 2; track++)
		require(fck_tracker_follow(pair->tracker, 0, 4, source, destination, 7 + track, 0, 1) == (int)track);
	for (uint64_t i = 0; i < ITERATIONS; i++) {
		pair->data[i] = malloc(pair->bytes > 0 ? pair->bytes : 1);
		require(pair->data[i] != NULL);
		memset(pair->data[i], 0xee, pair->bytes);
	}
	fck_core_track(pair->core, pair->tracker);
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

// A write (mostly) of one of the two queue pairs, its lengths, flags and address from the input.
static void feed(struct input *input, struct pair *pair)
{
	static const uint8_t opcodes[8] = {6, 7, 9, 11, 7, 10, 8, 2};
	uint8_t kind = next(input), opcode = opcodes[kind & 7], fill = next(input);
	uint32_t reth = opcode == 6 || opcode == 10 || opcode == 11 ? 16 : 0, immediate = opcode == 9 || opcode == 11 ? 4 : 0;
	uint32_t words = next(input), length = words % 9 * 32, wire = next(input) % 8 * 128;
	uint32_t size = HEADERS + reth + immediate + length + 4, captured = kind & 16 ? size - next(input) % size : size;
	uint8_t frame[FRAME] = {0}, *exact, *bth = frame + 42;

	put16(frame + 12, 0x0800);
	frame[14] = 0x45;
	put16(frame + 16, size - 14);
	frame[22] = 64;
	frame[23] = 17;
	memcpy(frame + 26, source, 4);
	memcpy(frame + 30, destination, 4);
	put16(frame + 36, 4791);
	put16(frame + 38, size - 34);
	bth[0] = opcode;
	bth[7] = (uint8_t)(7 + (kind >> 3 & 1));
	bth[9] = kind & 32 ? 0xff : 0;
	bth[10] = kind & 32 ? 0xff : kind & 64 ? next(input) : 0;
	bth[11] = next(input);
	memset(bth + 12 + reth + immediate, fill, length);
	if (reth > 0) {
		bth[12 + 6] = next(input);
		put16(bth + 12 + 14, wire);
	}
	if (immediate > 0)
		put16(bth + 12 + reth + (kind & 128 ? 2 : 0), kind & 128 ? wire : wire >> 8 | (wire & 255) << 8);
	exact = malloc(captured > 0 ? captured : 1);
	require(exact != NULL);
	memcpy(exact, frame, captured);
	require(fck_frame(pair->core, 0, ++pair->frames * 1000000, exact, captured, size) == 0);
	free(exact);
}

static void release(struct pair *pair, uint64_t iteration)
{
	int rc = fck_tracker_release(pair->tracker, 1, iteration);

	require(rc == (pair->lent >> iteration & 1 ? 0 : -2)); // ENOENT
	pair->lent &= ~(UINT64_C(1) << iteration);
	pair->present[iteration] = 0;
}

static void act(struct input *input, struct pair *pair)
{
	uint8_t what = next(input);
	uint32_t track = what >> 7;
	uint8_t out[1];
	int rc;

	if (what % 16 < 10) {
		feed(input, pair);
	} else if (what % 16 < 12) {
		lend(pair, next(input) % ITERATIONS);
	} else if (what % 16 == 12) {
		int64_t position = fck_tracker_lift(pair->tracker, track) + (int8_t)next(input);

		rc = fck_tracker_anchor(pair->tracker, track, position, next(input) % ITERATIONS, next(input) % 4);
		require(rc == 0 || rc == -22); // EINVAL
	} else if (what % 16 == 13) {
		require(fck_tracker_expect(pair->tracker, track, next(input) % ITERATIONS) == 0);
	} else if (what % 16 == 14) {
		release(pair, next(input) % ITERATIONS);
	} else if (next(input) % 4 == 0) {
		require(fck_tracker_restart(pair->tracker, track) == 0);
	} else {
		rc = fck_gradient_read(pair->tracker, 1, next(input) % ITERATIONS, next(input), 1, out);
		require(rc == 0 || rc == -61 || rc == -2); // ENODATA, ENOENT
	}
}

static void check(struct pair *pair)
{
	uint64_t numbers[FCK_FINDING_KINDS], laid = 0, present = 0;
	const struct fck_finding *findings;

	require(fck_tracker_findings(pair->tracker, &findings, numbers) <= sum(numbers, FCK_FINDING_KINDS));
	for (uint32_t i = 0; i < 2; i++) {
		const struct fck_track_iteration *rows;
		uint64_t count, distinct = 0, repeats = 0, conflicts = 0;
		struct fck_track track;

		require(fck_tracker_track(pair->tracker, i, &track) == 0);
		require(fck_tracker_iterations(pair->tracker, i, &rows, &count) == 0 && count == track.iterations);
		require(sum(track.places, FCK_PLACES) == track.packets);
		require(sum(track.lays, FCK_LAYS) == track.places[FCK_PLACE_PLACED] + track.places[FCK_PLACE_REPEATED]);
		for (uint64_t row = 0; row < count; row++) {
			require(rows[row].distinct <= rows[row].expected && rows[row].laid <= rows[row].distinct);
			distinct += rows[row].distinct;
			repeats += rows[row].repeats;
			conflicts += rows[row].conflicts;
		}
		require(distinct == track.places[FCK_PLACE_PLACED] && repeats == track.places[FCK_PLACE_REPEATED]);
		require(conflicts == track.places[FCK_PLACE_CONFLICT] && track.revoked <= track.lays[FCK_LAY_LAID]);
		laid += track.lays[FCK_LAY_LAID] - track.revoked;
	}
	for (uint64_t i = 0; i < ITERATIONS; i++)
		present += (uint64_t)__builtin_popcountll(pair->present[i]);
	require(present <= laid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct pair pair;

	open_pair(&input, &pair);
	while (input.size > 0)
		act(&input, &pair);
	check(&pair);
	fck_free(pair.core);
	fck_tracker_free(pair.tracker);
	for (uint32_t i = 0; i < ITERATIONS; i++)
		free(pair.data[i]);
	return 0;
}
