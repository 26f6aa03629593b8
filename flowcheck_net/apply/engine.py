"""Apply a plan: read, diff, journal, write, read back. All switches or none.

One switch goes first, as a canary; the others follow together. Where one fails, the inverse of our own steps is
written to every switch that was touched. What a driver says about a failed write is not believed: the switch is read.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from flowcheck_net.apply.compare import differences, sentence
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Event, Reach, counted, joined
from flowcheck_net.apply.run import Run, RunResult, RunSwitch, StepStatus, SwitchResult
from flowcheck_net.apply.survey import Target, Wish, survey, wishes
from flowcheck_net.apply.undo import Restored, meddling, restore
from flowcheck_net.errors import (
    ConnectError,
    Drift,
    DriverError,
    FlowcheckError,
    JournalError,
    NotRolledBack,
    Rejected,
    RolledBack,
    StalePlan,
    StateUnknown,
)
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Step, StepKind, SwitchState
from flowcheck_net.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What an apply that succeeded did, or what a dry run would do."""

    run: int | None
    """Number of the run in the journal; None: nothing had to be done, or nothing was to be done."""
    targets: tuple[Target, ...]
    """Every switch of the plan, and those that it no longer uses, sorted by name."""


Guard = Callable[[int], None]
"""Sets a watch over the run of that number, which undoes it when it is not confirmed in time; raises FlowcheckError."""


def unguarded(_: int) -> None:
    """No watch: the deadline stands in the journal, and the next start notices it."""


def propose(plan: Plan, journal: Journal, reach: Reach, *, forget: Collection[SwitchName] = ()) -> ApplyReport:
    """What ``apply_plan`` would do now; changes nothing. Raises as ``survey`` does."""
    return ApplyReport(None, survey(_wishes(plan, journal, forget), reach))


def apply_plan(
    plan: Plan,
    digest: str,
    journal: Journal,
    reach: Reach,
    *,
    forget: Collection[SwitchName] = (),
    confirm_within: float | None = None,
    guard: Guard = unguarded,
) -> ApplyReport:
    """Make the switches carry exactly the plan's sessions, and remove our job's sessions from switches it left.

    Args:
        plan: what is wanted.
        digest: of the plan file, for the journal.
        journal: held exclusively for the time of the call.
        reach: the way to the switches.
        forget: switches outside the plan that are gone for good.
        confirm_within: seconds after which the change is to be undone unless it is confirmed; None: it stays.
        guard: called before the first write of a change that must be confirmed.

    Raises:
        JournalError: another run is open, under way or unconfirmed; nothing was changed.
        DriverError: a switch cannot be read, or cannot take its sessions; nothing was changed.
        RolledBack: a switch failed, all are in their former state.
        NotRolledBack: a switch failed, and the named ones are not in their former state. The run stays open.
    """
    with journal.exclusive():
        journal.require_settled()
        targets = survey(_wishes(plan, journal, forget), reach)
        changing = [t for t in targets if t.steps]
        if not changing:
            reach.tell(Event(None, "unchanged", "every switch is as planned already; nothing was written"))
            return ApplyReport(None, targets)
        run_id = journal.begin(digest, plan.job.name, [_run_switch(t) for t in changing], confirm_within)
        if confirm_within is not None:
            try:
                guard(run_id)
            except FlowcheckError:
                journal.finish(run_id, RunResult.ROLLED_BACK)
                raise
        _Change(journal, reach, run_id, plan.job.name).carry_out(changing)
        return ApplyReport(run_id, targets)


def resume_plan(
    plan: Plan,
    digest: str,
    journal: Journal,
    reach: Reach,
    *,
    forget: Collection[SwitchName] = (),
    guard: Guard = unguarded,
) -> ApplyReport:
    """Finish the run of this plan that was cut off. If it must be confirmed, its time begins anew when it is finished.

    Arguments and errors are those of ``apply_plan``, and two more.

    Raises:
        StalePlan: the open run belongs to another plan.
        Drift: our sessions were changed by someone else since; nothing was changed.
    """
    with journal.exclusive():
        run = journal.open_run()
        if run is None:
            raise JournalError("no run is open, there is nothing to resume", hint="apply without --resume")
        if run.plan_digest != digest:
            raise StalePlan(
                f"{run} belongs to plan {run.plan_digest[:12]}, this one is {digest[:12]}",
                hint="resume with that plan file, or `flowcheck-net rollback` first",
            )
        forget_switches(journal, run, forget)
        switches = [s for s in run.switches if s.address.name not in forget]
        if strange := meddling(run, switches, reach):
            raise Drift(strange, hint="nothing was written; put the named sessions back by hand, then resume again")
        targets = survey([Wish(s.address, s.wanted) for s in switches], reach)
        if run.confirm_within is not None:
            guard(run.id)
        touched = frozenset(s.address.name for s in switches if s.touched)
        _Change(journal, reach, run.id, run.job, touched).carry_out(targets)
        return ApplyReport(run.id, targets)


