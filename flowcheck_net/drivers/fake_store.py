"""Where a fake switch lives: in memory, or in a JSON file that outlives the process.

The file is ``<state dir>/fake/<switch>.json`` (docs: ``drivers/fake.py``), replaced atomically under a lock, so that
several processes may use the same fake fabric and a killed one never leaves half a file.
"""

import fcntl
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flowcheck_net.drivers.fake_device import Call, FakeSwitch, Fault, FaultKind
from flowcheck_net.drivers.session_json import items, mapping, number, session_from_json, session_to_json, text
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.ids import PortName, SessionName, SwitchName
from flowcheck_net.intent import Capabilities, Direction, MirrorSource, Remark, RemarkKind, SessionSource

FILE_VERSION = 1
MOST_LATENCY = 60
"""Seconds of a call: more would only look like a hang."""


class Store(Protocol):
    """Holds a switch and lets one user at a time at it."""

    def transaction(self) -> AbstractContextManager[FakeSwitch]:
        """The switch, alone; changes hold from the end of the block, unless it raises."""
        ...

    def hold(self, who: str) -> AbstractContextManager[None]:
        """The device's lock for ``who``, without waiting; raises Rejected, naming the holder."""
        ...


@dataclass(slots=True)
class MemoryStore:
    """A switch that lives as long as the process."""

    switch: FakeSwitch
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _held: threading.Lock = field(default_factory=threading.Lock)
    _holder: str = ""

    @contextmanager
    def transaction(self) -> Iterator[FakeSwitch]:
        """The switch itself, under a lock."""
        with self._lock:
            yield self.switch

    @contextmanager
    def hold(self, who: str) -> Iterator[None]:
        """Until the block ends."""
        if not self._held.acquire(blocking=False):
            raise _held_by(self.switch.name, self._holder)
        self._holder = who
        try:
            yield
        finally:
            self._held.release()


