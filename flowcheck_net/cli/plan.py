"""``flowcheck-net plan``: choose the observation points and write the plan."""

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flowcheck_net.cli.inputs import input_files, input_options, read_plan
from flowcheck_net.errors import Infeasible, OutputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from flowcheck_net.intent import MirrorSession
    from flowcheck_net.model.job import Lane
    from flowcheck_net.plan.plan import Plan, PlannedHop
    from flowcheck_net.spec.load import Specs

_FILE = click.Path(path_type=Path)
_HOPS_SHOWN = 6


@click.command("plan")
@input_options
@click.option("-o", "--output", type=_FILE, help="Write the plan here; an existing plan is replaced in one step.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan itself, as it is written to the file.")
@click.option("--explain", is_flag=True, help="Show also why each point is there, and the solver's proof by stages.")
@click.option("--from", "running", type=_FILE, help="The plan in force: of equally good plans take the closest to it.")
@click.option(
    "--without", multiple=True, metavar="DEVICE", help="What if a switch, checkpoint node or node:nic is lost?"
)
@click.option("--without-link", multiple=True, metavar="DEVICE:PORT", help="What if the link at this port is lost?")
@click.option("--survive", type=click.IntRange(0, 1), help="1: complete after any one loss; shows the price.")
@click.option("--check", "checked", type=_FILE, help="Only prove that this plan was made from these very files.")
def command(
    directory: Path | None,
    topology: Path | None,
    job: Path | None,
    policy: Path | None,
    output: Path | None,
    *,
    running: Path | None,
    without: tuple[str, ...],
    without_link: tuple[str, ...],
    survive: int | None,
    checked: Path | None,
    as_json: bool,
    explain: bool,
) -> None:
    """Choose the observation points for the fabric and job of DIRECTORY.

    Every data-parallel ring is seen with the copies that the policy wants, or the command ends with exit code 3, names
    the rings and the limit that forbids it, and says what would do. A ring whose network hops cannot give so many
    copies gets those that they can; the table says so.

    A ring is written group/channel; a hop group/channel/index: dp0/1/2 leads from position 2 of that ring to the next.

    \b
    Examples:
      flowcheck-net plan topologies/two-host -o plan.json
      flowcheck-net plan topologies/two-host --policy my-policy.yaml --explain
      flowcheck-net plan DIR --from running.json -o next.json
      flowcheck-net plan DIR --without spine2 --survive 1
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.plan.stale import verify_inputs
    from flowcheck_net.spec.load import load_specs

    specs = load_specs(*input_files(directory, topology, job, policy))
    if checked is not None:
        verify_inputs(read_plan(checked), specs)
        click.echo(f"{checked}: made from these files")
        return
    before = None if running is None else read_plan(running)
    asked = _what_if(specs, without, without_link, survive)
    found = _planned(specs, asked, before, explain=explain and not as_json)
    text = found.text
    if output is not None:
        write_plan(output, text)
    if as_json:
        click.echo(text, nl=False)
        return
    _tell_all(found, before, proof=explain)
    if output is not None:
        click.echo(f"written: {output}")


@dataclass(frozen=True, slots=True)
class _Found:
    """The plan, and what there is to say about it."""

    plan: "Plan"
    usual: "Plan | None"
    """The plan of the files as they are, where a question was asked and they have one."""
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """As it is written to a file."""
        from flowcheck_net.plan.plan import plan_to_json

        return plan_to_json(self.plan)


def _planned(specs: "Specs", asked: "Specs", before: "Plan | None", *, explain: bool) -> _Found:
    from flowcheck_net.cli.output import console
    from flowcheck_net.cli.plan_progress import planning
    from flowcheck_net.plan.make import make_plan
    from flowcheck_net.plan.reasons import why

    with planning(console(stderr=True)) as tell:
        plan = make_plan(asked, tell, running=before)
        usual = None
        if asked is not specs:
            with contextlib.suppress(Infeasible):
                usual = make_plan(specs, tell)
        return _Found(plan, usual, why(asked, plan) if explain else ())


def _what_if(specs: "Specs", without: tuple[str, ...], without_link: tuple[str, ...], survive: int | None) -> "Specs":
    """The inputs as the questions want them; the same object where nothing is asked."""
    from flowcheck_net.plan.whatif import surviving, without_devices, without_links

    asked = without_devices(specs, without) if without else specs
    asked = without_links(asked, without_link) if without_link else asked
    return asked if survive is None else surviving(asked, survive)


def _tell_all(found: _Found, before: "Plan | None", *, proof: bool) -> None:
    from flowcheck_net.cli.output import console
    from flowcheck_net.cli.plan_show import comparison_lines, show_reasons
    from flowcheck_net.plan.compare import compare

    out = console()
    _show(out, found.plan, proof=proof)
    if found.reasons:
        show_reasons(out, found.reasons)
    for title, other in (("the running plan", before), ("the plan of the files as they are", found.usual)):
        if other is not None:
            click.echo(f"against {title}:")
            for line in comparison_lines(compare(other, found.plan), "that one", "this one"):
                click.echo(f"  {line}")


def write_plan(path: Path, text: str) -> None:
    """Write the plan in one step: the file holds the old content or the new one, never a part of either.

    Raises:
        OutputError: Something that is not a plan is there already, or the place cannot be written.
    """
    try:
        _refuse_other_content(path)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}", hint="choose another place with -o") from None


def _refuse_other_content(path: Path) -> None:
    """A file is replaced only if it looks like a plan of ours, whatever its version or digest."""
    if not path.exists():
        return
    if path.is_dir():
        raise OutputError(f"{path} is a directory", hint="name a file, such as plan.json")
    start = path.read_bytes()
    if start.strip() and not (start.startswith(b"{") and b'"digest"' in start and b'"fingerprint"' in start):
        raise OutputError(
            f"{path} exists and is not a plan; it was left as it is", hint="choose another name, or remove it"
        )


def _show(out: "Console", plan: "Plan", *, proof: bool) -> None:
    """The plan for a person."""
    out.print(_points(plan))
    out.print(_coverage(plan))
    for line in _cost_lines(plan):
        out.print(line)
    if proof:
        for stage in plan.proof.stages:
            out.print(f"  {stage.name}: {stage.value:,} (proven bound {stage.bound:,})")


def _points(plan: "Plan") -> "Table":
    from flowcheck_net.cli.output import natural, table

    made = table(
        f"Observation points of {plan.job.name}",
        *("switch", "port", "direction", "shows hops", "session", "capture port", "port load"),
        numbers=("port load",),
        keys=3,
    )
    shown: dict[str, list[str]] = {}
    for hop in plan.hops:
        for seen_at in (hop.point, *hop.also):
            shown.setdefault(seen_at, []).append(f"{hop.group}/{hop.channel}/{hop.index}")
    session = {(s.switch, s.capture): s.session for s in plan.sessions}
    load = {(item.switch, item.capture): item for item in plan.loads}
    for point in sorted(plan.points, key=lambda point: natural(point.id)):
        used = load[point.switch, point.capture]
        planned = session[point.switch, point.capture]
        made.add_row(
            point.switch,
            point.port,
            point.direction.value,
            _some(shown.get(point.id, [])),
            planned.name + _parts(planned),
            point.capture,
            f"{_rate(used.load)} of {_rate(used.capacity)}, {_share(used.load / used.capacity)}",
        )
    return made


def _parts(session: "MirrorSession") -> str:
    counts = [(len(session.filters), "filters"), (len(session.windows), "windows")]
    words = ", ".join(f"{count} {name}" if count > 1 else f"1 {name[:-1]}" for count, name in counts if count)
    return f" ({words})" if words else ""


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _HOPS_SHOWN} more" if len(names) > _HOPS_SHOWN else ""
    return " ".join(names[:_HOPS_SHOWN]) + more


def _share(part: float) -> str:
    """Such as ``83%``; what is there is never called 0%."""
    return f"{part:.0%}" if part == 0 or part >= 0.005 else "under 1%"


def _rate(mbps: int) -> str:
    return f"{mbps / 1000:g}G"


def _coverage(plan: "Plan") -> "Table":
    from rich.text import Text

    from flowcheck_net.cli.output import natural, table

    kind = "tree" if plan.job.trees else "ring"
    columns = (kind, "ranks", "hops seen", "copies", "wanted", "")
    made = table("Coverage", *columns, numbers=("ranks", "copies", "wanted"))
    lanes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    seen: dict[tuple[str, int], list[str]] = {}
    for hop in plan.hops:
        seen.setdefault((hop.group, hop.channel), []).append(_hop_words(lanes[hop.group, hop.channel], hop))
    for ring in sorted(plan.coverage, key=lambda ring: natural(f"{ring.group}/{ring.channel}")):
        short = ring.copies < ring.wanted
        made.add_row(
            f"{ring.group}/{ring.channel}",
            str(lanes[ring.group, ring.channel].size),
            _some(seen.get((ring.group, ring.channel), [])),
            str(ring.copies),
            str(ring.wanted),
            Text("all that its network hops can give", "yellow") if short else Text("complete", "green"),
        )
    return made


def _hop_words(lane: "Lane", hop: "PlannedHop") -> str:
    """The number of a hop, and why it does not count where it does not."""
    from flowcheck_net.model.lanes import gives_copy

    if hop.counted:
        return str(hop.index)
    return f"{hop.index} ({'not counted' if gives_copy(lane, hop.index) else 'partial sums'})"


def _cost_lines(plan: "Plan") -> list[str]:
    from flowcheck_net.model.job import Protocol
    from flowcheck_net.plan.strategy import bound, strategies

    cost = plan.cost
    protocol = plan.job.wire.nccl.protocol
    ratio = cost.mirrored_bytes / cost.gradient_bytes
    why = {Protocol.LL: ", as LL sends 2 bytes for 1", Protocol.LL128: ", as LL128 sends 16 bytes for 15"}
    sessions = f"{cost.sessions} session{'s' if cost.sessions != 1 else ''}"
    switches = f"{cost.switches} switch{'es' if cost.switches != 1 else ''}"
    ways = ", ".join(f"{way.name} {way.ratio:.2f}" for way in strategies(plan))
    return [
        f"mirrored: {cost.mirrored_bytes:,} payload bytes a step, {ratio:.2f} for each gradient byte"
        f" (one copy and nothing else: {bound(plan.job):.2f}{why.get(protocol, '')})",
        f"by strategy, for each gradient byte: {ways}",
        f"duplicate: {cost.duplicate_bytes:,} payload bytes a step (hops seen at more than one point)",
        f"programmed: {sessions} on {switches}",
        f"proof: {plan.proof.status}, gap {plan.proof.gap:.2%} ({plan.proof.solver})",
    ]
