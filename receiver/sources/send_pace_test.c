// SPDX-License-Identifier: Apache-2.0
// When frames go out, and how late.
#include "send_world.h"

#include <stdlib.h>

// Each frame goes out at its time: not before, and no more after than the looks at the clock take.
static void expect_times(const struct world *world, const uint64_t *times, uint32_t count)
{
	assert_int_equal(world->count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(world->given[i].time >= START + times[i]);
		assert_true(world->given[i].time <= START + times[i] + 4 * TICK);
	}
}

static void test_recorded_times(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 700});
	(void)state;
	world.oversleep = 50000; // less than the sleep is cut by
	assert_int_equal(push(send, 700, 60), 0);
	assert_int_equal(push(send, 700 + 30000, 61), 0);
	assert_int_equal(push(send, 700 + 400000000, 62), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 30000, 400000000}, 3);
	assert_int_equal(world.given[1].length, 61);
	assert_true(world.longest_sleep <= FCK_SEND_SLICE_NS);
	assert_true(world.sleeps >= 8);
	struct fck_send_report report = fck_send_report(send);
	assert_int_equal(report.packets, 3);
	assert_int_equal(report.bytes, 183);
	assert_int_equal(report.timed, 3);
	assert_true(report.late_max_ns <= 4 * TICK && report.late_median_ns <= report.late_max_ns);
	assert_int_equal(report.first_ns, world.given[0].time);
	assert_true(report.last_ns > world.given[2].time);
	fck_send_close(send);
	assert_true(world.closed);
}

static void test_times_that_go_back_are_due_at_once(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 1000000});
	(void)state;
	const uint64_t times[] = {1000000, 1500000, 1200000, 5, 1600000};
	for (int i = 0; i < 5; i++)
		assert_int_equal(push(send, times[i], 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 500000, 500000, 500000, 600000}, 5);
	fck_send_close(send);
}

static void test_half_speed_takes_twice_as_long(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 500000});
	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(push(send, i * 1000000, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 2000000, 4000000, 6000000}, 4);
	fck_send_close(send);
}

// 3 packets/s: a third of a second apart, and no rounding adds up. Refused frames take no place.
static void test_packets_per_second(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_PACKETS, .rate = 3000000});
	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(push(send, 99 - i, 60), 0);
		assert_int_equal(push(send, 99 - i, 1600), 0);
	}
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 333333333, 666666666, 1000000000}, 4);
	assert_int_equal(fck_send_report(send).refused[FCK_REFUSED_TOO_LONG], 4);
	fck_send_close(send);
}

// 1 Mbit/s: a frame of 125 bytes takes 1 ms, whatever comes behind it.
static void test_bits_per_second(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_BITS, .rate = 1000000});
	(void)state;
	assert_int_equal(push(send, 0, 125), 0);
	assert_int_equal(push(send, 0, 1250), 0);
	assert_int_equal(push(send, 0, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000, 11000000}, 3);
	fck_send_close(send);
}

static void test_full_speed_goes_in_batches(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_FULL});
	(void)state;
	for (uint64_t i = 0; i < 2 * FCK_SEND_BATCH + 3; i++)
		assert_int_equal(push(send, i * 1000000000, 60), 0);
	assert_int_equal(world.calls, 2);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(world.calls, 3);
	assert_int_equal(world.count, 2 * FCK_SEND_BATCH + 3);
	assert_int_equal(world.sleeps, 0);
	assert_int_equal(fck_send_report(send).timed, 0);
	fck_send_close(send);
}

// A call takes as long as ten frames last: those that have become due meanwhile go out with the next call.
static void test_a_late_sender_catches_up(void **state)
{
	struct world world;
	struct fck_send *send = make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000});
	(void)state;
	world.give_time = 1000000;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(push(send, i * 100000, 60), 0);
	assert_int_equal(fck_send_flush(send), 0);
	assert_int_equal(world.count, 100);
	assert_true(world.calls >= 10 && world.calls <= 14);
	for (uint64_t i = 0; i < 100; i++)
		assert_true(world.given[i].time >= START + i * 100000);
	struct fck_send_report report = fck_send_report(send);
	assert_true(report.late_max_ns >= 900000 && report.late_max_ns < 1200000);
	assert_true(report.late_median_ns > 300000 && report.late_median_ns < 700000);
	fck_send_close(send);
}

static void test_the_recording_again(void **state)
{
	struct world world;
	struct fck_send *send =
		make(&world, (struct fck_send_config){.pace = FCK_PACE_RECORDED, .rate = 1000000, .base_ns = 100});
	(void)state;
	push(send, 100, 60);
	push(send, 1000100, 60);
	fck_send_again(send, START + 3000000, 100);
	push(send, 100, 60);
	push(send, 1000100, 60);
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000, 3000000, 4000000}, 4);
	fck_send_close(send);
	send = make(&world, (struct fck_send_config){.pace = FCK_PACE_PACKETS, .rate = UINT64_C(1000000000)});
	push(send, 0, 60);
	fck_send_again(send, START + 77777777, 0);
	push(send, 0, 60); // the rate goes on
	assert_int_equal(fck_send_flush(send), 0);
	expect_times(&world, (const uint64_t[]){0, 1000000}, 2);
	fck_send_close(send);
}

static void test_the_end_of_time(void **state)
{
	const struct fck_pace pace = {.kind = FCK_PACE_RECORDED, .rate = 1, .start = START};
	(void)state;
	assert_int_equal(fck_pace_due(&pace, UINT64_MAX), UINT64_MAX);
	assert_int_equal(fck_pace_due(&pace, 1), START + 1000000);
}

static int ascending(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

// Against a sorted list, for values of every magnitude.
static void test_quantiles(void **state)
{
	enum { VALUES = 997 };
	static uint64_t values[VALUES];
	static struct fck_late late;
	uint64_t random = 12345;
	(void)state;
	assert_int_equal(fck_late_quantile(&late, 500), 0);
	for (int i = 0; i < VALUES; i++) {
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		values[i] = i == 0 ? UINT64_MAX : random >> (random >> 58);
		fck_late_add(&late, values[i]);
	}
	qsort(values, VALUES, sizeof(values[0]), ascending);
	for (uint32_t permille = 1; permille <= 1000; permille++) {
		uint32_t at = 0; // so many values and one more are enough
		while ((at + 1) * 1000 < permille * VALUES)
			at++;
		uint64_t exact = values[at], found = fck_late_quantile(&late, permille);
		assert_true(found >= exact);
		assert_true(found - exact <= exact / 16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_times),
		cmocka_unit_test(test_times_that_go_back_are_due_at_once),
		cmocka_unit_test(test_half_speed_takes_twice_as_long),
		cmocka_unit_test(test_packets_per_second),
		cmocka_unit_test(test_bits_per_second),
		cmocka_unit_test(test_full_speed_goes_in_batches),
		cmocka_unit_test(test_a_late_sender_catches_up),
		cmocka_unit_test(test_the_recording_again),
		cmocka_unit_test(test_the_end_of_time),
		cmocka_unit_test(test_quantiles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
