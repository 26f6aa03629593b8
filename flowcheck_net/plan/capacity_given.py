"""What a capacity report takes as given: each number with its ground and its source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Ground(StrEnum):
    """What a figure rests on. A computed figure is as good as the worst number that it is computed from."""

    MEASURED = "measured"
    """Somebody measured it; the source says who and where."""
    COMPUTED = "computed"
    """It follows by the stated formula from the input files and from the given numbers that are named beside it."""
    ASSUMED = "assumed"
    """Nobody measured it here: replace it by your own number."""


@dataclass(frozen=True, slots=True)
class Given:
    """One number that the input files cannot give."""

    name: str
    value: float
    unit: str
    words: str
    """What it is, for people."""
    ground: Ground
    source: str


_VM = "one core of a 2-core virtual machine with AVX-512, 1100-byte packets, non-temporal stores of whole cache lines"
_DEFAULTS = (
    Given("weight_bytes", 2, "B", "a stored weight", Ground.ASSUMED, "bf16"),
    Given("master_bytes", 4, "B", "master weight of a parameter", Ground.ASSUMED, "fp32, Megatron's Adam"),
    Given("moment_bytes", 8, "B", "optimizer moments of a parameter", Ground.ASSUMED, "two in fp32, Megatron's Adam"),
    Given("gradient_bytes", 4, "B", "a buffered gradient", Ground.ASSUMED, "kept in fp32 for the optimizer"),
    Given("window_share", 0.5, "", "share of a step in which gradients flow", Ground.ASSUMED, "a guess; measure it"),
    Given("receiver_cores", 8, "", "receiving cores of a checkpoint node", Ground.ASSUMED, "a choice"),
    Given("core_bits", 94e9, "bit/s", "what a core receives and stores", Ground.MEASURED, _VM),
    Given("core_packets", 10.7e6, "1/s", "packets that a core receives and stores", Ground.MEASURED, _VM),
    Given("memory", 512e9, "B", "memory of a checkpoint node", Ground.ASSUMED, "FlowCheck advises 300 GB or more"),
    Given("memory_bandwidth", 200e9, "B/s", "memory bandwidth of a node", Ground.ASSUMED, "a DDR5 server, sustained"),
    Given("receive_touches", 3, "", "crossings of memory by a byte", Ground.ASSUMED, "NIC writes; copy reads, writes"),
    Given(
        "replay_bytes", 30, "B", "memory traffic of one parameter's update", Ground.ASSUMED,
        "Adam: gradient read 4, master and moments read 12 and written 12, weight written 2",
    ),
    Given("buffered_steps", 2, "", "gradients held at once", Ground.ASSUMED, "one arrives while one is applied"),
    Given("lag_steps", 2, "", "steps from training to the replica", Ground.ASSUMED, "one arrives while one is applied"),
    Given("storage_rate", 10e9, "B/s", "durable storage of a node", Ground.ASSUMED, "a few NVMe drives"),
    Given("dump_interval", 600, "s", "from one durable dump to the next", Ground.ASSUMED, "a choice"),
    Given("mirror_loss", 1e-6, "", "chance that a copy is lost", Ground.ASSUMED, "each by itself; replay counts it"),
    Given("anchor_interval", 14400, "s", "from one full checkpoint to the next", Ground.ASSUMED, "a choice"),
    Given("checkpoint_cost", 60, "s", "training pause of a full checkpoint", Ground.ASSUMED, "a guess; measure it"),
    Given(
        "node_mtbf", 264 * 86400, "s", "mean time between failures of a training host", Ground.MEASURED,
        "published: Llama 3 405B, 2048 hosts, 54 days, 419 unexpected interruptions: 2048 x 54 d / 419 = 264 d",
    ),
    Given("restart", 180, "s", "from a failure to training again", Ground.ASSUMED, "a guess; measure it"),
)  # fmt: skip


class Givens(Mapping[str, float]):
    """The given numbers by name; iterating gives the names."""

    def __init__(self, items: Mapping[str, Given] | None = None) -> None:
        self._items = {given.name: given for given in _DEFAULTS} if items is None else dict(items)

    def __getitem__(self, name: str) -> float:
        return self._items[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def entries(self) -> tuple[Given, ...]:
        """All of them, with ground and source."""
        return tuple(self._items.values())

    def with_value(self, name: str, value: float, ground: Ground, source: str) -> "Givens":
        """The same with one number replaced.

        Raises:
            ValueError: there is no such number, or it cannot be.
        """
        if name not in self._items:
            raise ValueError(f"nothing is called {name}; known: {', '.join(self._items)}")
        shares = ("window_share", "mirror_loss")
        most = 1.0 if name in shares else 1e18
        least = 0.0 if name in ("mirror_loss", "checkpoint_cost", "restart", "lag_steps") else 1e-12
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least:g} to {most:g} (found {value:g})")
        changed = replace(self._items[name], value=value, ground=ground, source=source)
        return Givens({**self._items, name: changed})
