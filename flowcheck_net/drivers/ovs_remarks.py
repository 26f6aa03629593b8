"""What makes our sessions on a bridge less than whole copies, or puts that in doubt, as far as the switch tells."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.ovs_bridge import DIGEST, Bridge, Mirror, Port, opaque_filter, session_digest
from flowcheck_net.drivers.ovs_change import tunnel_of
from flowcheck_net.drivers.ovs_control import Control
from flowcheck_net.drivers.ovs_flows import Rule
from flowcheck_net.drivers.ovs_sessions import Found
from flowcheck_net.drivers.ovs_values import atoms, first, number
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Remark, RemarkKind

PROMPT = (3, 5, 0)
"""From this version on a changed mirror is seen in hot flows at once (measured); 3.1.0 needs ``revalidator/purge``."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the remarks are made from, beside the bridge's rows."""

    control: Control | None
    version: tuple[int, ...]
    rules: Sequence[Rule]
    """All rules of table 0 that we could read."""


def remarks_on(bridge: Bridge, found: Mapping[SessionName, Found], around: Surroundings) -> list[Remark]:
    """Everything worth saying about our sessions, their ports and the switch."""
    return [
        *(r for f in found.values() for m in f.mirrors for r in _mirror_remarks(m, f)),
        *(Remark(RemarkKind.OTHER, f.untold, f.session.name) for f in found.values() if f.untold),
        *(r for f in found.values() for r in _output_remarks(bridge, f, around.control)),
        *(r for f in found.values() for r in _source_remarks(bridge, f)),
        *(r for f in found.values() for r in _rule_remarks(f, around.rules)),
        *(_switch_remarks(bridge, around) if found else ()),
    ]


def _mirror_remarks(mirror: Mirror, found: Found) -> Iterable[Remark]:
    name, row = found.session.name, mirror.row
    if "snaplen" in row and (length := number(row["snaplen"])) is not None:
        yield Remark(RemarkKind.TRUNCATION, f"copies are cut to {length} bytes (snaplen)", name)
    if vlans := atoms(row["select_vlan"]):
        only = ", ".join(str(v) for v in vlans)
        yield Remark(RemarkKind.FILTER, f"only packets of VLAN {only} are copied (select_vlan)", name)
    if text := opaque_filter(mirror):
        yield Remark(RemarkKind.FILTER, f"only packets that match {text!r} are copied", name)
    if row["select_all"]:
        yield Remark(RemarkKind.OTHER, "select_all is set: every port of the bridge is copied", name)
    if number(row["output_vlan"]) is not None:
        yield Remark(
            RemarkKind.OTHER, f"output_vlan is {number(row['output_vlan'])}: copies lose their own VLAN tag", name
        )
    if not found.untold and mirror.marks.get(DIGEST) != session_digest(found.session):
        yield Remark(RemarkKind.OTHER, "it is not as we wrote it any more", name)


def _output_remarks(bridge: Bridge, found: Found, control: Control | None) -> Iterable[Remark]:
    name = found.session.name
    for mirror in found.mirrors:
        port = bridge.ports.get(mirror.output)
        if port is None:
            yield Remark(RemarkKind.INACTIVE, "the output port is gone: nothing is copied", name)
            continue
        yield from (Remark(RemarkKind.DESTINATION_DOWN, text, name, port.name) for text in _down(port))
        if first(port.row["qos"]):
            yield Remark(
                RemarkKind.POLICER, f"a QoS is set on {port.name}: copies above its rate are lost", name, port.name
            )
        tunnel = tunnel_of(found.session)
        if tunnel and control:
            yield from _tunnel_remarks(tunnel[1], name, port.name, control)
        elif control and (addresses := control.addresses(port.name)):
            text = f"{port.name} has the address {addresses[0]}: what arrives there is dropped now"
            yield Remark(RemarkKind.RESERVED_PORT, text, name, port.name)


def _tunnel_remarks(far: str, name: SessionName, port: PortName, control: Control) -> Iterable[Remark]:
    hop = control.way_to(far)
    if not hop:
        yield Remark(RemarkKind.NO_NEXT_HOP, f"Open vSwitch has no route to {far}", name, port)
    elif not control.knows_neighbour(hop):
        text = f"the next hop {hop} is not resolved yet: the first copies are lost until it answers"
        yield Remark(RemarkKind.OTHER, text, name, port)


def _source_remarks(bridge: Bridge, found: Found) -> Iterable[Remark]:
    name = found.session.name
    for source in found.session.sources:
        port = bridge.port(source.port)
        if port is None:
            yield Remark(RemarkKind.INACTIVE, f"{source.port} is not on bridge {bridge.name}", name, source.port)
        elif port.kind == "patch" and not found.rules:
            yield Remark(RemarkKind.INACTIVE, "Open vSwitch mirrors nothing at a patch port", name, source.port)
        else:
            yield from (Remark(RemarkKind.SOURCE_DOWN, text, name, source.port) for text in _down(port))


def _rule_remarks(found: Found, rules: Sequence[Rule]) -> Iterable[Remark]:
    if not found.rules:
        return
    base = [r for r in rules if not r.ours]
    if [r.actions for r in base if not r.fields] != [found.rules[0].rest] or any(r.fields for r in base):
        text = (
            "table 0 was changed since our rules were written: packets that they match still go the former way; "
            "remove the session and apply again"
        )
        yield Remark(RemarkKind.OTHER, text, found.session.name)


def _switch_remarks(bridge: Bridge, around: Surroundings) -> Iterable[Remark]:
    wanted, taken = (number(bridge.switch[c]) or 0 for c in ("next_cfg", "cur_cfg"))
    if taken < wanted:
        text = f"ovs-vswitchd has not taken up the configuration ({taken} of {wanted}): is it running?"
        yield Remark(RemarkKind.INACTIVE, text)
    if around.control is None and around.version < PROMPT:
        text = (
            "flows under way keep the former mirrors for a while, and ovs-vswitchd's control socket cannot be reached "
            "from here: run `ovs-appctl revalidator/purge` on the switch after each apply, and count"
        )
        yield Remark(RemarkKind.OTHER, text)


def _down(port: Port) -> Iterable[str]:
    row = port.interface
    if error := first(row["error"]):
        yield f"{port.name} does not work: {error}"
    elif port.number < 0:
        yield f"{port.name} could not be opened by ovs-vswitchd"
    elif "down" in (first(row["link_state"]), first(row["admin_state"])):
        yield f"{port.name} has no link"
