"""apply, verify and rollback of a plan on an SSH box, from the command line: no secret is written, said or shown."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from flowcheck_net.plan.plan import plan_to_json
from tests.conformance.bench import session
from tests.conformance.bench_ssh import EosBench, boxed
from tests.doubles.eos_box import EosBox
from tests.doubles.ssh_box import ENABLE, PASSWORD, Fault, Planned
from tests.doubles.switches import plan_for


def run(plan: Path, *words: str) -> tuple[int, str]:
    program = Path(sys.executable).with_name("flowcheck-net")
    line = [str(program), words[0], *([str(plan)] if words[0] != "rollback" else []), *words[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ})
    return done.returncode, done.stdout + done.stderr


def test_no_secret_leaves_the_login(tmp_path: Path):
    with boxed(EosBench, tmp_path) as bench:
        box = bench.box.platform
        assert isinstance(box, EosBox)
        made = plan_for({"leaf1": [session(bench, 0, "0:rx", "0:tx")]})
        plan, state = tmp_path / "plan.json", tmp_path / "state"
        plan.write_text(plan_to_json(replace(made, switches=(bench.address(),))))
        said = ""
        bench.box.faults.append(Planned(Fault.REJECT, "destination", text="% Invalid input"))
        for words, wanted in (
            (("apply", "--state-dir", str(state), "--json"), 7),
            (("apply", "--state-dir", str(state)), 0),
            (("verify", "--state-dir", str(state)), 0),
        ):
            code, text = run(plan, *words)
            said += text
            assert code == wanted, text
        assert "line 'monitor session fcn-gpt-0 destination Ethernet31' was rejected: % Invalid input" in said
        assert sorted(box.running.sessions) == ["fcn-bert-0", "fcn-gpt-0", "netops-span"]
        for secret in (PASSWORD, ENABLE):
            assert secret not in said
            assert [f for f in tmp_path.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()] == []
