"""The ways to one Open vSwitch bridge: its database, its OpenFlow socket, the control socket of ovs-vswitchd."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from flowcheck_net.drivers.ovs_bridge import Bridge, bridge_from, selects
from flowcheck_net.drivers.ovs_change import KEY_TABLE
from flowcheck_net.drivers.ovs_control import Control, find_control
from flowcheck_net.drivers.ovs_flows import FlowError, FlowTable, Rule
from flowcheck_net.drivers.ovs_reference import parse_reference
from flowcheck_net.drivers.ovs_rpc import Connection, Lost, RemoteError, Unreachable
from flowcheck_net.drivers.ovs_sessions import Found, find_owned
from flowcheck_net.drivers.ovs_values import Row, first, mapping, number, plain
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.ids import SessionName
from flowcheck_net.intent import SwitchAddress

DATABASE = "Open_vSwitch"
_TAKE_UP = 5.0
"""Seconds that ovs-vswitchd is given to take up a configuration."""
_SETTLE = 0.8
"""Seconds after which the counts of hot flows have reached the rules and mirrors (revalidators run every 0.5 s)."""


_STRANGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""What comes of answers and rows that no Open vSwitch gives."""
_LONGEST_INTERVAL = 60.0
"""Seconds that we wait for the switch to count."""


class KeyTaken(Rejected):
    """Another writer gave a tunnel the key that we had chosen; nothing was written."""


@dataclass(frozen=True, slots=True)
class Picture:
    """All that one look at the bridge tells."""

    bridge: Bridge
    rules: tuple[Rule, ...]
    """Of table 0, where they can be read and are needed."""
    found: Mapping[SessionName, Found]
    """Our job's sessions."""


