"""Which ranks reduce their gradients together, as far as the job file must know to check itself."""

from math import prod

from flowcheck_net.spec.job import JobSpec, Layout

AXES = ("tp", "cp", "ep", "dp", "pp")


def data_parallel_size(layout: Layout, ranks: int) -> int:
    """What remains for the data-parallel axis; 0 where the other axes do not divide the number of ranks."""
    others = layout.tp * layout.cp * layout.pp
    return ranks // others if ranks % others == 0 else 0


def gradient_groups(job: JobSpec) -> tuple[tuple[int, ...], ...]:
    """The groups ``dp0``, ``dp1``, ... as global ranks, in group order.

    A layout's gradients are reduced over data- and context-parallel ranks together (Megatron's dp-cp group). Rank
    numbers count through the axes in the order of ``layout.order``, the first fastest; so do group numbers through the
    axes that stay fixed. Empty where the layout does not fit the ranks, or has expert-parallel ranks, whose gradients
    have groups of their own.
    """
    if job.groups is not None:
        return job.groups
    layout = job.layout or Layout()
    count = len(job.ranks)
    dp = data_parallel_size(layout, count)
    order = layout.order.split("-")
    if dp == 0 or layout.ep > 1 or sorted(order) != sorted(AXES):
        return ()
    size = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "pp": layout.pp, "dp": dp}
    stride = {axis: prod(size[a] for a in order[:i]) for i, axis in enumerate(order)}
    reduced = [axis for axis in order if axis in ("dp", "cp")]
    fixed = [axis for axis in order if axis not in ("dp", "cp")]
    offsets = _count_through(reduced, size, stride)
    return tuple(tuple(start + offset for offset in offsets) for start in _count_through(fixed, size, stride))


def _count_through(axes: list[str], size: dict[str, int], stride: dict[str, int]) -> list[int]:
    """Rank offsets over the given axes, the first axis fastest."""
    offsets = [0]
    for axis in axes:
        offsets = [step * stride[axis] + offset for step in range(size[axis]) for offset in offsets]
    return offsets
