// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the input is a capture file, pcap or pcapng. Whatever comes, the reading ends, the counts of the report, of the
// interfaces and of the core agree, nothing lies behind the end of the file, and a stream of it gives the same packets, however it
// is cut into pieces.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fck.h"
#include "capfile.h"

#define PACKETS_A_CALL 7 // small, so that the reading goes on in the middle of a file
#define INTERFACE_NAME 16
#define LEAST_PIECE 4 // by these a stream is known as a capture
#define ODD 61

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_interfaces(const struct fck_capfile *file, const struct fck_core *core, uint64_t packets)
{
	uint64_t of_interfaces = 0, of_captures = 0;

	for (uint32_t i = 0; i < fck_capfile_interfaces(file); i++) {
		struct fck_capfile_interface interface;

		require(fck_capfile_interface(file, i, &interface) == 0);
		require(interface.number == i && interface.name_length <= UINT16_MAX);
		require(interface.bound || interface.packets == 0);
		of_interfaces += interface.packets;
	}
	for (uint32_t i = 0; i < fck_capture_count(core); i++) {
		struct fck_capture capture;

		require(fck_capture_get(core, i, &capture) == 0);
		of_captures += capture.packets;
	}
	require(of_interfaces == packets && of_captures == packets);
}

// Reads on until the end. The number of interfaces bounds the calls that give no packet.
static void read_all(struct fck_capfile *file, struct fck_core *core, size_t size)
{
	for (size_t calls = 0;; calls++) {
		uint64_t before = fck_capfile_report(file).packets;
		int result = fck_capfile_run(file, core, PACKETS_A_CALL);

		require(calls <= size);
		require(fck_capfile_report(file).packets - before <= PACKETS_A_CALL);
		if (result == FCK_RUN_END)
			return;
		if (result == FCK_RUN_INTERFACE) {
			char name[INTERFACE_NAME];

			snprintf(name, sizeof(name), "%u", fck_capfile_interfaces(file) % 3);
			require(fck_capfile_bind(file, (uint32_t)fck_capture_add(core, name)) == 0);
			require(fck_capfile_bind(file, 0) < 0);
		} else {
			require(result == FCK_RUN_MORE);
		}
	}
}

// All that a sink is told, as one number (FNV-1a).
static void mix(uint64_t *digest, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < size; i++)
		*digest = (*digest ^ bytes[i]) * UINT64_C(0x100000001b3);
}

static int digest_packet(
	void *context, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
)
{
	mix(context, &capture, sizeof(capture));
	mix(context, &time_ns, sizeof(time_ns));
	mix(context, &original, sizeof(original));
	mix(context, &captured, sizeof(captured));
	mix(context, data, captured);
	return 0;
}

static void run_to_end(struct fck_capfile *file, uint64_t *digest)
{
	int result;

	while ((result = fck_capfile_run_to(file, digest_packet, digest, PACKETS_A_CALL)) != FCK_RUN_END) {
		require(result == FCK_RUN_MORE || result == FCK_RUN_INTERFACE);
		if (result == FCK_RUN_INTERFACE)
			require(fck_capfile_bind(file, fck_capfile_interfaces(file)) == 0);
	}
}

static uint64_t digest_whole(const uint8_t *data, size_t size, struct fck_capfile_report *report)
{
	struct fck_capfile *file;
	uint64_t digest = 0;

	require(fck_capfile_buffer(&file, data, size) == 0);
	run_to_end(file, &digest);
	*report = fck_capfile_report(file);
	fck_capfile_close(file);
	return digest;
}

// Every piece stands in memory of its own, behind what the run before did not use.
static uint64_t digest_pieces(const uint8_t *data, size_t size, size_t piece, struct fck_capfile_report *report)
{
	struct fck_capfile *file;
	uint8_t *memory = NULL;
	uint64_t digest = 0;
	size_t end = 0;

	require(fck_capfile_buffer(&file, NULL, 0) == 0);
	do {
		size_t begin = (size_t)fck_capfile_report(file).offset;
		uint8_t *next;

		end = size - end > piece ? end + piece : size;
		require(begin <= end);
		next = malloc(end > begin ? end - begin : 1);
		require(next != NULL);
		if (end > begin)
			memcpy(next, data + begin, end - begin);
		require(fck_capfile_more(file, next, end - begin) == 0);
		free(memory);
		memory = next;
		run_to_end(file, &digest);
		*report = fck_capfile_report(file);
	} while (end < size && report->state != FCK_FILE_FOREIGN && report->state != FCK_FILE_CORRUPT);
	fck_capfile_close(file);
	free(memory);
	return digest;
}

static void check_pieces(const uint8_t *data, size_t size)
{
	struct fck_capfile_report whole, pieces;
	size_t piece = LEAST_PIECE + size % ODD;

	require(digest_whole(data, size, &whole) == digest_pieces(data, size, piece, &pieces));
	require(whole.state == pieces.state && whole.offset == pieces.offset && whole.packets == pieces.packets);
	require(whole.reason == NULL ? pieces.reason == NULL : strcmp(whole.reason, pieces.reason) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fck_capfile_report report;
	struct fck_capfile *file;
	struct fck_core *core;

	require(fck_new(NULL, &core) == 0);
	require(fck_capfile_buffer(&file, data, size) == 0);
	read_all(file, core, size);
	require(fck_capfile_run(file, core, 1) == FCK_RUN_END); // and stays there
	report = fck_capfile_report(file);
	require(report.size == size && report.offset <= size);
	require((report.reason != NULL) == (report.state == FCK_FILE_TRUNCATED || report.state == FCK_FILE_CORRUPT));
	require(report.state != FCK_FILE_WHOLE || report.offset == size);
	check_interfaces(file, core, report.packets);
	fck_capfile_close(file);
	fck_free(core);
	check_pieces(data, size);
	return 0;
}