@dataclass(frozen=True, slots=True)
class FileStore:
    """A switch kept in a file. A file that is not there yet is a switch without sessions."""

    name: SwitchName
    path: Path
    limits: Capabilities

    @contextmanager
    def transaction(self) -> Iterator[FakeSwitch]:
        """The switch as the file has it, under a lock; written back if it changed.

        Raises:
            ConnectError: the file cannot be read or written, or is not a fake switch.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("a")
        except OSError as error:
            raise ConnectError(self.name, f"no place for a fake switch: {error}") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._read()
            switch = self._parse(before) if before is not None else FakeSwitch(self.name, self.limits)
            yield switch
            after = switch_to_json(switch)
            if after != before:
                self._replace(after)

    @contextmanager
    def hold(self, who: str) -> Iterator[None]:
        """Until the block or the process ends: the kernel drops a dead process's lock as a device drops a session's.

        Raises:
            Rejected: another one holds the switch.
            ConnectError: there is no place for the lock.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".held").open("a+", encoding="utf-8")
        except OSError as error:
            raise ConnectError(self.name, f"no place for a fake switch: {error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                raise _held_by(self.name, lock.read().strip()) from error
            lock.truncate(0)
            lock.write(f"{who}\n")
            lock.flush()
            yield

    def _read(self) -> str | None:
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectError(self.name, f"{self.path} cannot be read: {error}") from error

    def _parse(self, content: str) -> FakeSwitch:
        try:
            return switch_from_json(content, self.name, self.limits)
        except (ValueError, RecursionError) as error:
            raise ConnectError(self.name, f"{self.path} is not a fake switch: {error}") from error

    def _replace(self, content: str) -> None:
        new = self.path.with_suffix(".new")
        try:
            new.write_text(content, encoding="utf-8")
            new.replace(self.path)
        except OSError as error:
            raise ConnectError(self.name, f"{self.path} cannot be written: {error}") from error


def _held_by(switch: str, holder: str) -> Rejected:
    return Rejected(switch, f"locked by {holder or 'another user'}", hint="wait until it has ended, then try again")


def switch_to_json(switch: FakeSwitch) -> str:
    """The file's text: canonical, sessions in the order of their creation."""
    value = {
        "version": FILE_VERSION,
        "destination_exclusive": switch.destination_exclusive,
        "latency": switch.latency,
        "restart_mark": switch.restart_mark,
        "sessions": [
            {
                **session_to_json(s),
                "copies": [
                    _count_to_json(source, switch.copies[SessionSource(s.name, source)]) for source in s.sources
                ],
            }
            for s in switch.sessions.values()
        ],
        "ports": [_count_to_json(source, count) for source, count in sorted(switch.ports.items())],
        "remarks": [
            {"kind": r.kind.value, "text": r.text, "session": r.session, "port": r.port} for r in switch.remarks
        ],
        "faults": [
            {"call": f.call.value, "kind": f.kind.value, "step": f.step, "skip": f.skip, "times": f.times}
            for f in switch.faults
        ],
    }
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def switch_from_json(content: str, name: SwitchName, limits: Capabilities) -> FakeSwitch:
    """The inverse of ``switch_to_json``; raises ValueError (also for what is not JSON)."""
    raw = mapping(
        json.loads(content),
        "file",
        required={"version", "sessions"},
        optional={"destination_exclusive", "latency", "faults", "ports", "remarks", "restart_mark"},
    )
    if raw["version"] != FILE_VERSION or isinstance(raw["version"], bool):
        raise ValueError(f"version {raw['version']!r}, this program reads {FILE_VERSION}")
    latency = raw.get("latency", 0.0)
    exclusive = raw.get("destination_exclusive", False)
    if not isinstance(latency, int | float) or not isinstance(exclusive, bool) or not 0 <= latency <= MOST_LATENCY:
        raise ValueError(f"latency is 0 to {MOST_LATENCY} seconds, destination_exclusive is true or false")
    switch = FakeSwitch(name, limits, destination_exclusive=exclusive, latency=float(latency))
    for entry in items(raw["sessions"], "sessions"):
        optional = {"sources", "destination", "filters", "windows", "copies"}
        fields = dict(mapping(entry, "session", required={"name"}, optional=optional))
        copies = [_count(each) for each in items(fields.pop("copies", []), "copies")]
        session = session_from_json(fields)
        switch.copies.update((SessionSource(session.name, source), 0) for source in session.sources)
        if stray := [source for source, _ in copies if source not in session.sources]:
            raise ValueError(f"copies of {stray[0].port} {stray[0].direction}, which is no source of {session.name}")
        switch.copies.update((SessionSource(session.name, source), count) for source, count in copies)
        if session.name in switch.sessions:
            raise ValueError(f"session {session.name} is there twice")
        switch.sessions[session.name] = session
    switch.restart_mark = text(raw.get("restart_mark", switch.restart_mark), "restart_mark")
    switch.ports.update(_count(entry) for entry in items(raw.get("ports", []), "ports"))
    switch.remarks.extend(_remark(entry) for entry in items(raw.get("remarks", []), "remarks"))
    switch.faults.extend(_fault(entry) for entry in items(raw.get("faults", []), "faults"))
    return switch


def _fault(value: object) -> Fault:
    raw = mapping(value, "fault", required={"call", "kind"}, optional={"step", "skip", "times"})
    return Fault(
        call=Call(text(raw["call"], "fault call")),
        kind=FaultKind(text(raw["kind"], "fault kind")),
        step=number(raw.get("step", 0), "fault step"),
        skip=number(raw.get("skip", 0), "fault skip"),
        times=number(raw.get("times", 1), "fault times"),
    )


def _remark(value: object) -> Remark:
    raw = mapping(value, "remark", required={"kind", "text"}, optional={"session", "port"})
    session, port = raw.get("session", ""), raw.get("port", "")
    if not isinstance(session, str) or not isinstance(port, str):
        raise ValueError("session and port of a remark are names, or empty")
    return Remark(
        RemarkKind(text(raw["kind"], "remark kind")), text(raw["text"], "remark"), SessionName(session), PortName(port)
    )


def _count_to_json(source: MirrorSource, packets: int) -> dict[str, object]:
    return {"port": source.port, "direction": source.direction.value, "packets": packets}


def _count(value: object) -> tuple[MirrorSource, int]:
    raw = mapping(value, "count", required={"port", "direction", "packets"})
    source = MirrorSource(PortName(text(raw["port"], "port")), Direction(text(raw["direction"], "direction")))
    return source, number(raw["packets"], "packets")
