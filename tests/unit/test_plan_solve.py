"""The solver against brute force on problems with irregular sizes, and its answers for equal and reordered problems."""

from dataclasses import replace

import pytest

from flowcheck_net.ids import GroupName, SwitchName
from flowcheck_net.plan.assemble import assemble
from flowcheck_net.plan.greedy import greedy
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import components
from flowcheck_net.plan.problem import Limit, PlanningProblem, SwitchLimits
from flowcheck_net.plan.programme import Programme
from flowcheck_net.plan.solve import solve
from tests.oracle.plan_problems import assignment_cost, best_cost, random_problem

_STAGES = ("duplicate bytes", "mirrored bytes", "sessions", "switches")


def _solved_cost(problem: PlanningProblem) -> tuple[int, int, int, int] | None:
    solved = solve(problem)
    if solved is None:
        return None
    cost = assignment_cost(problem, dict(solved.choice.taps))
    assert tuple(stage.name for stage in solved.proof.stages) == _STAGES
    assert tuple(stage.value for stage in solved.proof.stages[:4]) == cost
    assert all(stage.value == stage.bound for stage in solved.proof.stages)
    return cost


@pytest.mark.parametrize("apart", [False, True])
def test_every_stage_is_the_true_optimum(apart: bool) -> None:
    planned = duplicates = 0
    for seed in range(60):
        problem = random_problem(seed, apart=apart)
        best = best_cost(problem)
        assert _solved_cost(problem) == best, f"seed {seed}"
        planned += best is not None
        duplicates += best is not None and best[0] > 0
    assert planned > (6 if apart else 20)
    assert apart or duplicates > 5


def test_greedy_is_valid_and_never_better() -> None:
    found = 0
    for seed in range(60):
        problem = random_problem(seed)
        choice = greedy(problem)
        best = best_cost(problem)
        if choice is not None:
            found += 1
            assert best is not None, f"seed {seed}: greedy found what brute force says is not there"
            assert assignment_cost(problem, dict(choice.taps)) >= best
            assert assemble(problem, choice).cost.unmet == 0
    assert found > 20


def test_greedy_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="copies_apart"):
        greedy(random_problem(1, apart=True))


def test_the_same_problem_gives_the_same_choice() -> None:
    for seed in range(12):
        problem = random_problem(seed)
        assert solve(problem) == solve(problem)


def test_a_tie_goes_to_the_first_by_name() -> None:
    """Two switches that see the same hops equally well: the first one is taken."""
    problem = random_problem(5)
    taps = tuple(replace(tap, rate=1, refusals=(), switch=problem.switches[0].name) for tap in problem.taps[:2])
    captures = tuple(replace(c, switch=problem.switches[0].name, capacity=10) for c in problem.captures[:2])
    ring = replace(problem.rings[0], size=2, copies=1, hops=2, captures=(0, 1))
    hops = tuple(replace(problem.hops[n], ring=0, index=n, taps=(n,), size=64) for n in (0, 1))
    small = replace(problem, taps=taps, captures=captures, rings=(ring,), hops=hops, switches=problem.switches[:1])
    solved = solve(replace(small, switches=(SwitchLimits(problem.switches[0].name, 1, 8, ()),)))
    assert solved is not None
    assert solved.choice.taps == ((0, 0), (1, 0))


def test_parts_that_share_nothing_are_solved_apart_and_add_up() -> None:
    seeds = (seed for seed in range(60) if best_cost(random_problem(seed)) is not None)
    one, two = (random_problem(next(seeds)) for _ in range(2))
    taps, captures = len(one.taps), len(one.captures)
    both = replace(
        one,
        taps=(*one.taps, *(replace(t, switch=SwitchName(f"z{t.switch}")) for t in two.taps)),
        captures=(*one.captures, *(replace(c, switch=SwitchName(f"z{c.switch}")) for c in two.captures)),
        switches=(*one.switches, *(replace(s, name=SwitchName(f"z{s.name}")) for s in two.switches)),
        rings=(
            *one.rings,
            *(
                replace(r, group=GroupName(f"z{r.group}"), captures=tuple(c + captures for c in r.captures))
                for r in two.rings
            ),
        ),
        hops=(
            *one.hops,
            *(replace(h, ring=h.ring + len(one.rings), taps=tuple(t + taps for t in h.taps)) for h in two.hops),
        ),
    )
    assert len(components(both)) == len(components(one)) + len(components(two))
    first, second = best_cost(one), best_cost(two)
    assert first is not None
    assert second is not None
    assert _solved_cost(both) == tuple(a + b for a, b in zip(first, second, strict=True))


def test_rings_on_one_switch_are_one_part() -> None:
    problem = random_problem(3)
    refused = replace(problem, taps=tuple(replace(tap, refusals=(Limit.ALLOWED,)) for tap in problem.taps))
    assert len(components(refused)) == len(problem.rings)
    assert all(part.switches == () for part in components(refused))
    assert solve(refused) is None


def test_progress_names_each_part() -> None:
    heard: list[str] = []
    solve(random_problem(0), heard.append)
    assert heard
    assert heard[0].startswith("solving part 1 of ")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """HiGHS announces itself on standard output unless it is kept from it; ``--json`` goes there."""
    solve(random_problem(0))
    assert capfd.readouterr() == ("", "")


def test_a_programme_without_columns_is_judged_by_its_rows() -> None:
    """Nothing may be chosen at all: no plan where something is wanted, the empty plan where nothing is."""
    wanting = Programme()
    wanting.row((), lower=1)
    assert Solver(wanting).minimise({}) is None
    content = Programme()
    content.row((), upper=1)
    assert Solver(content).minimise({}) is not None
