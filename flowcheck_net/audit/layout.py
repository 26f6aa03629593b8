"""Where the devices stand on the drawing: hosts at the bottom, leaves above them, checkpoint nodes on top."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from flowcheck_net.plan.plan import Picture

MAX_HOSTS = 40
"""Above this the hosts are drawn as one box a leaf, with their number."""
_COLUMN = 146
_FEW = 4
"""Up to so many boxes a row there is room to set them wider."""
_WIDE = 260
_ROW = 150
_MARGIN = 70
_TOP = 40


@dataclass(frozen=True, slots=True)
class Box:
    """A device and the middle of its box, in drawing units (1 unit is 1 CSS pixel at full size)."""

    name: str
    kind: str
    """``host``, ``hosts`` (several, joined), ``switch`` or ``node``."""
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The drawing without its colours."""

    width: float
    height: float
    """Without the ring hops, which are drawn below."""
    boxes: tuple[Box, ...]
    home: dict[str, str]
    """Device -> name of the box that stands for it (a host may stand in a joined box)."""


def lay_out(picture: Picture) -> Layout:
    """Place every device. Order is canonical, so that the same fabric gives the same drawing."""
    near = _neighbours(picture)
    tiers = _tiers(picture, near)
    joined = len(picture.hosts) > MAX_HOSTS
    bottom, home = _bottom(picture, near, joined)
    column = _WIDE if joined or len(bottom) <= _FEW else _COLUMN
    columns = {name: (i + 0.5) * column for i, name in enumerate(bottom)}
    highest = max(tiers.values(), default=0)
    boxes: dict[str, Box] = {}
    floor = _TOP + (highest + 1) * _ROW
    for name, x in columns.items():
        count = sum(there == name for there in home.values())
        text = f"{count} hosts" if joined else name
        boxes[name] = Box(name, "hosts" if joined else "host", _MARGIN + x, floor, text)
    width = 2 * _MARGIN + max(len(bottom), 1) * column
    for tier in range(1, highest + 1):
        members = sorted(name for name, level in tiers.items() if level == tier)
        boxes |= _row(members, "switch", floor - tier * _ROW, width, boxes, near, home)
    boxes |= _row(sorted(picture.nodes), "node", _TOP, width, boxes, near, home, level=True)
    home |= {box.name: box.name for box in boxes.values()}
    return Layout(width, floor + (66 if joined else 50), tuple(boxes.values()), home)


def _neighbours(picture: Picture) -> dict[str, set[str]]:
    near: dict[str, set[str]] = defaultdict(set)
    for one, _, two, _ in picture.links:
        near[one].add(two)
        near[two].add(one)
    return near


def _tiers(picture: Picture, near: Mapping[str, set[str]]) -> dict[str, int]:
    """Switch -> hops to the nearest host: 1 for leaves, 2 for spines."""
    level: dict[str, int] = dict.fromkeys(picture.hosts, 0)
    front = sorted(level)
    while front:
        found = sorted({n for name in front for n in near.get(name, ()) if n in picture.switches and n not in level})
        level |= {name: level[front[0]] + 1 for name in found}
        front = found
    above = max(level.values(), default=0) or 1
    return {name: level.get(name, above) for name in picture.switches}


def _bottom(picture: Picture, near: Mapping[str, set[str]], joined: bool) -> tuple[list[str], dict[str, str]]:
    """The boxes of the lowest row, those under one leaf side by side, and which host stands in which."""
    leaf = {host: min(near.get(host, {""}), default="") for host in picture.hosts}
    ordered = sorted(picture.hosts, key=lambda host: (_natural(leaf[host]), _natural(host)))
    home = {str(host): f"hosts of {leaf[host]}" if joined else str(host) for host in ordered}
    return list(dict.fromkeys(home[host] for host in ordered)), home


def _row(
    names: list[str],
    kind: str,
    y: float,
    width: float,
    below: Mapping[str, Box],
    near: Mapping[str, set[str]],
    home: Mapping[str, str],
    *,
    level: bool = False,
) -> dict[str, Box]:
    """A row of boxes, each as near as possible over what it is cabled to, none over another."""
    wanted = []
    for name in names:
        under = [below[home.get(n, n)].x for n in sorted(near.get(name, ())) if home.get(n, n) in below]
        wanted.append((fmean(under) if under else width / 2, _natural(name), name))
    wanted.sort()
    xs = _spread([x for x, _, _ in wanted], width)
    return {name: Box(name, kind, x, y, name) for x, (_, _, name) in zip(xs, wanted, strict=True)}


def _spread(wanted: list[float], width: float) -> list[float]:
    """Positions in order, at least a column apart, together as near to the wanted ones as the width allows."""
    out: list[float] = []
    for x in wanted:
        out.append(max(x, out[-1] + _COLUMN) if out else x)
    over = max(0.0, (out[-1] if out else 0.0) - (width - _MARGIN))
    shift = fmean(out) - fmean(wanted) if out else 0.0
    return [x - max(over, shift) for x in out]


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key: ``host2`` before ``host10``."""
    parts: list[tuple[int, int, str]] = []
    word = ""
    for char in name + " ":
        if word and char.isdigit() != word[-1].isdigit():
            parts.append((0, int(word), "") if word.isdigit() else (1, 0, word))
            word = ""
        word += char
    return tuple(parts)
