"""What a crash or a fault between a transaction and the purge of hot flows leaves, on a real Open vSwitch.

SIGKILL at every moment is tried by ``tests/conformance/test_crash.py``.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.reach import Reach
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.drivers.ovs_control import Control
from flowcheck_net.drivers.ovs_rpc import Lost
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import RolledBack
from flowcheck_net.intent import MirrorSession
from tests.doubles.switches import plan_for, session
from tests.netns.ovs_two_leaf import TwoLeaves

PLAIN = session("fcn-gpt-0", "l1h1:rx", "l1h1:tx", to="l1c0")
# One switch only: any other write of the same ovs-vswitchd would purge for it.
PLAN = plan_for({"leaf1": [PLAIN]})


class World:
    """The two leaves, and the engine on them."""

    def __init__(self, leaves: TwoLeaves) -> None:
        self._leaves = leaves

    def reach(self, job: str = "gpt") -> Reach:
        lab = self._leaves.lab
        return Reach(lambda a: open_driver(self._leaves.address(a.name), job, lab.directory), pause=0.05)

    def apply(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            apply_plan(PLAN, "d1", journal, self.reach())

    def resume(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            resume_plan(PLAN, "d1", journal, self.reach())

    def undo(self, state: Path) -> None:
        with Journal(state / "journal.sqlite") as journal:
            rollback(journal, self.reach)

    def owned(self) -> tuple[MirrorSession, ...]:
        with self._leaves.open() as driver:
            return driver.read().owned


def killed(action: Callable[[Path], None], state: Path) -> bool:
    """Run ``action`` in a child; was it killed?"""
    child = os.fork()
    if not child:
        try:
            action(state)
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.mark.parametrize("resumed", [True, False])
def test_hot_flows_follow_what_a_crash_cut_off(
    leaves: TwoLeaves, tmp_path: Path, resumed: bool, monkeypatch: pytest.MonkeyPatch
):
    """Killed between the transaction and the purge: all reads back as planned, and the flows under way know nothing."""
    world, state = World(leaves), tmp_path / "state"
    leaves.offer("host1", "host2", 5)

    def die(_: Control) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(Control, "purge", die)
        assert killed(world.apply, state)
    assert world.owned() == (PLAIN,)
    if not resumed:
        # The former state is there again, but the flows have taken up the mirror.
        leaves.lab.appctl("revalidator/purge")
        leaves.offer("host1", "host2", 5)
        with monkeypatch.context() as patched:
            patched.setattr(Control, "purge", die)
            assert killed(world.undo, state)
        assert world.owned() == ()
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
    assert world.owned() == (PLAIN,)
    world.undo(tmp_path)
    left[0] = 4
    with pytest.raises(RolledBack, match="revalidator/purge failed"):
        world.apply(tmp_path)
    assert world.owned() == ()
