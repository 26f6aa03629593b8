"""A job runs in a lab: plan, apply, all hosts send at once, copies become records, the audit judges."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Event, Reach
from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.verdict import Verdict, worst
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import LabError, OutputError
from flowcheck_net.lab.build import Lab
from flowcheck_net.lab.faults import Fault, FaultKind
from flowcheck_net.lab.live import LiveReceivers
from flowcheck_net.lab.misfortune import Misfortune
from flowcheck_net.lab.receivers import CaptureReceivers, Receivers, begin
from flowcheck_net.lab.starvation import Starvation
from flowcheck_net.lab.traffic import Sending, sending
from flowcheck_net.model.build import build_job
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_to_json
from flowcheck_net.receive.send import SendOptions, send
from flowcheck_net.receive.send_report import SendReport
from flowcheck_net.spec.load import Specs, load_specs, spec_paths

_QUIET = 0.5
"""Seconds without a new copy after which none is under way any more."""
_LOOK = 0.05
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Payload:
    """Gradients through a lab."""

    gradients: Path | None = None
    """Directory of those that the job sends (``synth --gradients``); None: made up."""
    boards: Path | None = None
    """Each live receiver places payload into the folder NODE in it; None: nothing is placed."""


@dataclass(frozen=True, slots=True)
class LabReport:
    """What came of a run."""

    plan: Plan
    iterations: int
    """That the hosts sent."""
    sent: SendReport
    received: int
    """Packets at the capture ports."""
    switch_drops: dict[str, int]
    """Frames that a switch's own buffers lost, by switch: none of its counters tells. A restarted one begins anew."""
    late: float
    """Seconds: the worst of frames that left late, copies that came after the last frame, programs that starved."""
    audit: AuditReport

    @property
    def unseen(self) -> int:
        """Iterations of which nothing came: the audit, which is not told how many there were, cannot know of them."""
        return self.iterations - len(self.audit.iterations)

    @property
    def verdict(self) -> Verdict:
        """Of the audit, and GAP where it saw less than there was."""
        return worst([self.audit.verdict, *([Verdict.GAP] if self.unseen > 0 else [])])

    @property
    def busy(self) -> bool:
        """Was the machine too slow for this job? What is that late may come with the next iteration."""
        return self.late > self.plan.job.iteration_time / 2 or any(self.switch_drops.values())


def run(
    lab: Lab,
    output: Path,
    iterations: int,
    faults: Sequence[Fault] = (),
    tell: Callable[[str], None] = lambda _: None,
    *,
    live: bool = True,
    slower: float = 1.0,
    payload: Payload | None = None,
    ready: Callable[[], None] = lambda: None,
) -> LabReport:
    """Run the lab's job.

    Args:
        lab: it is up.
        output: folder for plan, captures and records; files of an earlier run are overwritten.
        iterations: of the job.
        faults: that happen meanwhile.
        tell: called with a line at each step.
        live: receive with ``flowcheck-net receive``; else captures are taken, and replayed afterwards.
        slower: so many times the job's iteration time, for a machine that does not keep up.
        payload: what the job sends, and where the receivers place it.
        ready: called when the receivers receive, before the hosts send.

    Raises:
        KeyboardInterrupt: the sending was interrupted.
        FlowcheckError: of whichever step fails.
    """
    try:
        given = payload or Payload()
        return _run(lab, output, iterations, faults, tell, live=live, slower=slower, payload=given, ready=ready)
    except OSError as error:
        raise OutputError(
            f"{error.filename or output}: {error.strerror or error}", hint="choose another place with -o"
        ) from error


