"""Merged classes and shared parts against the programme over all taps: the same optimum, stage by stage."""

import random
from collections import Counter

import pytest

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, NodeName, PortName, SwitchName
from flowcheck_net.importers.generate import generate
from flowcheck_net.importers.generate_shape import Shape
from flowcheck_net.intent import Counted, Direction
from flowcheck_net.plan import solve as solving
from flowcheck_net.plan.aggregate import OutlineProgramme, aggregate
from flowcheck_net.plan.decompose import Index, extract, regions
from flowcheck_net.plan.linear import components
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.plan.problem import Capture, Hop, PlanningProblem, RingNeed, SessionRoom, SwitchLimits, Tap
from flowcheck_net.plan.solve import solve, solve_whole
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import Specs
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology
from tests.oracle.plan_problems import assignment_cost, best_cost

_INSTANCES = 240
_BLOCKS = 4
_ORDERS = ("same", "reversed", "random")


def _cluster(seed: int, most_hosts: int = 8, *, fine: bool = False) -> PlanningProblem:
    """Hosts on leaves, groups of hosts, two channels in one of three orders; a hop is seen at both of its ends.

    ``fine``: with limits of which the outline knows nothing.
    """
    dice = random.Random(seed)
    hosts = dice.randint(2, most_hosts)
    leaves = [SwitchName(f"leaf{n}") for n in range(dice.choice([1, 2, 3]))]
    place = [dice.choice(leaves) for _ in range(hosts)]
    rate = [dice.choice([100, 100, 100, 150]) for _ in range(hosts)]
    shared = [fine and dice.random() < 0.3 for _ in range(hosts)]
    plain = [fine and not shared[h] and dice.random() < 0.3 for h in range(hosts)]
    taps = tuple(
        sorted(
            Tap(place[h], PortName(f"p{h}"), direction, rate[h], shared[h], (), filterable=not plain[h])
            for h in range(hosts)
            for direction in Direction
        )
    )
    number = {(int(tap.port[1:]), tap.direction): n for n, tap in enumerate(taps)}
    captures = tuple(
        sorted(
            Capture(
                switch=dice.choice(leaves),
                switch_port=PortName(f"m{n}"),
                port=CapturePort(f"node:cap{n}"),
                node=NodeName("node"),
                capacity=dice.choice([100, 200, 400]),
                number=n + 1,
            )
            for n in range(dice.choice([2, 3, 4]))
        )
    )
    rings: list[RingNeed] = []
    hops: list[Hop] = []
    for group in _groups(dice, hosts):
        for channel, order in enumerate(_orders(dice, group)):
            copies = max(1, min(dice.choice([1, 2, 2]), len(order) - 1))
            allowed = tuple(c for c in range(len(captures)) if dice.random() < 0.9)
            name = GroupName(f"dp{len(rings)}")
            ring = RingNeed(name, Channel(channel), len(order), 2, copies, copies + 1, len(order), allowed)
            size = dice.choice([2 * 10**9, 2 * 10**9 + 64])
            for index, sender in enumerate(order):
                receiver = order[(index + 1) % len(order)]
                sites = tuple(sorted((number[sender, Direction.RX], number[receiver, Direction.TX])))
                ends = Address(f"10.0.0.{sender}"), Address(f"10.0.0.{receiver}")
                hops.append(Hop(len(rings), index, *ends, size + 64 * (dice.random() < 0.1), sites))
            rings.append(ring)
    rooms = (SessionRoom(Counted.DIRECTIONS, dice.choice([1, 2, 3]), None),) if fine and dice.random() < 0.5 else ()
    limits = tuple(
        SwitchLimits(leaf, dice.choice([1, 2, 4]), dice.choice([2, 3, 8]), (), rooms, split=not fine) for leaf in leaves
    )
    return PlanningProblem(
        job="job",
        extra_step=False,
        copies_apart=False,
        taps=taps,
        captures=captures,
        switches=limits,
        rings=tuple(rings),
        hops=tuple(hops),
        gradient_bytes=1,
        headroom=0.0,
    )


