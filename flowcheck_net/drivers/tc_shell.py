"""Where a Linux machine is, and how its tools are run there: here, in a network namespace, or over OpenSSH's client.

``tc:local``, ``tc:netns:NAME``, ``tc:netns:/proc/4711/ns/net``, ``tc:ssh:HOST`` or ``tc:ssh:HOST:PORT``. With ssh,
users, keys, host keys and jump hosts are those of ``~/.ssh/config``; nothing is ever asked.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_FORM = re.compile(
    r"tc:(?:(?P<local>local)|netns:(?P<netns>/[^\s#]+|[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"|ssh:(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?)"
)
FORMS = "tc:local, tc:netns:NAME or tc:ssh:HOST:PORT"
_SECONDS = 20
_SSH_FAILED = 255
"""OpenSSH's own exit code; the remote tools have 0, 1 and 2."""


class Unreachable(Exception):
    """Nothing was run."""


class Lost(Exception):
    """The tool was started, and how it ended is not known."""


class Refused(Exception):
    """The tool ran and said no; the text is its last complaint."""


class Shell(Protocol):
    """Runs programs on the machine."""

    def open(self) -> None:
        """Get ready; raises Unreachable."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        """Output of a program that ended well; raises Unreachable, Lost or Refused."""
        ...


def shell_of(management: str) -> Shell:
    """The shell that ``management`` names; raises ValueError with the forms that there are."""
    match = _FORM.fullmatch(management)
    if match is None or (match["port"] and not 0 < int(match["port"]) < 1 << 16):
        raise ValueError(f"{management!r} does not name a Linux machine: write {FORMS}")
    if match["host"]:
        return SshShell(match["host"].replace("[", "").replace("]", ""), match["port"] or "")
    if match["netns"]:
        where = match["netns"] if match["netns"].startswith("/") else f"/run/netns/{match['netns']}"
        return LocalShell(Path(where))
    return LocalShell()


class LocalShell:
    """This machine, in our own network namespace or another one."""

    def __init__(self, namespace: Path | None = None) -> None:
        self._namespace = namespace

    def open(self) -> None:
        """See ``Shell.open``."""
        if self._namespace is not None and not self._namespace.exists():
            raise Unreachable(f"there is no network namespace {self._namespace}")

    def close(self) -> None:
        """See ``Shell.close``."""

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        """See ``Shell.run``."""
        enter = ["nsenter", f"--net={self._namespace}", "--"] if self._namespace is not None else []
        done = _run([*enter, *words], stdin)
        return _output(done)


class SshShell:
    """Another machine; one connection for all commands."""

    def __init__(self, host: str, port: str) -> None:
        self._host, self._port = host, port
        self._directory: Path | None = None

    def open(self) -> None:
        """See ``Shell.open``."""
        self._directory = Path(tempfile.mkdtemp(prefix="fcn-ssh-", dir="/tmp"))
        try:
            self.run(["true"])
        except (Lost, Refused) as error:
            raise Unreachable(str(error)) from error

    def close(self) -> None:
        """See ``Shell.close``."""
        if self._directory is None:
            return
        with suppress(Unreachable, Lost):  # the master may have ended by itself
            _run([*self._ssh(), "-O", "exit", self._host], "")
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        """See ``Shell.run``."""
        done = _run([*self._ssh(), "--", self._host, shlex.join(words)], stdin)
        if done.returncode == _SSH_FAILED:
            raise Lost(_complaint(done) or "ssh failed")
        return _output(done)

    def _ssh(self) -> list[str]:
        port = ["-p", self._port] if self._port else []
        options = (
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ControlMaster=auto",
            "ControlPersist=60",
            f"ControlPath={self._directory}/master",
        )
        return ["ssh", *port, *(word for o in options for word in ("-o", o))]


def _run(command: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str]:
    try:
        # A file, whole before the program starts: of a pipe it would take the half that was written when we are killed.
        with tempfile.TemporaryFile() as file:
            file.write(stdin.encode())
            file.seek(0)
            return subprocess.run(  # noqa: S603 - words of ours, no shell
                list(command),
                stdin=file,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                errors="replace",
            )
    except FileNotFoundError as error:
        raise Unreachable(f"{command[0]} is not installed") from error
    except OSError as error:
        raise Unreachable(f"{command[0]} cannot be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Lost(f"no answer within {_SECONDS} s") from error


def _output(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        raise Lost(f"{done.args[0]} was ended by signal {-done.returncode}")
    if done.returncode:
        raise Refused(_complaint(done) or f"exit code {done.returncode}")
    return done.stdout


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What a tool wrote to stderr, in one line; tc's closing words say less than the first ones."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(line for line in lines if line != "We have an error talking to the kernel")
