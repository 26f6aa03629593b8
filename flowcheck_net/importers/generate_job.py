"""The job of a made-up cluster, and how many taps it will want on each leaf."""

import random
from collections import Counter
from typing import Any

from flowcheck_net.importers.generate_fabric import FabricBuilder, host_name, nic_name
from flowcheck_net.importers.generate_shape import Shape


def hosts_in_order(shape: Shape) -> list[int]:
    """Host numbers in rank order: the ranks of host ``order[i]`` follow those of ``order[i - 1]``."""
    order = list(range(shape.hosts))
    if shape.shuffle:
        random.Random(shape.seed).shuffle(order)  # noqa: S311 - a made-up placement, no secret
    return order


def job_document(shape: Shape, order: list[int], name: str) -> dict[str, Any]:
    """The job file. ``order`` are host numbers in rank order, ``name`` that of the job."""
    gpus = shape.gpus_per_host
    return {
        "version": 1,
        "name": name,
        "collective": {"algorithm": "ring", "extra_step": False},
        "nccl": {
            "version": "2.22.3",
            "protocol": "Simple",
            "channels": shape.channels,
            "threads": 512,
            "qps_per_connection": 1,
        },
        "mtu": 4096,
        "layout": {"order": "tp-cp-ep-dp-pp", "tp": shape.tp, "cp": 1, "ep": 1, "pp": shape.pp},
        "ranks": tuple(
            {"rank": place * gpus + n, "host": host_name(host), "nic": nic_name(n)}
            for place, host in enumerate(order)
            for n in range(gpus)
        ),
        "buckets": ({"name": "bucket0", "elements": shape.elements, "dtype": "fp32"},),
        "iteration_time": shape.iteration_time,
    }


def taps_by_switch(shape: Shape, fabric: FabricBuilder, order: list[int]) -> Counter[str]:
    """Switch -> ports to watch on it, where each group's taps go to those of its leaves that have the fewest.

    A group needs ``copies + 1`` watched hops, or all it has; one tap serves all channels.
    """
    taps: Counter[str] = Counter()
    gpus = shape.gpus_per_host
    for group in data_parallel_groups(shape):
        on_leaf = Counter(fabric.leaf_of[order[rank // gpus], rank % gpus] for rank in group)
        for _ in range(min(shape.copies + 1, len(group))):
            free = [leaf for leaf, ranks in on_leaf.items() if ranks]
            chosen = min(free, key=lambda leaf: taps[leaf])
            taps[chosen] += 1
            on_leaf[chosen] -= 1
    return taps


def data_parallel_groups(shape: Shape) -> list[range]:
    """Ranks of each data-parallel group, in the order tp-dp-pp: tensor-parallel ranks next to each other."""
    stage = shape.hosts * shape.gpus_per_host // shape.pp
    return [range(s * stage + t, (s + 1) * stage, shape.tp) for s in range(shape.pp) for t in range(shape.tp)]
