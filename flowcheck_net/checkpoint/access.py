"""Who did what to a store: lines that are only appended, each with the digest of the one before."""

import fcntl
import getpass
import hashlib
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flowcheck_net.errors import OutputError, RecordsCorrupt

NAME = "access.log"
_NONE = "0" * 64


def note(store: Path, action: str, step: int | None, **detail: Any) -> None:  # noqa: ANN401 - any JSON value
    """Append a line; it is on the disk when this returns. Raises OutputError."""
    line: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "action": action, "step": step}
    line |= {"user": _user(), "host": socket.gethostname(), "pid": os.getpid()} | detail
    try:
        with (store / NAME).open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            written = file.read()
            whole = written[: written.rfind(b"\n") + 1]
            if whole != written:  # a writer died in mid-line
                file.truncate(len(whole))
            last = whole.splitlines()[-1] if whole else b""
            line["before"] = hashlib.sha256(last).hexdigest() if last else _NONE
            file.write(json.dumps(line, sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        hint = "nothing is done that cannot be logged"
        raise OutputError(f"{store / NAME} cannot be written: {error.strerror or error}", hint=hint) from error


def read_access(store: Path) -> list[dict[str, Any]]:
    """All lines. Raises RecordsCorrupt where one was changed or taken out (the newest ones can be cut off unseen)."""
    path = store / NAME
    found: list[dict[str, Any]] = []
    expected = _NONE
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else [], 1):
        try:
            told = json.loads(line)
            before = told["before"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordsCorrupt(f"{path}:{number}: no line of an access log") from error
        if before != expected:
            raise RecordsCorrupt(f"{path}:{number}: the line before it was changed or taken out")
        expected = hashlib.sha256(line).hexdigest()
        found.append(told)
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
