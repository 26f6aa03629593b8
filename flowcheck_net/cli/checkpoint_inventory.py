"""``flowcheck-net checkpoint inventory``: every object of a checkpoint, with its source."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.inventory import Declaration, Inventory


def source_option(function: Any) -> Any:  # noqa: ANN401 - click's decorators
    """``--source PATTERN=ORIGIN``."""
    return click.option(
        "--source",
        "sources",
        multiple=True,
        metavar="PATTERN=SOURCE",
        help="Say where fields come from: side-channel, or explicit-snapshot if the anchor's value stays right.",
    )(function)


@click.command("inventory")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--training",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Which tensors are parameters (training.yaml). Without it the optimizer's state must show it.",
)
@source_option
@click.option("--all", "every", is_flag=True, help="List all fields, not only those of unknown source.")
@click.option("--json", "as_json", is_flag=True, help="Print all fields as JSON.")
def command(path: Path, training: Path | None, sources: tuple[str, ...], *, every: bool, as_json: bool) -> None:
    """List every object of the checkpoint PATH and where a published one would get it from.

    PATH is a torch.save file, a torch DCP directory, safetensors (file or directory), or the folder of a checkpoint of
    Megatron-LM or DeepSpeed. Nothing in it is executed, and neither PyTorch nor the framework is needed. Fields of
    unknown source block publication; the exit code is then 10.

    \b
    Examples:
      flowcheck-net checkpoint inventory step-100.pt
      flowcheck-net checkpoint inventory checkpoints/ --training training.yaml --all
      flowcheck-net checkpoint inventory step-100.pt --source 'model.*.running_mean=side-channel'
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.checkpoint.inventory import classify
    from flowcheck_net.checkpoint.inventory_read import read_fields
    from flowcheck_net.errors import CoverageUnknown

    form, fields = read_fields(path)
    parameters = shapes_of(training) if training else None
    found = classify(form, fields, parameters=parameters, declared=declarations(sources))
    _show(path, found, every=every, as_json=as_json)
    if found.unknown:
        names = ", ".join(each.field.name for each in found.unknown[:5])
        more = f" and {len(found.unknown) - 5:,} more" if len(found.unknown) > 5 else ""
        hint = "send them by the side channel, or say --source PATTERN=explicit-snapshot if they never change"
        raise CoverageUnknown(f"nobody knows where these fields would come from: {names}{more}", hint=hint)


def declarations(sources: Iterable[str]) -> list["Declaration"]:
    """The words of ``--source``. Raises click's error."""
    from flowcheck_net.checkpoint.inventory import Declaration, Origin

    allowed = {str(each): each for each in (Origin.SIDE, Origin.SNAPSHOT)}
    found = []
    for text in sources:
        pattern, _, origin = text.rpartition("=")
        if not pattern or origin not in allowed:
            raise click.BadParameter(
                f"{text!r} is not PATTERN=side-channel or PATTERN=explicit-snapshot", param_hint="--source"
            )
        found.append(Declaration(pattern, allowed[origin]))
    return found


def shapes_of(training: Path) -> dict[str, tuple[int, ...]]:
    """The parameters of a training.yaml, aliases among them. Raises SpecError."""
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.spec.check_training import load_training

    layout = build_training(load_training(training)).layout
    return {name: each.shape for each in layout.parameters for name in (each.name, *each.aliases)}


def _show(path: Path, found: "Inventory", *, every: bool, as_json: bool) -> None:
    from rich.markup import escape

    from flowcheck_net.checkpoint.inventory import Origin
    from flowcheck_net.cli.output import amount, console, emit_json, shown, table

    if as_json:
        emit_json(_json(path, found))
        return
    counts = table(
        f"{path}: {found.form}", "source", "fields", "tensors", "bytes", numbers=("fields", "tensors", "bytes")
    )
    for origin in Origin:
        fields = [each.field for each in found.of(origin)]
        tensors = sum(field.tensor for field in fields)
        counts.add_row(origin, amount(len(fields)), amount(tensors), amount(sum(field.size for field in fields)))
    console().print(counts)
    if found.partitioned:
        names = ", ".join(each.field.name for each in found.partitioned[:3])
        more = f" and {len(found.partitioned) - 3:,} more" if len(found.partitioned) > 3 else ""
        told = f"not publishable in this form: {names}{more} are parts of an optimizer that is cut over the ranks"
        console().print(escape(shown(told)))
    asked = found.fields if every else found.unknown
    if asked:
        listed = table("fields" if every else "of unknown source", "field", "kind", "source", "why")
        for each in asked:
            field = each.field
            kind = f"{field.dtype} {list(field.shape)}" if field.tensor else field.kind
            listed.add_row(escape(shown(field.name)), escape(shown(kind)), each.origin, each.reason)
        console().print(listed)


def _json(path: Path, found: "Inventory") -> dict[str, Any]:
    return {
        "path": str(path),
        "form": found.form,
        "publishable": not (found.unknown or found.partitioned),
        "partitioned": [each.field.name for each in found.partitioned],
        "fields": [
            {
                "name": each.field.name,
                "kind": each.field.kind,
                "file": each.field.file,
                "dtype": each.field.dtype or None,
                "shape": list(each.field.shape) if each.field.tensor else None,
                "bytes": each.field.size,
                "source": each.origin.value,
                "reason": each.reason,
            }
            for each in found.fields
        ],
    }
