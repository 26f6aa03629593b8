// SPDX-License-Identifier: Apache-2.0
// What a packet of a followed queue pair is: in order inside or outside the window [low, high), ahead, a repeat, or lost.
// With low > high the window runs over the end of the period. Numbers stay below 32 768, so the top bit of a difference is
// its sign.
#ifndef FC_JUDGE_P4
#define FC_JUDGE_P4

control FcJudge(in bit<1> lost, in bit<2> where, in bit<16> count, in bit<16> low, in bit<16> high,
                inout fc_view_t view, inout bit<16> slot) {
    bit<16> from_low;
    bit<16> from_high;
    bit<16> width;

    @hidden
    action subtract() {
        from_low = count - low;
        from_high = count - high;
        width = high - low;
    }

    // The verdict once more in 16 bits: the counter of this (queue pair, verdict).
    @hidden
    action place_unknown(bit<8> verdict, bit<16> code) {
        view.verdict = verdict;
        view.message = 0xffff;
        slot = slot | code;
    }

    @hidden
    action place_known(bit<8> verdict, bit<16> code) {
        view.verdict = verdict;
        view.message = count;
        slot = slot | code;
    }

    // One table, not branches: on Tofino they would be a stage each.
    @hidden
    table verdict_of {
        key = {
            lost: ternary;
            where: ternary;
            width: ternary;
            from_low: ternary;
            from_high: ternary;
        }
        actions = {
            place_unknown;
            place_known;
        }
        const default_action = place_unknown(FC_LOST, 5);
        const entries = {
            (1, _, _, _, _): place_unknown(FC_LOST, 5);
            (_, FC_PLACE_AHEAD, _, _, _): place_unknown(FC_AHEAD, 3);
            (_, FC_PLACE_BEHIND, _, _, _): place_unknown(FC_REPEAT, 4);
            (_, FC_PLACE_FAR, _, _, _): place_unknown(FC_LOST, 5);
            // low <= high: not below low, and below high
            (_, _, 16w0 &&& 0x8000, 16w0 &&& 0x8000, 16w0x8000 &&& 0x8000): place_known(FC_INSIDE, 1);
            // low > high: not below low, or below high
            (_, _, 16w0x8000 &&& 0x8000, 16w0 &&& 0x8000, _): place_known(FC_INSIDE, 1);
            (_, _, 16w0x8000 &&& 0x8000, _, 16w0x8000 &&& 0x8000): place_known(FC_INSIDE, 1);
            (_, _, _, _, _): place_known(FC_OUTSIDE, 2);
        }
    }

    apply {
        subtract();
        verdict_of.apply();
    }
}

#endif
