// SPDX-License-Identifier: Apache-2.0
// Payload placement beside memcpy() of the same blocks: placement FILE PROTOCOL ROUNDS. Writes a capture of 1 MiPackets of
// 1 KiB payload to FILE where it is not there (PROTOCOL 0 Simple, 1 LL, 2 LL128), maps it, and reads it ROUNDS times
// each way into the same memory: the whole path (file, headers, counting, placing, laying), and memcpy() of each packet's
// payload from the same mapping. Prints packets, and of both the best seconds of processor time.
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fck.h"
#include "fck_track.h"
#include "capfile.h"

enum {
	MTU = 1024,
	MESSAGE = 512, // packets
	MESSAGES = 512,
	ITERATIONS = 4,
	HEADERS = 14 + 20 + 8 + 12,
	FILE_HEAD = 24,
	RECORD_HEAD = 16,
	RETH = 16,
	IMMEDIATE = 4,
	DEST_QP = 7,
};

static const uint64_t PACKETS = (uint64_t)MESSAGE * MESSAGES * ITERATIONS;
static const uint64_t UNITS = (uint64_t)MESSAGE * MESSAGES;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

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

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // what others do on this core does not count
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

static uint32_t extension_of(uint32_t packet)
{
	return (packet == 0 ? RETH : 0) + (packet == MESSAGE - 1 ? IMMEDIATE : 0);
}

static void put_flags(uint8_t *payload, uint32_t protocol, uint64_t flag)
{
	uint32_t line = protocol == FCK_PROTOCOL_LL ? 8 : 128, size = protocol == FCK_PROTOCOL_LL ? 4 : 8;

	for (uint32_t at = line - size; protocol != FCK_PROTOCOL_SIMPLE && at < MTU; at += line)
		memcpy(payload + at, &flag, size);
}

// A frame of IPv4 and UDP port 4791, its ICRC left at 0.
static uint32_t make_frame(uint8_t *frame, uint64_t number, uint32_t protocol)
{
	uint32_t packet = (uint32_t)(number % MESSAGE), extension = extension_of(packet);
	uint8_t *ip = frame + 14, *udp = ip + 20, *bth = udp + 8, *payload = bth + 12 + extension;
	uint32_t size = HEADERS + extension + MTU + 4;
	uint64_t word = number * 0x9e3779b97f4a7c15u;

	memset(frame, 0, size);
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
	bth[0] = packet == 0 ? 6 : packet == MESSAGE - 1 ? 9 : 7;
	put32(bth + 4, DEST_QP);
	put32(bth + 8, (uint32_t)number & 0xffffff);
	if (packet == 0)
		put32(bth + 12 + 12, MESSAGE * MTU);
	for (uint32_t at = 0; at < MTU; at += 8, word = word * 6364136223846793005u + 1442695040888963407u)
		memcpy(payload + at, &word, 8);
	put_flags(payload, protocol, number / MESSAGE + 1);
	if (packet == MESSAGE - 1)
		memcpy(bth + 12, &(uint32_t){MESSAGE * MTU}, 4);
	return size;
}

static void make_file(const char *path, uint32_t protocol)
{
	static const uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1};
	uint8_t frame[HEADERS + RETH + IMMEDIATE + MTU + 4];
	FILE *file = fopen(path, "wb");

	if (file == NULL)
		fail(path);
	fwrite(head, sizeof(head), 1, file);
	for (uint64_t number = 0; number < PACKETS; number++) {
		uint32_t size = make_frame(frame, number, protocol);
		uint32_t record[4] = {(uint32_t)(number / 1000000), (uint32_t)(number % 1000000), size, size};

		fwrite(record, sizeof(record), 1, file);
		fwrite(frame, size, 1, file);
	}
	if (fclose(file) != 0)
		fail(path);
}

static uint32_t data_of(uint32_t protocol, uint32_t wire)
{
	return protocol == FCK_PROTOCOL_LL ? wire / 2 : protocol == FCK_PROTOCOL_LL128 ? wire / 16 * 15 : wire;
}

static struct fck_tracker *make_tracker(uint32_t protocol)
{
	static const uint8_t source[4] = {10, 0, 0, 1}, destination[4] = {10, 0, 0, 2};
	struct fck_pattern_config config = {.mtu = MTU, .protocol = protocol, .steps = MESSAGES, .compare = 1};
	struct fck_slot slots[MESSAGES] = {0};
	struct fck_tracker *tracker;
	int pattern, track;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint32_t bytes = data_of(protocol, MESSAGE * MTU);

