"""Starts, watches and ends the receiver's C program (receiver/app), which says one JSON object a line."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from threading import Timer
from typing import IO, Any, Self, cast

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.receiver_config import Plan, config_text, free_hugepages_mb, placing_file
from flowcheck_net.receive.receiver_status import Status, said, status_of

PROGRAM = "flowcheck-receiver"
_PATIENCE_S = 60
"""How long the receiver may take to write what it has when it is told to end."""
_START_S = 120.0
"""So long it may say nothing before it receives; then it hangs, and is killed like one that died."""
_LOG_LINES = 4
_LOGGED = frozenset({"eal", "device", "no-device"})
"""Faults whose cause DPDK tells in its log only."""
_HINTS = {
    "mtu": "give the largest IP packet that can come with --mtu",
    "memory": "use fewer --descriptors or --workers, a smaller --mtu, or more memory (hugepages: vm.nr_hugepages)",
    "no-device": "see the log above; `dpdk-devbind.py --status-dev net` lists what DPDK can use",
    "lcores": "use fewer --workers",
    "spread": "`--spread software` can with any device; --workers 1 needs no spreading",
    "sleep": "leave --sleep out, give a smaller one, or more --descriptors; --sleep 0 polls without rest",
    "pcapng": "make room on the disk, or choose another place with --write-pcapng",
    "board-other": "remove the *.board files there (nobody may be reading them), or give another --payload folder",
    "board-busy": "end the other receiver, or give this one another --payload folder",
    "board": "use fewer --payload-slots, or a --payload folder with more room (/dev/shm, hugetlbfs, a larger tmpfs)",
    "copy": "leave --copy out, and the workers copy; `dpdk-devbind.py --status-dev dma` lists devices",
    "spool": "make room on the disk, or choose another place with -o",
}
_LOG_HINTS = (
    (
        r"error while loading shared libraries",
        "the DPDK that this was built with is not installed here: `apt-get install dpdk librte-net-af-packet23 "
        "librte-net-pcap23`, or what the distribution calls them; or build again (`make clean setup`)",
    ),
    (r"Failed to connect socket", "start the other side first, or let this one serve: memif:SOCKET"),
    (
        r"mmap failed on AF_PACKET socket",
        "a packet ring of 64 MiB is locked memory: run as root, with CAP_IPC_LOCK, or with more of it (`ulimit -l`)",
    ),
    (
        r"Failed to (create xsk|configure xdp) socket",
        "this kernel gives no XDP socket here: the log says why (an MTU over 3,500? another XDP program?); "
        "af_packet:INTERFACE does without",
    ),
    (
        r"[Dd]evice or resource busy|EBUSY|already in use",
        "another program holds the port: end it, or choose another port",
    ),
    (
        r"[Pp]ermission denied|[Oo]peration not permitted|EPERM",
        "run as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_IPC_LOCK",
    ),
    (
        r"Cannot create lock|primary process",
        "another DPDK program runs under this name: end it; a lock of one that is gone is no hindrance",
    ),
    (
        r"failed to (parse|initialize).* device|[Uu]nable to (parse|probe)",
        "the arguments of the device do not fit, or its driver is not installed (librte-net-*)",
    ),
    (
        r"Cannot get hugepage|Cannot init memory",
        "`sysctl -w vm.nr_hugepages=512` as root, or virtual devices, which do without",
    ),
)


def program() -> Path:
    """The receiver; ReceiveError where this build has none."""
    place = os.environ.get("FLOWCHECK_RECEIVER")
    if place:
        if not os.access(place, os.X_OK):
            raise ReceiveError(f"FLOWCHECK_RECEIVER={place} is no program", hint="correct it, or leave it unset")
        return Path(place)
    for found in (Path(str(files("flowcheck_net"))) / PROGRAM, _built()):
        if found.is_file():
            return found
    raise ReceiveError(
        "this build has no receiver: DPDK was not there when it was made",
        hint="`apt-get install libdpdk-dev dpdk pkg-config`, then build again (`make clean setup`)",
    )


def _built() -> Path:
    """In a checkout, beside the native module's build."""
    return Path(__file__).resolve().parents[2] / "build" / "cp311" / "receiver" / "app" / PROGRAM


def cure(told: str) -> str:
    """What to do about what DPDK or the system said; empty: nobody knows."""
    return next((words for sign, words in _LOG_HINTS if re.search(sign, told)), "")


class Receiver:
    """One life of the receiver: from its start to its end, by signal, fault or death."""

    def __init__(self, plan: Plan, folder: Path, life: int) -> None:
        """Starts it; ``folder`` holds its configuration, log and spool, numbered by ``life``.

        Raises:
            ReceiveError: there is no such program, or too few hugepages.
        """
        self.spool = folder / f"life-{life}.spool"
        self._plan = plan
        self._log = folder / f"life-{life}.log"
        self._last: dict[str, Any] = {}
        config = folder / f"life-{life}.conf"
        command = [str(program()), str(config)]
        if plan.placing is not None and plan.placing.text:
            self.place(plan.placing.text)
        config.write_text(config_text(plan, self.spool, free_hugepages_mb()), encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        if "runtime" in self._last:  # DPDK leaves it behind
            shutil.rmtree(self._last["runtime"], ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def _output(self) -> IO[bytes]:
        return cast(IO[bytes], self._process.stdout)

    def place(self, text: str) -> None:
        """What is to be placed from now on; once, where the plan has a folder for it."""
        target = placing_file(self.spool)
        beside = target.with_suffix(".new")
        beside.write_text(text, encoding="utf-8")
        beside.replace(target)

    @property
    def said(self) -> dict[str, Any]:
        """The last that it said, as it said it."""
        return self._last

    def stop(self) -> None:
        """Ask it to end with its records; ``statuses`` then comes to an end."""
        self._process.send_signal(signal.SIGTERM)

    def statuses(self) -> Iterator[Status]:
        """What it says, as it says it, until it ends. May be gone on with after an interruption.

        Raises:
            ReceiveError: it could not start or go on, with the cure.
        """
        hangs = Timer(_START_S, self._process.kill)
        hangs.daemon = True
        if not self._last:
            hangs.start()
        try:
            yield from self._statuses(hangs)
        finally:
            hangs.cancel()

    def _statuses(self, hangs: Timer) -> Iterator[Status]:
        for line in iter(self._output.readline, b""):
            found = said(line)
            if found is None:
                continue
            hangs.cancel()
            if found["event"] == "error":
                raise self._fault(found)
            self._last = found
            yield status_of([port.name for port in self._plan.ports], found)

    def died(self) -> str:
        """After ``statuses`` ended: empty where it ended as it should, else how it died."""
        code = self._process.wait(_PATIENCE_S)
        if code == 0 and self._last.get("event") == "stopped":
            return ""
        return f"signal {-code}" if code < 0 else f"exit code {code}; {self._log_end()}"

    def _log_text(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _log_end(self) -> str:
        return "\n".join(self._log_text().splitlines()[-_LOG_LINES:])

    def _fault(self, found: dict[str, Any]) -> ReceiveError:
        self._process.wait(_PATIENCE_S)
        log = self._log_text()
        told = f"{found['text']}\n{log}"
        logged = found["code"] in _LOGGED
        hint = (logged and cure(told)) or _HINTS.get(found["code"]) or cure(told)
        about = f"capture port {found['about']}: " if found["about"] in {port.name for port in self._plan.ports} else ""
        shown = f"\n{self._log_end()}" if logged else ""
        return ReceiveError(f"{about}{found['text']}{shown}", hint=hint)
