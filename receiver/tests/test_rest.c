// SPDX-License-Identifier: Apache-2.0
//
// How long a receiver that finds nothing may sleep, against hand arithmetic and against a ring that fills up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../app/rest.h"

// 64-byte frames at 10 Gbit/s: 14.88 M packets/s, one in 67.2 ns. A quarter of 40,000 comes in 672 us.
static void test_by_hand(void **state)
{
	(void)state;
	assert_int_equal(rest_bound_us(40000, 10000), 672);
	assert_int_equal(rest_bound_us(4096, 10000), 68);  // 1024 * 67.2 ns = 68.8 us
	assert_int_equal(rest_bound_us(4096, 100000), 6);  // 6.88 us
	assert_int_equal(rest_bound_us(32768, 100000), 55); // 55.05 us
	assert_int_equal(rest_bound_us(0, 10000), 0);
}

static void test_no_speed_is_the_fastest(void **state)
{
	(void)state;
	assert_int_equal(rest_bound_us(1 << 20, 0), rest_bound_us(1 << 20, 400000));
	assert_int_equal(rest_bound_us(1 << 20, UINT32_MAX), rest_bound_us(1 << 20, 400000));
	assert_int_equal(rest_bound_us(4096, 10), rest_bound_us(4096, 10000)); // a tap device says 10 Mbit/s
	assert_true(rest_bound_us(UINT32_MAX, 10000) > 1000000);
}

// Whatever ring and speed: what comes while one sleeps is a quarter of the ring at most.
static void test_no_ring_is_full(void **state)
{
	static const uint32_t speeds[] = {10000, 25000, 40000, 50000, 100000, 200000, 400000};

	(void)state;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(*speeds); i++)
		for (uint64_t ring = 1; ring < 1 << 17; ring += 13) {
			double packets_per_us = (double)speeds[i] / ((64 + 8 + 12) * 8.0);

			assert_true((double)rest_bound_us(ring, speeds[i]) * packets_per_us <= (double)ring / 4);
		}
}

static void test_unasked(void **state)
{
	(void)state;
	assert_int_equal(rest_unasked_us(9), 0); // polling costs less
	assert_int_equal(rest_unasked_us(10), 10);
	assert_int_equal(rest_unasked_us(68), 68);
	assert_int_equal(rest_unasked_us(UINT64_C(1) << 40), 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_no_speed_is_the_fastest),
		cmocka_unit_test(test_no_ring_is_full),
		cmocka_unit_test(test_unasked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
