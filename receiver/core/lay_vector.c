// SPDX-License-Identifier: Apache-2.0
//
// The vector twin of lay.c's portable functions: AVX2 where the processor has it, chosen when a tracker is made.
#include "lay.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define STEP 64u // bytes of lines a turn: four LL lines, or one cache line
#define VECTOR 32u
// Bytes ahead of what is read that are asked for: in a mapped file the next packets lie there, headers too, and parsing
// would wait for them. Elsewhere it does no harm: a prefetch reads nothing.
#define AHEAD 2048

AVX2 static bool avx2_ll_flag(const uint8_t *payload, uint32_t length, uint64_t *flag)
{
	uint64_t rest_flag;
	__m256i first, differs = _mm256_setzero_si256();
	uint32_t value, at;

	if (length < STEP)
		return fck_lay_portable.ll_flag(payload, length, flag);
	memcpy(&value, payload + 4, sizeof(value));
	first = _mm256_set1_epi32((int)value);
	for (at = 0; at + STEP <= length; at += STEP) {
		__m256 a = _mm256_loadu_ps((const float *)(const void *)(payload + at));
		__m256 b = _mm256_loadu_ps((const float *)(const void *)(payload + at + VECTOR));
		__m256i flags = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)); // words 1 and 3 of each line

		differs = _mm256_or_si256(differs, _mm256_xor_si256(flags, first));
	}
	*flag = value;
	if (!_mm256_testz_si256(differs, differs))
		return false;
	return at == length || (fck_lay_portable.ll_flag(payload + at, length - at, &rest_flag) && rest_flag == value);
}

AVX2 static void avx2_ll_strip(const uint8_t *payload, uint32_t bytes, uint8_t *out)
{
	for (; bytes >= VECTOR; bytes -= VECTOR, payload += STEP, out += VECTOR) {
		__m256 a = _mm256_loadu_ps((const float *)(const void *)payload);
		__m256 b = _mm256_loadu_ps((const float *)(const void *)(payload + VECTOR));
		__m256i data = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)); // lines 0, 2, 1, 3

		_mm_prefetch((const char *)payload + AHEAD, _MM_HINT_T0);
		_mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute4x64_epi64(data, 0xd8));
	}
	fck_lay_portable.ll_strip(payload, bytes, out);
}

// Whole cache lines past the cache: gradient memory is written once and read much later. Measured against memcpy() of
// 1 KiB blocks, which reads each line of the target before it writes it.
AVX2 static void avx2_copy(uint8_t *out, const uint8_t *data, uint32_t bytes)
{
	uint32_t head = (uint32_t)(-(uintptr_t)out & (STEP - 1));

	if (bytes < 2 * STEP) {
		memcpy(out, data, bytes);
		return;
	}
	memcpy(out, data, head);
	out += head;
	data += head;
	for (bytes -= head; bytes >= STEP; bytes -= STEP, out += STEP, data += STEP) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)data);
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(data + VECTOR));

		_mm_prefetch((const char *)data + AHEAD, _MM_HINT_T0);
		_mm256_stream_si256((__m256i *)(void *)out, a);
		_mm256_stream_si256((__m256i *)(void *)(out + VECTOR), b);
	}
	memcpy(out, data, bytes);
}

static const struct fck_lay_ops avx2 = {avx2_ll_flag, avx2_ll_strip, avx2_copy, "avx2"};

const struct fck_lay_ops *fck_lay_best(void)
{
	return __builtin_cpu_supports("avx2") ? &avx2 : &fck_lay_portable;
}

#else

const struct fck_lay_ops *fck_lay_best(void)
{
	return &fck_lay_portable;
}

#endif
