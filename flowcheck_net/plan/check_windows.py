"""Do the message windows of a plan show what it promises? Derived anew from the sessions and the messages themselves.

Ends of messages are counted as a switch counts them (p4/README.md): nothing of how windows are made is used here.
"""

from collections import Counter
from collections.abc import Iterator

from flowcheck_net.intent import WindowRule
from flowcheck_net.model.job import Lane, Ring
from flowcheck_net.model.lanes import lane_messages
from flowcheck_net.model.wire import WireMessage, broadcast_wire_sizes
from flowcheck_net.plan.check_limits import Violation
from flowcheck_net.plan.plan import Plan, PlannedHop


def windows_hold(plan: Plan) -> Iterator[Violation]:
    """Every hop that is seen has a window, none holds a partial sum, and each chunk is shown as often as promised."""
    rules = {rule.flow: rule for planned in plan.sessions for rule in planned.session.windows}
    if not rules:
        return
    lanes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    shown: dict[tuple[str, int], Counter[tuple[int, ...]]] = {key: Counter() for key in lanes}
    for hop in plan.hops:
        lane = lanes[hop.group, hop.channel]
        target = plan.job.ends(lane, hop.index)[1].address
        for qpn in lane.hop_qpns(hop.index) or (None,):
            rule = rules.get((target, qpn)) if qpn is not None else None
            if rule is None:
                yield Violation("window", f"{_name(hop)} is seen and has none")
                continue
            mirrored = list(_mirrored(plan, lane, hop, rule))
            if any(not message.reduced for message in mirrored):
                yield Violation("window", f"{_name(hop)} shows partial sums")
            if hop.counted:
                shown[hop.group, hop.channel].update(_unit(message) for message in mirrored if message.data_bytes)
    for line in plan.coverage:
        lane = lanes[line.group, line.channel]
        units = {_unit(m) for m in lane_messages(plan.job.wire, lane, 0) if m.data_bytes}
        least = min((shown[line.group, line.channel][unit] for unit in units), default=line.copies)
        if least < line.copies:
            detail = f"{line.group}/{line.channel}: a chunk is shown {least} times, promised {line.copies}"
            yield Violation("window", detail)


def _name(hop: PlannedHop) -> str:
    return f"{hop.group}/{hop.channel}/{hop.index}"


def _unit(message: WireMessage) -> tuple[int, ...]:
    return message.bucket, message.loop, message.chunk, message.slice


def _mirrored(plan: Plan, lane: Lane, hop: PlannedHop, rule: WindowRule) -> Iterator[WireMessage]:
    """The messages of an iteration that a switch copies which counts from the first one of the connection."""
    wire = plan.job.wire
    ended = 0
    if isinstance(lane, Ring) and hop.index != lane.size - 1:
        ended = sum(len(broadcast_wire_sizes(wire, each, lane.channel)) for each in wire.broadcasts)
    messages = lane_messages(wire, lane, hop.index)
    for message, following in zip(messages, (*messages[1:], None), strict=True):
        number = ended % rule.period
        above, below = number >= rule.low, number < rule.high
        if (above and below) if rule.low <= rule.high else (above or below):
            yield message
        ended += following is None or message.closes or not following.closes
