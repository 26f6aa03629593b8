"""What a filter of ours matches, in the words of each classifier, and back. Pure.

A packet is chosen by its IP addresses and UDP port 4791. ``bpf`` finds them below up to two VLAN tags and IPv4 options;
``flower`` and ``u32`` see untagged packets without options only.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from flowcheck_net.ids import Address
from flowcheck_net.intent import FlowFilter

_ROCE = 4791
_UDP = 17
_ETHERTYPES = {4: 0x0800, 6: 0x86DD}
_TAGS = (0x8100, 0x88A8)
_FIRST_TYPE, _LAST_TYPE = 12, 20
"""Offsets of the ethertype without tags, and below two tags."""
_LDB, _LDH, _LDW, _LDXB_IHL, _LDH_X = 0x30, 0x28, 0x20, 0xB1, 0x48
_JEQ, _JSET, _RET = 0x15, 0x45, 0x06
_EVERY = 0xFFFFFFFF
_TEXT = {4: "ip", 6: "ipv6"}
Instruction = tuple[int, int, int, int]
"""Classic BPF: code, jump if true, jump if false, k."""
EVERYTHING: tuple[Instruction, ...] = ((_RET, 0, 0, _EVERY),)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A match that our words do not have."""

    text: str


Match = FlowFilter | None | Unknown
"""None: every packet."""


def protocol_of(kind: str, pair: FlowFilter | None) -> str:
    """The ``protocol`` of a filter of this classifier."""
    return _TEXT[_version(pair)] if pair is not None and kind in ("flower", "u32") else "all"


def words_for(kind: str, pair: FlowFilter | None) -> list[str]:
    """The classifier and its match, as tc takes it."""
    if kind == "bpf":
        code = program(pair) if pair else EVERYTHING
        return ["handle", "1", "bpf", "bytecode", f'"{",".join([str(len(code)), *(_insn(i) for i in code)])}"']
    if kind == "matchall" and pair is None:
        return ["handle", "1", "matchall"]
    if kind == "flower" and pair is not None:
        ends = ["src_ip", pair.source, "dst_ip", pair.destination]
        return ["handle", "1", "flower", "ip_proto", "udp", *ends, "dst_port", str(_ROCE)]
    if kind == "u32":
        keys = _keys(pair) if pair else {0: (0, 0)}
        return [
            "u32",
            *(w for at, (v, m) in keys.items() for w in ("match", "u32", f"{v:#x}", f"{m:#x}", "at", str(at))),
        ]
    raise ValueError(f"{kind} cannot match {pair}")


def match_of(kind: str, options: Mapping[str, object]) -> Match:
    """What a filter matches, from tc's JSON."""
    if kind == "matchall":
        return None
    if kind == "bpf":
        return _of_program(options)
    if kind == "flower":
        return _of_flower(options)
    if kind == "u32":
        return _of_keys(options)
    return Unknown(f"a {kind} filter")


def program(pair: FlowFilter) -> tuple[Instruction, ...]:
    """Classic BPF for one address pair, over whole Ethernet frames."""
    lines: list[tuple[int, int, str, str]] = []
    starts: dict[str, int] = {}
    for at in range(_FIRST_TYPE, _LAST_TYPE + 1, 4):
        starts[f"type{at}"] = len(lines)
        lines.append((_LDH, at, "", ""))
        if at < _LAST_TYPE:
            lines += [(_JEQ, tag, f"type{at + 4}", "") for tag in _TAGS]
        lines.append((_JEQ, _ETHERTYPES[_version(pair)], "", "no"))
        lines += _below(pair, at + 2)
    starts |= {"yes": len(lines), "no": len(lines) + 1}
    lines += [(_RET, _EVERY, "", ""), (_RET, 0, "", "")]

    def jump(label: str, here: int) -> int:
        return starts[label] - here - 1 if label else 0

    return tuple((code, jump(yes, n), jump(no, n), k) for n, (code, k, yes, no) in enumerate(lines))


