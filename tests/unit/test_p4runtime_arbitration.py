"""Being the primary: becoming it, being told who is, being taken over, and leaving nothing behind."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flowcheck_net.drivers.p4runtime_client import Client
from flowcheck_net.drivers.p4runtime_errors import Refused
from flowcheck_net.drivers.p4runtime_reference import parse_reference
from flowcheck_net.errors import ConnectError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import Step, StepKind
from tests.doubles.ovs_lab import wait_until
from tests.doubles.p4runtime_device import STRATUM
from tests.doubles.p4runtime_entries import clone_update
from tests.doubles.p4runtime_faults import Fault
from tests.doubles.p4runtime_world import A, B, world

CREATE = [Step(StepKind.CREATE, A), Step(StepKind.CREATE, B)]


def threads() -> set[str]:
    return {t.name for t in threading.enumerate() if "p4runtime" in t.name}


def test_the_primary_is_named_where_we_are_only_a_backup():
    with world() as here:
        here.server.arbitration.join_stranger(20)
        with here.open() as driver, pytest.raises(Rejected) as caught:
            driver.write(CREATE)
        assert "the controller with election id 20 is the primary; ours is 1" in caught.value.message
        assert "election=21" in caught.value.hint
        assert here.read().owned == ()
        with here.open(election="21") as driver:
            driver.write(CREATE)
        assert here.read().owned == (A, B)


def test_a_stranger_of_a_lower_id_is_never_taken_over_unasked():
    with world() as here:
        stranger = here.server.arbitration.join_stranger(1)
        with here.open() as driver, pytest.raises(Rejected, match="connected with election id 1"):
            driver.write(CREATE)
        assert stranger.out.get().arbitration.status.code == 0
        assert stranger.out.empty()


def test_a_role_of_our_own_stands_beside_another_primary():
    with world() as here:
        here.server.arbitration.join_stranger(20)
        with here.open(role="mirror") as driver:
            driver.write(CREATE)
        assert all(request.role == "mirror" for request in here.server.writes)


def test_stratum_wants_an_id_above_all_that_it_has_seen():
    with world(STRATUM, "tofino") as here:
        here.server.arbitration.leave(here.server.arbitration.join_stranger(20))
        with here.open() as driver, pytest.raises(Rejected) as caught:
            driver.write(CREATE)
        assert "no primary, and election id 1 cannot become it: 20 was seen" in caught.value.message
        assert "election=21" in caught.value.hint


def test_a_wrong_device_is_told():
    with world() as here, here.open(device="9") as driver, pytest.raises(Rejected, match="Invalid device id"):
        driver.write(CREATE)


def test_who_is_taken_over_between_two_steps_has_done_the_first():
    with world() as here:
        here.server.script.fault = Fault("take over", "description", 1)
        with here.open() as driver, pytest.raises(PartialWrite, match="another controller is the primary") as caught:
            driver.write(CREATE)
        assert caught.value.done == 1
        assert here.read().owned == (A,)


def test_who_is_taken_over_within_a_step_does_not_know():
    with world() as here:
        here.server.script.fault = Fault("take over", "rule")
        with here.open() as driver, pytest.raises(StateUnknown, match="could not be undone"):
            driver.write(CREATE)
        (found,) = here.read().owned
        assert found.name == A.name
        assert found.sources == ()


def test_a_takeover_that_was_told_stops_the_next_write_before_it_is_sent():
    with world() as here:
        client = Client(parse_reference(f"p4rt:{here.server.address}?device=1"))
        stalled = here.server.script.fault = Fault("stall", "clone")
        try:
            with client.primary():
                here.server.arbitration.join_stranger(50)
                assert client._stream is not None
                wait_until(lambda: client._stream is not None and bool(client._stream.taken_over()), "news")
                with pytest.raises(Refused, match="controller with election id 50 has taken over"):
                    client.write_all([clone_update(5, (3, 1))])
            assert here.server.script.fault is stalled, "the server has seen the write"
        finally:
            client.close()


def test_after_the_block_the_next_controller_is_primary_at_once():
    with world() as here:
        for _ in range(5):
            with here.open() as one, one.hold():
                pass
        backup = here.server.arbitration.join_stranger(1)
        assert backup.out.get().arbitration.status.code == 0


def test_no_thread_stays():
    before = threads()
    with world() as here:
        here.create(A)
        with here.open() as driver, driver.hold():
            assert threads() > before
            here.server.stop()
            with pytest.raises((StateUnknown, Rejected, ConnectError)):
                driver.write([Step(StepKind.CREATE, B)])
    assert threads() == before


def test_a_server_that_dies_and_comes_back_takes_a_new_driver():
    with world() as here:
        here.create(A)
        with here.open() as driver:
            here.server.stop()
            with pytest.raises(ConnectError):
                driver.read()
        with pytest.raises(ConnectError, match="cannot be reached: Connection refused"):
            here.read()
        here.server.start()
        assert here.read().owned == (A,)


PROGRAM = """
import sys
from pathlib import Path
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress
driver = open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", sys.argv[1]), "gpt", Path())
driver.__enter__()
held = driver.hold()
held.__enter__()
# and it ends without taking leave
"""


def test_a_program_that_forgets_to_hang_up_ends_all_the_same_and_prints_nothing(tmp_path: Path):
    with world() as here:
        words = [sys.executable, "-c", PROGRAM, f"p4rt:{here.server.address}?device=1"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        here.create(A)
