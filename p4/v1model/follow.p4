// SPDX-License-Identifier: Apache-2.0
// Follows queue pairs: which message of its loop does this packet belong to? Once for each packet, before any rule asks.
// The semantics stand in p4/README.md, "Message windows".
#ifndef FC_V1_FOLLOW_P4
#define FC_V1_FOLLOW_P4

control FcFollow(in fc_facts_t facts, in bit<48> timestamp, out fc_view_t view) {
    @name(".fc.flow_epoch") register<bit<32>>(FC_FLOWS) epochs;
    @name(".fc.flow_next") register<bit<32>>(FC_FLOWS) nexts;
    @name(".fc.flow_count") register<bit<16>>(FC_FLOWS) counts;
    @name(".fc.flow_lost") register<bit<1>>(FC_FLOWS) losts;
    @name(".fc.flow_seen") register<bit<32>>(FC_FLOWS) seens;
    @name(".fc.flow_after") register<bit<32>>(FC_FLOWS) afters;
    @name(".fc.flow_packets") direct_counter(CounterType.packets_and_bytes) packets;
    @name(".fc.verdicts") counter(FC_VERDICTS, CounterType.packets) verdicts;

    FcOpcode() opcode;
    FcPlace() place;
    FcJudge() judge;

    fc_flow_t flow;
    bit<1> request;
    bit<1> end;
    bit<2> where;
    bit<32> next;
    bit<32> distance;
    bit<16> count;
    bit<1> lost;
    bit<16> slot;
    bit<1> begins;

    @name(".fc.follow")
    action follow(bit<16> index, bit<32> epoch, bit<1> anchored, bit<32> anchor, bit<16> period, bit<16> low,
                  bit<16> high) {
        flow = {index, epoch, anchored, anchor, period, low, high};
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

    // Is it the first packet of a new connection: that of the anchor, after a silence, and not the one that was next?
    // A packet soon after the anchor ends no silence: those before it may have been lost on their way here.
    @hidden
    action listen() {
        bit<32> index = (bit<32>)flow.index;
        bit<32> now = (bit<32>)(timestamp >> FC_TICK_SHIFT);
        bit<32> seen;
        bit<32> after;
        seens.read(seen, index);
        afters.read(after, index);
        bit<32> past = facts.psn8 - flow.anchor;
        bit<1> silent = seen != now ? 1w1 : 1w0;
        bit<1> soon = flow.anchored == 1 && past != 0 && past <= 0x400000 ? 1w1 : 1w0;
        begins = flow.anchored == 1 && past == 0 && silent == 1 && after != facts.psn8 ? 1w1 : 1w0;
        if (silent == 0 || soon == 0) {
            seens.write(index, now);
            afters.write(index, facts.psn8 + 0x100);
        }
    }

    // Reads the state of the queue pair; a new epoch in its entry or a new connection starts it afresh.
    @hidden
    action read_state() {
        bit<32> epoch;
        bit<32> index = (bit<32>)flow.index;
        epochs.read(epoch, index);
        nexts.read(next, index);
        counts.read(count, index);
        losts.read(lost, index);
        if (epoch != flow.epoch || begins == 1) {
            next = flow.anchored == 1 ? flow.anchor : facts.psn8;
            count = 0;
            lost = 0;
        }
        distance = facts.psn8 - next;
    }

    @hidden
    action write_state(in bit<32> new_next, in bit<16> new_count, in bit<1> new_lost) {
        bit<32> index = (bit<32>)flow.index;
        epochs.write(index, flow.epoch);
        nexts.write(index, new_next);
        counts.write(index, new_count);
        losts.write(index, new_lost);
    }

    apply {
        view.verdict = FC_OTHER;
        view.message = 0xffff;
        opcode.apply(facts, request, end);
        if (request == 1) {
            view.verdict = FC_UNFOLLOWED;
            flow = {0, 0, 0, 0, 0, 0, 0};
            if (flows.apply().hit) {
                listen();
                read_state();
                place.apply(distance, where);
                if (where == FC_PLACE_FAR) {
                    lost = 1;
                }
                slot = flow.index << 3;
                judge.apply(lost, where, count, flow.low, flow.high, view, slot);
                bit<16> new_count = count;
                if (where == FC_PLACE_NEXT) {
                    next = next + 0x100;
                    if (end == 1) {
                        new_count = count + 1 >= flow.period ? 16w0 : count + 1;
                    }
                }
                write_state(next, new_count, lost);
                verdicts.count((bit<32>)slot);
            }
        }
    }
}

#endif
