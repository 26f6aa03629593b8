// SPDX-License-Identifier: Apache-2.0
//
// Inside of online placement: what the tracker asks where a group has a board.
#ifndef FCK_TRACK_ONLINE_H
#define FCK_TRACK_ONLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "fck_online.h"
#include "track.h"

#define FCK_NO_ITERATION UINT64_MAX // less the number of the slot: the gradient of a slot that is not held

enum fck_claim {
	FCK_CLAIM_OURS,    // to be laid by the caller
	FCK_CLAIM_PRESENT, // lies already
	FCK_CLAIM_OTHERS,  // another worker is laying it
};

// Memory for an iteration that has none yet; NULL: there is none. With `closed` only of one that has a slot still.
struct fck_gradient *fck_online_find(struct fck_tracker *tracker, uint32_t group, uint64_t iteration, bool closed);
enum fck_claim fck_online_claim(struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit);
void fck_online_lay(
	struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit, uint32_t protocol,
	const struct fck_piece_of *piece, uint8_t *data
);
// Takes a unit back; `contradicted`: for good.
void fck_online_withdraw(struct fck_tracker *tracker, struct fck_gradient *gradient, uint64_t unit, bool contradicted);
// All that was laid is present.
void fck_online_settle(struct fck_tracker *tracker);
void fck_online_free(struct fck_tracker *tracker);

#endif
