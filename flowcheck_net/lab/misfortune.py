"""Faults happen: those of a whole run before it, the others at their time from a thread of their own."""

import shutil
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from flowcheck_net.errors import FlowcheckError, LabError
from flowcheck_net.lab.blueprint import End
from flowcheck_net.lab.build import FILTERS, Lab
from flowcheck_net.lab.faults import Fault, FaultKind
from flowcheck_net.lab.receivers import Receivers


class Misfortune:
    """The faults of one run. As a context manager: afterwards links are up, switches run, and nothing is dropped."""

    def __init__(self, lab: Lab, receivers: Receivers, faults: Sequence[Fault], duration: float) -> None:
        """``duration``: seconds that the job takes."""
        self._lab = lab
        self._receivers = receivers
        self._faults = faults
        self._stop = threading.Event()
        self._duration = duration
        self._thread = threading.Thread(target=self._run, name="lab-faults", daemon=True)
        self._error: FlowcheckError | None = None
        self._filtered: set[str] = set()

    def __enter__(self) -> Self:
        """Raises LabError where a fault cannot be had here."""
        for fault in self._faults:
            if fault.kind in (FaultKind.LOSS, FaultKind.CONGESTION):
                self._filter(fault)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        for end in (end for fault in self._faults if fault.kind is FaultKind.CUT for end in self._ends(fault)):
            self._lab.ip(end.node, f"link set {end.interface} up")
        for switch in self._filtered:
            self._lab.place.run("nft", "delete", "table", "netdev", FILTERS, inside=switch)
        if kind is None and self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Until all timed faults are over."""
        self._thread.join()

    def _ends(self, fault: Fault) -> list[End]:
        """The NICs of the mirror links that are meant."""
        drawn = self._lab.drawn
        every = [End(node, nic) for node in drawn.nodes for nic in drawn.captures(node)]
        return every if fault.capture is None else [fault.capture]

    def _filter(self, fault: Fault) -> None:
        """Nftables on the way out of the monitor ports: the kernel here has no netem."""
        if shutil.which("nft") is None:
            raise LabError(f"--fault {fault.kind} needs nft, which is not here", hint="apt-get install nftables")
        for number, capture in enumerate(self._ends(fault)):
            port = self._lab.drawn.far(capture)
            verdict = f"numgen random mod 1000000 < {round(fault.rate * 1e6)} counter fwd to lo"
            if fault.kind is FaultKind.CONGESTION:
                verdict = (
                    f"limit rate over {fault.pps}/second burst {max(5, fault.pps // 10)} packets counter fwd to lo"
                )
            chain = f"{fault.kind}{number}"
            place = f'type filter hook egress device "{port.interface}" priority 0;'
            rules = [
                f"add table netdev {FILTERS}",
                f"add chain netdev {FILTERS} {chain} {{ {place} }}",
                f"add rule netdev {FILTERS} {chain} {verdict}",
            ]
            self._lab.place.run("nft", "-f", "-", inside=port.node, stdin="\n".join([*rules, ""]))
            self._filtered.add(port.node)

    def _run(self) -> None:
        timed = sorted((moment for fault in self._faults for moment in self._moments(fault)), key=lambda each: each[0])
        begun = time.monotonic()
        try:
            for when, fault, back in timed:
                # A run that is cut short still puts right what it has put wrong.
                if self._stop.wait(max(0.0, begun + when - time.monotonic())) and not back:
                    continue
                self._change(fault, back=back)
        except FlowcheckError as error:
            self._error = error

    def _moments(self, fault: Fault) -> list[tuple[float, Fault, bool]]:
        """Seconds, fault, and whether this is its end."""
        begin = fault.at * self._duration
        if fault.kind is FaultKind.CUT:
            return [(begin, fault, False)]
        if fault.kind in (FaultKind.FLAP, FaultKind.RESTART, FaultKind.KILL):
            return [(begin, fault, False), (begin + fault.lasting, fault, True)]
        return []

    def _change(self, fault: Fault, *, back: bool) -> None:
        if fault.kind in (FaultKind.CUT, FaultKind.FLAP):
            for end in self._ends(fault):
                self._lab.ip(end.node, f"link set {end.interface} {'up' if back else 'down'}")
        elif fault.kind is FaultKind.RESTART:
            switch = self._lab.switches[fault.switch]
            if back:
                switch.boot()
            else:
                switch.crash()
        elif back:
            self._receivers.start(fault.node)
        else:
            self._receivers.kill(fault.node)
