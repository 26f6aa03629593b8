"""``flowcheck-net verify``: compare the switches with the plan."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.inputs import read_plan
from flowcheck_net.cli.switches import PLAN, Teller, reach_for, state_dir_option, styled

if TYPE_CHECKING:
    from flowcheck_net.apply.verify import SwitchVerdict, VerifyReport
    from flowcheck_net.intent import SwitchAddress


@click.command("verify")
@click.argument("plan_file", metavar="PLAN", type=PLAN)
@state_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def command(plan_file: Path, state_dir: Path, *, as_json: bool) -> None:
    """Read every switch of PLAN and name each difference and its owner; change nothing.

    What is proven here is that the configuration was accepted. That copies arrive is proven by `flowcheck-net audit`;
    the switches' own packet counts are shown as a first sign. Exit code 6: there is a difference.

    Example: flowcheck-net verify plan.json
    """
    from flowcheck_net.apply.journal import Journal
    from flowcheck_net.apply.verify import verify_plan
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.errors import Drift, DriverError

    plan = read_plan(plan_file)
    journal_file = state_dir / "journal.sqlite"
    leftovers: tuple[SwitchAddress, ...] = ()
    if journal_file.exists():
        with Journal(journal_file) as journal:
            leftovers = journal.leftovers(plan.job.name, [a.name for a in plan.switches])
    report = verify_plan(plan, reach_for(plan.job.name, state_dir, Teller(quiet=True)), leftovers)
    if as_json:
        emit_json(_report_json(report))
    else:
        for switch in report.switches:
            _show(switch)
        styled(f"verdict: {_verdict(report)}")
    if report.differences:
        raise Drift(_verdict(report), hint="`flowcheck-net apply PLAN` puts our own sessions right")
    if report.failures:
        unread = next(s for s in report.switches if s.failure)
        raise DriverError(
            unread.switch,
            unread.failure.removeprefix(f"{unread.switch}: "),
            hint="verify again when the switch can be reached",
        )


def _verdict(report: "VerifyReport") -> str:
    from flowcheck_net.apply.reach import counted

    if report.differences:
        where = ", ".join(sorted({d.switch for d in report.differences}))
        return f"drift: {counted(len(report.differences), 'difference', 'differences')} on {where}"
    if report.failures:
        return "unknown: " + "; ".join(report.failures)
    return "accepted: every session was read back as planned; counted packets at the receiver prove the effect"


def _show(switch: "SwitchVerdict") -> None:
    if switch.failure:
        styled(f"{switch.switch}: unknown: {switch.failure.removeprefix(f'{switch.switch}: ')}", "red")
        return
    from flowcheck_net.apply.reach import counted

    state = "drift" if switch.differences else "accepted"
    planned = counted(len(switch.counts), "session", "sessions")
    styled(f"{switch.switch}: {state}: {planned} planned, {switch.foreign} foreign", "bold")
    for difference in switch.differences:
        styled(f"  {difference.session} ({difference.owner}) {difference.text}", "red")
    for count in switch.counts:
        sources = " ".join(f"{s.port}:{s.direction}" for s in count.session.sources)
        packets = "packets unknown" if count.packets is None else f"{count.packets} packets mirrored"
        styled(f"  {count.session.name}: {sources} -> {count.session.destination}: {packets}")


def _report_json(report: "VerifyReport") -> dict[str, object]:
    verdict = "drift" if report.differences else "unknown" if report.failures else "accepted"
    return {
        "verdict": verdict,
        "switches": [
            {
                "switch": s.switch,
                "failure": s.failure or None,
                "foreign": s.foreign,
                "differences": [{"session": d.session, "owner": d.owner, "text": d.text} for d in s.differences],
                "packets": {c.session.name: c.packets for c in s.counts},
            }
            for s in report.switches
        ],
    }
