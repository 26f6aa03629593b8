// SPDX-License-Identifier: Apache-2.0
#include "ahead.h"

void fck_look_ahead(
	const struct fck_flow_table *table, uint32_t capture, const struct fck_input *frames, uint32_t count,
	struct fck_ahead *ahead
)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fck_ahead *at = &ahead[i];

		at->flow = NULL;
		at->is_plain = fck_plain_head(frames[i].data, frames[i].captured, (uint16_t)capture, &at->plain, &at->key);
		if (!at->is_plain)
			continue;
		at->hash = fck_flow_hash(&at->key);
		at->middle = fck_opcode_lookup(at->plain.opcode)->part == FCK_PART_MIDDLE;
		__builtin_prefetch(&table->slots[at->hash & (table->slot_count - 1)]);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!ahead[i].is_plain)
			continue;
		ahead[i].flow = fck_flow_guess(table, ahead[i].hash);
		if (ahead[i].flow != NULL)
			fck_flow_fetch(ahead[i].flow, ahead[i].middle, ahead[i].plain.psn);
	}
	for (uint32_t i = 0; i < count; i++)
		if (ahead[i].flow != NULL && !ahead[i].middle)
			fck_flow_fetch_places(ahead[i].flow);
}
