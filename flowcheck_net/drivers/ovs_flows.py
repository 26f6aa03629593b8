"""Filtered mirroring by OpenFlow rules, for Open vSwitch without the Mirror table's ``filter`` column (before 3.5).

A rule of ours stands in table 0 above the one rule that matches everything, and does what that rule does after one more
output. So the bridge's own pipeline is not touched, and every packet goes its way as before. A bridge whose first table
has any other rule cannot be served like that, and is refused.

Our cookie says whose a rule is: 16 bits are ours, 24 the job's, 24 the number of the session.
"""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.ids import Address, SessionName
from flowcheck_net.intent import FlowFilter, MirrorSession, is_owned, session_name

_MAGIC = 0xFC4E
PRIORITY = 65000
_VERSIONS = "OpenFlow13,OpenFlow14,OpenFlow15"
_SECONDS = 10
_LINE = re.compile(
    r"\s*cookie=0x(?P<cookie>[0-9a-f]+), duration=[^,]+, table=0, n_packets=(?P<packets>\d+), n_bytes=\d+,"
    r"(?P<match>.*?)\s*actions=(?P<actions>.*)"
)
_NO_MATCH = re.compile(
    r"(?:(?:priority|idle_timeout|hard_timeout|importance|idle_age|hard_age)=\d+|send_flow_rem|reset_counts)"
)


class FlowError(Exception):
    """ovs-ofctl could not do it; nothing was changed (a bundle is carried out as a whole or not at all)."""


class FlowDoubt(Exception):
    """ovs-ofctl did not end in time: whether the bundle was carried out is not known."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of table 0."""

    cookie: int
    packets: int
    fields: tuple[tuple[str, str], ...]
    """The match."""
    priority: int
    actions: str

    @property
    def ours(self) -> bool:
        """A rule of flowcheck-net, whatever its job."""
        return self.cookie >> 48 == _MAGIC

    @property
    def port(self) -> int:
        """OpenFlow number of the port where it picks packets."""
        return int(dict(self.fields).get("in_port", "0"))

    @property
    def pair(self) -> FlowFilter:
        """The addresses that it matches."""
        match = dict(self.fields)
        source, to = (match.get(f"nw_{w}") or match.get(f"ipv6_{w}") or "" for w in ("src", "dst"))
        return FlowFilter(Address(source), Address(to))

    @property
    def output(self) -> int:
        """OpenFlow number of the port that gets the copies."""
        found = re.match(r"output:(\d+)", self.actions)
        return int(found[1]) if found else 0

    @property
    def rest(self) -> str:
        """What it does beside copying: what the rule below it does."""
        return self.actions.partition(",")[2] or "drop"


def cookie_of(job: str, name: SessionName) -> int:
    """The cookie of a session's rules; raises ValueError where the session's number has more than 24 bits."""
    number = int(name.rpartition("-")[2])
    if not is_owned(name, job) or number >= 1 << 24:
        raise ValueError(f"{name} cannot be told in a cookie")
    return _MAGIC << 48 | _job_bits(job) << 24 | number


def session_of(cookie: int, job: str) -> SessionName | None:
    """The session of our job that a cookie belongs to; None: it is none of ours."""
    ours = cookie >> 48 == _MAGIC and cookie >> 24 & 0xFFFFFF == _job_bits(job)
    return session_name(job, cookie & 0xFFFFFF) if ours else None


def base_rule(rules: Iterable[Rule], bridge: str) -> Rule:
    """The one rule of others in table 0, which matches everything.

    Raises:
        ValueError: there is another one, or none; with the way out.
    """
    others = [r for r in rules if not r.ours]
    cure = (
        f"a filter needs a first table with one rule that matches everything: move the rules of {bridge} to table 1 "
        "and leave `priority=0,actions=resubmit(,1)` in table 0, or use Open vSwitch 3.5 or later"
    )
    if narrow := [r for r in others if r.fields]:
        what = ",".join(f"{k}={v}" if v else k for k, v in narrow[0].fields)
        raise ValueError(f"table 0 of {bridge} has rules of others ({len(narrow)}), such as `{what}`; {cure}")
    if len(others) != 1 or others[0].priority >= PRIORITY or others[0].actions.startswith("meter"):
        raise ValueError(f"table 0 of {bridge} has no plain rule that matches everything; {cure}")
    return others[0]


