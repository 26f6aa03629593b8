// SPDX-License-Identifier: Apache-2.0
// Follows queue pairs on Tofino. The same semantics as v1model/follow.p4 (p4/README.md, "Message windows"): one stateful
// access a register and packet, so each register has an action for every case.
#ifndef FC_TNA_FOLLOW_P4
#define FC_TNA_FOLLOW_P4

control FcFollow(in fc_facts_t facts, out fc_view_t view) {
    @name(".fc.flow_packets") DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) packets;
    @name(".fc.verdicts") Counter<bit<32>, bit<16>>(FC_VERDICTS, CounterType_t.PACKETS) verdicts;
    @name(".fc.flow_epoch") Register<bit<32>, bit<16>>(FC_FLOWS, 0) epochs;
    @name(".fc.flow_next") Register<bit<32>, bit<16>>(FC_FLOWS, 0) nexts;
    @name(".fc.flow_count") Register<bit<16>, bit<16>>(FC_FLOWS, 0) counts;
    @name(".fc.flow_lost") Register<bit<8>, bit<16>>(FC_FLOWS, 0) losts;

    FcOpcode() opcode;
    FcPlace() place;
    FcWindow() window;

    fc_flow_t flow;
    bit<16> last;        // number of the period's last message
    bit<16> second;      // count after the first message
    bit<1> request;
    bit<1> end;
    bit<1> fresh;
    bit<2> where;
    bit<32> start;
    bit<32> started;
    bit<32> next;
    bit<32> distance;
    bit<16> count;
    bit<8> lost;
    bit<1> inside;
    bit<16> slot;

    RegisterAction<bit<32>, bit<16>, bit<1>>(epochs) renew = {
        void apply(inout bit<32> value, out bit<1> changed) {
            if (value != flow.epoch) {
                changed = 1;
            } else {
                changed = 0;
            }
            value = flow.epoch;
        }
    };
    RegisterAction<bit<32>, bit<16>, bit<32>>(nexts) advance = {
        void apply(inout bit<32> value, out bit<32> before) {
            before = value;
            if (value == facts.psn8) {
                value = value + 0x100;
            }
        }
    };
    RegisterAction<bit<32>, bit<16>, bit<32>>(nexts) begin = {
        void apply(inout bit<32> value) {
            value = started;
        }
    };
    RegisterAction<bit<16>, bit<16>, bit<16>>(counts) look = {
        void apply(inout bit<16> value, out bit<16> before) {
            before = value;
        }
    };
    RegisterAction<bit<16>, bit<16>, bit<16>>(counts) bump = {
        void apply(inout bit<16> value, out bit<16> before) {
            before = value;
            if (value >= last) {
                value = 0;
            } else {
                value = value + 1;
            }
        }
    };
    RegisterAction<bit<16>, bit<16>, bit<16>>(counts) zero = {
        void apply(inout bit<16> value) {
            value = 0;
        }
    };
    RegisterAction<bit<16>, bit<16>, bit<16>>(counts) one = {
        void apply(inout bit<16> value) {
            value = second;
        }
    };
    RegisterAction<bit<8>, bit<16>, bit<8>>(losts) lost_get = {
        void apply(inout bit<8> value, out bit<8> now) {
            now = value;
        }
    };
    RegisterAction<bit<8>, bit<16>, bit<8>>(losts) lost_set = {
        void apply(inout bit<8> value) {
            value = 1;
        }
    };
    RegisterAction<bit<8>, bit<16>, bit<8>>(losts) lost_clear = {
        void apply(inout bit<8> value) {
            value = 0;
        }
    };

    @name(".fc.follow")
    action follow(bit<16> index, bit<32> epoch, bit<1> anchored, bit<32> anchor, bit<16> period, bit<16> low,
                  bit<16> high) {
        flow.index = index;
        flow.epoch = epoch;
        flow.anchored = anchored;
        flow.anchor = anchor;
        flow.period = period;
        flow.low = low;
        flow.high = high;
        packets.count();
    }

    @name(".fc.flows")
    table flows {
        key = {
            facts.dst: exact @name("dst");
            facts.qp: exact @name("qp");
        }
        actions = {
            follow;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        counters = packets;
        size = FC_FLOWS;
    }

    @hidden
    action read_lost() {
        lost = lost_get.execute(flow.index);
    }

    @hidden
    action set_lost() {
        lost_set.execute(flow.index);
        lost = 1;
    }

    @hidden
    action clear_lost() {
        lost_clear.execute(flow.index);
        lost = 0;
    }

    @hidden
    action look_count() {
        count = look.execute(flow.index);
    }

    @hidden
    action bump_count() {
        count = bump.execute(flow.index);
    }

    @hidden
    action zero_count() {
        zero.execute(flow.index);
        count = 0;
    }

    @hidden
    action one_count() {
        one.execute(flow.index);
        count = 0;
    }

    @hidden
    action judge(bit<3> verdict) {
        view.verdict = verdict;
        view.message = 0xffff;
    }

    @hidden
    action judge_in_order(bit<3> verdict) {
        view.verdict = verdict;
        view.message = count;
    }

    @hidden
    table verdict_of {
        key = {
            lost: ternary;
            where: ternary;
            inside: ternary;
        }
        actions = {
            judge;
            judge_in_order;
        }
        const default_action = judge(FC_LOST);
        const entries = {
            (8w1, _, _): judge(FC_LOST);
            (_, FC_PLACE_NEXT, 1): judge_in_order(FC_INSIDE);
            (_, FC_PLACE_NEXT, 0): judge_in_order(FC_OUTSIDE);
            (_, FC_PLACE_AHEAD, _): judge(FC_AHEAD);
            (_, FC_PLACE_BEHIND, _): judge(FC_REPEAT);
        }
    }

    @hidden
    action slot_base() {
        slot = flow.index << 3;
    }

    @hidden
    action slot_verdict() {
        slot = slot | (bit<16>)view.verdict;
    }

    apply {
        view.verdict = FC_OTHER;
        view.message = 0xffff;
        opcode.apply(facts, request, end);
        if (request == 1) {
            view.verdict = FC_UNFOLLOWED;
            if (flows.apply().hit) {
                last = flow.period - 1;
                slot_base();
                if (flow.period == 1) {
                    second = 0;
                } else {
                    second = 1;
                }
                if (flow.anchored == 1) {
                    start = flow.anchor;
                    distance = facts.psn8 - flow.anchor;
                } else {
                    start = facts.psn8;
                    distance = 0;
                }
                if (distance == 0) {
                    started = start + 0x100;
                } else {
                    started = start;
                }
                fresh = renew.execute(flow.index);
                if (fresh == 1) {
                    begin.execute(flow.index);
                } else {
                    next = advance.execute(flow.index);
                    distance = facts.psn8 - next;
                }
                place.apply(distance, where);
                if (where == FC_PLACE_FAR) {
                    set_lost();
                } else if (fresh == 1) {
                    clear_lost();
                } else {
                    read_lost();
                }
                if (fresh == 1) {
                    if (where == FC_PLACE_NEXT && end == 1) {
                        one_count();
                    } else {
                        zero_count();
                    }
                } else if (where == FC_PLACE_NEXT && end == 1) {
                    bump_count();
                } else {
                    look_count();
                }
                window.apply(count, flow.low, flow.high, inside);
                verdict_of.apply();
                slot_verdict();
                verdicts.count(slot);
            }
        }
    }
}

#endif
