// SPDX-License-Identifier: Apache-2.0
// A rule matched: is the packet copied? Without a window always; with one, as the packet's queue pair was judged.
#ifndef FC_DECIDE_P4
#define FC_DECIDE_P4

control FcDecide(in bit<1> windowed, in fc_view_t view, inout fc_copy_t copy) {
    @hidden
    action whole() {
        copy.verdict = FC_RULE;
        copy.message = view.message;
    }

    @hidden
    action judged() {
        copy.verdict = view.verdict;
        copy.message = view.message;
    }

    @hidden
    action withhold() {
        copy.wanted = 0;
    }

    // One table, not branches: on Tofino they would be a stage each.
    @hidden
    table decisions {
        key = {
            windowed: ternary;
            view.verdict: ternary;
        }
        actions = {
            whole;
            judged;
            withhold;
        }
        const default_action = judged();
        const entries = {
            (0, _): whole();
            (1, FC_OUTSIDE): withhold();
            (1, FC_OTHER): withhold();
        }
    }

    apply {
        decisions.apply();
    }
}

#endif
