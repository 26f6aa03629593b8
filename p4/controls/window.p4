// SPDX-License-Identifier: Apache-2.0
// Is message `count` inside [low, high)? With low > high the window runs over the end of the period. Numbers stay below
// 32 768, so the top bit of a difference is its sign.
#ifndef FC_WINDOW_P4
#define FC_WINDOW_P4

control FcWindow(in bit<16> count, in bit<16> low, in bit<16> high, out bit<1> inside) {
    bit<16> from_low;
    bit<16> from_high;
    bit<16> width;

    apply {
        from_low = count - low;
        from_high = count - high;
        width = high - low;
        if (width[15:15] == 0) {
            inside = ~from_low[15:15] & from_high[15:15];
        } else {
            inside = ~from_low[15:15] | from_high[15:15];
        }
    }
}

#endif
