"""How the receiver ends where something goes wrong under way: by itself, soon, and with all that it had."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from flowcheck_net.ids import CapturePort
from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.receiver import program
from flowcheck_net.receive.receiver_config import Plan, config_text
from flowcheck_net.receive.receiver_device import Port, device_of
from flowcheck_net.receive.receiver_spool import spool_records
from flowcheck_net.receive.synth import synthesize
from tests.doubles import capture_images as images
from tests.doubles.payload_world import plan_of
from tests.dpdk.receiving import Running, needs_receiver, read, receive, spool_of
from tests.netns.veth import namespace, needs_namespaces

pytestmark = needs_receiver
SPEEDS = (1.0, 0.4, 0.1)


def test_nobody_hears_it_any_more(tmp_path: Path) -> None:
    """Its parent may die before the kernel has been asked to tell of it."""
    capture, spool, config = tmp_path / "one.pcap", tmp_path / "life.spool", tmp_path / "config"
    capture.write_bytes(images.pcap([images.write_only(7)]))
    plan = Plan((Port(CapturePort("x"), device_of(f"pcap:{capture}", 0, 1500), 1500),), Settings(), 50, hugepages=False)
    config.write_text(config_text(plan, spool, 0))
    with subprocess.Popen([program(), config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert b'"started"' in process.stdout.readline()
            process.stdout.close()
            assert process.wait(60) == 0
        finally:
            process.kill()
    found = spool_records(spool, ())
    assert found.warnings == ()  # it has its end
    assert [each.packets for each in found.captures] == [1]


@pytest.mark.alone
@needs_namespaces
def test_gradient_memory_that_cannot_be_had_under_way(tmp_path: Path) -> None:
    """Known when the payload's places are: the command ends with the cure, and what came is not lost.

    Where the machine is too busy to learn the places from times, once more, slower.
    """
    plan = plan_of("two-host")
    job = tmp_path / "job.pcapng"
    synthesize(plan, job, iterations=8)
    (tmp_path / "plan.json").write_text(plan_to_json(plan))
    for speed in SPEEDS:
        work = tmp_path / str(speed)
        work.mkdir()
        output, err = work / "records.fcr", ended(tmp_path / "plan.json", job, work, speed)
        if err:
            break
    assert "is the gradient memory of another plan, or has another size" in err
    assert "what to do: remove the *.board files there" in err
    assert f"`flowcheck-net receive --recover -o {output}`" in err
    assert "Traceback" not in err
    receive(output, "--recover")
    assert sum(each.packets for each in read(output).captures) > 0
    assert not spool_of(output).exists()


def ended(plan: Path, job: Path, work: Path, speed: float) -> str:
    """What the command said that ended by itself; empty: it did not."""
    boards = work / "boards"
    boards.mkdir()
    (boards / "dp0.board").write_bytes(bytes(8192))
    words: list[str | Path] = ["--plan", plan, "--node", "ckpt1", "--interval", "0.05"]
    words += [word for port in "01" for word in ("--port", f"cap{port}=af_packet:far{port}")]
    words += ["--payload", boards, "--no-hugepages"]
    with namespace() as place:
        for port in "01":
            place.pair(f"near{port}", f"far{port}")
        with Running(place, work / "records.fcr", *words) as running:
            to = [word for port in "01" for word in ("--to", f"ckpt1:cap{port}=near{port}")]
            place.replay(*to, job, "--speed", str(speed))
            with suppress(subprocess.TimeoutExpired):
                _, err = running.process.communicate(timeout=20)
                assert running.process.returncode == 9, err
                return err
    return ""
