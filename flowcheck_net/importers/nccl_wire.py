"""How the collective is cut and sent: from options, ``TUNING`` lines and settings, in this order, or asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Problem
from flowcheck_net.importers.nccl_communicators import Communicator, Log, listed
from flowcheck_net.importers.nccl_grammar import algorithm_name, protocol_name
from flowcheck_net.importers.nccl_nics import mtu_found
from flowcheck_net.importers.nccl_records import Setting, Tuning

DTYPE_BYTES = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2}
_THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
"""NCCL's defaults: ``NCCL_LL_MAX_NTHREADS`` and the like (``src/include/device.h``)."""


@dataclass(frozen=True, slots=True)
class BucketChoice:
    """A bucket of gradients: the log does not say where one ends."""

    elements: int
    dtype: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class WireChoice:
    """What the user states; None: take it from the log."""

    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    threads: int | None = None
    mtu: int | None = None
    qps: int | None = None
    buckets: tuple[BucketChoice, ...] = ()
    iteration_time: float | None = None


@dataclass(frozen=True, slots=True)
class WireFacts:
    """What the job file says of the wire."""

    algorithm: str
    protocol: str
    channels: int
    threads: int
    mtu: int
    qps: int
    split_data_on_qps: bool | None
    adaptive_routing: bool | None
    adaptive_routing_threshold: int | None


class WireReader:
    """Decides each value; keeps what is missing, and what had to be assumed."""

    def __init__(self, log: Log, chosen: Sequence[Communicator], rings: int, choice: WireChoice) -> None:
        self._log = log
        self._chosen = chosen
        self._rings = rings
        self._choice = choice
        self._settings = settings(log, chosen)
        self.problems: list[Problem] = []
        self.assumed: list[str] = []

    def read(self) -> WireFacts | None:
        """All values; None where one is missing."""
        tuned = self._tuned()
        algorithm = self._algorithm(tuned)
        protocol = self._protocol(tuned)
        mtu = self._mtu()
        channels = self._channels(tuned)
        qps = self._number("qps", self._choice.qps, "NCCL_IB_QPS_PER_CONNECTION", 1)
        if algorithm is None or protocol is None or mtu is None or channels is None:
            return None
        return WireFacts(
            algorithm=algorithm,
            protocol=protocol,
            channels=channels,
            threads=self._threads(protocol),
            mtu=mtu,
            qps=qps,
            split_data_on_qps=self._flag("NCCL_IB_SPLIT_DATA_ON_QPS"),
            adaptive_routing=self._flag("NCCL_IB_ADAPTIVE_ROUTING"),
            adaptive_routing_threshold=self._integer("NCCL_IB_AR_THRESHOLD"),
        )

    def _tuned(self) -> list[Tuning]:
        """The ``TUNING`` lines of all-reduces of the buckets' sizes, or of all of them where none has such a size."""
        found = list(dict.fromkeys(_tunings(self._log, self._chosen)))
        sizes = {bucket.size for bucket in self._choice.buckets}
        fitting = [one for one in found if one.size in sizes]
        if found and sizes and not fitting:
            words = f"no TUNING line has a bucket's size ({listed(sorted(sizes))} bytes)"
            self.assumed.append(f"{words}: those of the other sizes were taken")
        return fitting or found

    def _algorithm(self, tuned: Sequence[Tuning]) -> str | None:
        found = self._one("algorithm", self._choice.algorithm, (one.algorithm for one in tuned))
        if found is None:
            found = _only(algorithm_name, _for_all_reduce(self._settings.get("NCCL_ALGO", frozenset())))
        if found is None:
            words = "the log does not say which algorithm the all-reduce uses"
            self._ask("algorithm", words, "--algorithm ring or tree; NCCL_ALGO=Ring makes it certain")
        elif found not in ("ring", "tree"):
            words = f"the all-reduce uses {found}: rings and trees can be imported"
            self._ask("algorithm", words, "run with NCCL_ALGO=Ring")
            return None
        return found

    def _protocol(self, tuned: Sequence[Tuning]) -> str | None:
        found = self._one("protocol", self._choice.protocol, (one.protocol for one in tuned))
        if found is None:
            found = _only(protocol_name, _for_all_reduce(self._settings.get("NCCL_PROTO", frozenset())))
        if found is None:
            words = "the log does not say which protocol the all-reduce uses"
            self._ask(
                "protocol", words, "--protocol LL, LL128 or Simple; from 2.20 on TUNING in NCCL_DEBUG_SUBSYS says it"
            )
        return found

    def _one(self, name: str, stated: str | None, logged: Iterable[str]) -> str | None:
        """The stated value, or the only one logged."""
        found = sorted(set(logged))
        if stated is None and len(found) > 1:
            words = f"the TUNING lines name several: {listed(found)}; a job has one {name}"
            self._ask(name, words, f"give the buckets' exact sizes, or --{name}")
            return found[0]
        return stated or (found[0] if found else None)

    def _channels(self, tuned: Sequence[Tuning]) -> int | None:
        ranges = sorted({one.channels for one in tuned if one.channels is not None})
        stated = self._choice.channels
        if stated is None and len(ranges) == 1 and ranges[0][0] == 0:
            stated = ranges[0][1] + 1
        elif stated is None and ranges:
            words = "the TUNING lines name several ranges of channels: "
            words += listed(f"{low} to {high}" for low, high in ranges)
            self._ask("channels", words, "give the buckets' exact sizes, or --channels")
            return None
        if stated is None:
            self.assumed.append(f"the all-reduce uses all {self._rings} channels (small messages use fewer)")
            return self._rings
        if not 1 <= stated <= self._rings:
            self._ask("channels", f"{stated} channels, but the log has rings of {self._rings}", "correct --channels")
            return None
        return stated

    def _threads(self, protocol: str) -> int:
        if self._choice.threads is not None:
            return self._choice.threads
        name = "NCCL_LL128_NTHREADS" if protocol == "LL128" else "NCCL_NTHREADS"
        logged = self._integer(name)
        if logged is not None:
            return logged
        self.assumed.append(f"{_THREADS[protocol]} threads, NCCL's default for {protocol} (--threads states others)")
        return _THREADS[protocol]

    def _mtu(self) -> int | None:
        if self._choice.mtu is not None:
            return self._choice.mtu
        found = mtu_found(self._log, [host for one in self._chosen for host in one.hosts])
        if len(found) == 1:
            return next(iter(found))
        if found:
            words = "path MTUs differ: " + "; ".join(f"{mtu} on {listed(hosts)}" for mtu, hosts in found.items())
            self._ask("mtu", words, "give all NICs of the job one MTU, or state it with --mtu")
        else:
            words = "the log does not say the path MTU"
            self._ask("mtu", words, "--mtu BYTES; NET in NCCL_DEBUG_SUBSYS says it for RoCE")
        return None

    def _number(self, name: str, stated: int | None, setting: str, default: int) -> int:
        if stated is not None:
            return stated
        logged = self._integer(setting)
        if logged is not None:
            return logged
        if not self._settings:
            self.assumed.append(f"{name}: {default}, NCCL's default ({setting}; ENV in NCCL_DEBUG_SUBSYS shows it)")
        return default

    def _integer(self, setting: str) -> int | None:
        """A setting of all processes; None where it is not set."""
        values = self._settings.get(setting, frozenset())
        if len(values) > 1:
            words = f"{setting} is not the same for all processes: {listed(sorted(values))}"
            self._ask("setting-differs", words, "give every rank one environment")
        text = min(values, default="")
        return int(text) if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() else None

    def _flag(self, setting: str) -> bool | None:
        value = self._integer(setting)
        return None if value is None else value != 0

    def _ask(self, name: str, words: str, cure: str) -> None:
        self.problems.append(Problem(self._log.name, 0, 0, name, words, cure))


