// SPDX-License-Identifier: Apache-2.0
// Is message `count` inside [low, high)? With low > high the window runs over the end of the period. Numbers stay below
// 32 768, so the top bit of a difference is its sign.
#ifndef FC_WINDOW_P4
#define FC_WINDOW_P4

control FcWindow(in bit<16> count, in bit<16> low, in bit<16> high, out bit<1> inside) {
    bit<16> from_low;
    bit<16> from_high;
    bit<16> width;

    @hidden
    action subtract() {
        from_low = count - low;
        from_high = count - high;
        width = high - low;
    }

    @hidden
    action set(bit<1> found) {
        inside = found;
    }

    @hidden
    table signs {
        key = {
            width: ternary;
            from_low: ternary;
            from_high: ternary;
        }
        actions = {
            set;
        }
        const default_action = set(0);
        const entries = {
            // low <= high: not below low, and below high
            (16w0 &&& 0x8000, 16w0 &&& 0x8000, 16w0x8000 &&& 0x8000): set(1);
            // low > high: not below low, or below high
            (16w0x8000 &&& 0x8000, 16w0 &&& 0x8000, _): set(1);
            (16w0x8000 &&& 0x8000, _, 16w0x8000 &&& 0x8000): set(1);
        }
    }

    apply {
        subtract();
        signs.apply();
    }
}

#endif
