// SPDX-License-Identifier: Apache-2.0
// Copies packets as they enter the switch (direction rx of a plan). One rule decides; the copy is of the packet as received.
#ifndef FC_TNA_INGRESS_MIRROR_P4
#define FC_TNA_INGRESS_MIRROR_P4

control FcIngressMirror(in fc_port_t ingress_port, in bit<48> timestamp, in fc_facts_t facts, out fc_view_t view,
                        inout fc_copy_t copy, inout bit<16> travel_session) {
    @name(".fc.ingress_rule") DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) matched;
    @name(".fc.ingress_copies") Counter<bit<64>, fc_session_t>(FC_SESSIONS, CounterType_t.PACKETS_AND_BYTES) copies;

    FcFollow() follow;
    FcDecide() decide;
    bit<1> window;

    @name(".fc.ingress_mirror")
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

    @name(".fc.ingress_acl")
    table acl {
        key = {
            ingress_port: ternary @name("port");
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
        // The rules first: on Tofino 1 a table is not placed beside the branches of another, and the follower branches.
        acl.apply();
        copy.timestamp = timestamp;
        follow.apply(facts, timestamp, view);
        decide.apply(window, view, copy);
        if (copy.wanted == 1) {
            copies.count(copy.session);
        }
    }
}

#endif
