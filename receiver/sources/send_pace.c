// SPDX-License-Identifier: Apache-2.0
#include "send_internal.h"

#define NANOSECONDS UINT64_C(1000000000)
#define MILLIONTHS UINT64_C(1000000)

__extension__ typedef unsigned __int128 wide;

// value * multiply / divide, without overflow in between; what does not fit is the end of time.
static uint64_t scale(uint64_t value, uint64_t multiply, uint64_t divide)
{
	wide scaled = (wide)value * multiply / divide;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static uint64_t after(uint64_t start, uint64_t nanoseconds)
{
	return nanoseconds > UINT64_MAX - start ? UINT64_MAX : start + nanoseconds;
}

uint64_t fck_pace_due(const struct fck_pace *pace, uint64_t time_ns)
{
	switch (pace->kind) {
	case FCK_PACE_RECORDED:
		// a frame that was recorded before the first one is due with it
		if (time_ns <= pace->base)
			return pace->start;
		return after(pace->start, scale(time_ns - pace->base, MILLIONTHS, pace->rate));
	case FCK_PACE_PACKETS:
		return after(pace->start, scale(pace->packets, NANOSECONDS * MILLIONTHS, pace->rate));
	case FCK_PACE_BITS:
		return after(pace->start, scale(pace->bits, NANOSECONDS, pace->rate));
	default:
		return 0;
	}
}

// Values below FCK_LATE_STEPS have a bucket each; from there on each power of two has FCK_LATE_STEPS.
static uint32_t bucket_of(uint64_t value)
{
	if (value < FCK_LATE_STEPS)
		return (uint32_t)value;
	uint32_t shift = 59u - (uint32_t)__builtin_clzll(value); // the five leading bits stay
	return (shift + 1) * FCK_LATE_STEPS + (uint32_t)(value >> shift) - FCK_LATE_STEPS;
}

// The largest value in a bucket.
static uint64_t bucket_end(uint32_t bucket)
{
	if (bucket < FCK_LATE_STEPS)
		return bucket;
	uint32_t shift = bucket / FCK_LATE_STEPS - 1;
	uint64_t first = (uint64_t)(bucket % FCK_LATE_STEPS + FCK_LATE_STEPS) << shift;
	return first + (UINT64_C(1) << shift) - 1;
}

void fck_late_add(struct fck_late *late, uint64_t nanoseconds)
{
	late->buckets[bucket_of(nanoseconds)]++;
	late->count++;
	if (nanoseconds > late->max)
		late->max = nanoseconds;
}

uint64_t fck_late_quantile(const struct fck_late *late, uint32_t permille)
{
	uint64_t below = 0, wanted = (late->count * permille + 999) / 1000;
	for (uint32_t bucket = 0; bucket < FCK_LATE_BUCKETS; bucket++) {
		below += late->buckets[bucket];
		if (below > 0 && below >= wanted) {
			uint64_t end = bucket_end(bucket);
			return end < late->max ? end : late->max;
		}
	}
	return 0;
}
