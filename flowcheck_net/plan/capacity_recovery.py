"""Updates lost in the mirror, recovery points, and what failures leave of the training time."""

from collections.abc import Iterator

from flowcheck_net.plan.capacity_basis import Basis
from flowcheck_net.plan.capacity_laws import effective_share, young_interval
from flowcheck_net.plan.capacity_report import Figure, Heading


def loss(basis: Basis) -> Iterator[Figure]:
    """How often the mirror loses an update for good."""
    for copies, packets in sorted(basis.traffic.packets_by_copies.items()):
        formula = "fully reduced packets a step that so many counted hops show, all groups together"
        yield Heading("mirror loss", f"{copies} copies").figure("packets", packets, "", formula, "plan: hops, wire")
    head = Heading("mirror loss")
    chance = basis.lost()
    formula = "1 - product over the lines above of (1 - mirror_loss^copies)^packets"
    yield head.figure("chance that an update is lost", chance, "", formula, "given mirror_loss")
    between = basis.seconds / chance if chance > 0 else None
    yield head.figure("time between lost updates", between, "s", "iteration time / chance", "job.yaml")


def recovery(basis: Basis) -> Iterator[Figure]:
    """Recovery points, and the share of time that advances training; beside it that of dumps alone."""
    head, given = Heading("recovery"), basis.given
    hosts = len({place.host for place in basis.plan.job.places})
    mtbf = given["node_mtbf"] / hosts
    yield head.figure("time between failures", mtbf, "s", f"node_mtbf / {hosts} hosts", "given node_mtbf")
    age = basis.replica_age()
    formula = "iteration time x lag_steps + mean wait for an anchor after a lost update (docs/capacity.md)"
    yield head.figure("replica age", age, "s", formula, "given lag_steps, mirror_loss, anchor_interval")
    took = basis.dump_seconds()
    durable = None if age is None else age + max(given["dump_interval"], took) + took
    formula = "replica age + dump_interval (or the time of a dump, if longer) + time of a dump: the most that it can be"
    yield head.figure("durable age", durable, "s", formula, "given dump_interval, storage_rate")
    pause, anchor = given["checkpoint_cost"], given["anchor_interval"]
    share = None if age is None else effective_share(mtbf, given["restart"] + age, pause, anchor)
    formula = (
        "(1 - (restart + replica age) / time between failures) x anchor_interval / (anchor_interval + checkpoint_cost)"
    )
    yield head.figure("effective training time", share, "", formula, "given restart, anchor_interval, checkpoint_cost")
    yield from _dumps_alone(basis, mtbf)


def _dumps_alone(basis: Basis, mtbf: float) -> Iterator[Figure]:
    head, given = Heading("recovery", "dumps alone"), basis.given
    pause = given["checkpoint_cost"]
    interval = young_interval(pause, mtbf)
    formula = "sqrt(2 x checkpoint_cost x time between failures), Young 1974"
    yield head.figure("best interval", interval, "s", formula, "given checkpoint_cost")
    share = effective_share(mtbf, given["restart"] + (interval + pause) / 2, pause, interval)
    formula = "as above, with half of (interval + checkpoint_cost) in the place of the replica age"
    yield head.figure("effective training time", share, "", formula, "given restart, checkpoint_cost")
