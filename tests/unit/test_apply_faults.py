"""Any sequence of applies, resumes, rollbacks and faults: planned, former, or exit 8 that names the switch."""

import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.journal import Journal
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.drivers.fake_device import Call, Fault, FaultKind
from flowcheck_net.errors import DriverError, JournalError, NotRolledBack, RolledBack
from flowcheck_net.intent import MirrorSession
from tests.doubles.switches import FOREIGN, FakeFabric, plan_for, session

A = session("fcn-gpt-0", "Ethernet1:rx", "Ethernet1:tx")
B = session("fcn-gpt-1", "Ethernet2:rx", to="Ethernet32")
MOVED = session("fcn-gpt-0", "Ethernet5:rx")
PLANS = (
    {"leaf1": (A, B), "leaf2": (A,), "leaf3": (A, B)},
    {"leaf1": (MOVED,), "leaf3": (B, MOVED)},
    {"leaf2": (B,)},
)
NAMES = ("leaf1", "leaf2", "leaf3")
State = tuple[tuple[MirrorSession, ...], ...]

FAULTS = st.one_of(
    st.builds(
        Fault,
        st.just(Call.WRITE),
        st.sampled_from(FaultKind),
        step=st.integers(0, 3),
        skip=st.integers(0, 1),
        times=st.integers(1, 4),
    ),
    st.builds(
        Fault,
        st.sampled_from([Call.CONNECT, Call.READ]),
        st.just(FaultKind.UNREACHABLE),
        skip=st.integers(0, 4),
        times=st.integers(1, 4),
    ),
)


def wanted(number: int) -> State:
    return tuple(tuple(sorted(PLANS[number].get(name, ()))) for name in NAMES)


class Operator(RuleBasedStateMachine):
    """A model beside the engine: what the fabric was before the last run, and which run is open."""

    @initialize()
    def start(self) -> None:
        self._dir = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.journal = Journal(Path(self._dir.name) / "journal.sqlite")
        self.fabric = FakeFabric()
        for name in NAMES:
            self.fabric.seed(name, FOREIGN)
        self.settled = self.owned()
        """What the fabric was after the last thing that ended well."""
        self.former: State | None = None
        """What rollback must restore; None: nothing."""
        self.open_plan: int | None = None

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.journal.__exit__()
            self._dir.cleanup()

    def owned(self) -> State:
        return tuple(self.fabric.state(name).owned for name in NAMES)

    @rule(name=st.sampled_from(NAMES), fault=FAULTS)
    def break_something(self, name: str, fault: Fault) -> None:
        self.fabric.script(name, fault)

    @rule()
    def heal(self) -> None:
        self.fabric.heal()

    @rule(number=st.sampled_from(range(len(PLANS))))
    def apply(self, number: int) -> None:
        before = self.owned()
        plan = plan_for(PLANS[number])
        try:
            report = apply_plan(plan, f"d{number}", self.journal, self.fabric.reach())
        except JournalError:
            assert self.open_plan is not None
            assert self.owned() == before
        except NotRolledBack as error:
            self.former, self.open_plan = before, number
            self.named(error, before)
        except RolledBack:
            # A change that was rolled back is the newest run, and there is nothing left to undo.
            self.former = None
            assert self.owned() == before
        except DriverError:
            assert self.owned() == before
        else:
            if report.run is not None:
                self.former = before
            assert self.open_plan is None
            self.settled = wanted(number)

    @rule()
    def resume(self) -> None:
        if self.open_plan is None:
            return
        before, number = self.owned(), self.open_plan
        try:
            resume_plan(plan_for(PLANS[number]), f"d{number}", self.journal, self.fabric.reach())
        except NotRolledBack as error:
            self.named(error, self.former)
        except RolledBack:
            assert self.owned() == self.former
            self.settled, self.former, self.open_plan = self.owned(), None, None
        except DriverError:
            assert self.owned() == before
        else:
            self.settled, self.open_plan = wanted(number), None

    @rule()
    def undo(self) -> None:
        before = self.owned()
        try:
            report = rollback(self.journal, self.fabric.reach)
        except NotRolledBack as error:
            run = self.journal.open_run()
            assert run is not None
            self.open_plan = int(run.plan_digest[1:])
            self.named(error, self.former)
        except DriverError:
            assert self.owned() == before
        else:
            assert (report.run is None) == (self.former is None)
            if report.run is not None:
                assert self.owned() == self.former
                self.settled, self.former, self.open_plan = self.owned(), None, None

    def named(self, error: NotRolledBack, former: State | None) -> None:
        """Every switch that is not as before is named by the message."""
        assert former is not None
        not_former = {name for name, now, then in zip(NAMES, self.owned(), former, strict=True) if now != then}
        assert not_former <= set(re.findall(r"leaf\d", error.message.split("not in the former state:")[-1]))

    @invariant()
    def foreign_sessions_are_never_touched(self) -> None:
        assert all(self.fabric.state(name).foreign == (FOREIGN,) for name in NAMES)

    @invariant()
    def planned_or_former_unless_a_run_is_open(self) -> None:
        if self.open_plan is None:
            assert self.owned() == self.settled
            assert self.journal.open_run() is None


Operator.TestCase.settings = settings(max_examples=60, stateful_step_count=25, suppress_health_check=list(HealthCheck))
TestOperator = Operator.TestCase
