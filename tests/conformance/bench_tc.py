"""The Linux kernel itself for the conformance suite: a bridge in a namespace, its tc filters cleared for each test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.tc import TcDriver
from flowcheck_net.drivers.tc_shell import LocalShell, Lost, Refused, Unreachable, shell_of
from flowcheck_net.ids import PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from tests.conformance.bench import JOB, OTHER_JOB, Cannot, Trouble
from tests.doubles.ovs_lab import frame
from tests.doubles.switches import session as named
from tests.doubles.tc_lab import TcLab, missing

UPLINK = "uplink"
_PORTS = [f"eth{n}" for n in (*range(1, 9), 31, 32, 33, 47, 48)]
BERT = "32987c4b"
"""SHA-256 of ``bert`` begins so: `printf bert | sha256sum`."""
GPT = "053ea480"
"""And that of ``gpt``."""
_shared: list[TcLab] = []


class Faulty:
    """A shell whose n-th change goes wrong, once."""

    def __init__(self, inner: LocalShell, kind: Trouble, step: int) -> None:
        self._inner, self._kind, self._left = inner, kind, step

    def open(self) -> None:
        if self._kind is Trouble.UNREACHABLE:
            raise Unreachable("the machine does not answer")
        self._inner.open()

    def close(self) -> None:
        self._inner.close()

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        changes = "filter add" in stdin or "filter del" in stdin
        hit = changes and self._left == 0
        if hit and self._kind is Trouble.REFUSE:
            self._left -= 1
            raise Refused("Error: no memory")
        if hit and self._kind is Trouble.LOST_BEFORE:
            raise Lost("the connection was cut")
        lines = stdin.splitlines(keepends=True)
        half = hit and self._kind is Trouble.HALF
        found = self._inner.run(words, "".join(lines[: (len(lines) + 1) // 2]) if half else stdin)
        # Only what the kernel took counts: a classifier that it lacks is tried again as another one.
        self._left -= changes
        if hit:
            raise Lost("the connection was cut")
        return found


class TcBench:
    """A bridge with two foreign mirrors."""

    driver_class: type = TcDriver
    atomic = False
    lock = False
    sources: Sequence[PortName] = tuple(PortName(f"eth{n}") for n in range(1, 7))
    destinations: Sequence[PortName] = tuple(PortName(f"eth{n}") for n in range(31, 34))
    foreign: tuple[MirrorSession, ...] = (
        named(f"flowcheck-net-{BERT}-0", "eth8:rx", to="eth47"),
        named("tc:eth7:rx:30000:0x1", "eth7:rx", to="eth48"),
    )

    def __init__(self, lab: TcLab) -> None:
        self._lab = lab
        self._trouble: tuple[Trouble, int] | None = None
        lab.run("ip", "-batch", "-", stdin="".join(f"link set {p} up\n" for p in _PORTS))
        kinds = lab.run("tc", "qdisc", "show")
        gone = [line.split()[4] for line in kinds.splitlines() if line.startswith("qdisc clsact")]
        lab.run("tc", "-batch", "-", stdin="".join(f"qdisc del dev {p} clsact\n" for p in gone))
        everything = 'handle 1 bpf bytecode "1,6 0 0 4294967295" action mirred egress mirror dev'
        lab.run("tc", "-batch", "-", stdin=(
            "qdisc add dev eth7 clsact\nqdisc add dev eth8 clsact\n"
            f"filter add dev eth7 ingress protocol all pref 30000 {everything} eth48\n"
            f"filter add dev eth8 ingress protocol all pref 4096 {everything} eth47 continue "
            f"cookie fc4e01{BERT}000000000123456789\n"
        ))  # fmt: skip

    def open(self, job: str = JOB) -> TcDriver:
        """See ``Bench.open``."""
        address = SwitchAddress(SwitchName("leaf1"), "linux", f"tc:netns:{self._lab.namespace}")
        shell = shell_of(address.management)
        if self._trouble:
            assert isinstance(shell, LocalShell)
            trouble, self._trouble = self._trouble, None
            return TcDriver(address, job, limits_of(address), Faulty(shell, *trouble))
        return TcDriver(address, job, limits_of(address), shell)

    def as_foreign(self, session: MirrorSession) -> MirrorSession:
        """A cookie has no room for the job's name."""
        job, _, number = session.name.removeprefix("fcn-").rpartition("-")
        mark = {JOB: GPT, OTHER_JOB: BERT}[job]
        return MirrorSession(SessionName(f"flowcheck-net-{mark}-{number}"), session.sources, session.destination)

    def foreign_bytes(self) -> bytes:
        """See ``Bench.foreign_bytes``."""
        shown = [
            self._lab.run("tc", "filter", "show", "dev", p, side)
            for p in ("eth7", "eth8")
            for side in ("ingress", "egress")
        ]
        shown += [self._lab.run("tc", "qdisc", "show", "dev", p) for p in ("eth7", "eth8")]
        return "\n".join(shown).encode()

    def traffic(self, port: PortName, direction: Direction, packets: int, flow: FlowFilter | None = None) -> None:
        """See ``Bench.traffic``."""
        enters, leaves = (port, UPLINK) if direction is Direction.RX else (UPLINK, port)
        listener = self._lab.listen(leaves)
        self._lab.send(enters, [frame(self._lab.numbers[leaves], flow, n) for n in range(packets)])
        listener.wait_for(packets)
        assert listener.count() == packets
        listener.close()

    def trouble(self, kind: Trouble, step: int = 0) -> None:
        """See ``Bench.trouble``."""
        self._trouble = (kind, step)

    def spoil(self, session: MirrorSession) -> RemarkKind:
        """See ``Bench.spoil``."""
        self._lab.run("ip", "link", "set", session.destination, "down")
        return RemarkKind.DESTINATION_DOWN

    def restart(self) -> None:
        """See ``Bench.restart``."""
        raise Cannot("the tests do not restart the machine that they run on")


@contextmanager
def real(_: Path) -> Iterator[TcBench]:
    """The namespace is set up once a process, and ended by ``close``."""
    if why := missing():
        raise Cannot(why)
    if not _shared:
        lab = TcLab()
        _shared.append(lab)
        lab.add_bridge("br0", [*(f"eth{n}" for n in range(1, 9)), UPLINK])
        lab.add_cables(p for p in _PORTS if p not in lab.numbers)
    yield TcBench(_shared[0])


def close() -> None:
    """End the namespace."""
    while _shared:
        _shared.pop().close()
