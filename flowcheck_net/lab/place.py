"""Where a lab is written down: a directory with its files, and every process of it before that does anything."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from flowcheck_net.errors import LabError
from flowcheck_net.lab.processes import Process, process_of

LABS = Path("/run/flowcheck-net/labs")
"""Of the machine: nothing here is worth more than the processes that it tells of."""
_STATE = "state.json"
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_VERSION = 1
_PATIENCE = 20.0
_GATE = 'read -r go && exec "$@" </dev/null'
"""The shell waits for a line, which comes when the process is written down. If we die before, it ends unread."""


_JANITOR = 'read -r done || { rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }; rmdir -- "${1%/*}" "${1%/*/*}"; }'
"""Reads a word when the directory is gone already, and else, when we die, the end of its input: then it removes it."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whoever is impatient and presses Ctrl-C again does not keep us from tidying up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until(done: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
    """Poll; raises LabError naming ``what``."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise LabError(f"no {what} within {seconds:g} s", hint="look into the .log files of the lab's directory")
        time.sleep(0.005)


class Place:
    """One lab's directory and processes. At most one program changes a lab at a time."""

    def __init__(self, directory: Path, *, tied: bool) -> None:
        """``tied``: the processes end with this one, whatever ends it; else they stay until ``clear``."""
        self.directory = directory
        self.name = directory.name
        self._tied = tied
        self._processes: dict[str, Process] = {}
        self._children: list[subprocess.Popen[bytes]] = []
        self._janitor: subprocess.Popen[bytes] | None = None
        # The parent whose death ends a tied process is a thread: this one lives as long as the lab.
        self._spawner = ThreadPoolExecutor(1, "lab-spawner")
        self._lock = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        """Take the lab; raises LabError where another program has it."""
        try:
            # A name without a file, which is free again when we end, whatever ends us.
            self._lock.bind(b"\0" + os.fsencode(self.directory.absolute()))
        except OSError as error:
            self._lock.close()
            if error.errno != errno.EADDRINUSE:
                raise LabError(
                    f"{self.directory} cannot be used: {error.strerror}", hint="use a shorter name"
                ) from error
            raise LabError(
                f"another flowcheck-net works on the lab {self.name!r}", hint="wait for it, or use another --name"
            ) from None
        self._processes = read_processes(self.directory)
        return self

    def __exit__(self, *exc: object) -> None:
        self._spawner.shutdown()
        self._lock.close()
        if self._janitor is not None:
            self._janitor.communicate()
        for child in self._children:
            child.returncode = 0  # it lives on, and is nothing for us to wait for

    @property
    def processes(self) -> Mapping[str, Process]:
        """By name, such as ``leaf1/vswitchd``."""
        return self._processes

    def check_free(self) -> None:
        """Raises LabError where something runs already."""
        if any(process.alive for process in self._processes.values()):
            raise LabError(
                f"the lab {self.name!r} is up already",
                hint=f"flowcheck-net lab down --name {self.name}, or use another --name",
            )

    def make(self) -> None:
        """An empty directory, where it is free. Of a tied lab it goes with us, whatever ends us."""
        self._forget()
        if self._tied:
            # In a session of its own: Ctrl-C is not for it.
            words = ["sh", "-c", _JANITOR, "lab-janitor", str(self.directory)]
            quiet = subprocess.DEVNULL
            self._janitor = subprocess.Popen(  # noqa: S603 - our own words
                words, cwd="/", stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )
        self.directory.mkdir(mode=0o700, parents=True)
        self._save()

    def spawn(self, name: str, words: Sequence[str], *, inside: str = "", cwd: Path | None = None) -> Process:
        """Start a process without a terminal.

        Args:
            name: for ``processes``; one of the same name must have ended.
            words: the command; what it says goes to NAME.log, slashes made dots.
            inside: a process of the lab in whose network namespace it runs; empty: in ours.
            cwd: its working directory; None: the lab's.
        """
        entering = ["nsenter", f"--net={self._processes[inside].namespace}", "--"] if inside else []
        dying = ["setpriv", "--pdeathsig", "KILL", "--"] if self._tied else []
        command = ["sh", "-c", _GATE, "lab", *entering, *words]
        folder = cwd or self.directory
        environment = {**os.environ, **{f"OVS_{kind}DIR": str(folder) for kind in ("RUN", "LOG", "DB", "SYSCONF")}}
        with self._log(name).open("ab") as log:
            started = self._spawner.submit(
                lambda: subprocess.Popen(  # noqa: S603 - our own words
                    [*dying, *command],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            ).result()
        self._children.append(started)
        self._processes[name] = process_of(started.pid)
        self._save()
        if started.stdin is None:
            raise LabError(f"{name} has no standard input")
        with started.stdin as gate, suppress(BrokenPipeError):
            gate.write(b"go\n")
        return self._processes[name]

    def expect(self, name: str, done: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
        """Wait until it is done by a process; raises LabError, naming ``what``, where that ended or takes too long."""
        process = self._processes[name]
        wait_until(lambda: not process.alive or done(), what, seconds)
        if not process.alive:
            raise LabError(f"no {what}: {name} ended: {self.said(name)}", hint="see docs/lab.md for what a lab needs")

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End a process, if there is one of that name."""
        if process := self._processes.get(name):
            process.end(number)
            del self._processes[name]
            self._save()

    def text(self, name: str) -> str:
        """All that the processes of this name wrote."""
        try:
            return self._log(name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def said(self, name: str) -> str:
        """The last line of it."""
        return next((line for line in reversed(self.text(name).split("\n")) if line), "it said nothing")

    def run(self, *words: str, inside: str = "", stdin: str = "", cwd: Path | None = None) -> str:
        """Run a command, in the namespace of a process of the lab; its output. Raises LabError where it fails."""
        entering = ["nsenter", f"--net={self._processes[inside].namespace}", "--"] if inside else []
        folder = cwd or self.directory
        environment = {**os.environ, **{f"OVS_{kind}DIR": str(folder) for kind in ("RUN", "LOG", "DB", "SYSCONF")}}
        done = subprocess.run(  # noqa: S603 - our own words
            [*entering, *words], input=stdin, cwd=folder, env=environment, text=True, capture_output=True, check=False
        )
        if done.returncode:
            raise LabError(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def namespace(self, node: str) -> str:
        """Path of the network namespace of a node."""
        return self._processes[node].namespace

    def clear(self) -> None:
        """End every process that still runs, the namespaces' holders last, and remove the directory."""
        with undisturbed():
            for process in reversed(self._processes.values()):
                process.tell(signal.SIGKILL)
            for process in self._processes.values():
                process.end(signal.SIGKILL)
            for child in self._children:
                child.wait()
            self._forget()
            if self._janitor is not None:
                self._janitor.communicate(b"done\n")
                self._janitor = None

    def _log(self, name: str) -> Path:
        return self.directory / f"{name.replace('/', '.')}.log"

    def _forget(self) -> None:
        self._processes = {}
        self._children = []
        if self.directory.exists():
            shutil.rmtree(self.directory)
        with suppress(OSError):  # other labs are there
            for folder in self.directory.parents[:2]:
                folder.rmdir()

    def _save(self) -> None:
        text = json.dumps(
            {
                "version": _VERSION,
                "boot": _boot(),
                "processes": {name: [one.pid, one.started] for name, one in self._processes.items()},
            },
            indent=1,
        )
        part = self.directory / f"{_STATE}.part"
        try:
            part.write_text(text + "\n", encoding="ascii")
            part.replace(self.directory / _STATE)
        except OSError as error:
            raise LabError(
                f"the lab cannot be written down in {self.directory}: {error.strerror}", hint=f"make room on {LABS}"
            ) from error


def read_processes(directory: Path) -> dict[str, Process]:
    """The processes that a lab wrote down; none of an earlier boot of the machine."""
    try:
        state = json.loads((directory / _STATE).read_text(encoding="ascii"))
        if state["boot"] != _boot():
            return {}
        return {str(name): Process(int(pid), int(started)) for name, (pid, started) in state["processes"].items()}
    except FileNotFoundError:
        return {}
    except PermissionError as error:
        raise LabError(f"{directory} is another user's: {error.strerror}", hint="labs are root's: sudo") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(
            f"{directory / _STATE} is damaged ({error}): what belongs to this lab cannot be told",
            hint=f"end its processes by hand (their words name {directory}), then remove the directory",
        ) from error


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
