"""Where a Linux machine is, and how its tools are run there: here, in a network namespace, or over SSH.

``tc:local``, ``tc:netns:NAME``, ``tc:netns:/proc/4711/ns/net``, ``tc:ssh:HOST`` or ``tc:ssh:HOST:PORT``, with the
words of ``ssh:`` after ``?``.
"""

import re
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from flowcheck_net.drivers import ssh_connect
from flowcheck_net.drivers.login import NoLogin, find_login
from flowcheck_net.drivers.ssh_connect import Wire, connect
from flowcheck_net.drivers.ssh_reference import Reference, parse_reference

_FORM = re.compile(r"tc:(?:(?P<local>local)|netns:(?P<netns>/[^\s#]+|[A-Za-z0-9][A-Za-z0-9._-]*)|(?P<ssh>ssh:.+))")
FORMS = "tc:local, tc:netns:NAME or tc:ssh:HOST:PORT?login=env:NAME"
_SECONDS = 20
_NOT_FOUND = 127
"""Of a shell that knows no such program."""


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
    if match is None:
        raise ValueError(f"{management!r} does not name a Linux machine: write {FORMS}")
    if match["ssh"]:
        try:
            return SshShell(parse_reference(match["ssh"]))
        except ValueError as error:
            raise ValueError(f"{error} (write {FORMS})") from error
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

    def __init__(self, where: Reference) -> None:
        self._where = where
        self._wire: Wire | None = None

    def open(self) -> None:
        """See ``Shell.open``."""
        try:
            login = find_login(self._where.login)
            jump = find_login(self._where.jump_login) if self._where.jump_login else login
            self._wire = connect(self._where, login, jump, "linux")
        except NoLogin as error:
            raise Unreachable(str(error)) from error
        except ImportError as error:
            raise Unreachable(f"{error.name} is not installed: pip install 'flowcheck-net[vendor]'") from error
        except ssh_connect.Unreachable as error:
            raise Unreachable(f"{error}; {error.hint}" if error.hint else str(error)) from error

    def close(self) -> None:
        """See ``Shell.close``."""
        if self._wire is not None:
            self._wire.close()
        self._wire = None

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        """See ``Shell.run``."""
        if self._wire is None:
            raise Unreachable("not connected")
        try:
            ended = self._wire.execute(shlex.join(words), stdin, _SECONDS)
        except ssh_connect.Lost as error:
            self.close()
            raise Lost(str(error)) from error
        if ended.code == _NOT_FOUND:
            raise Unreachable(f"{words[0]} is not installed there")
        if ended.code:
            raise Refused(_complaint(ended.complaint) or f"exit code {ended.code}")
        return ended.output


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
        raise Refused(_complaint(done.stderr) or f"exit code {done.returncode}")
    return done.stdout


def _complaint(stderr: str) -> str:
    """What a tool wrote to stderr, in one line; tc's closing words say less than the first ones."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return "; ".join(line for line in lines if line != "We have an error talking to the kernel")
