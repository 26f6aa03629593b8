"""What verify found, on the terminal, as JSON and as an exit code."""

from collections.abc import Sequence

from flowcheck_net.apply.effect import Effect, PointEffect
from flowcheck_net.apply.reach import counted
from flowcheck_net.apply.verify import SwitchVerdict, VerifyReport, remark_text
from flowcheck_net.cli.switches import styled
from flowcheck_net.errors import CoverageGap, CoverageUnknown, Drift, DriverError, FlowcheckError

_STYLES = {Effect.WORKING: "green", Effect.ACCEPTED: "yellow"}


def show(report: VerifyReport, effects: Sequence[PointEffect] | None) -> None:
    """Switch by switch, point by point, and the verdict."""
    for switch in report.switches:
        _show_switch(switch)
    for each in effects or ():
        styled(f"{each.point.id}: {each.effect}: {each.text}", _STYLES.get(each.effect, "red"))
    styled(f"verdict: {verdict(report, effects)}")


def verdict(report: VerifyReport, effects: Sequence[PointEffect] | None) -> str:
    """One line: the worst that is known."""
    if report.differences:
        where = ", ".join(sorted({d.switch for d in report.differences}))
        return f"drift: {counted(len(report.differences), 'difference', 'differences')} on {where}"
    if gaps := _gaps(report, effects):
        return "incomplete: " + "; ".join(gaps)
    if report.failures:
        return "unknown: " + "; ".join(report.failures)
    if doubts := _doubts(report, effects):
        return "not proven: " + "; ".join(doubts)
    if effects is not None:
        return f"working: counted at {counted(len(effects), 'observation point', 'observation points')}"
    return "accepted: every session was read back as planned; --probe counts whether they work"


def error_of(report: VerifyReport, effects: Sequence[PointEffect] | None) -> FlowcheckError | None:
    """What the command ends with; None: all that was asked for is proven."""
    words = verdict(report, effects)
    if report.differences:
        return Drift(words, hint="`flowcheck-net apply PLAN` puts our own sessions right")
    if _gaps(report, effects):
        return CoverageGap(words, hint="cure what is named on the switch, then verify again")
    if report.failures:
        unread = next(s for s in report.switches if s.failure)
        text = unread.failure.removeprefix(f"{unread.switch}: ")
        return DriverError(unread.switch, text, hint="verify again when the switch can be reached")
    if _doubts(report, effects):
        return CoverageUnknown(words, hint="let traffic of the job pass, or send marked packets: `flowcheck-net probe`")
    return None


def report_json(report: VerifyReport, effects: Sequence[PointEffect] | None) -> dict[str, object]:
    """All of it; ``points`` only where it was counted."""
    document: dict[str, object] = {
        "verdict": verdict(report, effects).split(":")[0],
        "switches": [
            {
                "switch": s.switch,
                "failure": s.failure or None,
                "foreign": s.foreign,
                "differences": [{"session": d.session, "owner": d.owner, "text": d.text} for d in s.differences],
                "remarks": [
                    {
                        "kind": r.kind.value,
                        "session": r.session or None,
                        "port": r.port or None,
                        "text": r.text,
                        "incomplete": r.kind.incomplete,
                    }
                    for r in s.remarks
                ],
                "restart_mark": s.restart_mark or None,
                "packets": {c.session.name: c.packets for c in s.counts},
            }
            for s in report.switches
        ],
    }
    if effects is not None:
        document["points"] = [
            {"point": e.point.id, "capture": e.point.capture, "effect": e.effect.value, "text": e.text} for e in effects
        ]
    return document


def _gaps(report: VerifyReport, effects: Sequence[PointEffect] | None) -> list[str]:
    return [*report.gaps, *(_words(e) for e in effects or () if e.effect.fault)]


def _doubts(report: VerifyReport, effects: Sequence[PointEffect] | None) -> list[str]:
    open_ones = (Effect.ACCEPTED, Effect.UNKNOWN)
    return [*report.doubts, *(_words(e) for e in effects or () if e.effect in open_ones)]


def _words(each: PointEffect) -> str:
    return f"{each.point.id} is {each.effect}: {each.text}"


def _show_switch(switch: SwitchVerdict) -> None:
    if switch.failure:
        styled(f"{switch.switch}: unknown: {switch.failure.removeprefix(f'{switch.switch}: ')}", "red")
        return
    state = "drift" if switch.differences else "accepted"
    planned = counted(len(switch.counts), "session", "sessions")
    styled(f"{switch.switch}: {state}: {planned} planned, {switch.foreign} foreign", "bold")
    for difference in switch.differences:
        styled(f"  {difference.session} ({difference.owner}) {difference.text}", "red")
    for remark in switch.remarks:
        text = remark_text(switch.switch, remark).removeprefix(f"{switch.switch}: ")
        styled(f"  {'incomplete' if remark.kind.incomplete else 'in doubt'}: {text}", "red")
    for count in switch.counts:
        sources = " ".join(f"{s.port}:{s.direction}" for s in count.session.sources)
        packets = "packets unknown"
        if count.packets is not None:
            packets = f"{counted(count.packets, 'packet', 'packets')} mirrored"
        styled(f"  {count.session.name}: {sources} -> {count.session.destination}: {packets}")
