"""What every importer reads into: devices, cables and findings, each with the file and line it came from."""

from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.errors import Problem


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """A place in an input file."""

    file: str
    line: int = 0
    """1-based; 0 where the whole file is meant."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Role(StrEnum):
    """What a device is in a topology file."""

    SWITCH = "switch"
    HOST = "host"
    CHECKPOINT = "checkpoint"


class PortIdKind(StrEnum):
    """How a port is named: the LLDP port-ID subtypes (IEEE 802.1AB-2016, table 8-3), as far as they matter here."""

    NAME = "interface name"
    """Subtype 5, or a source that writes interface names only."""
    ALIAS = "interface alias"
    MAC = "MAC address"
    LOCAL = "local"
    """Subtype 7: any text of the vendor's, often an ifIndex."""
    UNSAID = ""
    """The source does not tell the subtype; the form of the text decides."""


class FindingKind(StrEnum):
    """What a finding is about. The kinds of ``PROBLEMS`` keep a file from being written."""

    CONFLICT = "conflict"
    """Two statements cannot both be true, such as a port with two cables."""
    ONE_SIDED = "one-sided"
    """Only one end of a cable reports it."""
    UNKNOWN_END = "unknown-end"
    """A cable whose other end is no known port of a known device."""
    UNKNOWN_ROLE = "unknown-role"
    """Neither the source nor an option says whether a device is a switch, a host or a checkpoint node."""
    UNREADABLE = "unreadable"
    """A part of the input that was not understood."""
    NOTHING = "nothing"
    """No cable is left to write."""
    INFINIBAND = "infiniband"
    """The fabric is no Ethernet fabric: RoCE planning does not apply."""
    IGNORED = "ignored"
    """Left out on purpose, with the reason."""
    ASSUMED = "assumed"
    """Taken for true without full proof, with the reason."""
    RENAMED = "renamed"
    """A name that our files cannot hold as it is."""
    FILL = "fill"
    """A value that the source does not tell."""
    HINT = "hint"
    """A difference between a topology and a scheduler's grouping."""


PROBLEMS = frozenset(
    {
        FindingKind.CONFLICT,
        FindingKind.ONE_SIDED,
        FindingKind.UNKNOWN_END,
        FindingKind.UNKNOWN_ROLE,
        FindingKind.UNREADABLE,
        FindingKind.NOTHING,
        FindingKind.INFINIBAND,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something that a person must know about the import."""

    source: Source
    kind: FindingKind
    message: str
    cure: str = ""

    @property
    def is_problem(self) -> bool:
        """True where the topology cannot be trusted without an answer."""
        return self.kind in PROBLEMS

    def problem(self) -> Problem:
        """The finding in the form of an input error."""
        return Problem(
            self.source.file, self.source.line, 1 if self.source.line else 0, self.kind, self.message, self.cure
        )


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable, as the source writes it."""

    device: str
    port: str
    kind: PortIdKind = PortIdKind.UNSAID
    description: str = ""
    """Second name of the port (LLDP port description); used only where ``port`` is no interface name.

    Where ``device`` is empty the end is unknown, and this says why.
    """

    def __str__(self) -> str:
        return f"{self.device}:{self.port}" if self.device else "an unknown end"


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable as one statement of a source."""

    a: End
    b: End
    speed: str | None
    """Such as ``400G``; None where the source does not tell."""
    source: Source
    reported_by_a: bool = False
    """True where ``a`` tells what it hears (LLDP): then ``b`` must say the same. False: the source states the cable."""

    def __str__(self) -> str:
        return f"{self.a} -- {self.b}"


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a source names."""

    name: str
    source: Source
    role: Role | None = None
    """What the source's own kinds and roles say; None where they say nothing."""
    platform: str = ""
    """The source's own word for its kind or model; never our capability table."""
    reports: bool = False
    """True where this device's own report is among the inputs."""
    basis: str = ""
    """Why the role is only an assumption; empty where the source states it."""
    chassis: str = ""
    """The MAC address by which LLDP tells it apart; empty: not heard."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that one reader got from its files."""

    kind: str
    """Name of the importer, such as ``containerlab``."""
    name: str
    """Name for the topology."""
    devices: tuple[Device, ...]
    cables: tuple[Cable, ...]
    files: tuple[str, ...]
    """The files that were read."""
    findings: tuple[Finding, ...] = ()
    platform: str | None = None
    """The capability table of every switch, where the source's kind alone decides it, whatever the user says."""


@dataclass(frozen=True, slots=True, order=True)
class PortRef:
    """A port in the names of the topology."""

    device: str
    port: str

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class Link:
    """A cable that is proven: both ends agree, and neither has another cable."""

    a: PortRef
    b: PortRef
    speed: str | None
    source: Source
    """The first statement of it."""

    @property
    def ends(self) -> tuple[PortRef, PortRef]:
        """Both ends."""
        return self.a, self.b
