// SPDX-License-Identifier: Apache-2.0
// What happens to a copy on its way out: it is counted, and gets the mirror header where the plan says so.
#ifndef FC_TNA_COPY_P4
#define FC_TNA_COPY_P4

control FcCopy(inout fc_headers_t hdr, in fc_port_t egress_port, in fc_travel_t travel) {
    @name(".fc.sequence") Register<bit<32>, fc_port_t>(FC_PORTS, 0) sequences;
    @name(".fc.sent_copies") Counter<bit<64>, bit<16>>(FC_SESSIONS, CounterType_t.PACKETS_AND_BYTES) sent;

    RegisterAction<bit<32>, fc_port_t, bit<32>>(sequences) next_sequence = {
        void apply(inout bit<32> value, out bit<32> now) {
            value = value + 1;
            now = value;
        }
    };

    @name(".fc.describe")
    action describe(bit<32> job_tag, bit<16> session_number) {
        hdr.mirror.job = job_tag;
        hdr.mirror.session = session_number;
    }

    @hidden
    action nobody() {
        hdr.mirror.job = 0;
        hdr.mirror.session = 0;
    }

    @name(".fc.sessions")
    table sessions {
        key = {
            travel.session[9:0]: exact @name("session");
        }
        actions = {
            describe;
            @defaultonly nobody;
        }
        const default_action = nobody();
        size = FC_SESSIONS;
    }

    @name(".fc.with_header")
    action with_header(bit<48> dst_mac, bit<48> src_mac, bit<16> switch_id) {
        hdr.outer.setValid();
        hdr.outer.dst = dst_mac;
        hdr.outer.src = src_mac;
        hdr.outer.kind = ETHERTYPE_FC;
        hdr.mirror.setValid();
        hdr.mirror.version = FC_HEADER_VERSION;
        hdr.mirror.verdict = travel.verdict;
        hdr.mirror.switch_id = switch_id;
        hdr.mirror.point = travel.point;
        hdr.mirror.message = travel.message;
        hdr.mirror.timestamp = travel.timestamp;
        hdr.mirror.sequence = next_sequence.execute(egress_port);
    }

    @name(".fc.monitor_ports")
    table monitor_ports {
        key = {
            egress_port: exact @name("port");
        }
        actions = {
            with_header;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = FC_MONITOR_PORTS;
    }

    apply {
        monitor_ports.apply();
        sessions.apply();
        sent.count(travel.session);
    }
}

#endif
