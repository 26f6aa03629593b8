"""The program on the switch: recognised by its tables, loaded only when asked for, nobody's session lost by it."""

from pathlib import Path

import pytest
from google.protobuf import text_format

from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.intent import RemarkKind, Step, StepKind
from tests.doubles.p4runtime_entries import clone_update
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_world import UPLINK, A, B, World, world


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "fc.p4info.txtpb").write_text(text_format.MessageToString(build_p4info()))
    (tmp_path / "fc.json").write_text("{}")
    return {"p4info": str(tmp_path / "fc.p4info.txtpb"), "program": str(tmp_path / "fc.json")}


def create(here: World, **words: str) -> None:
    with here.open(**words) as driver:
        driver.write([Step(StepKind.CREATE, A)])


def test_a_switch_without_a_pipeline_is_told_with_the_cure():
    with world(loaded=False) as here:
        with pytest.raises(ConnectError, match="runs no pipeline") as caught:
            here.read()
        assert "push=empty" in caught.value.hint


def test_another_program_is_told_by_what_it_lacks():
    with world() as here:
        here.server.load(info=build_p4info(without=["fc.sessions", "fc.egress_acl"]))
        with pytest.raises(ConnectError, match=r"no mirror block of ours .*: fc.sessions, fc.egress_acl missing"):
            here.read()


def test_a_program_of_the_site_that_has_the_block_will_do():
    with world() as here:
        here.server.load(info=build_p4info(without=["fc.forward", "fc.loss", "fc.flows", "fc.monitor_ports"]))
        here.create(A)
        assert here.read().owned == (A,)


def test_it_is_loaded_where_there_is_none_by_a_write_and_not_by_a_read(files: dict[str, str]):
    with world(loaded=False) as here:
        with here.open(push="empty", **files) as driver:
            state = driver.read()
            assert (state.owned, state.restart_mark) == ((), "")
            assert [r.kind for r in state.remarks] == [RemarkKind.OTHER]
            assert "the next write loads" in state.remarks[0].text
        assert here.server.device.program is None
        create(here, push="empty", **files)
        assert here.read().owned == (A,)
        assert here.read().restart_mark.startswith("cookie 0x")
        before = here.server.device.config.cookie.cookie
        with here.open(push="empty", **files) as driver:
            assert driver.read().remarks == ()
            driver.write([Step(StepKind.CREATE, B)])
        assert here.server.device.config.cookie.cookie == before


def test_another_program_is_replaced_only_by_the_word_for_it(files: dict[str, str]):
    with world() as here:
        here.server.load(info=build_p4info(without=["fc.sessions"]))
        with pytest.raises(ConnectError, match="no mirror block") as caught:
            create(here, push="empty", **files)
        assert "push=replace" in caught.value.hint
        create(here, push="replace", **files)
        assert here.read().owned == (A,)


def test_the_same_program_pushed_by_somebody_else_is_not_pushed_again(files: dict[str, str]):
    with world() as here:
        create(here, push="replace", **files)
        assert here.server.device.config.cookie.cookie == 1


def test_our_cookie_tells_our_program_where_the_switch_gives_its_p4info_otherwise(files: dict[str, str]):
    with world(loaded=False) as here:
        create(here, push="empty", **files)
        cookie = here.server.device.config.cookie.cookie
        here.server.load(cookie, build_p4info(sizes={"fc.loss": 128}))
        with here.open(push="replace", **files) as driver:
            assert driver.read().remarks == ()
            driver.write([Step(StepKind.CREATE, A)])
        assert here.server.device.config.cookie.cookie == cookie


def test_another_version_is_a_remark_or_is_replaced_and_our_copies_do_not_linger(files: dict[str, str]):
    """BMv2 keeps clone sessions in its data plane over a push: ours are deleted before it."""
    with world() as here:
        here.server.load(info=build_p4info(sizes={"fc.loss": 128}))
        here.create(A, B)
        with here.open(**files) as driver:
            state = driver.read()
        assert state.owned == (A, B)
        assert [r.text for r in state.remarks] == ["it has the mirror block, but is not the program that p4info= names"]
        with here.open(push="replace", **files) as driver:
            assert driver.read().owned == ()
            assert "another version" in driver.read().remarks[0].text
            driver.write([Step(StepKind.CREATE, A)])
        assert here.read().owned == (A,)
        assert here.server.device.twin.clone_sessions == {2: [(31, 1)]}
        here.forward()
        assert here.offer(1, UPLINK, 1) == [UPLINK, 31]


def test_a_push_that_would_end_sessions_of_others_is_refused(files: dict[str, str]):
    with world() as here:
        here.server.load(info=build_p4info(sizes={"fc.loss": 128}))
        here.server.put(clone_update(5, (40, 1)))
        with pytest.raises(Rejected, match="would end mirror sessions of others: clone-session-5"):
            create(here, push="replace", **files)
        assert here.server.device.config.cookie.cookie == 1


def test_a_push_that_the_switch_refuses_is_told(files: dict[str, str]):
    with world(loaded=False) as here:
        here.server.device.broken = True
        with pytest.raises(StateUnknown, match=r"while loading the pipeline: .*first phase of device update"):
            create(here, push="empty", **files)


def test_a_backup_pushes_nothing(files: dict[str, str]):
    with world(loaded=False) as here:
        here.server.arbitration.join_stranger(9)
        with pytest.raises(Rejected, match="election id 9 is the primary"):
            create(here, push="empty", **files)
        assert here.server.device.program is None


def test_files_that_are_no_pipeline_are_named(files: dict[str, str], tmp_path: Path):
    (tmp_path / "bad").write_text("tables { nonsense }")
    with world() as here:
        for word, path, told in (
            ("p4info", "/nowhere/x", "/nowhere/x cannot be read"),
            ("program", "/nowhere/y", "/nowhere/y cannot be read"),
            ("p4info", str(tmp_path / "bad"), "bad is no P4Info in text form"),
        ):
            with pytest.raises(ConnectError, match=told):
                create(here, push="empty", **{**files, word: path})
