"""What is wrong with the answers of an inventory's devices: everything, at once, each with its cure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.importers.cables import Cable, Finding, FindingKind, Source, Survey
from flowcheck_net.importers.names import natural, port_key
from flowcheck_net.intent import DeviceFacts, MirrorSession, Surroundings
from flowcheck_net.spec.inventory import InventoryDevice


@dataclass(frozen=True, slots=True)
class Answer:
    """What one device said."""

    device: InventoryDevice
    surroundings: Surroundings | None = None
    sessions: tuple[MirrorSession, ...] = ()
    silent: str = ""
    """Why it did not answer; empty: it did."""
    unread: str = ""
    """Why its mirror sessions are not known; empty: they are."""
    cure: str = ""
    """What may help where it did not answer."""

    @property
    def facts(self) -> DeviceFacts:
        """What it says that it is."""
        return self.surroundings.facts if self.surroundings is not None else DeviceFacts()


def findings_of(answers: Sequence[Answer], inventory: Path) -> list[Finding]:
    """Devices that did not answer, and answers that were not understood."""
    source, found = Source(str(inventory)), []
    for answer in answers:
        name = answer.device.name
        if answer.silent:
            cure = answer.cure or "its cables are known from the other ends at most"
            found.append(Finding(source, FindingKind.UNREADABLE, f"{name} did not answer: {answer.silent}", cure))
        if answer.unread:
            text = f"{name}: its mirror sessions are not known: {answer.unread}"
            found.append(Finding(source, FindingKind.HINT, text, "write what is there under foreign_sessions"))
        around = answer.surroundings or Surroundings("")
        for text in around.refused:
            found.append(
                Finding(source, FindingKind.HINT, f"{name} does not answer {text}", "does the user have the right?")
            )
        for doubt in around.doubts:
            cure = "report the answer; --partial writes the file, and --speed says speeds"
            found.append(Finding(source, FindingKind.UNREADABLE, f"{name}: {doubt}", cure))
    return found


def naming_problems(answers: Sequence[Answer], heard: Survey, inventory: Path) -> list[Finding]:
    """Two names for one device: in the inventory, between it and the device itself, between two neighbours."""
    source = Source(str(inventory))
    return [*_twice(answers, source), *_otherwise(answers, heard, source), *_by_chassis(heard)]


def speed_findings(
    answers: Sequence[Answer], cables: Sequence[Cable], speeds: Mapping[str, Mapping[str, str]], inventory: Path
) -> list[Finding]:
    """Ports with a cable whose speed their own device does not tell: one finding a device."""
    found = []
    for name in (a.device.name for a in answers if a.surroundings is not None):
        ports = {c.a.port for c in cables if c.reported_by_a and c.a.device == name}
        silent = sorted((p for p in ports if port_key(p) not in speeds.get(name, {})), key=natural)
        if silent:
            text = f"{name} does not tell the speed of {', '.join(silent)}"
            cure = f"--speed '{name}:{silent[0]}=400G', or look why it does not"
            found.append(Finding(Source(str(inventory)), FindingKind.HINT, text, cure))
    return found


def _twice(answers: Sequence[Answer], source: Source) -> Iterator[Finding]:
    for word in ("hostname", "serial"):
        by: dict[str, list[str]] = {}
        for answer in answers:
            if value := getattr(answer.facts, word):
                by.setdefault(value.casefold(), []).append(answer.device.name)
        for value, names in by.items():
            if len(names) > 1:
                text = f"{' and '.join(names)} are one device, or answer as one: {word} {value}"
                yield Finding(source, FindingKind.CONFLICT, text, "keep one of them in the inventory")


def _otherwise(answers: Sequence[Answer], heard: Survey, source: Source) -> Iterator[Finding]:
    """The inventory's name must be the one that neighbours hear."""
    told = {_label(d.name) for d in heard.devices if not d.reports}
    for answer in answers:
        name, own = answer.device.name, answer.facts.hostname
        if own and _label(own) != _label(name) and _label(name) not in told:
            text = f"the inventory says {name}, the device calls itself {own}: its neighbours do not know {name}"
            yield Finding(source, FindingKind.CONFLICT, text, f"write {{name: {own}, ...}} in the inventory")


def _by_chassis(heard: Survey) -> Iterator[Finding]:
    names: dict[str, dict[str, Source]] = {}
    for device in heard.devices:
        if device.chassis:
            names.setdefault(device.chassis, {}).setdefault(_label(device.name), device.source)
    for chassis, labels in names.items():
        if len(labels) > 1:
            text = f"{' and '.join(sorted(labels, key=natural))} are one device, by its LLDP chassis {chassis}"
            cure = "it was renamed, perhaps: ask again when its neighbours have forgotten the old name (two minutes)"
            yield Finding(min(labels.values()), FindingKind.CONFLICT, text, cure)


def _label(name: str) -> str:
    first = name.casefold().split(".")[0]
    return name.casefold() if first.isdigit() else first
