"""What the receiver is to place while packets come: the file that its C program reads (receiver/app/place_file.h)."""

from collections.abc import Iterator

from flowcheck_net.receive.lay import Layer, PatternKey
from flowcheck_net.receive.layout import Layout
from flowcheck_net.receive.native_track import Pattern, pattern_numbers, slot_numbers


def placement_text(layer: Layer, layout: Layout, plan_digest: str | None = None) -> str:
    """The file.

    The last anchor of each queue pair holds until a packet contradicts: iterations go on to come.

    Args:
        layer: What is followed, and from where on.
        layout: Of the job.
        plan_digest: Boards of another plan are refused.
    """
    return "\n".join(_lines(layer, layout, plan_digest)) + "\n"


def _lines(layer: Layer, layout: Layout, plan_digest: str | None) -> Iterator[str]:
    yield "version 1"
    if plan_digest:
        yield f"plan {plan_digest.partition(':')[2] or plan_digest}"
    tracks = list(layer.tracks())
    followed = {each.group for each in tracks}
    for name, number in layout.numbers.items():
        size, present = layer.stride(name)
        if number in followed and size:
            carrying, cycle = layout.groups[name].carrying, layer.cycle(name)
            yield f"group {number} {size} {present * 8} {carrying * cycle} {cycle} {name}"
    patterns: dict[PatternKey, int] = {}
    for each in tracks:
        if each.key not in patterns:
            patterns[each.key] = len(patterns)
            yield from _pattern_lines(layer.pattern(each.followed))
    for each in tracks:
        one = each.followed
        source, destination = one.ends
        yield f"track {patterns[each.key]} {each.group} {one.dest_qp} {source} {destination} {one.capture}"
        for number, (position, cycle, cycles) in enumerate(each.anchors, 1):
            yield f"anchor {position} {cycle} {cycles if number < len(each.anchors) else 0}"
    yield "end"


def _pattern_lines(pattern: Pattern) -> Iterator[str]:
    yield " ".join(map(str, ("pattern", *pattern_numbers(pattern))))
    for slot in pattern.slots:
        yield " ".join(map(str, ("slot", *slot_numbers(slot))))
