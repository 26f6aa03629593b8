// SPDX-License-Identifier: Apache-2.0
// The C part of `replay` alone: maps a capture file, counts its packets and takes finished messages out, as the Python
// binding does. Prints packets and messages. core_loop FILE
#include <stdio.h>
#include <stdlib.h>

#include "fck.h"
#include "capfile.h"

enum { PACKETS_A_CALL = 262144, ROOM = 4096 };

static uint64_t take(struct fck_core *core)
{
	static struct fck_message messages[ROOM];
	uint64_t total = 0;

	for (uint32_t flow = 0; flow < fck_flow_count(core); flow++) {
		int64_t count;

		do {
			count = fck_flow_take(core, flow, messages, ROOM);
			total += (uint64_t)count;
		} while (count == ROOM);
	}
	return total;
}

int main(int argc, char **argv)
{
	struct fck_core *core;
	struct fck_capfile *file;
	uint64_t messages = 0;
	int result;

	if (argc != 2 || fck_new(NULL, &core) != 0 || fck_capfile_open(&file, argv[1]) != 0)
		return 2;
	while ((result = fck_capfile_run(file, core, PACKETS_A_CALL)) != FCK_RUN_END) {
		if (result < 0)
			return 1;
		if (result == FCK_RUN_INTERFACE)
			fck_capfile_bind(file, (uint32_t)fck_capture_add(core, "cap0"));
		messages += take(core);
	}
	messages += take(core);
	printf("%llu %llu\n", (unsigned long long)fck_capfile_report(file).packets, (unsigned long long)messages);
	fck_capfile_close(file);
	fck_free(core);
	return 0;
}