		slots[i] = (struct fck_slot){
			.packets = MESSAGE,
			.bytes = MESSAGE * MTU,
			.immediate = MESSAGE * MTU,
			.data_at = (uint64_t)i * bytes,
			.data_bytes = bytes,
			.unit = i * MESSAGE,
			.reduced = 1,
			.step = i,
		};
	}
	need(fck_tracker_new(&tracker) == 0, "no tracker");
	pattern = fck_tracker_pattern(tracker, slots, MESSAGES, &config);
	need(pattern >= 0, "pattern refused");
	track = fck_tracker_follow(tracker, 0, 4, source, destination, DEST_QP, (uint32_t)pattern, 0);
	need(track == 0 && fck_tracker_anchor(tracker, 0, 0, 0, ITERATIONS) == 0, "track or anchor refused");
	return tracker;
}

static double place(const uint8_t *mapped, size_t bytes, uint32_t protocol, uint8_t *data, uint64_t *present)
{
	uint64_t size = data_of(protocol, MTU) * UNITS;
	struct fck_tracker *tracker = make_tracker(protocol);
	struct fck_capfile *file;
	struct fck_track count;
	struct fck_core *core;
	double start;
	int run;

	need(fck_new(NULL, &core) == 0 && fck_capture_add(core, "cap0") == 0, "no core");
	memset(present, 0, ITERATIONS * UNITS / 8);
	for (uint64_t i = 0; i < ITERATIONS; i++)
		need(fck_tracker_gradient(tracker, 0, i, data, size, present + i * UNITS / 64, UNITS) == 0, "memory refused");
	fck_core_track(core, tracker);
	need(fck_capfile_buffer(&file, mapped, bytes) == 0, "file refused");
	start = now();
	while ((run = fck_capfile_run(file, core, UINT64_MAX)) == FCK_RUN_INTERFACE)
		fck_capfile_bind(file, 0);
	start = now() - start;
	need(run == FCK_RUN_END && fck_tracker_track(tracker, 0, &count) == 0, "reading failed");
	need(count.lays[FCK_LAY_LAID] == PACKETS, "not every packet was laid");
	fck_capfile_close(file);
	fck_free(core);
	fck_tracker_free(tracker);
	return start;
}

// The same blocks by memcpy(), their addresses known beforehand.
static double copy(const uint8_t *mapped, const uint64_t *offsets, uint8_t *data)
{
	double start = now();

	for (uint64_t i = 0; i < PACKETS; i++)
		memcpy(data + i % UNITS * MTU, mapped + offsets[i], MTU);
	return now() - start;
}

int main(int argc, char **argv)
{
	uint32_t protocol = argc == 4 ? (uint32_t)atoi(argv[2]) : 3;
	double best[2] = {1e9, 1e9};
	struct stat status;
	uint64_t *offsets, *present, at = FILE_HEAD;
	uint8_t *data;
	const uint8_t *mapped;
	int file;

	need(protocol < 3, "use: placement FILE PROTOCOL ROUNDS");
	if (access(argv[1], R_OK) != 0)
		make_file(argv[1], protocol);
	file = open(argv[1], O_RDONLY);
	if (file < 0 || fstat(file, &status) != 0)
		fail(argv[1]);
	mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
	data = aligned_alloc(4096, UNITS * MTU);
	offsets = malloc(PACKETS * sizeof(*offsets));
	present = malloc(ITERATIONS * UNITS / 8);
	need(mapped != MAP_FAILED && data != NULL && offsets != NULL && present != NULL, "no memory");
	memset(data, 1, UNITS * MTU);
	for (uint64_t i = 0; i < PACKETS; i++) {
		uint32_t extension = extension_of((uint32_t)(i % MESSAGE));

		offsets[i] = at + RECORD_HEAD + HEADERS + extension;
		at += RECORD_HEAD + HEADERS + extension + MTU + 4;
	}
	need(at == (uint64_t)status.st_size, "the file is not what this program writes");
	for (int round = 0; round < atoi(argv[3]); round++) {
		double seconds[2] = {copy(mapped, offsets, data), place(mapped, (size_t)status.st_size, protocol, data, present)};

		for (int way = 0; way < 2; way++)
			best[way] = seconds[way] < best[way] ? seconds[way] : best[way];
	}
	printf("%llu %.6f %.6f\n", (unsigned long long)PACKETS, best[0], best[1]);
	return 0;
}
