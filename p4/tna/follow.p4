// SPDX-License-Identifier: Apache-2.0
// Follows queue pairs on Tofino. The same semantics as v1model/follow.p4 (p4/README.md, "Message windows"). One stateful
// access a register and packet, so each register has an action for every case, and a table that chooses it. Ten stages:
// what can be computed one stage earlier is.
#ifndef FC_TNA_FOLLOW_P4
#define FC_TNA_FOLLOW_P4

// When the queue pair was heard last, and what is next after what was heard.
struct fc_heard_t {
    bit<32> seen;
    bit<32> after;
}

control FcFollow(in fc_facts_t facts, in bit<48> timestamp, out fc_view_t view) {
    @name(".fc.flow_packets") DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) packets;
    @name(".fc.verdicts") Counter<bit<32>, bit<16>>(FC_VERDICTS, CounterType_t.PACKETS) verdicts;
    @name(".fc.flow_epoch") Register<bit<32>, bit<16>>(FC_FLOWS, 0) epochs;
    @name(".fc.flow_next") Register<bit<32>, bit<16>>(FC_FLOWS, 0) nexts;
    @name(".fc.flow_count") Register<bit<16>, bit<16>>(FC_FLOWS, 0) counts;
    @name(".fc.flow_lost") Register<bit<8>, bit<16>>(FC_FLOWS, 0) losts;
    @name(".fc.flow_heard") Register<fc_heard_t, bit<16>>(FC_FLOWS, {0, 0}) heards;

    FcOpcode() opcode;
    FcPlace() place;
    FcJudge() judge;

    fc_flow_t flow = {0, 0, 0, 0, 0, 0, 0};
    bit<16> last = 0;      // number of the period's last message
    bit<16> second = 0;    // count after the first message
    bit<1> request;
    bit<1> end;
    bit<1> fresh = 0;
    bit<1> begins = 0;     // a new connection
    bit<32> now = 0;
    bit<2> where;
    bit<32> started = 0;   // what is next after a fresh start
    bit<32> next = 0;
    bit<32> before = 0;    // how far before the anchor (an action's own data can only be subtracted from)
    bit<32> distance = 0;
    bit<16> count = 0;
    bit<1> lost = 0;
    bit<16> slot = 0;

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
    RegisterAction<bit<8>, bit<16>, bit<1>>(losts) lost_get = {
        void apply(inout bit<8> value, out bit<1> now) {
            now = value[0:0];
        }
    };
    RegisterAction<bit<8>, bit<16>, bit<1>>(losts) lost_set = {
        void apply(inout bit<8> value) {
            value = 1;
        }
    };
    RegisterAction<bit<8>, bit<16>, bit<1>>(losts) lost_clear = {
        void apply(inout bit<8> value) {
            value = 0;
        }
    };

    // The packet of the anchor: it begins a new connection after a silence, if it was not next.
    RegisterAction<fc_heard_t, bit<16>, bit<1>>(heards) hear_anchor = {
        void apply(inout fc_heard_t value, out bit<1> first) {
            if (value.seen != now && value.after != facts.psn8) {
                first = 1;
            } else {
                first = 0;
            }
            value.seen = now;
            value.after = facts.psn8 + 0x100;
        }
    };
    // A packet soon after the anchor ends no silence: those before it may have been lost on their way here.
    RegisterAction<fc_heard_t, bit<16>, bit<1>>(heards) hear_soon = {
        void apply(inout fc_heard_t value) {
            if (value.seen == now) {
                value.after = facts.psn8 + 0x100;
            }
        }
    };
    RegisterAction<fc_heard_t, bit<16>, bit<1>>(heards) hear = {
        void apply(inout fc_heard_t value) {
            value.seen = now;
            value.after = facts.psn8 + 0x100;
        }
    };

    @name(".fc.follow")
    action follow(bit<16> index, bit<32> epoch, bit<1> anchored, bit<32> anchor, bit<16> period, bit<16> low,
                  bit<16> high) {
        flow.index = index;
        flow.epoch = epoch;
        flow.anchored = anchored;
        flow.period = period;
        flow.low = low;
        flow.high = high;
        started = anchor;
        before = anchor - facts.psn8;
        now = (bit<32>)timestamp[47:32];
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
    action at_anchor() {
        started = started + 0x100;
        distance = 0;
    }

    @hidden
    action beside_anchor() {
        distance = 0 - before;
    }

    @hidden
    action from_here() {
        started = facts.psn8 + 0x100;
        distance = 0;
    }

    @hidden
    table starts {
        key = {
            flow.anchored: ternary;
            before: ternary;
        }
        actions = {
            at_anchor;
            beside_anchor;
            from_here;
        }
        const default_action = beside_anchor();
        const entries = {
            (0, _): from_here();
            (1, 0): at_anchor();
        }
    }

    @hidden
    action listen_anchor() {
        begins = hear_anchor.execute(flow.index);
    }

    @hidden
    action listen_soon() {
        hear_soon.execute(flow.index);
    }

    @hidden
    action listen() {
        hear.execute(flow.index);
    }

    @hidden
    table silences {
        key = {
            flow.anchored: ternary;
            before: ternary;
        }
        actions = {
            listen_anchor;
            listen_soon;
            listen;
        }
        const entries = {
            (1, 32w0): listen_anchor();
            (1, 32w0xffc00000 &&& 0xffc00000): listen_soon();
            (_, _): listen();
        }
    }

    @hidden
    action prepare() {
        last = flow.period - 1;
        slot = flow.index << 3;
    }

    @hidden
    action several() {
        second = 1;
    }

    @hidden
    table seconds {
        key = {
            flow.period: ternary;
        }
        actions = {
            several;
            NoAction;
        }
        const default_action = several();
        const entries = {
            1: NoAction();
        }
    }

    @hidden
    action begin_next() {
        begin.execute(flow.index);
    }

    @hidden
    action advance_next() {
        next = advance.execute(flow.index);
    }

    @hidden
    table steps {
        key = {
            fresh: exact;
            begins: exact;
        }
        actions = {
            begin_next;
            advance_next;
        }
        const entries = {
            (0, 0): advance_next();
            (0, 1): begin_next();
            (1, 0): begin_next();
            (1, 1): begin_next();
        }
        size = 4;
    }

    @hidden
    action measure() {
        distance = facts.psn8 - next;
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
    }

    @hidden
    action one_count() {
        one.execute(flow.index);
    }

    @hidden
    table tallies {
        key = {
            fresh: ternary;
            begins: ternary;
            where: ternary;
            end: ternary;
        }
        actions = {
            look_count;
            bump_count;
            zero_count;
            one_count;
        }
        const entries = {
            (0, 0, FC_PLACE_NEXT, 1): bump_count();
            (0, 0, _, _): look_count();
            (_, _, FC_PLACE_NEXT, 1): one_count();
            (_, _, _, _): zero_count();
        }
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
    }

    @hidden
    table losses {
        key = {
            fresh: ternary;
            begins: ternary;
            where: ternary;
        }
        actions = {
            read_lost;
            set_lost;
            clear_lost;
        }
        const entries = {
            (_, _, FC_PLACE_FAR): set_lost();
            (0, 0, _): read_lost();
            (_, _, _): clear_lost();
        }
    }

    apply {
        view.verdict = FC_OTHER;
        view.message = 0xffff;
        opcode.apply(facts, request, end);
        if (request == 1) {
            view.verdict = FC_UNFOLLOWED;
            if (flows.apply().hit) {
                fresh = renew.execute(flow.index);
                silences.apply();
                starts.apply();
                prepare();
                seconds.apply();
                steps.apply();
                if (fresh == 0 && begins == 0) {
                    measure();
                }
                place.apply(distance, where);
                tallies.apply();
                losses.apply();
                judge.apply(lost, where, count, flow.low, flow.high, view, slot);
                verdicts.count(slot);
            }
        }
    }
}

#endif
