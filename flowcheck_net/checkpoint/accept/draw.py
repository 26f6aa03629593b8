"""Which faults an experiment has: drawn from its seed, so that one number makes it happen again."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.checkpoint.accept.trainer import SETTINGS, Setting
from flowcheck_net.checkpoint.accept.words import Kind


class Change(StrEnum):
    """What the trainer changes in its optimizer before a step."""

    RATE = "learning rate"
    RATE_ONCE = "learning rate, of one step only"
    DECAY = "weight decay"
    BETAS = "betas or momentum"
    CLIP = "clipping"
    RULE = "another rule"
    KERNEL = "another kernel"


class Silence(StrEnum):
    """What the side channel does with the steps of an experiment."""

    OMITS = "says nothing of one step"
    ENDS = "says nothing from one step on"
    DAMAGED = "has a message that was damaged on the way"
    RATE = "says a learning rate that was not used"


class Disk(StrEnum):
    """What storage does to a publication."""

    FULL = "the disk is full"
    FSYNC = "fsync fails"
    TORN = "a file of the newest checkpoint lost its end"
    FLIPPED = "a bit of the newest checkpoint changed"
    REMOVED = "a file of the newest checkpoint is gone"


class Belief(StrEnum):
    """What the node takes for true, and is not."""

    BUCKETS = "other bucket sizes"
    SWAPPED = "buckets in another order"
    DTYPE = "half the element size, twice the elements"
    MTU = "another MTU"
    POINTS = "one more observation point than there is"
    CAPS = "training.yaml with other buckets"
    SLOTS = "training.yaml with parameters in another order inside a bucket"
    CLIP = "training.yaml with another clipping"
    KERNEL = "training.yaml with another kernel"
    OFFSET = "the capture began one iteration later than thought"


_WORK = {False: "work", True: "work on the replica's memory"}


@dataclass(frozen=True, slots=True)
class Experiment:
    """What happens."""

    number: int
    seed: int
    setting: Setting
    kind: Kind
    mirror: tuple[str, ...] = ()
    """Faults of the synthesizer."""
    change: tuple[int, Change] | None = None
    """Step, and what is different from it on."""
    announced: bool = True
    """Does the client read the live optimizer? Otherwise it says nothing of the step with the change."""
    silence: tuple[int, Silence] | None = None
    kills: tuple[tuple[float, bool], ...] = ()
    """Of each life of the node that is killed: when, as a part of what an undisturbed life does; True: as a part of its
    work on the replica's memory alone, which is the smaller part and the more dangerous one."""
    disk: tuple[float, Disk] | None = None
    """When (as a part of all publications), and what."""
    belief: Belief | None = None
    delay: int = 0
    """Steps that the trainer takes to write the regular checkpoint that it is asked for."""

    @property
    def spoilt(self) -> range | None:
        """Steps that may lack a checkpoint: from the first that is spoilt to the regular checkpoint that is asked for.

        None: any may, since the fault is not of certain steps.
        """
        if self.kind in (Kind.NONE, Kind.REORDER, Kind.RESTART) or (self.kind is Kind.LOSS and len(self.mirror) == 1):
            return range(0)
        if self.kind is Kind.SIDE and self.silence and self.silence[1] is not Silence.ENDS:
            steps = [self.silence[0]]
        elif self.setting.schedule and self.change and self.change[1] is Change.RATE:
            return None  # another rate under a schedule: no description gives it
        elif self.kind is Kind.OPTIMIZER and self.change:
            steps = [self.change[0]]
        elif self.kind in (Kind.LOSS, Kind.RETRANSMIT, Kind.SWITCH):
            steps = [int(each) + 1 for fault in self.mirror for each in re.findall(r"iteration=(\d+)", fault)]
        else:
            return None
        return range(min(steps), max(steps) + self.delay + 1)

    @property
    def texts(self) -> tuple[str, ...]:
        """The faults in a few words."""
        found = list(self.mirror)
        if self.change:
            how = "announced" if self.announced else "not announced"
            found.append(f"step {self.change[0]}: {self.change[1]} ({how})")
        if self.silence:
            found.append(f"step {self.silence[0]}: the side channel {self.silence[1]}")
        found += [f"the node is killed after {at:.1%} of its {_WORK[memory]}" for at, memory in self.kills]
        if self.disk:
            found.append(f"after {self.disk[0]:.1%} of the publications: {self.disk[1]}")
        if self.belief:
            found.append(f"the node has {self.belief}" if "capture" not in self.belief else str(self.belief))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Ground:
    """What faults can be drawn from."""

    steps: int
    packets: Mapping[str, int]
    """Watched hop -> data packets in an iteration that it has with any setting."""
    captures: Sequence[str]
    settings: Sequence[Setting] = SETTINGS
    kinds: Sequence[Kind] = tuple(Kind)


