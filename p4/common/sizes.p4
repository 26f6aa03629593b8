// SPDX-License-Identifier: Apache-2.0
// Every size has its home here; Python reads them from the P4Info.
#ifndef FC_SIZES_P4
#define FC_SIZES_P4

#define FC_ACL_SIZE 4096     // rules of one direction: one for each (source port, address pair) of a plan
#define FC_TNA_ACL_SIZE 2048 // the same on Tofino 1: with 4096 in both directions the follower needs more than 12 stages
#define FC_FLOWS 4096        // queue pairs that are followed
#define FC_VERDICTS 32768    // FC_FLOWS * 8: one counter for each (flow, verdict)
#define FC_SESSIONS 1024     // clone session ids 0..1023; a site may use 1..1015 (Stratum on Tofino), 2..1015 are ours
#define FC_PORTS 512         // bit<9>
#define FC_MONITOR_PORTS 64
#define FC_STATIONS 1024     // entries of the example's forwarding table
#define FC_LOSSES 256        // test rules that lose packets
#define FC_TICK_SHIFT 20     // of the time in microseconds (BMv2): a tick is 1.05 s

#endif
