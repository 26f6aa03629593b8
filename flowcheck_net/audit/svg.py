"""The fabric as inline SVG: what is covered, by which port, and what is missing.

Nothing is told by colour alone: lines differ in dashes and carry words. Colours are classes, so that the style sheet of
the page decides them for light, dark and print.
"""

from collections.abc import Iterator, Mapping
from html import escape

from flowcheck_net.audit.layout import Box, Layout, lay_out
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.scene import Arrow, Scene, State, arrows, point_states
from flowcheck_net.intent import Direction
from flowcheck_net.plan.plan import Point

_CLASS = {State.COVERED: "ok", State.MISSING: "bad", State.UNOBSERVED: "off"}
_HALF = {"host": (58, 20), "hosts": (92, 36), "switch": (66, 22), "node": (66, 22)}
"""Half width and half height of a box."""


def draw(report: AuditReport, scene: Scene) -> str:
    """An ``<svg>`` element, safe to be put into the page as it is."""
    layout = lay_out(scene.picture)
    boxes = {box.name: box for box in layout.boxes}
    parts = [*_links(scene, layout, boxes), *_points(report, scene, layout, boxes)]
    parts += [part for box in layout.boxes for part in _box(box)]
    rings, depth = _rings(arrows(report, scene.places, layout.home), boxes)
    height = layout.height + depth
    title = f"Fabric of job {report.job}: {len(scene.picture.hosts)} hosts, {len(scene.points)} observation points"
    return (
        f'<svg viewBox="0 0 {layout.width:.0f} {height:.0f}" width="{layout.width:.0f}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{_MARKERS}{"".join(parts)}{"".join(rings)}</svg>'
    )


_MARKERS = (
    "<defs>"
    + "".join(
        f'<marker id="{role}-{name}" viewBox="0 0 10 10" refX="{8 if role == "tip" else 4}" refY="5" '
        f'markerWidth="{size}" markerHeight="{size}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="tip {name}" d="M0 0 10 5 0 10z"/></marker>'
        for name in ("ok", "bad", "off", "copy")
        for role, size in (("tip", 13), ("mark", 10))
    )
    + "</defs>"
)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def _line(kind: str, start: tuple[float, float], end: tuple[float, float], tip: str = "") -> str:
    (x1, y1), (x2, y2) = start, end
    marker = f' marker-end="url(#tip-{tip})"' if tip else ""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{marker}/>'


def _box(box: Box) -> Iterator[str]:
    wide, high = _HALF[box.kind]
    yield (
        f'<rect class="box {box.kind}" x="{box.x - wide:.1f}" y="{box.y - high:.1f}" width="{2 * wide}" '
        f'height="{2 * high}" rx="{5 if box.kind != "node" else 20}"/>'
    )
    yield _text(box.x, box.y + (5 if box.kind != "hosts" else -13), box.text, "name")


def _links(scene: Scene, layout: Layout, boxes: Mapping[str, Box]) -> Iterator[str]:
    """Cables, each pair of boxes once; those to checkpoint nodes are drawn with the copies instead."""
    drawn = set()
    for one, _, two, _ in scene.picture.links:
        ends = frozenset((layout.home.get(one, one), layout.home.get(two, two)))
        if len(ends) == 2 and ends <= boxes.keys() and ends not in drawn:
            drawn.add(ends)
            a, b = sorted(ends)
            if "node" not in (boxes[a].kind, boxes[b].kind):
                yield _line("cable", (boxes[a].x, boxes[a].y), (boxes[b].x, boxes[b].y))
    yield from _captures(scene, layout, boxes)


def _captures(scene: Scene, layout: Layout, boxes: Mapping[str, Box]) -> Iterator[str]:
    """The cable of each capture NIC, bold with an arrow where copies flow, with the points that feed it."""
    nodes = set(scene.picture.nodes)
    cables: dict[tuple[str, str], list[str]] = {}
    for one, port, two, other in sorted(scene.picture.links):
        if one in nodes or two in nodes:
            node, nic, switch = (one, port, two) if one in nodes else (two, other, one)
            cables.setdefault((node, layout.home.get(switch, switch)), []).append(nic)
    for (node, switch), nics in cables.items():
        for number, nic in enumerate(nics):
            if switch in boxes and node in boxes:
                offset = (number - (len(nics) - 1) / 2) * 46
                feeds = sum(point.capture == f"{node}:{nic}" for point in scene.points)
                yield from _capture(boxes[switch], boxes[node], nic, offset, feeds)


def _capture(switch: Box, node: Box, nic: str, offset: float, feeds: int) -> Iterator[str]:
    kind = "copy" if feeds else "cable"
    x1, y1, x2, y2 = switch.x + offset, switch.y - 22, node.x + offset, node.y + 22
    yield _line(kind, (x1, y1), (x2, y2), "copy" if feeds else "")
    side = -1 if offset < 0 else 1
    words = nic if feeds else f"{nic}, idle"
    yield _text(x2 + side * 6, y2 + 20, words, "small", "end" if side < 0 else "start")


