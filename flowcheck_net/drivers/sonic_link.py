"""One SONiC switch over SSH: databases read, patches applied, orchagent looked after. Single commands, no terminal."""

import json
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress

from flowcheck_net.drivers.login import Login, NoLogin, find_login
from flowcheck_net.drivers.sonic_db import APPL, CONFIG, COUNTERS, STATE, Row, Snapshot, tables_from
from flowcheck_net.drivers.sonic_patch import Operation
from flowcheck_net.drivers.ssh_connect import Ended, Lost, Unreachable, Wire, connect
from flowcheck_net.drivers.ssh_reference import Reference
from flowcheck_net.errors import ConnectError, StateUnknown
from flowcheck_net.ids import SwitchName

_APPLIED = "Patch applied successfully"
_STATES = ("SWITCH_CAPABILITY|*", "MIRROR_SESSION_TABLE|*", "ACL_TABLE_TABLE|*", "ACL_STAGE_CAPABILITY*")
_PATCH_SECONDS = 900
"""A patch is sorted and applied change by change: minutes on a big configuration."""
_ALIVE = ("sudo", "docker", "exec", "swss", "supervisorctl", "status", "orchagent")
_BOOT = ("cat", "/proc/sys/kernel/random/boot_id")


class PatchRefused(Exception):
    """The switch said no; what it did until then is to be read."""


class Link:
    """The connection."""

    def __init__(self, switch: SwitchName, where: Reference) -> None:
        self._switch, self._where = switch, where
        self._wire: Wire | None = None

    def open(self) -> None:
        """Connect; refuses a switch of several ASICs. Raises ConnectError."""
        try:
            login: Login = find_login(self._where.login)
            jump = find_login(self._where.jump_login) if self._where.jump_login else login
            self._wire = connect(self._where, login, jump, "linux")
        except NoLogin as error:
            raise ConnectError(self._switch, str(error)) from error
        except Unreachable as error:
            raise ConnectError(self._switch, str(error), hint=error.hint) from error
        if self._run(["test", "-d", "/var/run/redis0"]).code == 0:
            self.close()
            raise ConnectError(
                self._switch,
                "it has several ASICs, each with a configuration database of its own, which is not done yet",
                hint="mirror at single-ASIC switches; half a session on one of several ASICs would copy only a part",
            )

    def close(self) -> None:
        """Never raises."""
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def look(self) -> Snapshot:
        """The databases; raises ConnectError."""
        config = self._dump(CONFIG, "*", "|")
        if "PORT" not in config:
            raise ConnectError(self._switch, "its CONFIG_DB has no ports: is it a SONiC switch, and has it booted?")
        state: dict[str, dict[str, dict[str, str]]] = {}
        for pattern in _STATES:
            state |= self._dump(STATE, pattern, "|")
        ports = {**self._dump(APPL, "PORT_TABLE:*", ":"), **self._dump(APPL, "LAG_TABLE:*", ":")}
        return Snapshot(config, state, {name: row for table in ports.values() for name, row in table.items()})

    def keys(self, database: str, pattern: str) -> list[str]:
        """Keys that match, sorted."""
        separator = ":" if database in (APPL, COUNTERS) else "|"
        tables = self._dump(database, pattern, separator)
        return sorted(f"{table}{separator}{key}" for table, rows in tables.items() for key in rows)

    def hash_of(self, database: str, key: str) -> Row:
        """The fields of one key; empty: it is not there."""
        separator = ":" if database in (APPL, COUNTERS) else "|"
        tables = self._dump(database, key, separator)
        return next((row for table in tables.values() for row in table.values()), {})

    def orchagent(self) -> str:
        """``RUNNING pid 42, ...`` as its supervisor says; another word first: it does not run."""
        ended = self._run(_ALIVE)
        words = (ended.output.strip() or ended.complaint.strip() or "no answer").split(None, 1)
        return words[1].strip() if len(words) == 2 and words[0] == "orchagent" else " ".join(words)

    def restart_mark(self) -> str:
        """The kernel's boot, and the process id of orchagent, which makes all sessions anew when it starts."""
        words = self.orchagent().replace(",", " ").split()
        pid = words[words.index("pid") + 1] if "pid" in words[:-1] else "none"
        return f"{self._run(_BOOT).output.strip()} {pid}"

    def apply(self, patch: Sequence[Operation]) -> None:
        """Apply a patch; raises PatchRefused, ConnectError (nothing applied yet) or StateUnknown."""
        name = self._run(["mktemp", "--tmpdir", "flowcheck-net-XXXXXXXX.json"]).output.strip()
        if "/flowcheck-net-" not in name:
            raise ConnectError(self._switch, "it gives no file for the patch (mktemp)")
        if self._run(["tee", name], json.dumps(list(patch))).code:
            raise ConnectError(self._switch, f"the patch cannot be written to {name}")
        ended = self._change(["sudo", "config", "apply-patch", name])
        with suppress(ConnectError):
            # What became of the patch is known; that the connection is gone tells the next question.
            self._run(["rm", "-f", name])
        if ended.code or _APPLIED not in ended.output:
            raise PatchRefused(_last_line(ended))

    def wait_for(self, key: str, seconds: float) -> Row:
        """A row of the state database, once it is there; empty: it did not come."""
        deadline = time.monotonic() + seconds
        while True:
            if row := self.hash_of(STATE, key):
                return row
            if time.monotonic() > deadline:
                return {}
            time.sleep(0.2)

    def _dump(self, database: str, pattern: str, separator: str) -> dict[str, dict[str, dict[str, str]]]:
        ended = self._run(["sonic-db-dump", "-n", database, "-y", "-k", pattern])
        try:
            if ended.code:
                raise ValueError(_last_line(ended))
            return tables_from(ended.output, separator)
        except ValueError as error:
            raise ConnectError(self._switch, f"sonic-db-dump of {database} failed: {error}") from error

    def _run(self, words: Sequence[str], stdin: str = "") -> Ended:
        """A command that changes nothing of the configuration."""
        try:
            return self._execute(words, stdin, self._where.timeout)
        except Lost as error:
            self.close()
            raise ConnectError(self._switch, str(error)) from error

    def _change(self, words: Sequence[str]) -> Ended:
        try:
            return self._execute(words, "", _PATCH_SECONDS)
        except Lost as error:
            self.close()
            raise StateUnknown(self._switch, f"{error}, while a patch was applied") from error

    def _execute(self, words: Sequence[str], stdin: str, seconds: float) -> Ended:
        if self._wire is None:
            raise ConnectError(self._switch, "not connected")
        return self._wire.execute(shlex.join(words), stdin, seconds)


def _last_line(ended: Ended) -> str:
    lines = [line.strip() for line in (ended.output + "\n" + ended.complaint).splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else f"exit code {ended.code}"
