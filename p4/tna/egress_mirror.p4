// SPDX-License-Identifier: Apache-2.0
// Copies packets as they leave the switch (direction tx of a plan). One rule decides; the copy is of the packet as sent.
#ifndef FC_TNA_EGRESS_MIRROR_P4
#define FC_TNA_EGRESS_MIRROR_P4

control FcEgressMirror(in fc_port_t egress_port, in bit<48> timestamp, in fc_facts_t facts, in fc_view_t view,
                        inout fc_copy_t copy, inout bit<16> travel_session) {
    @name(".fc.egress_rule") DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) matched;
    @name(".fc.egress_copies") Counter<bit<64>, fc_session_t>(FC_SESSIONS, CounterType_t.PACKETS_AND_BYTES) copies;

    FcDecide() decide;
    bit<1> window;

    @name(".fc.egress_mirror")
    action mirror(fc_session_t session, bit<16> point, bit<1> windowed) {
        copy.session = session;
        travel_session = (bit<16>)session;
        copy.point = point;
        window = windowed;
        copy.wanted = 1;
        matched.count();
    }

    @hidden
    action pass() {
        copy.wanted = 0;
        window = 0;
    }

    @name(".fc.egress_acl")
    table acl {
        key = {
            egress_port: ternary @name("port");
            facts.src: ternary @name("src");
            facts.dst: ternary @name("dst");
            facts.udp_dst: ternary @name("udp_dst");
            facts.qp: ternary @name("qp");
        }
        actions = {
            mirror;
            @defaultonly pass;
        }
        const default_action = pass();
        counters = matched;
        size = FC_TNA_ACL_SIZE;
    }

    apply {
        acl.apply();
        copy.timestamp = timestamp;
        decide.apply(window, view, copy);
        if (copy.wanted == 1) {
            copies.count(copy.session);
        }
    }
}

#endif
