// SPDX-License-Identifier: Apache-2.0
//
// Wire forms to gradient bytes: places written out by hand, and the vector twin against the portable one.
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "lay.h"

#define ROOM 4096

static void put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value)); // the tests run on little-endian machines
}

// Wire words numbered from 1000 on, so that a word of data tells where it came from; flags are 7.
static void numbered(uint8_t *wire, uint32_t bytes)
{
	for (uint32_t word = 0; word < bytes / 8; word++)
		put64(wire + 8 * word, word % 16 == 15 ? 7 : 1000 + word);
}

// Line 0 holds data words 0-14, word 15 stands last in line 4; line 1 holds 16-30, and 31 stands last in line 5. Lines 4
// to 7 begin at word 64, 14 words each. Line 8 begins the second half, at word 120, and line 16 the next group, at 240.
TEST(test_ll128_places_by_hand)
{
	static const struct { uint32_t data_word, line, word; } places[] = {
		{0, 0, 0},    {14, 0, 14},  {15, 4, 14},   {16, 1, 0},    {30, 1, 14},  {31, 5, 14},  {32, 2, 0},
		{47, 6, 14},  {48, 3, 0},   {62, 3, 14},   {63, 7, 14},   {64, 4, 0},   {77, 4, 13},  {78, 5, 0},
		{92, 6, 0},   {106, 7, 0},  {119, 7, 13},  {120, 8, 0},   {135, 12, 14}, {184, 12, 0}, {239, 15, 13},
		{240, 16, 0}, {255, 20, 14}, {479, 31, 13},
	};
	uint8_t wire[ROOM], data[3840];
	struct fck_piece_of piece = {wire, 0, ROOM, sizeof(data)};
	uint64_t flag;

	numbered(wire, sizeof(wire));
	assert_true(fck_lay_flag(&fck_lay_portable, FCK_PROTOCOL_LL128, &piece, &flag));
	assert_int_equal(flag, 7);
	fck_lay(&fck_lay_portable, FCK_PROTOCOL_LL128, &piece, data);
	for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint64_t found;

		memcpy(&found, data + 8 * places[i].data_word, sizeof(found));
		assert_int_equal(found, 1000 + 16 * places[i].line + places[i].word);
	}
	assert_int_equal(fck_lay_difference(FCK_PROTOCOL_LL128, &piece, data), -1);
	data[8 * 15 + 3] ^= 1;
	assert_int_equal(fck_lay_difference(FCK_PROTOCOL_LL128, &piece, data), 8 * 15 + 3);
}

TEST(test_ll_by_hand)
{
	static const uint8_t wire[32] = {
		'a', 'b', 'c', 'd', 9, 0, 0, 0, 'e', 'f', 'g', 'h', 9, 0, 0, 0,
		'i', 'j', 'k', 'l', 9, 0, 0, 0, 'm', 'n', 'o', 'p', 9, 0, 0, 0,
	};
	struct fck_piece_of piece = {wire, 16, sizeof(wire), 22}; // the second and third line of a message of 22 bytes
	uint8_t data[24];
	uint64_t flag;

	memset(data, '.', sizeof(data));
	assert_true(fck_lay_flag(fck_lay_best(), FCK_PROTOCOL_LL, &piece, &flag));
	assert_int_equal(flag, 9);
	fck_lay(fck_lay_best(), FCK_PROTOCOL_LL, &piece, data);
	assert_memory_equal(data, "........abcdefghijklmn..", sizeof(data)); // "op" is padding
	assert_int_equal(fck_lay_difference(FCK_PROTOCOL_LL, &piece, data), -1);
	data[21]++;
	assert_int_equal(fck_lay_difference(FCK_PROTOCOL_LL, &piece, data), 21);
}

