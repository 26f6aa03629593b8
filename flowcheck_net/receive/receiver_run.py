"""A whole run of ``flowcheck-net receive``: lives of the receiver one after another, and the records of all of them."""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from flowcheck_net.errors import OutputError, ReceiveError
from flowcheck_net.receive.receiver import Receiver, cure
from flowcheck_net.receive.receiver_boards import set_aside
from flowcheck_net.receive.receiver_config import Plan, hugepages_missing_mb
from flowcheck_net.receive.receiver_spool import spool_records
from flowcheck_net.receive.receiver_status import PortStatus, Status
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.records_merge import merge
from flowcheck_net.receive.replay_chain import count

_SOURCES = "sources"
_SHORT_LIFE_S = 2.0
_SHORT_LIVES = 20
"""After so many lives in a row that were shorter, it is not started again."""


@contextmanager
def spool_folder(output: Path, *, recover: bool = False) -> Iterator[Path]:
    """The folder beside ``output`` for what the receiver leaves behind; held by one run at a time.

    It is removed by ``clear``, once its records are written.

    Raises:
        OutputError: another run holds it, or an earlier one left spools there and ``recover`` is not given, or the
            other way round.
    """
    target = Path(os.path.realpath(output))
    folder = target.with_name(f"{target.name}.spool")
    if recover and not folder.is_dir():
        raise OutputError(f"{folder} is not there: no receiver left anything behind for {output}", hint="is -o right?")
    try:
        folder.mkdir(exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as fault:
        raise OutputError(
            f"{folder} cannot be written: {fault.strerror}", hint="choose another place with -o"
        ) from fault
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel lets go of it whenever this process ends
        except BlockingIOError as fault:
            raise OutputError(
                f"another receiver is writing to {output}", hint="end it first, or choose another place with -o"
            ) from fault
        if not recover and any(folder.glob("*.spool")):
            raise OutputError(
                f"an earlier receiver left {folder} behind",
                hint=f"`flowcheck-net receive --recover -o {output}` makes records of it; or remove the folder",
            )
        yield folder


def clear(folder: Path) -> None:
    """Remove what the records were made of."""
    shutil.rmtree(folder)


@contextmanager
def _room_in(folder: Path) -> Iterator[None]:
    """Raises OutputError where the disk takes nothing more."""
    try:
        yield
    except OSError as fault:
        raise OutputError(
            f"{folder} cannot be written: {fault.strerror}",
            hint="make room on the disk, or choose another place with -o",
        ) from fault


class Run:
    """Lives of one receiver."""

    def __init__(self, plan: Plan, folder: Path, digest: str = "") -> None:
        """``digest`` is that of the plan file in force; empty: there is none."""
        self._plan = plan
        self._digest = digest
        self._next: tuple[Plan, str] | None = None
        self._turning = False
        self._folder = folder
        self._lives = 0
        self._stopping = False
        self._receiver: Receiver | None = None
        self.started = False
        """It has received, however little."""
        self.deaths: list[str] = []
        self.aside: tuple[Path, ...] = ()
        """Boards of the former plan with iterations that nobody has taken."""
        sources = "".join(f"{port.name}={port.device.text}\n" for port in plan.ports)
        with _room_in(folder):
            (folder / _SOURCES).write_text(sources, encoding="utf-8")

    @property
    def digest(self) -> str:
        """Of the plan in force; empty: there is none."""
        return self._digest

    @property
    def spool(self) -> Path | None:
        """Of the life that runs now."""
        return self._receiver.spool if self._receiver is not None else None

    def place(self, text: str) -> None:
        """What the life that runs now is to place (``Plan.placing``)."""
        if self._receiver is not None:
            self._receiver.place(text)

    def change(self, plan: Plan, digest: str) -> None:
        """Go on by another plan, from the next ``quiet`` on."""
        self._next = plan, digest

    def quiet(self) -> None:
        """Nothing comes: the moment for another plan. A life ends with all that it saw, and another one begins."""
        if self._next is not None and not self._turning and self._receiver is not None:
            self._turning = True
            self._receiver.stop()

    def _turn(self) -> bool:
        """After a life: is there a next one, by another plan?"""
        if self._stopping or not self._turning or self._next is None:
            return False
        former, placing = self._digest, self._plan.placing
        (self._plan, self._digest), self._next, self._turning = self._next, None, False
        if placing is not None and self._digest != former:
            with _room_in(placing.folder):
                self.aside = set_aside(placing.folder, former)
        return True

    def stop(self) -> None:
        """End with records."""
        self._stopping = True
        if self._receiver is not None:
            self._receiver.stop()

    def statuses(self) -> Iterator[Status]:
        """What the receiver says, through all its lives. ``deaths`` tells how each ended that did not end well.

        Raises:
            ReceiveError: it cannot start; with the cure.
        """
        short = 0
        while not self._stopping and short < _SHORT_LIVES:
            began = time.monotonic()
            yield from self._life()
            if self._receiver is None and self._turn():
                continue
            if self._receiver is None:  # it ended well
                return
            self._receiver = None
            short = short + 1 if time.monotonic() - began < _SHORT_LIFE_S else 0
            if any(port.device.ends for port in self._plan.ports):
                return

    def _life(self) -> Iterator[Status]:
        with _room_in(self._folder):
            (self._folder / f"life-{self._lives}.plan").write_text(self._digest, encoding="utf-8")
            made = Receiver(self._plan, self._folder, self._lives)
        with made as receiver:
            self._receiver = receiver
            self._lives += 1
            if self._stopping:  # told so while it was being started
                receiver.stop()
            for status in receiver.statuses():
                self.started = True
                yield status
            death = receiver.died()
        if death:
            self.deaths.append(death)
        else:
            self._receiver = None
        if not self.started:
            hint = cure(death) or f"its log is in {self._folder}"
            raise ReceiveError(f"the receiver died before it had started: {death}", hint=hint)


def records_of(folder: Path, deaths: Sequence[str] = ()) -> Records:
    """The records of all lives in the folder; messages stay there until they are looked at.

    Raises:
        ReceiveError: no receiver left anything there, or as ``spool_records`` and ``merge``.
    """
    sources = (folder / _SOURCES).read_text(encoding="utf-8").splitlines() if (folder / _SOURCES).exists() else []
    spools = sorted(folder.glob("life-*.spool"), key=lambda path: int(path.stem.partition("-")[2]))
    parts = [(path.name, spool_records(path, sources)) for path in spools]
    if not parts:
        raise ReceiveError(f"nothing was received: {folder} holds no spool", hint="see the logs there")
    records = parts[0][1] if len(parts) == 1 else merge(parts)
    if len(plans := [_plan_of(path) for path in spools]) > 1 and any(plans):
        records = replace(records, warnings=(*records.warnings, *_in_force(parts, plans)))
    if len(parts) > 1:
        records = replace(records, warnings=(*records.warnings, *_between(len(parts))))
    return replace(records, warnings=(*records.warnings, *(f"the receiver died: {death}" for death in deaths)))


def _plan_of(spool: Path) -> str:
    """Digest of the plan in a life; empty: there was none."""
    note = spool.with_suffix(".plan")
    return note.read_text(encoding="utf-8") if note.exists() else ""


def _in_force(parts: Sequence[tuple[str, Records]], plans: Sequence[str]) -> Iterator[str]:
    """Which plan each packet came under, where it changed."""
    if len(set(plans)) == 1:
        return
    for (_, records), digest in zip(parts, plans, strict=True):
        for capture in records.captures:
            if capture.packets:
                span = f"{capture.first_time / 1e9:.6f} to {capture.last_time / 1e9:.6f}"
                yield f"capture port {capture.name}: plan {digest} was in force from {span} (seconds since 1970)"


def _between(lives: int) -> Iterator[str]:
    yield f"the receiver was started {lives} times: what came while it was down is lost, and how much is not known"


def unknown_loss(ports: Sequence[PortStatus]) -> Iterator[str]:
    """Which ports cannot say what they lost, for a person."""
    for port in ports:
        if port.dropped is None:
            yield (
                f"capture port {port.name}: {port.driver} does not count what it loses: losses are unknown, not 0; "
                "only gaps in the sequence numbers show them"
            )


def unwritten(ports: Sequence[PortStatus]) -> Iterator[str]:
    """Which packets are not in the pcapng files, for a person."""
    for port in ports:
        if port.written is None or not (port.written.dropped or port.written.error):
            continue
        some = count(port.written.dropped, "packet")
        lost = f"{port.written.error}; {some} or more" if port.written.error else f"the disk did not keep up; {some}"
        yield f"capture port {port.name}: the pcapng file is not whole: {lost} are not in it. The records have them all"


def hugeless(plan: Plan) -> Iterator[str]:
    """What doing without hugepages costs where nobody asked for it, for a person."""
    need = hugepages_missing_mb(plan)
    if need and plan.hugepages is None and not all(port.device.ends for port in plan.ports):
        yield (
            f"{need} MB of hugepages are not free: receiving without them, at a lower rate; "
            f"`sysctl -w vm.nr_hugepages={need // 2 + 1}` as root gives them, --no-hugepages says that it is meant"
        )


def pausing(plan: Plan, ports: Sequence[PortStatus]) -> Iterator[str]:
    """Which cards may ask the switch to pause, for a person."""
    for port, found in zip(plan.ports, ports, strict=True):
        if port.device.physical and not found.no_flow_control:
            yield (
                f"capture port {port.name}: {found.driver} did not leave flow control: a monitor port that pauses its "
                "switch slows the network that it watches; switch it off there, or by `ethtool -A INTERFACE rx off`"
            )


def watch(run: Run, *, duration_s: float | None, idle_s: float | None, show: Callable[[Status], None]) -> Status | None:
    """Go along with a run to its end; None where it never said anything.

    Args:
        run: the run.
        duration_s: stop after so long; None: when told.
        idle_s: stop when no packet has come for so long; None: never.
        show: called with everything that the receiver says.
    """
    last: Status | None = None
    began = changed = time.monotonic()
    packets = -1
    stopped = False
    for status in run.statuses():
        last = status
        show(status)
        now = time.monotonic()
        found = sum(port.packets for port in status.ports)
        if status.event == "started":
            began = changed = now if packets < 0 else began
        if found != packets:
            packets, changed = found, now
        elif status.event == "status":
            run.quiet()
        over = duration_s is not None and now - began >= duration_s
        if not stopped and (over or (idle_s is not None and now - changed >= idle_s)):
            stopped = True
            run.stop()
    return last
