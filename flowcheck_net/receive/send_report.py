"""What a sending really did, source by source; as JSON its fields by their names."""

from dataclasses import asdict, dataclass
from typing import Any

from flowcheck_net.receive.native_send import SendCounts
from flowcheck_net.receive.send_interface import TransmitCounters

REPORT_VERSION = 1
_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SentSource:
    """What went out on one interface."""

    ports: tuple[str, ...]
    """The capture ports, or interfaces of the file, whose packets these are."""
    interface: str
    counts: SendCounts
    rounds: int
    """How many times the recording was sent to its end."""
    not_reached: int
    """Packets that nobody came to, neither sent nor refused: of the rounds asked for, else of those begun."""
    counted: TransmitCounters | None
    """What the interface says it sent and dropped meanwhile, other programs' frames included; None: unknown."""
    fault: str
    """What ended the sending before its time; empty: nothing."""

    @property
    def packets_per_s(self) -> float | None:
        """Achieved; None for fewer than two packets."""
        return self._per_second(self.counts.packets)

    @property
    def bits_per_s(self) -> float | None:
        """Achieved, of frames without preamble, FCS and gap; None for fewer than two packets."""
        return self._per_second(self.counts.bytes * 8)

    def _per_second(self, amount: int) -> float | None:
        if self.counts.packets < 2 or self.counts.duration_ns <= 0:
            return None
        return amount * _SECOND / self.counts.duration_ns

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the interface's own counters say against the count of what was sent."""
        if self.counted is None:
            return ()
        found = []
        if self.counted.dropped > 0:
            found.append(f"{self.interface} says it dropped {self.counted.dropped:,} frames meanwhile")
        if self.counted.packets < self.counts.packets:
            found.append(
                f"{self.interface} took {self.counts.packets:,} frames and has counted {self.counted.packets:,} as "
                "transmitted (hardware counters may lag)"
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SendReport:
    """What one ``replay --to`` did."""

    files: tuple[str, ...]
    sources: tuple[SentSource, ...]
    interrupted: bool
    """Ended from outside, such as by Ctrl-C."""
    incomplete: tuple[str, ...]
    """Files that are cut off or damaged: sent is what is whole."""

    @property
    def packets(self) -> int:
        """On all interfaces."""
        return sum(source.counts.packets for source in self.sources)

    def document(self) -> dict[str, Any]:
        """For JSON: every field, times in nanoseconds, rates in packets/s and bit/s."""
        return {
            "version": REPORT_VERSION,
            "files": list(self.files),
            "interrupted": self.interrupted,
            "incomplete": list(self.incomplete),
            "packets": self.packets,
            "sources": [_source(source) for source in self.sources],
        }


def _source(source: SentSource) -> dict[str, Any]:
    counted = source.counted
    return {
        "ports": list(source.ports),
        "interface": source.interface,
        **asdict(source.counts),
        "rounds": source.rounds,
        "not_reached": source.not_reached,
        "packets_per_s": source.packets_per_s,
        "bits_per_s": source.bits_per_s,
        "counted_by_interface": None if counted is None else asdict(counted),
        "fault": source.fault,
    }