def forget_switches(journal: Journal, run: Run, forget: Collection[SwitchName]) -> None:
    """Note in the run that the operator gave these switches up."""
    for switch in run.switches:
        if switch.address.name in forget:
            journal.settle(run.id, switch.address.name, SwitchResult.FORGOTTEN)


class _Change:
    """One run, from the first write to its end."""

    def __init__(
        self, journal: Journal, reach: Reach, run_id: int, job: str, touched: frozenset[SwitchName] = frozenset()
    ) -> None:
        self._journal = journal
        self._reach = reach
        self._run = run_id
        self._job = job
        self._touched = touched
        self._stop = threading.Event()
        self._foreign: list[str] = []
        """Foreign sessions that changed while we wrote: not ours to restore, so the former state is not whole."""

    def carry_out(self, targets: Sequence[Target]) -> None:
        """Write to all targets, or undo; returns only where everything is read back as planned."""
        # A switch that a crashed write has touched may lack the last touch even where it reads back as planned.
        changing = [t for t in targets if t.steps or t.address.name in self._touched]
        for target in targets:
            if target not in changing:
                self._journal.settle(self._run, target.address.name, SwitchResult.WRITTEN)
        with left_open(self._reach, self._run):
            failures = self._write_all(changing[:1], "canary") or self._write_all(changing[1:], "")
            if failures:
                self._undo(failures)
            self._journal.finish(self._run, RunResult.APPLIED)
        done = f"run {self._run}: {counted(len(changing), 'switch', 'switches')} written and read back"
        run = self._journal.run(self._run)
        if run is not None and run.unconfirmed:
            done += f"; to be undone at {run.deadline} unless it is confirmed"
        self._reach.tell(Event(None, "applied", done))

    def _write_all(self, targets: Sequence[Target], remark: str) -> list[DriverError]:
        def work(target: Target) -> None:
            if not self._stop.is_set():
                try:
                    self._write(target, remark)
                except BaseException:
                    self._stop.set()
                    raise

        return [r for r in self._reach.each(work, targets) if isinstance(r, DriverError)]

    def _write(self, target: Target, remark: str) -> None:
        name = target.address.name
        self._read_back(target, self._send(target))
        self._journal.settle(self._run, name, SwitchResult.WRITTEN)
        self._reach.stage(name, "done")
        self._reach.tell(Event(name, "written", _summary(target.steps, remark)))

    def _send(self, target: Target) -> DriverError | None:
        """Write; returns the failure after which the switch must be read to know where it stands."""
        name = target.address.name
        try:
            with self._reach.connect(target.address) as driver, driver.hold():
                self._reach.stage(name, "writing")
                unchanged_since(target, self._job, driver.read())
                self._journal.mark_steps(self._run, name, StepStatus.INTENDED)
                driver.write(target.steps)
        except (ConnectError, Rejected) as error:
            # A promise of the driver: nothing of it took effect. A write of before a crash may have.
            if name not in self._touched:
                self._journal.mark_steps(self._run, name, StepStatus.PLANNED)
            self._reach.tell(Event(name, "refused", error.message))
            raise
        except DriverError as error:
            return error
        return None

    def _read_back(self, target: Target, fault: DriverError | None) -> None:
        name = target.address.name
        try:
            now = self._read_after(target, fault)
            left = differences(name, self._job, target.wanted, now.owned)
            if left:
                raise fault or StateUnknown(name, f"read back: {sentence(left)}")
            if strange := differences(name, self._job, target.actual.foreign, now.foreign):
                self._foreign.append(f"{name}: {sentence(strange)}")
                raise StateUnknown(name, f"foreign sessions changed while we wrote: {sentence(strange)}")
            if fault:
                self._reach.insist(lambda: self._take_effect(target))
        except DriverError as error:
            self._reach.tell(Event(name, "failed", error.message))
            raise

    def _take_effect(self, target: Target) -> None:
        """It reads back as planned, but the write did not end well: what it was cut off from is done now."""
        with self._reach.connect(target.address) as driver:
            driver.write(())

    def _read_after(self, target: Target, fault: DriverError | None) -> SwitchState:
        try:
            return self._reach.insist(lambda: self._reach.read(target.address, "reading back")).state
        except DriverError as error:
            if fault is None:
                raise
            # What broke the write tells more than why the switch cannot be read now; both are needed.
            both = f"{_bare(fault)}, then it could not be read back: {_bare(error)}"
            raise StateUnknown(target.address.name, both) from error

    def _undo(self, failures: Sequence[DriverError]) -> None:
        """Restore every switch that was touched; always raises RolledBack or NotRolledBack."""
        run = self._journal.open_run()
        touched = [s for s in run.switches if s.touched] if run else []
        unrestored = [*restore_all(self._journal, self._reach, self._run, self._job, touched), *self._foreign]
        cause = joined(failures)
        if unrestored:
            text = f"{cause}; not in the former state: {'; '.join(unrestored)}"
            self._reach.tell(Event(None, "not rolled back", text))
            raise NotRolledBack(text, hint="look at the named switches; `flowcheck-net rollback` tries again")
        self._journal.finish(self._run, RunResult.ROLLED_BACK)
        self._reach.tell(Event(None, "rolled back", cause))
        touches = counted(len(touched), "switch", "switches")
        raise RolledBack(
            f"{cause}; every switch is in its former state (run {self._run}, {touches} touched)",
            hint="cure the failure, then apply again",
        )