def _below(pair: FlowFilter, at: int) -> list[tuple[int, int, str, str]]:
    """The checks of an IP header that begins at ``at``."""
    words = [(at + off, value) for off, value in _addresses(pair)]
    ends = [line for where, value in words for line in ((_LDW, where, "", ""), (_JEQ, value, "", "no"))]
    if _version(pair) == 6:
        head = [(_LDB, at + 6, "", ""), (_JEQ, _UDP, "", "no")]
        return [*head, *ends, (_LDH, at + 42, "", ""), (_JEQ, _ROCE, "yes", "no")]
    head = [(_LDB, at + 9, "", ""), (_JEQ, _UDP, "", "no"), (_LDH, at + 6, "", ""), (_JSET, 0x1FFF, "no", "")]
    return [*head, *ends, (_LDXB_IHL, at, "", ""), (_LDH_X, at + 2, "", ""), (_JEQ, _ROCE, "yes", "no")]


def _addresses(pair: FlowFilter) -> list[tuple[int, int]]:
    """(offset in the IP header, 32-bit word) of both addresses."""
    start, length = (12, 4) if _version(pair) == 4 else (8, 16)
    both = b"".join(ipaddress.ip_address(a).packed for a in (pair.source, pair.destination))
    return [(start + n, int.from_bytes(both[n : n + 4], "big")) for n in range(0, 2 * length, 4)]


def _of_program(options: Mapping[str, object]) -> Match:
    bytecode = options.get("bytecode")
    rows = bytecode.get("insns") if isinstance(bytecode, dict) else None
    if not isinstance(rows, list):
        return Unknown("an eBPF program")
    code = tuple((int(r["code"]), int(r["jt"]), int(r["jf"]), int(r["k"])) for r in rows)
    if code == EVERYTHING:
        return None
    compared = [now[3] for before, now in pairwise(code) if before[0] == _LDW and now[0] == _JEQ]
    # Of the three places where the header may be; the program of what is found there must be this very one.
    words = compared[: len(compared) // 3]
    found = _pair(b"".join(w.to_bytes(4, "big") for w in words))
    return found if found is not None and program(found) == code else Unknown("a BPF program that is not ours")


def _of_flower(options: Mapping[str, object]) -> Match:
    keys = options.get("keys")
    if not isinstance(keys, dict):
        return Unknown("a flower filter")
    rest = {k: v for k, v in keys.items() if k not in ("src_ip", "dst_ip", "eth_type")}
    try:
        pair = FlowFilter(*(Address(str(ipaddress.ip_address(str(keys.get(k, ""))))) for k in ("src_ip", "dst_ip")))
    except ValueError:
        return Unknown(f"a flower filter of {', '.join(sorted(keys)) or 'everything'}")
    return pair if rest == {"ip_proto": "udp", "dst_port": _ROCE} else Unknown("a flower filter with other keys")


def _of_keys(options: Mapping[str, object]) -> Match:
    """``match`` is a list here: tc writes one key of that name after the other."""
    rows = options.get("match")
    found: dict[int, tuple[int, int]] = {}
    for row in rows if isinstance(rows, list) else ():
        if row.get("offmask"):
            return Unknown("a u32 filter with a moving offset")
        found[int(row["off"])] = int(str(row["value"]), 16), int(str(row["mask"]), 16)
    if found == {0: (0, 0)}:
        return None
    for start, length in ((12, 4), (8, 16)):
        words = [found.get(start + n, (0, 0))[0] for n in range(0, 2 * length, 4)]
        pair = _pair(b"".join(w.to_bytes(4, "big") for w in words))
        if pair is not None and _keys(pair) == found:
            return pair
    return Unknown("a u32 filter of others' make")


def _keys(pair: FlowFilter) -> dict[int, tuple[int, int]]:
    """u32 keys by offset in the IP header: (value, mask)."""
    ends = {at: (value, _EVERY) for at, value in _addresses(pair)}
    if _version(pair) == 6:
        return {4: (_UDP << 8, 0xFF00), **ends, 40: (_ROCE, 0xFFFF)}
    # No options, the first fragment, UDP.
    return {0: (0x45000000, 0xFF000000), 4: (0, 0x1FFF), 8: (_UDP << 16, 0xFF0000), **ends, 20: (_ROCE, 0xFFFF)}


def _pair(both: bytes) -> FlowFilter | None:
    if len(both) not in (8, 32):
        return None
    half = len(both) // 2
    return FlowFilter(*(Address(str(ipaddress.ip_address(both[n : n + half]))) for n in (0, half)))


def _version(pair: FlowFilter) -> int:
    return 6 if ":" in pair.source else 4


def _insn(instruction: Instruction) -> str:
    return " ".join(str(part) for part in instruction)
