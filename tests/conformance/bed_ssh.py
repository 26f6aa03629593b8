"""Four switches with a command line for the crash test, over SSH: one platform with a candidate, one line by line.

The moments inside are: before and after each thing that is typed. The boxes live in the process that is not killed;
what a killed one had typed still arrives there, so a look at a box waits until all logins are gone.
"""

import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.ssh_connect import Wire
from flowcheck_net.ids import PortName, SwitchName
from tests.conformance.bench import Cannot
from tests.conformance.bench_ssh import Environment, EosBench, NxosBench, SshBench
from tests.conformance.crash import Tick
from tests.doubles.ssh_box import SshBox

NAMES = tuple(SwitchName(name) for name in ("leaf1", "leaf2", "leaf3", "leaf9"))


class SshBed:
    """See ``crash.Bed``. On each box are a session of netops, and one of another job."""

    filters = True
    names: Sequence[SwitchName] = NAMES
    # Each line that is typed has its moments, and each try takes seconds.
    stride = 10 * int(os.environ.get("FLOWCHECK_CRASH", "13")) + 1

    def __init__(self, benches: Sequence[SshBench]) -> None:
        self._benches = dict(zip(NAMES, benches, strict=True))
        self._here = os.getpid()

    def sources(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.sources``."""
        return self._benches[switch].sources[:3]

    def destinations(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.destinations``."""
        return self._benches[switch].destinations[:2]

    def open(self, name: SwitchName, job: str) -> Driver:
        """See ``Bed.open``."""
        self._settle()
        return self._benches[name].open(job)

    def save(self, folder: Path) -> None:
        """See ``Bed.save``."""
        self._settle()
        folder.mkdir(parents=True)
        states = {name: bench.box.platform.__dict__ for name, bench in self._benches.items()}
        (folder / "bed.pickle").write_bytes(pickle.dumps(states))

    def load(self, folder: Path) -> None:
        """See ``Bed.load``."""
        self._settle()
        for name, state in pickle.loads((folder / "bed.pickle").read_bytes()).items():
            self._benches[name].box.platform.__dict__.update(state)

    def foreign_bytes(self) -> bytes:
        """See ``Bed.foreign_bytes``."""
        self._settle()
        return b"\n".join(bench.foreign_bytes() for bench in self._benches.values())

    def arm(self, tick: Tick) -> None:
        """See ``Bed.arm``."""
        write = Wire.write

        def ticking_write(self: Wire, text: str) -> None:
            tick()
            write(self, text)
            tick()

        Wire.write = ticking_write  # type: ignore[method-assign]

    def _settle(self) -> None:
        """In the process of the boxes: nobody is logged in any more."""
        while os.getpid() == self._here and any(bench.box.logins for bench in self._benches.values()):
            time.sleep(0.002)


@contextmanager
def bed(bench_class: type[SshBench], directory: Path) -> Iterator[SshBed]:
    """Four boxes of one platform; minutes a test, so not by the way."""
    if "FLOWCHECK_CRASH" not in os.environ:
        raise Cannot("it takes minutes: make crash")
    directory.mkdir(parents=True, exist_ok=True)
    environment = Environment()
    with ExitStack() as stack:
        stack.callback(environment.restore)
        boxes = [stack.enter_context(SshBox(bench_class.platform(), directory)) for _ in NAMES]
        yield SshBed([bench_class(box, environment) for box in boxes])


@contextmanager
def eos(directory: Path) -> Iterator[SshBed]:
    """A candidate, committed on trial."""
    with bed(EosBench, directory) as made:
        yield made


@contextmanager
def nxos(directory: Path) -> Iterator[SshBed]:
    """Each line is in effect."""
    with bed(NxosBench, directory) as made:
        yield made
