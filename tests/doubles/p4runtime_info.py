"""The P4Info of the v1model program, built by hand from the tables of p4/README.md; ids are those of no compiler."""

from collections.abc import Iterable

from p4.config.v1 import p4info_pb2

RULE_KEY = (("port", 9), ("src", 128), ("dst", 128), ("udp_dst", 16), ("qp", 24))
TABLES: tuple[tuple[str, int, str, tuple[tuple[str, int], ...], tuple[str, ...], str], ...] = (
    ("fc.ingress_acl", 4096, "TERNARY", RULE_KEY, ("fc.ingress_mirror",), "fc.ingress_rule"),
    ("fc.egress_acl", 4096, "TERNARY", RULE_KEY, ("fc.egress_mirror",), "fc.egress_rule"),
    ("fc.flows", 4096, "EXACT", (("dst", 128), ("qp", 24)), ("fc.follow",), "fc.flow_packets"),
    ("fc.sessions", 1024, "EXACT", (("session", 10),), ("fc.describe",), ""),
    ("fc.monitor_ports", 64, "EXACT", (("port", 9),), ("fc.with_header",), ""),
    ("fc.forward", 1024, "TERNARY", (("port", 9), ("ether_dst", 48)), ("fc.to_port", "fc.to_group", "fc.drop"), ""),
    (
        "fc.loss",
        256,
        "TERNARY",
        (("port", 9), ("dst", 128), ("qp", 24), ("opcode", 8), ("psn8", 32)),
        ("fc.lose",),
        "",
    ),
)
"""Name, size, match kind, match fields with their bits, actions, direct counter."""
MIRROR = (("session", 10), ("point", 16), ("windowed", 1))
FOLLOW = (("index", 16), ("epoch", 32), ("anchored", 1), ("anchor", 32), ("period", 16), ("low", 16), ("high", 16))
ACTIONS: dict[str, tuple[tuple[str, int], ...]] = {
    "NoAction": (),
    "fc.ingress_mirror": MIRROR,
    "fc.egress_mirror": MIRROR,
    "fc.follow": FOLLOW,
    "fc.describe": (("job_tag", 32), ("session_number", 16)),
    "fc.with_header": (("dst_mac", 48), ("src_mac", 48), ("switch_id", 16)),
    "fc.to_port": (("port", 9),),
    "fc.to_group": (("group", 16),),
    "fc.drop": (),
    "fc.lose": (("index", 8), ("at", 2), ("first", 32), ("number", 32)),
}
COUNTERS = {
    "fc.ingress_copies": 1024,
    "fc.egress_copies": 1024,
    "fc.sent_copies": 1024,
    "fc.verdicts": 32768,
    "fc.lost": 256,
}
REGISTERS = ("fc.flow_epoch", "fc.flow_next", "fc.flow_count", "fc.flow_lost", "fc.sequence", "fc.loss_seen")
_TABLE, _ACTION, _COUNTER, _DIRECT, _REGISTER = (kind << 24 for kind in (0x02, 0x01, 0x12, 0x13, 0x16))


def build_p4info(without: Iterable[str] = (), sizes: dict[str, int] | None = None) -> p4info_pb2.P4Info:
    """The whole program, less the tables named, with other sizes where given."""
    info = p4info_pb2.P4Info()
    info.pkg_info.name = "flowcheck.p4"
    info.pkg_info.arch = "v1model"
    actions = {name: _ACTION | number for number, name in enumerate(ACTIONS, 0x1A01)}
    for name, params in ACTIONS.items():
        action = info.actions.add()
        _preamble(action, actions[name], name)
        for number, (param, bits) in enumerate(params, 1):
            action.params.add(id=number, name=param, bitwidth=bits)
    _add_tables(info, actions, without, sizes or {})
    for number, (name, size) in enumerate(COUNTERS.items(), 0x3C01):
        counter = info.counters.add(size=size)
        _preamble(counter, _COUNTER | number, name)
        counter.spec.unit = p4info_pb2.CounterSpec.BOTH
    for number, name in enumerate(REGISTERS, 0x4D01):
        _preamble(info.registers.add(size=4096), _REGISTER | number, name)
    return info


def _add_tables(
    info: p4info_pb2.P4Info, actions: dict[str, int], without: Iterable[str], sizes: dict[str, int]
) -> None:
    for number, (name, size, kind, key, choices, direct) in enumerate(TABLES, 0x2B01):
        if name in without:
            continue
        table = info.tables.add()
        _preamble(table, _TABLE | number, name)
        table.size = sizes.get(name, size)
        for place, (field, bits) in enumerate(key, 1):
            match_type = p4info_pb2.MatchField.MatchType.Value(kind)
            table.match_fields.add(id=place, name=field, bitwidth=bits, match_type=match_type)
        for choice in choices:
            table.action_refs.add(id=actions[choice])
        if name != "fc.forward":
            table.action_refs.add(id=actions["NoAction"], scope=p4info_pb2.ActionRef.DEFAULT_ONLY)
            table.const_default_action_id = actions["NoAction"]
        if direct:
            counter = info.direct_counters.add(direct_table_id=table.preamble.id)
            _preamble(counter, _DIRECT | number, direct)
            counter.spec.unit = p4info_pb2.CounterSpec.BOTH
            table.direct_resource_ids.append(counter.preamble.id)


def _preamble(thing: object, number: int, name: str) -> None:
    thing.preamble.id = number  # type: ignore[attr-defined]
    thing.preamble.name = name  # type: ignore[attr-defined]
    thing.preamble.alias = name.rsplit(".", 1)[-1]  # type: ignore[attr-defined]