class Link:
    """Open from ``open`` to ``close``, or to the first loss; then every call raises ConnectError."""

    def __init__(self, address: SwitchAddress, job: str) -> None:
        """Raises ConnectError where the reference names no bridge."""
        self.switch = address.name
        self._job = job
        try:
            self.remote, self.bridge_name = parse_reference(address.management)
        except ValueError as error:
            raise ConnectError(self.switch, str(error)) from error
        self._directory = Path(self.remote.host).parent if self.remote.kind == "unix" else None
        self._connection: Connection | None = None
        self._columns: frozenset[str] = frozenset()
        self.flows = FlowTable(self._directory / f"{self.bridge_name}.mgmt") if self._directory else None
        """The bridge's first table; None: not from here."""
        self.control: Control | None = None
        """ovs-vswitchd; None: not from here."""

    @property
    def connected(self) -> bool:
        """Can calls be made?"""
        return self._connection is not None

    @property
    def filter_column(self) -> bool:
        """Can a mirror row filter by itself (Open vSwitch 3.5 and later)?"""
        return "filter" in self._columns

    @property
    def rules_reachable(self) -> bool:
        """Is the bridge's OpenFlow socket on this machine?"""
        return self.flows is not None and self.flows.reachable()

    def open(self) -> None:
        """Connect and read the schema; raises ConnectError."""
        try:
            self._connection = Connection(self.remote)
        except Unreachable as error:
            raise ConnectError(self.switch, str(error)) from error
        try:
            self._columns = frozenset(self._schema()["tables"]["Mirror"]["columns"])
            self.control = find_control(self._directory) if self._directory else None
        except _STRANGE as error:
            self.close()
            raise ConnectError(self.switch, f"{self.remote} has no database {DATABASE} as it should be") from error
        except BaseException:
            self.close()
            raise

    def _schema(self) -> Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]:
        try:
            answer = self._live().call("get_schema", [DATABASE])
        except (Unreachable, Lost) as error:
            doubt = ": does it speak TLS (ovs:ssl:...)?" if self.remote.kind == "tcp" else ""
            raise ConnectError(self.switch, f"{self.remote}: {error}{doubt}") from error
        except RemoteError as error:
            raise ConnectError(self.switch, f"{self.remote}: {error}") from error
        return cast(Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]], answer)

    def close(self) -> None:
        """Hang up; never raises."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def call(self, method: str, params: Sequence[object]) -> object:
        """A call that changes nothing of the configuration; raises ConnectError."""
        try:
            return self._live().call(method, params)
        except (Unreachable, Lost) as error:
            self.close()
            raise ConnectError(self.switch, str(error)) from error
        except RemoteError as error:
            raise ConnectError(self.switch, f"the database refused {method}: {error}") from error

    def transact(self, work: Sequence[Mapping[str, object]]) -> int:
        """Carry out a changing transaction; returns the number of the configuration that it makes.

        Raises:
            ConnectError: nothing was sent.
            Rejected: the database changed nothing.
            StateUnknown: it was sent, and no answer came.
        """
        try:
            answers = self._live().call("transact", [DATABASE, *work])
        except Unreachable as error:
            self.close()
            raise ConnectError(self.switch, str(error)) from error
        except Lost as error:
            self.close()
            raise StateUnknown(self.switch, f"no answer to the transaction: {error}") from error
        except RemoteError as error:
            raise Rejected(self.switch, f"the database refused: {error}") from error
        self._check(answers, work)
        try:
            rows = [a["rows"] for a in cast(list[object], answers) if isinstance(a, dict) and "rows" in a]
            return number(rows[-1][0]["next_cfg"]) or 0
        except _STRANGE as error:
            raise StateUnknown(self.switch, f"the answer to the transaction is not understood: {error!r}") from error

    def await_config(self, wanted: int) -> None:
        """Return when ovs-vswitchd has taken the configuration up, or will not in time (``read`` remarks that)."""
        deadline = time.monotonic() + _TAKE_UP
        while time.monotonic() < deadline:
            try:
                rows = self._select([{"op": "select", "table": DATABASE, "where": [], "columns": ["cur_cfg"]}])
                taken = number(rows[0][0]["cur_cfg"]) or 0
            except _STRANGE as error:
                raise self._unexpected(error) from error
            if taken >= wanted:
                return
            time.sleep(0.02)

    def look(self) -> Picture:
        """The bridge and its first table as they are now; raises ConnectError."""
        try:
            bridge = bridge_from(self._select(selects(self.bridge_name, self._columns)))
            if bridge is None:
                raise ConnectError(self.switch, f"{self.remote} has no bridge {self.bridge_name}")
            rules = self.flows.rules() if self.flows and self.rules_reachable and not self.filter_column else ()
            return Picture(bridge, rules, find_owned(bridge, rules, self._job))
        except FlowError as error:
            raise ConnectError(
                self.switch, f"its OpenFlow rules cannot be read, is ovs-vswitchd running? {error}"
            ) from error
        except _STRANGE as error:
            raise self._unexpected(error) from error

    def _unexpected(self, error: Exception) -> ConnectError:
        return ConnectError(self.switch, f"the database has something unexpected: {plain(error)}")

    def look_refreshed(self) -> Picture | None:
        """Look when the switch has counted anew, which it tells by no other sign than that counts change.

        None: it counts so rarely that nobody would wait for it.
        """
        time.sleep(_SETTLE)
        before = self.look()
        every = _counting_interval(before.bridge)
        if every > _LONGEST_INTERVAL:
            return None
        deadline = time.monotonic() + every + 0.2
        while time.monotonic() < deadline:
            time.sleep(0.1)
            now = self.look()
            if now.bridge.counts != before.bridge.counts:
                return now
        return before

    def version(self, bridge: Bridge) -> tuple[int, ...]:
        """Of ovs-vswitchd; empty, and so older than any other: not known."""
        if self.control:
            try:
                return self.control.version()
            except (Unreachable, Lost, RemoteError):
                return ()
        words = first(bridge.switch["ovs_version"]).split(".")
        return tuple(int(w) for w in words) if all(w.isdigit() for w in words) else ()

    def restart_mark(self, bridge: Bridge) -> str:
        """Version, run of ovsdb-server, and boot and process start of ovs-vswitchd where it runs on this machine."""
        process = self.control.process_start() if self.control else ""
        return "/".join([first(bridge.switch["ovs_version"]), str(self.call("get_server_id", [])), process])

    def _check(self, answers: object, work: Sequence[Mapping[str, object]]) -> None:
        """Raise Rejected where any operation failed: then the database has changed nothing."""
        for index, answer in enumerate(answers if isinstance(answers, list) else []):
            if not (isinstance(answer, dict) and answer.get("error")):
                continue
            failed = work[index] if index < len(work) else {"op": "commit"}
            name = failed["op"]
            if name == "wait" and failed["table"] == KEY_TABLE:
                raise KeyTaken(self.switch, "another writer made a tunnel of the same key; nothing was written")
            if name == "wait":
                text = (
                    "mirrors or ports of the bridge were changed by someone else since they were read; nothing written"
                )
                raise Rejected(self.switch, text, hint="read again, then apply again")
            if name == "assert":
                raise Rejected(self.switch, "the lock of the database is not ours any more; nothing was written")
            details = f": {answer['details']}" if answer.get("details") else ""
            raise Rejected(self.switch, f"the database refused ({name}): {answer['error']}{details}")

    def _select(self, work: Sequence[Mapping[str, object]]) -> list[list[Row]]:
        answers = self.call("transact", [DATABASE, *work])
        if not isinstance(answers, list):
            raise ValueError(f"an answer to each select is needed, found {answers!r}")
        return [answer["rows"] for answer in answers]

    def _live(self) -> Connection:
        if self._connection is None:
            raise ConnectError(self.switch, "not connected")
        return self._connection


def _counting_interval(bridge: Bridge) -> float:
    """Seconds between two counts of the switch by its settings. It takes no less than 5 s, and 5 s for no number."""
    try:
        wanted = int(mapping(bridge.switch["other_config"]).get("stats-update-interval", "5000"))
    except ValueError:
        wanted = 5000
    return max(5000, wanted) / 1000
