"""Random sessions and random writes on every dialect, typed into the platform's double without a connection between.

What is accepted must be there exactly, as another login reads it; what is refused must have changed nothing; what is
others' stays byte for byte; and when all of ours is removed, the switch is what it was before.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import Rejected
from flowcheck_net.ids import Address, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, Step, StepKind
from tests.conformance.bench import JOB
from tests.conformance.bench_numbered import ComwareBench, CumulusBench, Os10Bench, VrpBench
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench
from tests.doubles.ssh_box import Platform
from tests.doubles.typist import Direct

BENCHES: dict[str, type[SshBench]] = {
    "eos": EosBench,
    "nxos": NxosBench,
    "junos": JunosBench,
    "comware": ComwareBench,
    "cumulus": CumulusBench,
    "vrp": VrpBench,
    "os10": Os10Bench,
}
PAIRS = [(f"10.0.0.{n}", f"10.0.1.{n}") for n in range(1, 4)] + [("2001:db8::1", "2001:db8::2")]
MOVING = {"commits", "before_trial", "candidate", "pending", "timed", "before", "revision"}
"""Attributes of doubles that tell of what was done, not of what is."""


def sessions(bench: type[SshBench]) -> st.SearchStrategy[MirrorSession]:
    sources = st.lists(
        st.builds(MirrorSource, st.sampled_from(bench.sources), st.sampled_from(Direction)), min_size=1, max_size=4
    )
    pairs = st.lists(st.sampled_from([FlowFilter(Address(a), Address(b)) for a, b in PAIRS]), max_size=3)
    names = st.sampled_from([SessionName(f"fcn-{JOB}-{n}") for n in range(3)])
    return st.builds(MirrorSession, names, sources.map(tuple), st.sampled_from(bench.destinations), pairs.map(tuple))


def snapshot(platform: Platform) -> dict[str, str]:
    return {name: repr(value) for name, value in sorted(vars(platform).items()) if name not in MOVING}


def read(bench: type[SshBench], platform: Platform) -> tuple[tuple[MirrorSession, ...], tuple[MirrorSession, ...]]:
    with Direct(bench, platform) as driver:
        state = driver.read()
    return state.owned, state.foreign


@pytest.mark.parametrize("name", sorted(BENCHES))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_accepted_is_there_and_what_is_refused_changed_nothing(name: str, data: st.DataObject):
    bench = BENCHES[name]
    platform = bench.platform()
    new = snapshot(platform)
    there: dict[SessionName, MirrorSession] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        steps, now = [], dict(there)
        for wanted in data.draw(st.lists(sessions(bench), min_size=1, max_size=3)):
            if old := now.pop(wanted.name, None):
                steps.append(Step(StepKind.DELETE, old))
            if old is None or data.draw(st.booleans()):
                steps.append(Step(StepKind.CREATE, wanted))
                now[wanted.name] = wanted
        before = snapshot(platform)
        try:
            with Direct(bench, platform) as driver:
                driver.write(steps)
            there = now
        except Rejected:
            assert snapshot(platform) == before
        assert read(bench, platform) == (tuple(sorted(there.values())), tuple(sorted(bench.foreign)))
    with Direct(bench, platform) as driver:
        driver.write([Step(StepKind.DELETE, s) for s in there.values()])
    after = snapshot(platform)
    assert after == new
