// SPDX-License-Identifier: Apache-2.0
//
// What is known of a worker's flows while it runs: the control thread notes what it was handed.
#ifndef RECEIVER_BOOK_H
#define RECEIVER_BOOK_H

#include "spool.h"

struct flow_line {
	struct spool_flow key; // as it was when the flow appeared: its counters say nothing
	uint64_t messages;     // finished ones
	uint64_t bytes;        // of them
	uint64_t last_time;
};

struct flow_book {
	struct flow_line *lines; // by the flow's number
	uint32_t count;
	uint32_t room;
};

// A flow appeared, the next one in number. What there is no memory for is left out for good.
void book_add(struct flow_book *book, uint32_t flow, const struct spool_flow *key);
void book_messages(struct flow_book *book, uint32_t flow, const struct fck_message *messages, uint32_t count);
void book_free(struct flow_book *book);

#endif
