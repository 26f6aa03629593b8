// SPDX-License-Identifier: Apache-2.0
// Where a packet stands beside the next one in order. `distance` is the difference of the two PSNs, times 256.
//
// 16 384 packets either way is further than a go-back of NCCL can reach: a connection has at most its buffer in the air,
// by default 4 915 200 bytes (LL128), 4 800 packets of 1 KiB.
#ifndef FC_PLACE_P4
#define FC_PLACE_P4

control FcPlace(in bit<32> distance, out bit<2> place) {
    @hidden
    action set(bit<2> found) {
        place = found;
    }

    @hidden
    table places {
        key = {
            distance: ternary;
        }
        actions = {
            set;
        }
        const default_action = set(FC_PLACE_FAR);
        const entries = {
            32w0: set(FC_PLACE_NEXT);
            32w0x00000000 &&& 32w0xffc00000: set(FC_PLACE_AHEAD);
            32w0xffc00000 &&& 32w0xffc00000: set(FC_PLACE_BEHIND);
        }
    }

    apply {
        places.apply();
    }
}

#endif