def _groups(dice: random.Random, hosts: int) -> list[list[int]]:
    everyone = list(range(hosts))
    if hosts < 4 or dice.random() < 0.5:
        return [everyone]
    dice.shuffle(everyone)
    return [everyone[: hosts // 2], everyone[hosts // 2 :]]


def _orders(dice: random.Random, group: list[int]) -> list[list[int]]:
    how = dice.choice(_ORDERS)
    if how == "same":
        return [group, group]
    return [group, group[::-1] if how == "reversed" else dice.sample(group, len(group))]


def _unmerged(problem: PlanningProblem) -> tuple[int, ...] | None:
    """Costs by one programme a component, over all of its taps."""
    costs: Counter[str] = Counter()
    for component in components(problem):
        found = solve_whole(problem, component)
        if found is None:
            return None
        costs.update({stage.name: stage.value for stage in found.proof.stages})
        assert all(stage.value == stage.bound for stage in found.proof.stages)
    return tuple(costs[name] for name in ("duplicate bytes", "mirrored bytes", "sessions", "switches"))


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_merging_never_changes_the_optimum(block: int) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(block, _INSTANCES, _BLOCKS):
        problem = _cluster(seed, fine=seed % 8 >= 4)
        solved = solve(problem)
        true = _unmerged(problem)
        if solved is None:
            assert true is None, f"seed {seed}"
            verdicts["infeasible"] += 1
            continue
        found = tuple(stage.value for stage in solved.proof.stages)
        assert found == true == assignment_cost(problem, dict(solved.choice.taps)), f"seed {seed}"
        assert (solved.proof.status, solved.proof.gap) == ("optimal", 0.0)
        verdicts["duplicates" if found[0] else "clean"] += 1
    assert min(verdicts["infeasible"], verdicts["clean"]) >= 5, verdicts


def test_it_is_the_optimum_of_trying_everything() -> None:
    for seed in range(1000, 1040):
        problem = _cluster(seed, most_hosts=3)
        solved = solve(problem)
        found = None if solved is None else tuple(stage.value for stage in solved.proof.stages)
        assert found == best_cost(problem), f"seed {seed}"


@pytest.mark.parametrize("fine", [False, True])
def test_no_plan_beats_the_bound_of_an_outline(fine: bool) -> None:
    """Also where the bound is not met; of a fine outline only plans without duplicates are asked."""
    for seed in range(80):
        problem = _cluster(seed)
        true = _unmerged(problem)
        if true is None or (fine and true[0]):
            continue
        index = Index(problem)
        bounds = [solving._bound(aggregate(index, region, fine=fine).outline) for region in regions(problem)]
        sums = tuple(sum(bound.costs[n] for bound in bounds if bound is not None) for n in range(4))
        assert None not in bounds
        assert sums <= true, f"seed {seed}"


def _specs(*, shuffle: bool = False, order: int | None = None) -> Specs:
    """512 GPUs on 4 pods of 16 hosts; ``order``: the lists of the input files in another order."""
    made = generate("rail-optimised", Shape(hosts=64, pp=4, channels=2, shuffle=shuffle))
    topology, job = dict(made.topology), dict(made.job)
    if order is not None:
        dice = random.Random(order)
        for document, lists in ((topology, ("switches", "hosts", "checkpoint_nodes", "links")), (job, ("ranks",))):
            document.update({name: tuple(dice.sample(document[name], len(document[name]))) for name in lists})
    return Specs(Topology.model_validate(topology), JobSpec.model_validate(job), Policy.model_validate(made.policy))


def test_equal_parts_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = solve_whole

    def spy(problem: PlanningProblem, component: object) -> object:
        asked.append(len(problem.taps))
        return real(problem, component)  # type: ignore[arg-type]

    monkeypatch.setattr(solving, "solve_whole", spy)
    told: list[str] = []
    plan = make_plan(_specs(), told.append)
    parts = [words for words in told if words.startswith("solving part")]
    assert len(parts) == 32
    assert len(asked) <= 2  # the 8 rails of 4 stages: all alike, but for the names
    assert max(asked) <= 3  # three taps serve both channels, and no other tap was looked at
    assert plan.proof.gap == 0
    assert len(plan.points) == 32 * 3


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_order_of_the_input_files_does_not_matter(shuffle: bool) -> None:
    one, two = make_plan(_specs(shuffle=shuffle)), make_plan(_specs(shuffle=shuffle, order=7))
    assert one.points == two.points
    assert plan_to_json(make_plan(_specs(shuffle=shuffle))) == plan_to_json(one)
    assert (one.sessions, one.hops, one.coverage, one.cost, one.proof) == (
        two.sessions,
        two.hops,
        two.coverage,
        two.cost,
        two.proof,
    )


def test_a_part_is_the_same_whatever_its_names() -> None:
    """Two rails of one pod: other names, the same problem."""
    problem = _two_alike()
    index = Index(problem)
    one, two = regions(problem)
    assert extract(index, one, one.taps).problem == extract(index, two, two.taps).problem
    assert aggregate(index, one, fine=True).outline == aggregate(index, two, fine=True).outline


def test_two_taps_of_one_hop_are_never_both_taken_in_a_fine_outline() -> None:
    """By hand: two hosts, hops 0 and 1; rx of host 0 and tx of host 1 see hop 0, the others hop 1."""
    problem = _two_alike()
    region = regions(problem)[0]
    outline = aggregate(Index(problem), region, fine=True).outline
    members = [number for _, number in outline.classes]
    assert sum(members) == 4
    assert outline.conflicts
    for one, two, most in outline.conflicts:
        assert most == (members[one] if one == two else members[one] + members[two]) // 2
    assert len(OutlineProgramme(outline).programme.stages) == 4


def _two_alike() -> PlanningProblem:
    def side(n: int, name: str) -> tuple[list[Tap], Capture, SwitchLimits]:
        leaf = SwitchName(f"leaf-{name}")
        taps = [
            Tap(leaf, PortName(f"{name}{p}"), d, 100, needs_filter=False, refusals=())
            for p in (1, 2)
            for d in (Direction.RX, Direction.TX)
        ]
        capture = Capture(leaf, PortName(f"m{n}"), CapturePort(f"node{n}:cap"), NodeName(f"node{n}"), 400, 1)
        return taps, capture, SwitchLimits(leaf, 4, 8, ())

    sides = [side(0, "a"), side(1, "z")]
    rings = [RingNeed(GroupName(g), Channel(0), 2, 1, 1, 2, 2, (n,)) for n, g in enumerate(("dp0", "dp1"))]
    hops = [
        Hop(ring, i, Address(f"10.{ring}.0.{i}"), Address(f"10.{ring}.0.{1 - i}"), 64, sites)
        for ring in (0, 1)
        for i, sites in enumerate(((4 * ring, 4 * ring + 3), (4 * ring + 1, 4 * ring + 2)))
    ]
    return PlanningProblem(
        job="job",
        extra_step=False,
        copies_apart=False,
        taps=tuple(tap for taps, _, _ in sides for tap in taps),
        captures=tuple(capture for _, capture, _ in sides),
        switches=tuple(limits for _, _, limits in sides),
        rings=tuple(rings),
        hops=tuple(hops),
        gradient_bytes=1,
        headroom=0.0,
    )


def test_members_that_miss_the_bound_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: hops of 64, 64 and 128 bytes, two are needed; a bad hint leads to 64 + 128, the answer is 64 + 64."""
    leaf = SwitchName("leaf")
    ring = RingNeed(GroupName("dp0"), Channel(0), 3, 1, 1, 2, 3, (0,))
    problem = PlanningProblem(
        job="job",
        extra_step=False,
        copies_apart=False,
        taps=tuple(Tap(leaf, PortName(f"p{n}"), Direction.RX, 100, needs_filter=False, refusals=()) for n in range(3)),
        captures=(Capture(leaf, PortName("m0"), CapturePort("node:cap"), NodeName("node"), 400, 1),),
        switches=(SwitchLimits(leaf, 4, 8, ()),),
        rings=(ring,),
        hops=tuple(Hop(0, n, Address(f"a{n}"), Address(f"b{n}"), size, (n,)) for n, size in enumerate((64, 64, 128))),
        gradient_bytes=1,
        headroom=0.0,
    )
    monkeypatch.setattr(solving, "_bound", lambda _: solving.Bound((0, 128, 1, 1), ((0, 1), (1, 1))))
    solved = solve(problem)
    assert solved is not None
    assert [stage.value for stage in solved.proof.stages] == [0, 128, 1, 1]
    assert solved.choice.taps == ((0, 0), (1, 0))
