// SPDX-License-Identifier: Apache-2.0
//
// libfck: counts mirrored RoCEv2 packets. libc only, no I/O, no threads, no global state, never prints.
//
// One `struct fck_core` belongs to one thread. Hand every frame to fck_frame(), then call fck_finish() and read the
// results: plain structs that point to arrays owned by the core. Functions return 0 or a count, or -errno.
// The text between the two "cffi" lines is plain C declarations, so that a binding can take it as it is.
#ifndef FCK_H
#define FCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// cffi: begin

struct fck_core;

enum fck_log_level { FCK_LOG_INFO = 0, FCK_LOG_WARNING = 1 };

// `message` is a NUL-terminated line without newline, valid during the call. Never called for an ordinary packet.
typedef void (*fck_log_fn)(void *context, int level, const char *message);

enum { FCK_GRE_TYPES = 8 };

// All zero is a good configuration.
struct fck_config {
	uint32_t max_flows;           // 0: no limit; packets of flows beyond it count as FCK_ATTRIBUTE_FLOW_REFUSED
	uint64_t duplicate_window_ns; // repeats within this time may be mirror duplicates; 0: 1 000 000 (1 ms)
	fck_log_fn log;               // may be NULL
	void *log_context;
	// More GRE protocol types under which mirrored frames may come; zeros are unused places. Where the frame begins is
	// found by looking for it. Always known: 0x6558, 0x88be, 0x22eb, 0x8949.
	uint16_t gre_types[FCK_GRE_TYPES];
	uint8_t trimmed_dscp; // DSCP by which switches mark packets whose payload they cut off; 0: no such mark
	uint8_t check_icrc;   // 1: compute the invariant CRC of RoCEv2 packets; bad ones belong to no flow
	uint8_t tunnels_elsewhere; // 1: tunnels and their sequence numbers are counted before the frames are spread (spread.h)
};

// A frame for fck_frames().
struct fck_input {
	const uint8_t *data;
	uint64_t time_ns;
	uint32_t captured;
	uint32_t original;
};

// What a frame was, the mirrored one inside where the frame is a tunnel's. Every frame is counted under exactly one.
enum fck_frame_kind {
	FCK_FRAME_ROCEV2,                // UDP 4791 with a complete BTH
	FCK_FRAME_TRIMMED,               // UDP whose payload a switch cut off, by `trimmed_dscp`: unsupported
	FCK_FRAME_ROCEV1,                // ethertype 0x8915: unsupported
	FCK_FRAME_UET,                   // Ultra Ethernet Transport, UDP 4793: unsupported
	FCK_FRAME_ARP,
	FCK_FRAME_PTP,                   // ethertype 0x88f7, or UDP port 319 / 320
	FCK_FRAME_LLDP,
	FCK_FRAME_LLC,                   // 802.3 length instead of an ethertype: STP, IS-IS ...
	FCK_FRAME_IPV4_FRAGMENT,         // any fragment, the first one too: never parsed
	FCK_FRAME_IPV6_FRAGMENT,
	FCK_FRAME_ICMP,
	FCK_FRAME_ICMPV6,
	FCK_FRAME_TCP,
	FCK_FRAME_UDP_OTHER,
	FCK_FRAME_GRE,                   // GRE in which no mirrored frame was found
	FCK_FRAME_IP_OTHER,
	FCK_FRAME_ETHERTYPE_OTHER,       // a third VLAN tag too
	FCK_FRAME_LINK_TYPE_UNSUPPORTED, // not Ethernet, see fck_frame_foreign()
	FCK_FRAME_MALFORMED_ETHERNET,    // shorter than its header
	FCK_FRAME_MALFORMED_IP,          // version, header length or total length contradict each other
	FCK_FRAME_MALFORMED_UDP,         // UDP length below 8 or beyond the IP payload
	FCK_FRAME_MALFORMED_TUNNEL,      // GRE, ERSPAN or VXLAN header longer than the IP payload
	FCK_FRAME_MALFORMED_BTH,         // UDP payload too short for the BTH, its extension headers, padding and ICRC
	FCK_FRAME_TRUNCATED_ETHERNET,    // the capture ends inside the Ethernet header or its tags
	FCK_FRAME_TRUNCATED_IP,          // the capture ends inside the IP header or its extension headers
	FCK_FRAME_TRUNCATED_UDP,         // the capture ends inside the UDP header
	FCK_FRAME_TRUNCATED_TUNNEL,      // the capture ends inside the GRE, ERSPAN or VXLAN header
	FCK_FRAME_TRUNCATED_BTH,         // the capture ends inside the BTH
	FCK_FRAME_KINDS
};

