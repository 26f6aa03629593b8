// SPDX-License-Identifier: Apache-2.0
// A rule matched: is the packet copied? Without a window always; with one, as the packet's queue pair was judged.
#ifndef FC_DECIDE_P4
#define FC_DECIDE_P4

control FcDecide(in bit<1> windowed, in fc_view_t view, inout fc_copy_t copy) {
    apply {
        copy.verdict = FC_RULE;
        copy.message = view.message;
        if (windowed == 1) {
            copy.verdict = view.verdict;
            if (view.verdict == FC_OUTSIDE || view.verdict == FC_OTHER) {
                copy.wanted = 0;
            }
        }
    }
}

#endif