def _points(report: AuditReport, scene: Scene, layout: Layout, boxes: Mapping[str, Box]) -> Iterator[str]:
    """Each observation point on the cable of its port, near the switch, with an arrow for its direction."""
    states = point_states(report, scene)
    ports: dict[tuple[str, str], str] = {}
    for one, port, two, other in scene.picture.links:
        ports[one, port] = two
        ports[two, other] = one
    grouped: dict[tuple[str, str], list[Point]] = {}
    for point in scene.points:
        far = ports.get((point.switch, point.port), "")
        grouped.setdefault((point.switch, layout.home.get(far, far)), []).append(point)
    known = [(boxes[a], boxes[b], points) for (a, b), points in grouped.items() if a in boxes and b in boxes]
    for number, (switch, device, points) in enumerate(sorted(known, key=lambda k: (k[1].x, k[0].name))):
        yield from _marks(switch, device, points, states, 0.6 if number % 2 else 0.46)


def _marks(
    near: Box, far: Box, points: list[Point], states: Mapping[str, tuple[State, tuple[str, ...]]], way: float
) -> Iterator[str]:
    """Up to two arrows on the cable, and on its outer side the port, the directions and where the copies go.

    ``way`` is the place on the cable, 0 at the switch; neighbours take turns so that their words do not touch.
    """
    x = near.x + (far.x - near.x) * way
    y = near.y + (far.y - near.y) * way
    outside, anchor = (-1, "end") if far.x < near.x else (1, "start")
    many = len({point.port for point in points}) > 1
    shown = sorted(points)[:2]
    for number, point in enumerate(shown):
        side = (number * 2 - 1) * 11 if len(shown) > 1 else 0
        yield _mark(point, x + side, y, *states.get(point.id, (State.UNOBSERVED, ())))
    directions = "+".join(sorted({point.direction.value for point in points}))
    nics = sorted({point.capture.partition(":")[2] for point in points})
    words = x + outside * (16 + 11 * (len(shown) > 1))
    yield _text(words, y - 3, f"{len(points)} points" if many else str(points[0].port), "small strong", anchor)
    yield _text(words, y + 12, f"{directions} to {', '.join(nics)}", "small", anchor)


def _mark(point: Point, x: float, y: float, state: State, hops: tuple[str, ...]) -> str:
    kind = _CLASS[state]
    tip = f"{point.id} to {point.capture}: hops {', '.join(hops) or 'none'}, {state}"
    up, down = (y + 8, y - 5) if point.direction is Direction.RX else (y - 8, y + 5)
    return (
        f'<g><title>{escape(tip)}</title><circle class="eye {kind}" cx="{x:.1f}" cy="{y:.1f}" r="11"/>'
        f'<line class="point {kind}" x1="{x:.1f}" y1="{up:.1f}" x2="{x:.1f}" y2="{down:.1f}" '
        f'marker-end="url(#mark-{kind})"/></g>'
    )


def _rings(found: tuple[Arrow, ...], boxes: Mapping[str, Box]) -> tuple[list[str], float]:
    """The ring hops as arcs below the hosts, their words over all arcs, and how deep they reach.

    Hops to the right are nested inside those to the left, so that two hosts in both directions do not cross.
    """
    arcs: list[str] = []
    words: list[str] = []
    deepest = 0.0
    for arrow in found:
        source, target = boxes.get(arrow.source), boxes.get(arrow.target)
        if source is None or target is None:
            continue
        if source is target:
            words.extend(_inside(arrow, source))
            continue
        forward = target.x > source.x
        depth = 44 + 0.13 * abs(target.x - source.x) + (0 if forward else 58)
        deepest = max(deepest, depth)
        arcs.append(_arc(arrow, source, target, depth, 36 if forward else -14))
        words.extend(_words(arrow, (source.x + target.x) / 2, source.y + _HALF[source.kind][1] + 2 + depth))
    return arcs + words, deepest + 30


def _arc(arrow: Arrow, source: Box, target: Box, depth: float, lean: float) -> str:
    kind = _CLASS[arrow.state]
    x1, x2, y = source.x + lean, target.x - lean, source.y + _HALF[source.kind][1]
    bend = y + depth * 4 / 3
    return (
        f'<path class="hop {kind}" d="M{x1:.1f} {y:.1f}C{x1:.1f} {bend:.1f} {x2:.1f} {bend:.1f} {x2:.1f} {y + 1:.1f}" '
        f'marker-end="url(#tip-{kind})"><title>{escape(f"{arrow.label}: {arrow.detail}")}</title></path>'
    )


def _inside(arrow: Arrow, box: Box) -> Iterator[str]:
    """Hops between hosts of one box."""
    yield _text(box.x, box.y + 7, f"{arrow.label} inside", "small")
    yield _text(box.x, box.y + 24, arrow.detail, f"small {_CLASS[arrow.state]}")


def _words(arrow: Arrow, x: float, y: float) -> Iterator[str]:
    kind = _CLASS[arrow.state]
    yield _text(x, y - 8, arrow.label, f"label {kind}")
    if arrow.state is not State.UNOBSERVED:
        yield _text(x, y + 14, arrow.detail, f"small {kind}")