def draw(number: int, seed: int, ground: Ground) -> Experiment:
    """Experiment ``number`` of a run: kinds take turns, all else is random."""
    own = random.Random(f"{seed}/{number}")  # noqa: S311 - nothing secret
    kind = ground.kinds[number % len(ground.kinds)]
    some = tuple(each for each in Kind if each not in (Kind.NONE, Kind.MIXED))
    parts = own.sample(some, own.choice((2, 3))) if kind is Kind.MIXED else [kind]
    made: dict[str, object] = {}
    for part in parts:
        for key, value in _fault(part, own, ground).items():
            made[key] = (*made.get(key, ()), *value) if key == "mirror" else value  # type: ignore[misc]
    setting = own.choice(ground.settings)
    if made.get("belief") is Belief.POINTS and "mirror" in made:
        made["belief"] = Belief.OFFSET  # a fault of a port that the plan in force does not use cannot be synthesized
    return Experiment(number, own.getrandbits(31), setting, kind, delay=own.choice((0, 0, 1, 2)), **made)  # type: ignore[arg-type]


def _fault(kind: Kind, own: random.Random, ground: Ground) -> dict[str, object]:
    step = own.randrange(1, ground.steps + 1)
    found: dict[str, object] = {}
    if kind in _MIRROR:
        found["mirror"] = _MIRROR[kind](own, ground)
    elif kind is Kind.RESTART:
        found["kills"] = tuple((own.random(), own.random() < 0.4) for _ in range(own.choice((1, 1, 2, 3))))
    elif kind is Kind.OPTIMIZER:
        found |= {"change": (max(2, step), own.choice(tuple(Change))), "announced": own.random() < 0.6}
    elif kind is Kind.SIDE:
        found["silence"] = (step, own.choice(tuple(Silence)))
    elif kind is Kind.STORAGE:
        found["disk"] = (own.random(), own.choice(tuple(Disk)))
    elif kind is Kind.PLAN:
        found["belief"] = own.choice(tuple(Belief))
    return found


def _loss(own: random.Random, ground: Ground) -> tuple[str, ...]:
    """At one hop, which another makes good; or the same packets at every hop."""
    iteration = own.randrange(ground.steps)
    hops = [own.choice(list(ground.packets))] if own.random() < 0.5 else list(ground.packets)
    first = own.randrange(min(ground.packets.values()))
    last = min(first + own.randrange(6), min(ground.packets.values()) - 1)
    if len(hops) > 1 and own.random() < 0.5:
        return tuple(f"loss:hop={hop},iteration={iteration},rate={own.uniform(0.05, 0.6):.2f}" for hop in hops)
    return tuple(f"loss:hop={hop},iteration={iteration},packet={first}-{last}" for hop in hops)


def _moved(word: str, own: random.Random, ground: Ground) -> tuple[str, ...]:
    hop = own.choice(list(ground.packets))
    where = own.choice(("", f",iteration={own.randrange(ground.steps)}"))
    far = f",distance={own.randrange(1, 12)}" if word == "reorder" or own.random() < 0.5 else ""
    return (f"{word}:hop={hop}{where},rate={own.uniform(0.02, 0.5):.2f}{far}",)


def _retransmit(own: random.Random, ground: Ground) -> tuple[str, ...]:
    hop, iteration = own.choice(list(ground.packets)), own.randrange(ground.steps)
    seen = own.choice(("", ",seen=no"))
    return (f"retransmit:hop={hop},iteration={iteration},packet={own.randrange(ground.packets[hop])}{seen}",)


def _congestion(own: random.Random, ground: Ground) -> tuple[str, ...]:
    ports = own.sample(list(ground.captures), own.randrange(1, len(ground.captures) + 1))
    counted = own.choice(("", ",counted=yes"))
    return tuple(f"loss:capture={port},rate={own.uniform(0.001, 0.2):.3f}{counted}" for port in ports)


def _switch(own: random.Random, ground: Ground) -> tuple[str, ...]:
    """All copies of every hop from one packet on, for one iteration, two, or for good."""
    first = own.randrange(ground.steps)
    last = min(ground.steps, first + own.choice((1, 2, ground.steps)))
    found = []
    for hop, packets in ground.packets.items():
        start = own.randrange(packets)
        found.append(f"loss:hop={hop},iteration={first},packet={start}-{packets - 1}")
        found += [f"loss:hop={hop},iteration={later},rate=1" for later in range(first + 1, last)]
    return tuple(found)


_MIRROR = {
    Kind.LOSS: _loss,
    Kind.REORDER: lambda own, ground: _moved("reorder", own, ground),
    Kind.DUPLICATE: lambda own, ground: _moved("duplicate", own, ground),
    Kind.RETRANSMIT: _retransmit,
    Kind.CONGESTION: _congestion,
    Kind.SWITCH: _switch,
}
