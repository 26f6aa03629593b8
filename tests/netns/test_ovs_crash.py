"""A process killed (SIGKILL) around journal commits, transactions and rule changes of an apply, on a real Open vSwitch.

Whatever it leaves, ``resume`` must end in the plan and ``rollback`` in the former state, with what others own word for
word as it was. Every third point is tried, resume and rollback in turn; FLOWCHECK_CRASH=all: both at every point.
"""

import os
import shutil
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Reach
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.drivers.ovs_control import Control
from flowcheck_net.drivers.ovs_flows import FlowTable
from flowcheck_net.drivers.ovs_link import Link
from flowcheck_net.drivers.ovs_rpc import Lost
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import RolledBack
from flowcheck_net.intent import MirrorSession
from flowcheck_net.plan.plan import Plan
from tests.conformance.bench_ovs import add_mirror
from tests.doubles.switches import plan_for, session
from tests.netns.ovs_two_leaf import SPARE, TwoLeaves

PAIRS = [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")]
PLAIN = session("fcn-gpt-0", "l1h1:rx", "l1h1:tx", to="l1c0")
FILTERED = session("fcn-gpt-1", "l1h2:rx", to="l1c1", filters=PAIRS)
OLD_FILTER = session("fcn-gpt-1", "l1h1:rx", to="l1c1", filters=PAIRS[:1])
THERE, MOVED = session("fcn-gpt-0", "l2h3:rx", to="l2c2"), session("fcn-gpt-0", "l2h3:rx", to="l2c3")
FORMER = plan_for({"leaf1": [OLD_FILTER], "leaf2": [THERE]})
PLAN = plan_for({"leaf1": [PLAIN, FILTERED], "leaf2": [MOVED]})
FORMER_STATE = [(OLD_FILTER,), (THERE,)]
PLANNED_STATE = [(PLAIN, FILTERED), (MOVED,)]


class World:
    """The two leaves, and the engine on them."""

    def __init__(self, leaves: TwoLeaves, plan: Plan = PLAN) -> None:
        self._leaves = leaves
        self._plan = plan

    def reach(self, job: str = "gpt") -> Reach:
        lab = self._leaves.lab
        return Reach(lambda a: open_driver(self._leaves.address(a.name), job, lab.directory), pause=0.05)

    def apply(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            apply_plan(self._plan, "d1", journal, self.reach())

    def resume(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            if journal.open_run():
                resume_plan(self._plan, "d1", journal, self.reach())
            else:
                apply_plan(self._plan, "d1", journal, self.reach())

    def undo(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            newest = journal.last_run("gpt")
            if newest is not None and newest.plan_digest == "d1":
                rollback(journal, self.reach)

    def owned(self) -> list[tuple[MirrorSession, ...]]:
        found = []
        for leaf in ("leaf1", "leaf2"):
            with self._leaves.open(leaf) as driver:
                found.append(driver.read().owned)
        return found

    def others(self) -> list[str]:
        """Every row and rule that is not ours."""
        rows = [row for table in self._leaves.lab.dump().values() for row in table if "fcn-gpt-" not in row]
        words = (
            "ovs-ofctl",
            "-O",
            "OpenFlow14",
            "--no-stats",
            "dump-flows",
            f"unix:{self._leaves.lab.directory}/leaf1.mgmt",
        )
        rules = [r for r in self._leaves.lab.run(*words).splitlines() if "actions=" in r and "cookie=0xfc4e" not in r]
        # The bridges and the table of bridges name our rows by UUID.
        return [r for r in rows if '"mirrors"' not in r and '"bridges"' not in r] + sorted(rules)


def killed_at(point: int, action: Callable[[Path], None], state: Path) -> bool:
    """Run ``action`` in a child that is killed at its ``point``-th durable change; False: it ended before that."""
    child = os.fork()
    if not child:
        code = 3
        try:
            _arm(point)
            action(state)
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def _arm(point: int) -> None:
    left = point

    def tick() -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    commit, transact, change = Journal._transaction, Link.transact, FlowTable.change

    @contextmanager
    def ticking_commit(self: Journal) -> Iterator[sqlite3.Connection]:
        tick()
        with commit(self) as db:
            yield db
        tick()

    def ticking_transact(self: Link, work: Sequence[dict[str, object]]) -> int:
        tick()
        done = transact(self, work)
        tick()
        return done

    def ticking_change(self: FlowTable, lines: Sequence[str]) -> None:
        change(self, lines)
        tick()

    Journal._transaction = ticking_commit  # type: ignore[method-assign,assignment]
    Link.transact = ticking_transact  # type: ignore[method-assign,assignment]
    FlowTable.change = ticking_change  # type: ignore[method-assign]


def test_whatever_a_crash_leaves_is_finished_or_undone(leaves: TwoLeaves, tmp_path: Path):
    world = World(leaves)
    add_mirror(leaves.lab, "leaf1", "netops-span", "l1h2", SPARE)
    template = tmp_path / "template"
    with Journal(template / "journal.sqlite") as journal:
        apply_plan(FORMER, "d0", journal, world.reach())
    others, both = world.others(), os.environ.get("FLOWCHECK_CRASH") == "all"
    seen, kills, ended = set(), 0, False
    for point in range(0, 200, 1 if both else 3):
        for resumed in (True, False) if both else (point % 2 == 0,):
            state = tmp_path / f"{point}-{resumed}"
            shutil.copytree(template, state)
            ended = not killed_at(point, world.apply, state)
            kills += not ended
            seen.add(str(world.owned()))
            if resumed:
                world.resume(state)
                assert world.owned() == PLANNED_STATE, point
                assert world.others() == others
            world.undo(state)
            assert world.owned() == FORMER_STATE, point
            assert world.others() == others
        if ended:
            break
    assert ended
    assert kills >= (30 if both else 5)
    # The kills fell between the steps: also states that are neither the former nor the planned one were left.
    assert len(seen) >= 3


@pytest.mark.parametrize("resumed", [True, False])
def test_hot_flows_follow_what_a_crash_cut_off(
    leaves: TwoLeaves, tmp_path: Path, resumed: bool, monkeypatch: pytest.MonkeyPatch
):
    """Killed between the transaction and the purge: all reads back as planned, and the flows under way know nothing."""
    # One switch only: any other write of the same ovs-vswitchd would purge for it.
    world, state = World(leaves, plan_for({"leaf1": [PLAIN]})), tmp_path / "state"
    leaves.offer("host1", "host2", 5)

    def die(_: Control) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(Control, "purge", die)
        assert killed_at(1000, world.apply, state)
    assert world.owned() == [(PLAIN,), ()]
    if not resumed:
        # The former state is there again, but the flows have taken up the mirror.
        leaves.lab.appctl("revalidator/purge")
        leaves.offer("host1", "host2", 5)
        with monkeypatch.context() as patched:
            patched.setattr(Control, "purge", die)
            assert killed_at(1000, world.undo, state)
        assert world.owned() == [(), ()]
    (world.resume if resumed else world.undo)(state)
    with leaves.listening("l1c0") as heard:
        leaves.offer("host1", "host2", 4)
        heard["l1c0"].wait_for(4 if resumed else 0)
        assert heard["l1c0"].count() == (4 if resumed else 0)


def test_a_write_that_takes_effect_only_at_the_second_purge_is_a_success_and_one_that_never_does_is_undone(
    leaves: TwoLeaves, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world, purge, left = World(leaves), Control.purge, [1]

    def failing(control: Control) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise Lost("no reply within 5 s")
        purge(control)

    monkeypatch.setattr(Control, "purge", failing)
    world.apply(tmp_path)
    assert left[0] < 0
    assert world.owned() == PLANNED_STATE
    world.undo(tmp_path)
    left[0] = 4
    with pytest.raises(RolledBack, match="revalidator/purge failed"):
        world.apply(tmp_path)
    assert world.owned() == [(), ()]