def _run(
    lab: Lab,
    output: Path,
    iterations: int,
    faults: Sequence[Fault],
    tell: Callable[[str], None],
    *,
    live: bool,
    slower: float,
    payload: Payload,
    ready: Callable[[], None],
) -> LabReport:
    specs = load_specs(*spec_paths(lab.specs))
    pace = {"iteration_time": specs.job.iteration_time * slower}
    specs = replace(specs, job=specs.job.model_copy(update=pace))
    plan = make_plan(specs)
    text = plan_to_json(plan)
    (output / "plan.json").write_text(text, encoding="utf-8")
    tell(f"planned: {len(plan.points)} observation points")
    _apply(lab, plan, str(json.loads(text)["digest"]), tell)
    tenant = any(fault.kind is FaultKind.TENANT for fault in faults)
    traffic = sending(
        _as_run(plan, specs, faults), lab.drawn, output, iterations, tenant=tenant, gradients=payload.gradients
    )
    for switch in lab.switches.values():
        switch.begin()
    receivers: Receivers = CaptureReceivers(lab, output)
    if live:
        captures = [planned.capture for planned in plan.sessions]
        receivers = LiveReceivers(lab, output / "plan.json", captures, output, payload.boards)
    begin(receivers, lab.drawn.nodes)
    try:
        ready()
        duration = iterations * specs.job.iteration_time
        programs = [each for name, each in lab.place.processes.items() if "/" in name]
        with Misfortune(lab, receivers, faults, duration) as misfortune, Starvation(programs) as starvation:
            tell(
                f"sending: {len(traffic.ports)} flows of {len({end for _, end in traffic.ports})} NICs, {duration:g} s"
            )
            sent = _send(lab, traffic)
            misfortune.wait()
            late = max(_settle(lab), _lateness(sent))
        late = max(late, starvation.worst)
    finally:
        receivers.stop()
    drops = {name: switch.lost() for name, switch in lab.switches.items()}
    records = receivers.records(output / "records.fcr")
    received = sum(capture.packets for capture in records.captures)
    return LabReport(plan, iterations, sent, received, drops, late, audit(expectation(plan), records))


def _apply(lab: Lab, plan: Plan, digest: str, tell: Callable[[str], None]) -> None:
    """By the drivers of the switches, as on any fabric."""
    state = lab.place.directory / "state"
    state.mkdir(exist_ok=True)

    def show(event: Event) -> None:
        tell(f"{event.switch or 'verdict'}: {event.result}" + (f": {event.detail}" if event.detail else ""))

    reach = Reach(lambda address: open_driver(address, plan.job.name, state), tell=show)
    with Journal(state / "journal.sqlite") as journal:
        apply_plan(plan, digest, journal, reach)


def _as_run(plan: Plan, specs: Specs, faults: Sequence[Fault]) -> Plan:
    """The plan with the job as it really runs."""
    if all(fault.kind is not FaultKind.ORDER for fault in faults):
        return plan
    ranks = list(specs.job.ranks)
    if len(ranks) < 3:
        raise LabError("the order of two ranks cannot be changed", hint="leave --fault order out")
    one, other = ranks[1], ranks[2]
    ranks[1:3] = [
        one.model_copy(update={"host": other.host, "nic": other.nic}),
        other.model_copy(update={"host": one.host, "nic": one.nic}),
    ]
    return replace(plan, job=build_job(specs.job.model_copy(update={"ranks": tuple(ranks)}), specs.topology))


def _send(lab: Lab, traffic: Sending) -> SendReport:
    """All hosts at once, by one clock."""
    targets = tuple((port, lab.interface(end)) for port, end in traffic.ports)
    report = send(traffic.files, SendOptions(targets, sure=True))
    if report.interrupted:
        raise KeyboardInterrupt
    faults = [f"{source.interface}: {source.fault}" for source in report.sources if source.fault]
    if faults:
        raise LabError("; ".join(faults), hint="the lab is not whole: flowcheck-net lab status")
    return report


def _lateness(sent: SendReport) -> float:
    """Seconds that a frame left after its time, at the worst."""
    return max((source.counts.late.max for source in sent.sources if source.counts.late), default=0) / 1e9


def _settle(lab: Lab) -> float:
    """Wait until no copy is under way; for how many seconds copies still came."""
    begun = since = time.monotonic()
    last = _copies(lab)
    while time.monotonic() - since < _QUIET and time.monotonic() - begun < _PATIENCE:
        time.sleep(_LOOK)
        now = _copies(lab)
        if now != last:
            last, since = now, time.monotonic()
    return max(0.0, since - begun - _LOOK)


def _copies(lab: Lab) -> int:
    return sum(map(lab.packets_in, lab.drawn.nodes))