def settings(log: Log, chosen: Sequence[Communicator]) -> dict[str, frozenset[str]]:
    """``NCCL_...`` -> its values in the environment of the communicators' processes."""
    processes = {member.process for one in chosen for member in one.members}
    found: dict[str, set[str]] = {}
    for one in log.everything:
        if isinstance(one.record, Setting) and one.line.process in processes:
            found.setdefault(one.record.name, set()).add(one.record.value)
    return {name: frozenset(values) for name, values in sorted(found.items())}


def _tunings(log: Log, chosen: Sequence[Communicator]) -> Iterator[Tuning]:
    """What rank 0 of each communicator says of all-reduces."""
    pointers = {one.members[0].process: one.members[0].pointer for one in chosen}
    for one in log.everything:
        record, pointer = one.record, pointers.get(one.line.process)
        if (
            pointer is not None
            and isinstance(record, Tuning)
            and record.function in ("", "AllReduce")
            and record.pointer in ("", pointer)
        ):
            yield record


def _for_all_reduce(values: frozenset[str]) -> list[str]:
    """The words of ``ring`` or ``allreduce:ring;broadcast:tree`` that are meant for all-reduces."""
    words: list[str] = []
    for value in values:
        for part in value.split(";"):
            function, colon, names = part.rpartition(":")
            if not colon or function.strip().lower() == "allreduce":
                words += [name.strip() for name in names.split(",")]
    return words


def _only(name: Callable[[str], str | None], words: Sequence[str]) -> str | None:
    """The one value that the words allow; None where there are none or several, or a word excludes (``^tree``)."""
    found = {name(word) for word in words}
    return found.pop() if len(found) == 1 else None