@contextmanager
def left_open(reach: Reach, run_id: int) -> Iterator[None]:
    """Say where the switches stand when the journal fails us in the middle of a run, or the user breaks it off."""
    try:
        yield
    except JournalError as error:
        text, cure = f"{error.message}; nothing more was written", f"{error.hint}; then"
    except KeyboardInterrupt:
        text, cure = "broken off", "now"
    else:
        return
    text = f"{text}, and run {run_id} stays open: its switches may be in the former state, the planned one or between"
    reach.tell(Event(None, "not finished", text))
    raise NotRolledBack(text, hint=f"{cure} `flowcheck-net rollback` undoes it, `apply PLAN --resume` finishes it")


def restore_all(journal: Journal, reach: Reach, run_id: int, job: str, switches: Sequence[RunSwitch]) -> list[str]:
    """Restore switches and journal it; returns the failures, each naming its switch."""

    def work(switch: RunSwitch) -> Restored:
        name = switch.address.name
        reach.stage(name, "restoring")
        try:
            restored = restore(switch, job, reach, lambda: journal.mark_steps(run_id, name, StepStatus.INTENDED))
        except DriverError as error:
            journal.settle(run_id, name, SwitchResult.UNKNOWN)
            reach.tell(Event(name, "not restored", error.message))
            raise
        journal.settle(run_id, name, SwitchResult.RESTORED)
        reach.tell(Event(name, "restored", f"{counted(restored.steps, 'step', 'steps')} undone"))
        return restored

    failures = []
    for switch, result in zip(switches, reach.each(work, switches), strict=True):
        if isinstance(result, DriverError):
            failures.append(result.message)
        elif result.foreign:
            changes = ", ".join(f"{d.session} {d.text}" for d in result.foreign)
            failures.append(
                f"{switch.address.name}: our sessions are restored, foreign ones changed meanwhile: {changes}"
            )
    return failures


def unchanged_since(target: Target, job: str, now: SwitchState) -> None:
    """Raise Rejected where a switch is no longer as it was when the steps were made: another operator was faster."""
    if now != target.actual:
        changes = (
            *differences(target.address.name, job, target.actual.owned, now.owned),
            *differences(target.address.name, job, target.actual.foreign, now.foreign),
        )
        raise Rejected(
            target.address.name,
            f"somebody changed it since it was read: {sentence(changes)}",
            hint="find out who; then apply again",
        )


def _bare(error: DriverError) -> str:
    return error.message.removeprefix(f"{error.switch}: ")


def _wishes(plan: Plan, journal: Journal, forget: Collection[SwitchName]) -> tuple[Wish, ...]:
    return wishes(plan, journal.leftovers(plan.job.name, [a.name for a in plan.switches]), forget)


def _run_switch(target: Target) -> RunSwitch:
    return RunSwitch(
        address=target.address,
        before=target.actual,
        wanted=target.wanted,
        steps=target.steps,
        statuses=(StepStatus.PLANNED,) * len(target.steps),
    )


def _summary(steps: Sequence[Step], remark: str) -> str:
    created = sum(1 for s in steps if s.kind is StepKind.CREATE)
    text = f"{created} created, {len(steps) - created} deleted, read back equal"
    return f"{text} ({remark})" if remark else text
