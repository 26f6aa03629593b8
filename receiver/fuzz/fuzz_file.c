// SPDX-License-Identifier: Apache-2.0
//
// Fuzz target: the input is a capture file, pcap or pcapng. Whatever comes, the reading ends, the counts of the report, of the
// interfaces and of the core agree, and nothing lies behind the end of the file.
#include <stdio.h>
#include <stdlib.h>

#include "fck.h"
#include "mapped.h"

#define PACKETS_A_CALL 7 // small, so that the reading goes on in the middle of a file
#define INTERFACE_NAME 16

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_interfaces(const struct fck_mapped *file, const struct fck_core *core, uint64_t packets)
{
	uint64_t of_interfaces = 0, of_captures = 0;

	for (uint32_t i = 0; i < fck_mapped_interfaces(file); i++) {
		struct fck_mapped_interface interface;

		require(fck_mapped_interface(file, i, &interface) == 0);
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
static void read_all(struct fck_mapped *file, struct fck_core *core, size_t size)
{
	for (size_t calls = 0;; calls++) {
		uint64_t before = fck_mapped_report(file).packets;
		int result = fck_mapped_run(file, core, PACKETS_A_CALL);

		require(calls <= size);
		require(fck_mapped_report(file).packets - before <= PACKETS_A_CALL);
		if (result == FCK_RUN_END)
			return;
		if (result == FCK_RUN_INTERFACE) {
			char name[INTERFACE_NAME];

			snprintf(name, sizeof(name), "%u", fck_mapped_interfaces(file) % 3);
			require(fck_mapped_bind(file, (uint32_t)fck_capture_add(core, name)) == 0);
			require(fck_mapped_bind(file, 0) < 0);
		} else {
			require(result == FCK_RUN_MORE);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fck_mapped_report report;
	struct fck_mapped *file;
	struct fck_core *core;

	require(fck_new(NULL, &core) == 0);
	require(fck_mapped_buffer(&file, data, size) == 0);
	read_all(file, core, size);
	require(fck_mapped_run(file, core, 1) == FCK_RUN_END); // and stays there
	report = fck_mapped_report(file);
	require(report.size == size && report.offset <= size);
	require((report.reason != NULL) == (report.state == FCK_FILE_TRUNCATED || report.state == FCK_FILE_CORRUPT));
	require(report.state != FCK_FILE_WHOLE || report.offset == size);
	check_interfaces(file, core, report.packets);
	fck_mapped_close(file);
	fck_free(core);
	return 0;
}
