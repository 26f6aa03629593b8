"""Steps between wanted and actual sessions, played on a plain model of a switch."""

from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource, Step, StepKind, split_state
from flowcheck_net.plan.diff import diff
from tests.doubles.switches import undoing


def session(number: int, *ports: str, job: str = "job", destination: str = "M1") -> MirrorSession:
    sources = tuple(MirrorSource(PortName(p), Direction.RX) for p in ports)
    return MirrorSession(SessionName(f"fcn-{job}-{number}"), sources, PortName(destination))


def test_equal_sessions_give_no_step() -> None:
    assert diff([session(1, "P1", "P2")], split_state([session(1, "P2", "P1")], "job")) == ()


def test_a_change_is_a_delete_and_then_a_create() -> None:
    steps = diff([session(1, "P1")], split_state([session(1, "P2")], "job"))
    assert steps == (Step(StepKind.DELETE, session(1, "P2")), Step(StepKind.CREATE, session(1, "P1")))


def test_all_deletes_come_before_all_creates() -> None:
    """A source that moves from session 2 to session 1 is free when session 1 asks for it."""
    actual = split_state([session(2, "P1"), session(3, "P3")], "job")
    steps = diff([session(1, "P1"), session(3, "P4")], actual)
    assert [s.kind.value for s in steps] == ["delete", "delete", "create", "create"]
    assert [s.session.name for s in steps] == ["fcn-job-2", "fcn-job-3", "fcn-job-1", "fcn-job-3"]


def test_foreign_sessions_and_those_of_other_jobs_are_never_named() -> None:
    others = [session(1, "P1", job="other"), MirrorSession(SessionName("ops-span"), (), PortName("M9"))]
    assert diff([], split_state(others, "job")) == ()


SESSIONS = st.lists(
    st.builds(session, st.integers(1, 4), st.sampled_from(["P1", "P2"]), destination=st.sampled_from(["M1", "M2"])),
    max_size=4,
    unique_by=lambda s: s.name,
)


@given(SESSIONS, SESSIONS)
def test_the_steps_lead_from_actual_to_wanted_and_back(
    wanted: list[MirrorSession], actual: list[MirrorSession]
) -> None:
    steps = diff(wanted, split_state(actual, "job"))
    assert _play(actual, steps) == {s.name: s for s in wanted}
    assert _play(wanted, undoing(steps)) == {s.name: s for s in actual}
    assert diff(wanted, split_state(actual[::-1], "job")) == steps


def _play(sessions: list[MirrorSession], steps: list[Step] | tuple[Step, ...]) -> dict[str, MirrorSession]:
    state = {str(s.name): s for s in sessions}
    for step in steps:
        if step.kind is StepKind.DELETE:
            assert state.pop(step.session.name) == step.session
        else:
            assert step.session.name not in state
            state[step.session.name] = step.session
    return state