// Other facts about frames. A frame may have any number of them; they are no part of the sum above. In a tunnel they are
// facts about the mirrored frame inside.
enum fck_attribute {
	FCK_ATTRIBUTE_ETHERNET_BROADCAST,
	FCK_ATTRIBUTE_ETHERNET_MULTICAST, // broadcast not included
	FCK_ATTRIBUTE_VLAN,               // one VLAN tag
	FCK_ATTRIBUTE_VLAN_STACKED,       // two VLAN tags
	FCK_ATTRIBUTE_TRUNCATED,          // fewer bytes captured than the IP header says
	FCK_ATTRIBUTE_ECN_CE,             // RoCEv2 packet marked "congestion experienced"
	FCK_ATTRIBUTE_FLOW_REFUSED,       // RoCEv2 packet counted but in no flow: max_flows reached
	FCK_ATTRIBUTE_ENCAPSULATED_GRE,     // taken out of GRE (0x6558, 0x8949 or a type of `gre_types`)
	FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN1, // 0x88be without a sequence number
	FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN2,
	FCK_ATTRIBUTE_ENCAPSULATED_ERSPAN3,
	FCK_ATTRIBUTE_ENCAPSULATED_VXLAN,
	FCK_ATTRIBUTE_ENCAPSULATED_TOO_DEEP, // a third tunnel: not opened
	FCK_ATTRIBUTE_ERSPAN_TRUNCATED,      // the switch says that it cut the frame
	FCK_ATTRIBUTE_ERSPAN_BAD_FRAME,      // the switch says that the frame had a CRC or alignment error
	FCK_ATTRIBUTE_ERSPAN_SEQUENCE_GAPS,  // no frames but what lacks: sequence numbers of ERSPAN and GRE never seen
	FCK_ATTRIBUTE_TUNNEL_REFUSED,        // outer header counted but in no tunnel: FCK_TUNNEL_LIMIT reached
	FCK_ATTRIBUTE_ICRC_VALID,     // with `check_icrc` each RoCEv2 packet is one of these three
	FCK_ATTRIBUTE_ICRC_BAD,       // in no flow: a network card would drop it
	FCK_ATTRIBUTE_ICRC_UNCHECKED, // not captured whole, IPv4 options, IPv6 extension headers, opcode unsupported
	FCK_ATTRIBUTES
};

// In the order of FCK_ATTRIBUTE_ENCAPSULATED_*.
enum fck_tunnel_kind {
	FCK_TUNNEL_GRE,
	FCK_TUNNEL_ERSPAN1,
	FCK_TUNNEL_ERSPAN2,
	FCK_TUNNEL_ERSPAN3,
	FCK_TUNNEL_VXLAN,
	FCK_TUNNEL_KINDS
};

enum { FCK_TUNNEL_LIMIT = 4096 };

// What a RoCEv2 packet was. Every RoCEv2 packet of a flow is counted under exactly one of these.
enum fck_class {
	FCK_CLASS_WRITE,         // RDMA WRITE, the 0-byte write with immediate included
	FCK_CLASS_CLEAR_TO_SEND, // RC RDMA WRITE ONLY of 32 or 64 bytes without immediate: NCCL's receiver posting its FIFO
	FCK_CLASS_SEND,
	FCK_CLASS_READ_REQUEST,
	FCK_CLASS_READ_RESPONSE,
	FCK_CLASS_ATOMIC,
	FCK_CLASS_ATOMIC_ACK,
	FCK_CLASS_ACK,
	FCK_CLASS_NAK,
	FCK_CLASS_RNR_NAK,
	FCK_CLASS_CNP,
	FCK_CLASS_SETUP,         // destination QP 1: connection management and other management datagrams
	FCK_CLASS_DATAGRAM,      // other UD packets
	FCK_CLASS_UNSUPPORTED,   // other transports and opcodes
	FCK_CLASSES
};

enum fck_cause { FCK_CAUSE_LOST = 0, FCK_CAUSE_CAPTURE_START = 1, FCK_CAUSE_CAPTURE_END = 2 };

struct fck_capture {
	const char *name;
	uint64_t packets;
	uint64_t bytes;      // sum of `original`
	uint64_t first_time; // nanoseconds, smallest and largest seen; 0 without packets
	uint64_t last_time;
	uint64_t frames[FCK_FRAME_KINDS]; // their sum is `packets`
	uint64_t attributes[FCK_ATTRIBUTES];
};

// Outer headers of one sender and session at one capture.
struct fck_tunnel {
	uint32_t capture;
	uint32_t family;
	uint8_t source[16]; // as in struct fck_flow
	uint32_t kind;      // enum fck_tunnel_kind
	int64_t session;    // ERSPAN session id, VXLAN network id, GRE key; -1: none
	uint64_t packets;
	int64_t sequence_gaps; // sequence numbers never seen; -1: unknown, there are none or all are 0
};

// A position is a PSN unwrapped to 64 bits: the first request packet of a flow has position == PSN. It is below zero
// only where a packet from before the first one lies on the other side of PSN 0. PSN == position & 0xffffff.
struct fck_range {
	int64_t first; // both ends included
	int64_t last;
};

struct fck_repeat {
	int64_t position;
	uint64_t copies; // extra ones
};

struct fck_missing {
	int64_t position;
	uint64_t packets;
	uint32_t first_psn;
	uint32_t last_psn;
	uint32_t cause; // enum fck_cause
};