// Bounds of packets by hand. A packet of 1024 bytes carries 960 in a row; one of 512 has holes.
TEST(test_bounds)
{
	static const struct { uint32_t protocol, wire_at, length, data_bytes, low, high; } cases[] = {
		{FCK_PROTOCOL_SIMPLE, 1024, 1024, 5000, 1024, 2048},
		{FCK_PROTOCOL_SIMPLE, 4096, 1024, 5000, 4096, 5000},
		{FCK_PROTOCOL_LL, 1024, 1024, 5000, 512, 1024},
		{FCK_PROTOCOL_LL, 9216, 1024, 5000, 4608, 5000},
		{FCK_PROTOCOL_LL128, 1024, 1024, 1920, 960, 1920},
		{FCK_PROTOCOL_LL128, 4096, 4096, 9000, 3840, 7680},
		{FCK_PROTOCOL_LL128, 0, 512, 1920, 0, 63 * 8},    // words 0 to 62 without 15, 31 and 47
		{FCK_PROTOCOL_LL128, 512, 512, 1920, 120, 960},   // words 15 and 64 to 119
		{FCK_PROTOCOL_LL128, 1024, 1024, 500, 500, 500},  // nothing but padding
		{FCK_PROTOCOL_LL, 2048, 1024, 1000, 1000, 1000},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t low, high;

		fck_lay_bounds(cases[i].protocol, cases[i].wire_at, cases[i].length, cases[i].data_bytes, &low, &high);
		if (cases[i].low < cases[i].high)
			assert_int_equal(low, cases[i].low);
		else
			assert_int_equal(low, high);
		assert_int_equal(high, cases[i].high);
		assert_int_equal(
			fck_lay_carries(cases[i].protocol, cases[i].wire_at, cases[i].length, cases[i].data_bytes),
			cases[i].low < cases[i].high
		);
	}
}

// A flag that differs in one bit of one line is seen wherever it stands.
TEST(test_torn_flags)
{
	const struct fck_lay_ops *twins[] = {&fck_lay_portable, fck_lay_best()};
	uint8_t *wire = malloc(1040); // exactly, for the sanitizer
	uint64_t flag;

	assert_non_null(wire);
	for (int way = 0; way < 2; way++) {
		for (uint32_t length = 16; length <= 1040; length += 16) {
			struct fck_piece_of piece = {wire, 0, length, length / 2};

			memset(wire, 0x55, length);
			assert_true(fck_lay_flag(twins[way], FCK_PROTOCOL_LL, &piece, &flag));
			assert_int_equal(flag, 0x55555555);
			wire[length - 1] ^= 0x80;
			assert_false(fck_lay_flag(twins[way], FCK_PROTOCOL_LL, &piece, &flag));
			wire[length - 1] ^= 0x80;
			wire[length / 32 * 16 + 4] ^= 1;
			assert_int_equal(fck_lay_flag(twins[way], FCK_PROTOCOL_LL, &piece, &flag), false);
		}
	}
	memset(wire, 0x55, 1024);
	for (uint32_t line = 0; line < 8; line++) {
		struct fck_piece_of piece = {wire, 0, 1024, 960};

		wire[128 * line + 127] ^= 0x80;
		assert_false(fck_lay_flag(fck_lay_best(), FCK_PROTOCOL_LL128, &piece, &flag));
		wire[128 * line + 127] ^= 0x80;
		wire[128 * line + 119] ^= 0x80; // data
		assert_true(fck_lay_flag(fck_lay_best(), FCK_PROTOCOL_LL128, &piece, &flag));
	}
	free(wire);
}

// Random packets, lengths and alignments through both ways, in memory of exactly their size.
TEST(test_vector_is_the_portable_way)
{
	const struct fck_lay_ops *best = fck_lay_best();
	uint64_t seed = 11;

	for (int round = 0; round < 4000; round++) {
		uint32_t protocol = draw(&seed, 3), line = protocol == 2 ? 128 : protocol == 1 ? 16 : 1;
		uint32_t length = draw(&seed, 4096 / line + 1) * line, wire_at = draw(&seed, 4) * 2048;
		uint32_t data_bytes = draw(&seed, 9000), skew = draw(&seed, 64);
		uint8_t *wire = malloc(length + 1), *one = malloc(data_bytes + skew + 1), *two = malloc(data_bytes + skew + 1);
		struct fck_piece_of piece = {wire, wire_at, length, data_bytes};
		uint64_t flag, other;

		assert_true(wire != NULL && one != NULL && two != NULL);
		for (uint32_t i = 0; i < length; i++)
			wire[i] = (uint8_t)(draw(&seed, 8) == 0 ? draw(&seed, 256) : 3);
		memset(one, 1, data_bytes + skew);
		memset(two, 1, data_bytes + skew);
		assert_int_equal(
			fck_lay_flag(best, protocol, &piece, &flag), fck_lay_flag(&fck_lay_portable, protocol, &piece, &other)
		);
		assert_int_equal(flag, other);
		fck_lay(best, protocol, &piece, one + skew);
		fck_lay(&fck_lay_portable, protocol, &piece, two + skew);
		assert_memory_equal(one, two, data_bytes + skew);
		assert_int_equal(fck_lay_difference(protocol, &piece, one + skew), -1);
		free(wire);
		free(one);
		free(two);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ll128_places_by_hand), cmocka_unit_test(test_ll_by_hand),
		cmocka_unit_test(test_bounds),               cmocka_unit_test(test_torn_flags),
		cmocka_unit_test(test_vector_is_the_portable_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
