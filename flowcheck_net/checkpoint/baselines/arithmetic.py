"""From what happened to what it cost: plain arithmetic over events."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from flowcheck_net.checkpoint.baselines.words import Failure, Method, Stretch


@dataclass(frozen=True, slots=True)
class StepTime:
    """Of all steps of a method, seconds."""

    steps: int
    median: float
    p95: float
    mean: float
    """A checkpoint falls on few steps: the median does not show it, the mean does."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Mean step time beside the control's of the same round, as a fraction of it."""

    rounds: tuple[float, ...]
    median: float
    noise: float
    """The largest such difference between the two controls of a round."""

    @property
    def below_noise(self) -> bool:
        """Is it no larger than what the same thing differs from itself, or of no certain sign?"""
        return abs(self.median) <= self.noise or min(self.rounds) < 0 < max(self.rounds)


@dataclass(frozen=True, slots=True)
class Recovery:
    """How old the newest restorable state was, over all moments of a stretch."""

    mean_steps: float
    worst_steps: int
    mean_seconds: float
    worst_seconds: float


@dataclass(frozen=True, slots=True)
class LostWork:
    """What failures cost."""

    failures: int
    mean_steps: float
    worst_steps: int
    mean_seconds: float
    mean_restore_seconds: float


def step_time(stretches: Sequence[Stretch]) -> StepTime:
    """Of all steps of all ``stretches``; p95 is the nearest rank."""
    times = sorted(step.end - step.begin for stretch in stretches for step in stretch.steps)
    rank = -(-len(times) * 95 // 100) - 1
    return StepTime(len(times), median(times), times[rank], fmean(times))


def overhead(stretches: Sequence[Stretch], method: Method) -> Overhead:
    """Of a method, from rounds that hold it once and the control twice."""
    found, noise = [], []
    for number in sorted({stretch.round for stretch in stretches}):
        here = [stretch for stretch in stretches if stretch.round == number]
        controls = [step_time([each]).mean for each in here if each.method is Method.CONTROL]
        base = fmean(controls)
        found += [step_time([each]).mean / base - 1 for each in here if each.method is method]
        noise.append((max(controls) - min(controls)) / base)
    return Overhead(tuple(found), median(found), max(noise))


def recovery(stretch: Stretch) -> Recovery:
    """Age of the newest restorable state, weighted by time, from the begin of the first step to the end of the last.

    At a moment the trainer has made the steps that ended before it. The age in seconds counts from the end of the
    restorable step: all that was done since would have to be done again.
    """
    ends = {step.step: step.end for step in stretch.steps} | {stretch.start_step: stretch.begun}
    last = stretch.steps[-1].end
    moments = {stretch.begun, last, *ends.values(), *(each.at for each in stretch.durable)}
    cuts = sorted(moment for moment in moments if stretch.begun <= moment <= last)
    steps = seconds = 0.0
    worst_steps, worst_seconds = 0, 0.0
    for begin, end in pairwise(cuts):
        made = max(step for step, at in ends.items() if at <= begin)
        safe = max((each.step for each in stretch.durable if each.at <= begin), default=stretch.start_step)
        # a state may be on storage before the trainer's step that gives it has ended
        born = min(ends[safe], begin)
        steps += max(0, made - safe) * (end - begin)
        seconds += ((end - born) ** 2 - (begin - born) ** 2) / 2
        worst_steps = max(worst_steps, made - safe)
        worst_seconds = max(worst_seconds, end - born)
    length = last - stretch.begun
    return Recovery(steps / length, worst_steps, seconds / length, worst_seconds)


def joined_recovery(stretches: Sequence[Stretch]) -> Recovery:
    """Of several stretches of one method, weighted by their length."""
    lengths = [each.steps[-1].end - each.begun for each in stretches]
    found = [recovery(each) for each in stretches]
    total = sum(lengths)
    return Recovery(
        sum(each.mean_steps * length for each, length in zip(found, lengths, strict=True)) / total,
        max(each.worst_steps for each in found),
        sum(each.mean_seconds * length for each, length in zip(found, lengths, strict=True)) / total,
        max(each.worst_seconds for each in found),
    )


def lost_work(failures: Sequence[Failure]) -> LostWork | None:
    """Of all failures after which something could be restored; None: there is none."""
    good = [(each, each.lost_steps) for each in failures]
    steps = [lost for _, lost in good if lost is not None]
    if not steps:
        return None
    seconds = [each.lost_seconds for each, _ in good if each.lost_seconds is not None]
    restore = fmean(each.restore_seconds for each, lost in good if lost is not None)
    return LostWork(len(steps), fmean(steps), max(steps), fmean(seconds) if seconds else 0.0, restore)
