"""SIGHUP: another plan is taken over while nothing comes; no packet is lost, and the records say which was in force."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import Running, needs_receiver, read, timeless, wait_until_idle
from tests.netns.veth import namespace, needs_namespaces

pytestmark = [needs_receiver, needs_namespaces]


def test_a_plan_comes_into_force_between_bursts(tmp_path: Path) -> None:
    plan, job, output = example("two-host"), tmp_path / "job.pcapng", tmp_path / "records.fcr"
    synthesize(plan, job, iterations=6)
    file = tmp_path / "plan.json"
    file.write_text(plan_to_json(plan))
    digests = [json.loads(file.read_text())["digest"]]
    with namespace() as place:
        for number in (0, 1):
            place.pair(f"na{number}", f"fa{number}")
        words = [word for number in (0, 1) for word in ("--port", f"cap{number}=af_packet:fa{number}")]
        targets = [word for number in (0, 1) for word in ("--to", f"ckpt1:cap{number}=na{number}")]
        plan_words = ("--plan", str(file), "--node", "ckpt1", "--interval", "0.1")
        with Running(place, output, *words, *plan_words) as running:
            place.replay(*targets, job, "--speed", "5", check=True)
            wait_until_idle(running.child())
            first = running.child()
            file.write_text("{}")
            running.process.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            assert running.child() == first  # no plan: the former one stays
            file.write_text(plan_to_json(replace(plan, job=replace(plan.job, iteration_time=0.25))))
            digests.append(json.loads(file.read_text())["digest"])
            running.process.send_signal(signal.SIGHUP)
            running.wait_for_start()
            assert running.child() != first
            place.replay(*targets, job, "--speed", "5", check=True)
            wait_until_idle(running.child())
            code, _, err = running.end()
    assert code == 0, err
    found = read(output)
    assert [digest in warning for digest in digests for warning in found.warnings if "was in force" in warning] == [
        *(True, True, False, False, False, False, True, True),
    ]
    alone = timeless(replay([job])).captures
    assert [each.packets for each in found.captures] == [2 * each.packets for each in alone]
