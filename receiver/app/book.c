// SPDX-License-Identifier: Apache-2.0
#include "book.h"

#include <stdlib.h>

#define FIRST_ROOM 64

void book_add(struct flow_book *book, uint32_t flow, const struct spool_flow *key)
{
	if (flow != book->count)
		return;
	if (book->count == book->room) {
		uint32_t room = book->room == 0 ? FIRST_ROOM : 2 * book->room;
		struct flow_line *lines = reallocarray(book->lines, room, sizeof(*lines));

		if (lines == NULL)
			return;
		book->lines = lines;
		book->room = room;
	}
	book->lines[book->count++] = (struct flow_line){.key = *key};
}

void book_messages(struct flow_book *book, uint32_t flow, const struct fck_message *messages, uint32_t count)
{
	struct flow_line *line;

	if (flow >= book->count)
		return;
	line = &book->lines[flow];
	line->messages += count;
	for (uint32_t i = 0; i < count; i++) {
		line->bytes += messages[i].bytes > 0 ? (uint64_t)messages[i].bytes : 0;
		if (messages[i].last_time > line->last_time)
			line->last_time = messages[i].last_time;
	}
}

void book_free(struct flow_book *book)
{
	free(book->lines);
}
