"""The options of ``flowcheck-net replay`` that send: ``--to`` and what belongs to it."""

import functools
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowcheck_net.receive.send import SendOptions
    from flowcheck_net.receive.send_report import SendReport, SentSource

_MILLIONTHS = 1_000_000
_LEAST, _MOST = 1e-6, 1e12
_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@dataclass(frozen=True, slots=True)
class SendArguments:
    """As given on the command line."""

    to: tuple[str, ...]
    interfaces: tuple[str, ...]
    speed: float | None
    """0: as fast as possible."""
    pps: float | None
    gbps: float | None
    loop: int | None
    through_qdisc: bool
    yes_this_interface: bool


class _Positive(click.ParamType[float]):
    """A number above zero; where ``word`` is given, it may stand instead and is 0."""

    def __init__(self, name: str, *, word: str = "") -> None:
        self.name = name
        self._word = word

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or click's error."""
        if self._word and value == self._word:
            return 0.0
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not _LEAST <= number <= _MOST:
            other = f" nor {self._word!r}" if self._word else ""
            self.fail(f"{value!r} is no number from {_LEAST:f} to {_MOST:.0f}{other}", param, ctx)
        return number


_OPTIONS = (
    click.option(
        "--to",
        multiple=True,
        metavar="[PORT=][NETNS/]IFACE",
        help="Send the packets on this interface; with PORT=, those of one capture port. May be repeated.",
    ),
    click.option("--interface", "interfaces", multiple=True, metavar="PORT", help="--to: only those of this port."),
    click.option(
        "--speed",
        type=_Positive("factor", word="max"),
        metavar="FACTOR|max",
        help="--to: so many times as fast as recorded. Default: 1",
    ),
    click.option("--pps", type=_Positive("number"), help="--to: packets a second on each interface."),
    click.option(
        "--gbps",
        type=_Positive("number"),
        help="--to: Gbit/s of frames, without preamble, FCS and gap, on each interface.",
    ),
    click.option("--loop", type=int, metavar="N", help="--to: everything so many times; 0: until Ctrl-C. Default: 1"),
    click.option("--through-qdisc", is_flag=True, help="--to: slower, but seen by tcpdump on IFACE and shaped by tc."),
    click.option("--yes-this-interface", is_flag=True, help="--to: even where it may reach a production network."),
)
_NOT_GIVEN = SendArguments((), (), None, None, None, None, through_qdisc=False, yes_this_interface=False)