struct fck_gap {
	int64_t position;
	uint64_t packets;
	uint64_t filled; // of them seen later
	uint32_t first_psn;
	uint32_t last_psn;
};

struct fck_message {
	int64_t position;
	int64_t bytes;            // RETH DMA length; -1: its packet was not seen
	uint64_t packets;         // distinct ones seen
	int64_t expected_packets; // -1: unknown
	int64_t immediate;        // read little-endian; -1: none seen
	int64_t ll_flag;          // -1: none
	int64_t icrc_sum;         // of its distinct packets, each as a big-endian word; -1: unknown, one was not captured whole or
	                          // it was cut out of a piece whose losses came late
	uint64_t first_time;
	uint64_t last_time;
	uint32_t first_psn;
	uint32_t opcode; // of the lowest packet seen
};

// One direction of one queue pair at one capture. Arrays belong to the core and live until the next call of
// fck_frame(), fck_finish() or fck_free(); each is sorted by position.
struct fck_flow {
	uint32_t capture;
	uint32_t family; // 4 or 6; an IPv4 address is in the first four bytes
	uint8_t source[16];
	uint8_t destination[16];
	uint32_t dest_qp;
	uint32_t mtu;     // 0: unknown
	uint64_t packets[FCK_CLASSES];
	uint64_t truncated; // of these packets
	uint64_t bytes;   // RDMA payload of distinct request packets
	uint64_t retransmitted;
	uint64_t duplicated;
	uint64_t reordered;
	const struct fck_range *seen;
	uint64_t seen_count;
	const struct fck_repeat *repeats;
	uint64_t repeats_count;
	const struct fck_missing *missing;
	uint64_t missing_count;
	const struct fck_gap *gaps;
	uint64_t gaps_count;
	const struct fck_message *messages; // RDMA writes
	uint64_t messages_count;
};

// `config` may be NULL. -ENOMEM.
int fck_new(const struct fck_config *config, struct fck_core **core);
// NULL is fine.
void fck_free(struct fck_core *core);

// Index of the capture called `name`, made on first use. -EINVAL: empty name; -ENOSPC: 65 536 are there; -ENOMEM.
int fck_capture_add(struct fck_core *core, const char *name);

// One Ethernet frame without preamble; with or without FCS. Reads `captured` bytes of `data` and keeps no pointer to
// it. `original` is the length on the wire. -EINVAL: no such capture; -ENOMEM: the frame is counted, its place is not.
int fck_frame(
	struct fck_core *core, uint32_t capture, uint64_t time_ns, const uint8_t *data, uint32_t captured, uint32_t original
);
// The same for frames that came together, which costs less a frame. Returns how many of them had no memory for their place
// (all are counted); -EINVAL: no such capture.
int64_t fck_frames(struct fck_core *core, uint32_t capture, const struct fck_input *frames, uint32_t count);
// A frame of a link type other than Ethernet: counted, not opened.
int fck_frame_foreign(struct fck_core *core, uint32_t capture, uint64_t time_ns, uint32_t original);

// Computes what the functions below hand out. May be called again after more frames. -ENOMEM.
int fck_finish(struct fck_core *core);

uint32_t fck_capture_count(const struct fck_core *core);
uint32_t fck_flow_count(const struct fck_core *core);
uint32_t fck_tunnel_count(const struct fck_core *core);
// -EINVAL: no such index.
int fck_capture_get(const struct fck_core *core, uint32_t index, struct fck_capture *out);
// In the order in which the flows appeared. -EINVAL: no such index, or fck_finish() not called since the last frame.
int fck_flow_get(const struct fck_core *core, uint32_t index, struct fck_flow *out);
// The same while packets go on coming: its key and counters as they stand; all arrays are empty. -EINVAL: no such index.
int fck_flow_peek(const struct fck_core *core, uint32_t index, struct fck_flow *out);
// Takes finished messages out of a flow, in order of position, so that memory does not grow with the length of a capture:
// RDMA writes of which every packet from the first to the last was seen. They can change no more, and fck_flow_get() does
// not hand them out again; their positions stay in `seen`. Writes up to `room` of them to `out` and returns how many; less
// than `room`: there are no more for now. May be called between frames. -EINVAL: no such index.
int64_t fck_flow_take(struct fck_core *core, uint32_t index, struct fck_message *out, uint64_t room);
// In the order in which the tunnels appeared. -EINVAL: no such index.
int fck_tunnel_get(const struct fck_core *core, uint32_t index, struct fck_tunnel *out);

// Names as they stand in the records, such as "rocev2" or "clear_to_send"; NULL: no such number.
const char *fck_frame_name(uint32_t kind);
const char *fck_attribute_name(uint32_t attribute);
const char *fck_class_name(uint32_t packet_class);
const char *fck_cause_name(uint32_t cause);
const char *fck_tunnel_name(uint32_t kind);

// The position nearest to `reference` that has this 24-bit PSN.
int64_t fck_psn_unwrap(int64_t reference, uint32_t psn);

// cffi: end

#ifdef __cplusplus
}
#endif

#endif
