"""What a switch that follows queue pairs copies of the packets that pass it (``p4/README.md``, message windows).

Written from that page; the Python twin of the P4 programs (``tests/doubles``) is its oracle.
"""

from collections.abc import Iterable

from flowcheck_net.ids import Address
from flowcheck_net.intent import WindowRule
from flowcheck_net.receive import synth_frames as roce
from flowcheck_net.receive.synth_streams import Copy

_FAR = 1 << 14
"""Packets out of order beyond which a switch gives a queue pair up."""
_ENDS = frozenset({roce.WRITE_LAST_IMM, roce.WRITE_ONLY_IMM})


class _Place:
    """Where one queue pair is, as the packets that came in order tell. NCCL starts at PSN 0, and so does the switch."""

    def __init__(self, rule: WindowRule) -> None:
        width = rule.high - rule.low
        self._inside = bytes((n - rule.low) % rule.period < width % rule.period for n in range(rule.period))
        if width == rule.period:
            self._inside = b"\1" * rule.period
        self._expected = 0
        self._ended = 0
        self._lost = False

    def passes(self, psn: int, opcode: int) -> bool:
        """Note a packet; is it copied?"""
        distance = (psn - self._expected + (1 << 23)) % (1 << 24) - (1 << 23)
        if not -_FAR <= distance < _FAR:
            self._lost = True
        if distance:
            return True
        inside = self._inside[self._ended]
        self._expected = (psn + 1) & roce.PSN_MASK
        if opcode in _ENDS:
            self._ended = (self._ended + 1) % len(self._inside)
        return self._lost or bool(inside)


class Gate:
    """One observation point with message windows, and one direction of one connection."""

    def __init__(self, destination: Address, rules: Iterable[WindowRule]) -> None:
        """``destination``: of all packets that come by."""
        self._places = {rule.qpn: _Place(rule) for rule in rules if rule.destination == destination}

    def copies(self, packet: Copy) -> bool:
        """Does the switch copy this packet, the next one that passes it?"""
        if packet.opcode == roce.ACKNOWLEDGE:
            return False
        place = self._places.get(packet.dest_qp)  # type: ignore[call-overload]
        return place is None or place.passes(packet.psn, packet.opcode)