def send_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as one ``sending``: None without --to."""

    @functools.wraps(function)
    def collected(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's
        given = SendArguments(**{name: kwargs.pop(name) for name in SendArguments.__dataclass_fields__})
        if not given.to and given != _NOT_GIVEN:
            raise click.UsageError("options that are marked --to in the help need --to")
        if given.loop is not None and given.loop < 0:
            raise click.BadParameter("less than 0 times cannot be", param_hint="--loop")
        function(*args, sending=given if given.to else None, **kwargs)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def send(files: Sequence[Path], given: SendArguments, reading: Mapping[str, object], *, as_json: bool) -> None:
    """Send and report.

    Args:
        files: capture files.
        given: the options of sending.
        reading: the options of reading and what was given for them, which must be nothing.
        as_json: report as JSON.

    Raises:
        click.UsageError: options that do not go together.
        SendError: nothing or not everything could be sent; the report was printed where there is one.
    """
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.receive.send import send as send_files

    for option, value in reading.items():
        if value:
            raise click.UsageError(f"{option} is of no use with --to, which counts nothing")
    options = _options(given)
    with _terminated_like_interrupted():
        report = send_files(files, options)
    if as_json:
        emit_json(report.document())
    else:
        _show(report)
    _raise_faults(report)
    if report.interrupted and options.rounds:
        raise SystemExit(_INTERRUPTED)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends the sending with its report, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _options(given: SendArguments) -> "SendOptions":
    from flowcheck_net.receive.native_send import Pace
    from flowcheck_net.receive.send import SendOptions

    if sum(rate is not None for rate in (given.speed, given.pps, given.gbps)) > 1:
        raise click.UsageError("--speed, --pps and --gbps exclude one another")
    pace, rate = Pace.RECORDED, _MILLIONTHS
    if given.speed is not None:
        pace, rate = (Pace.RECORDED, round(given.speed * _MILLIONTHS)) if given.speed else (Pace.FULL, 0)
    elif given.pps is not None:
        pace, rate = Pace.PACKETS, round(given.pps * _MILLIONTHS)
    elif given.gbps is not None:
        pace, rate = Pace.BITS, max(1, round(given.gbps * 1e9))
    return SendOptions(
        targets=_targets(given),
        ports=given.interfaces,
        pace=pace,
        rate=rate,
        rounds=1 if given.loop is None else given.loop,
        bypass=not given.through_qdisc,
        sure=given.yes_this_interface,
    )


def _targets(given: SendArguments) -> tuple[tuple[str, str], ...]:
    targets = []
    for option in given.to:
        port, equals, interface = option.rpartition("=")
        if not interface or (equals and not port):
            raise click.BadParameter(f"{option!r} is neither IFACE nor PORT=IFACE", param_hint="--to")
        targets.append((port, interface))
    named = all(port for port, _ in targets)
    if not named and len(targets) > 1:
        raise click.BadParameter("several interfaces need PORT=IFACE each", param_hint="--to")
    if named and given.interfaces:
        raise click.BadParameter("with --to PORT=IFACE the ports are chosen already", param_hint="--interface")
    return tuple(targets)


def _raise_faults(report: "SendReport") -> None:
    """What must not end with exit code 0: the report tells how far it got."""
    from flowcheck_net.errors import SendError

    faults = [source.fault for source in report.sources if source.fault]
    hint = "what was sent until then is in the report"
    if not faults and not report.interrupted and report.packets == 0:
        faults, hint = ["no packet could be sent"], "the report says why: the names under refused"
    if not faults and report.incomplete:
        faults, hint = list(report.incomplete), "what is whole was sent; copy the file again"
    if faults:
        raise SendError("\n".join(faults), hint=hint)


def _show(report: "SendReport") -> None:
    from flowcheck_net.cli.output import console, table

    shown = table(
        f"{report.packets:,} packets sent" + (", then interrupted" if report.interrupted else ""),
        *("from", "to", "packets", "bytes", "seconds", "packets/s", "Gbit/s", "late: median", "p99", "max"),
        numbers=("packets", "bytes", "seconds", "packets/s", "Gbit/s", "late: median", "p99", "max"),
        keys=2,
    )
    for source in report.sources:
        shown.add_row(*_row(source))
    shown.caption = "late: how long after its deadline a packet was given to the interface\n"
    console().print(shown)
    for source in report.sources:
        for line in _remarks(source):
            click.echo(line)


def _row(source: "SentSource") -> tuple[str, ...]:
    counts, packet_rate, bit_rate = source.counts, source.packets_per_s, source.bits_per_s
    late = counts.late
    return (
        ", ".join(source.ports),
        source.interface,
        f"{counts.packets:,}",
        f"{counts.bytes:,}",
        f"{counts.duration_ns / 1e9:.3f}",
        "" if packet_rate is None else f"{packet_rate:,.0f}",
        "" if bit_rate is None else f"{bit_rate / 1e9:.3f}",
        *(("", "", "") if late is None else (_time(late.median), _time(late.p99), _time(late.max))),
    )


def _time(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.1f} {unit}"
    return f"{nanoseconds} ns"


def _remarks(source: "SentSource") -> Iterator[str]:
    """Everything that is not as one would wish, by name."""
    for name, packets in source.counts.refused.items():
        if packets:
            yield f"refused on {source.interface}: {packets:,} packets {name}"
    if source.not_reached:
        yield f"not reached on {source.interface}: {source.not_reached:,} packets"
    if source.counts.waits:
        yield f"{source.interface}: its queue was full {source.counts.waits:,} times, and was waited for"
    yield from source.doubts
