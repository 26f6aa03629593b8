"""Another tenant's flow at a capture port."""

from collections.abc import Iterator

from flowcheck_net.ids import Address, CapturePort
from flowcheck_net.receive import synth_frames as roce
from flowcheck_net.receive.synth_faults import Fault
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker
from flowcheck_net.receive.synth_payload import Gradients
from flowcheck_net.receive.synth_report import FaultEvent
from flowcheck_net.receive.synth_streams import NO_DATA, Copy

DOCUMENTATION = (Address("198.51.100.1"), Address("198.51.100.2"))
"""TEST-NET-2 of RFC 5737: no job has them."""
_QPN, _PORT, _PSN, _SPACING = 0x7A11, 0xC123, 5000, 1_000
_WRITE_PACKETS = 16


class ForeignStream:
    """RDMA writes of 16 packets each, in one iteration."""

    def __init__(self, number: int, capture: CapturePort, fault: Fault, mtu: int, gradients: Gradients) -> None:
        self.number = number
        self.capture = capture
        self.fault = fault
        self.addresses = (fault.source, fault.destination) if fault.source and fault.destination else DOCUMENTATION
        self.iteration = fault.iteration or 0
        self._mtu = mtu
        self._gradients = gradients
        self._maker = FrameMaker(Endpoints(*self.addresses, _PORT, _QPN))

    def event(self) -> FaultEvent:
        """That the flow was there, for the report."""
        return FaultEvent(
            kind=self.fault.kind,
            fault=self.fault.text,
            capture=self.capture,
            hop=None,
            iteration=self.iteration,
            packet=None,
            psn=_PSN,
            dest_qp=_QPN,
            opcode=None,
            packets=self.fault.packets,
        )

    def copies(self, start: int) -> Iterator[Copy]:
        """The whole flow, from ``start`` (nanoseconds) on."""
        mtu, total = self._mtu, self.fault.packets
        for index in range(total):
            place = index % _WRITE_PACKETS
            size = min(_WRITE_PACKETS, total - (index - place))
            extension = roce.reth(0x7F00_0000_0000, 0x1234, size * mtu) if place == 0 else b""
            if size == 1:
                opcode = roce.WRITE_ONLY
            elif place == 0:
                opcode = roce.WRITE_FIRST
            else:
                opcode = roce.WRITE_LAST if place == size - 1 else roce.WRITE_MIDDLE
            payload = self._gradients.read("foreign", 4, index * mtu, index * mtu + mtu)
            psn = (_PSN + index) & roce.PSN_MASK
            frame = self._maker.frame(opcode, psn, extension, payload, ack=place == size - 1)
            yield Copy(start + index * _SPACING, self.number, frame, opcode, psn, NO_DATA, _QPN)