def lines_for(session: MirrorSession, cookie: int, inputs: Sequence[int], output: int, base: Rule) -> list[str]:
    """The rules of a session, as ``ovs-ofctl --bundle add-flows`` takes them."""
    then = "" if base.actions == "drop" else f",{base.actions}"
    found = []
    for port in inputs:
        for pair in session.filters:
            family, word = ("udp6", "ipv6") if ":" in pair.source else ("udp", "nw")
            match = f"in_port={port},{family},tp_dst=4791,{word}_src={pair.source},{word}_dst={pair.destination}"
            found.append(f"add table=0,priority={PRIORITY},cookie={cookie:#x},{match},actions=output:{output}{then}")
    return found


def line_without(cookie: int) -> str:
    """Removes the rules of one cookie from table 0, and from no other."""
    return f"delete table=0,cookie={cookie:#x}/-1"


@dataclass(frozen=True, slots=True)
class FlowTable:
    """Table 0 of a bridge, by its own management socket."""

    socket: Path

    def reachable(self) -> bool:
        """Is the bridge on this machine, with its sockets beside the database's?"""
        return self.socket.is_socket()

    def rules(self) -> tuple[Rule, ...]:
        """All rules of table 0; raises FlowError."""
        try:
            text = self._run(["--no-names", "dump-flows", f"unix:{self.socket}", "table=0"], "")
        except FlowDoubt as error:
            raise FlowError(str(error)) from error
        found = [_rule(line) for line in text.splitlines() if "actions=" in line]
        return tuple(found)

    def change(self, lines: Sequence[str]) -> None:
        """Carry out all lines or none; raises FlowError or FlowDoubt."""
        self._run(["--bundle", "add-flows", f"unix:{self.socket}", "-"], "\n".join(lines) + "\n")

    def _run(self, words: list[str], stdin: str) -> str:
        command = ["ovs-ofctl", "-O", _VERSIONS, f"--timeout={_SECONDS}", *words]
        try:
            # A file that is whole before the program starts: of a pipe it would take the half that was written when we
            # are killed, and half a line can be a rule that forwards nothing.
            with tempfile.TemporaryFile() as file:
                file.write(stdin.encode())
                file.seek(0)
                done = subprocess.run(  # noqa: S603 - fixed words, and a path that we built
                    command, stdin=file, capture_output=True, text=True, check=False, timeout=_SECONDS + 5
                )
        except FileNotFoundError as error:
            raise FlowError("ovs-ofctl is not installed (Debian package openvswitch-common)") from error
        except OSError as error:
            raise FlowError(f"ovs-ofctl cannot be started: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise FlowDoubt("ovs-ofctl did not end") from error
        if done.returncode < 0:
            raise FlowDoubt(f"ovs-ofctl was ended by signal {-done.returncode}")
        if done.returncode:
            raise FlowError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "ovs-ofctl failed")
        return done.stdout


def _rule(line: str) -> Rule:
    match = _LINE.match(line)
    if match is None:
        raise FlowError(f"ovs-ofctl wrote a rule that is not understood: {line.strip()}")
    words = [w for w in re.split(r"[ ,]+", match["match"]) if w]
    priority = next((int(w.partition("=")[2]) for w in words if w.startswith("priority=")), 32768)
    fields = [w.partition("=") for w in words if not _NO_MATCH.fullmatch(w)]
    return Rule(
        int(match["cookie"], 16), int(match["packets"]), tuple((k, v) for k, _, v in fields), priority, match["actions"]
    )


def _job_bits(job: str) -> int:
    return int.from_bytes(hashlib.sha256(job.encode()).digest()[:3], "big")
