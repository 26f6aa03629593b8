"""Secrets never reach plan, journal, log, output, error or process list: a driver that needs two, and a search.

The driver is one of a package of its own, found by its entry point: so the guardian, which is another process, finds it
too. It takes a password from the environment and a token from a file, as drivers of real switches do.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.drivers.fake_store import FileStore
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, SwitchAddress
from flowcheck_net.model.platforms import capabilities
from flowcheck_net.plan.plan import plan_to_json
from tests.doubles.switches import plan_for, session

PASSWORD, TOKEN = "pw-Tr0ub4dor-3", "tok-C0rrectH0rse"
A = session("fcn-gpt-0", "Ethernet1:rx")
DRIVER = f"""
    import os
    from dataclasses import replace
    from pathlib import Path

    from flowcheck_net.drivers.registry import open_driver
    from flowcheck_net.errors import ConnectError


    def open_vault(address, job, state_dir):
        password = os.environ.get("FCN_PASSWORD", "")
        token = Path(os.environ["FCN_TOKEN_FILE"]).read_text()
        if (password, token) != ({PASSWORD!r}, {TOKEN!r}):
            raise ConnectError(address.name, "authentication failed")
        return open_driver(replace(address, management=address.management.replace("vault:", "fake:")), job, state_dir)
"""


class Shell:
    """Runs flowcheck-net in processes of their own, and keeps all that they said."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.state, self.plan = directory, directory / "state", directory / "plan.json"
        package = directory / "site"
        (package / "fcn_vault-1.dist-info").mkdir(parents=True)
        (package / "fcn_vault-1.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: fcn-vault\nVersion: 1\n"
        )
        (package / "fcn_vault-1.dist-info" / "entry_points.txt").write_text(
            "[flowcheck_net.drivers]\nvault = fcn_vault:open_vault\n"
        )
        (package / "fcn_vault.py").write_text(textwrap.dedent(DRIVER))
        self.token = directory / "token"
        self.token.write_text(TOKEN)
        made = plan_for({"leaf1": [A], "leaf2": [A]})
        switches = tuple(SwitchAddress(s.name, "fake", f"vault:{s.name}") for s in made.switches)
        self.plan.write_text(plan_to_json(replace(made, switches=switches)))
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(package),
            "PYTHONDONTWRITEBYTECODE": "1",
            "FCN_PASSWORD": PASSWORD,
            "FCN_TOKEN_FILE": str(self.token),
        }
        self.said = ""

    def __call__(self, command: str, *words: str) -> int:
        program = Path(sys.executable).with_name("flowcheck-net")
        line = [str(program), command, str(self.plan), "--state-dir", str(self.state), *words]
        done = subprocess.run(line, capture_output=True, text=True, env=self.environment, check=False)
        self.said += done.stdout + done.stderr
        return done.returncode

    def owned(self) -> Sequence[MirrorSession]:
        store = FileStore(SwitchName("leaf1"), self.state / "fake" / "leaf1.json", capabilities("fake"))
        with store.transaction() as switch:
            return list(switch.sessions.values())


def guardians(state: Path) -> list[str]:
    """Command lines of the guardians of this state directory, as any user sees them."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(state) in line and "guardian" in line:
            lines.append(line)
    return lines


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_no_secret_is_written_said_or_shown(shell: Shell):
    assert shell("apply", "--dry-run") == 0
    assert shell("apply", "--confirm-within", "90s", "--json") == 0
    assert shell.owned() == [A]
    running = guardians(shell.state)
    assert len(running) == 1
    assert shell("verify") == 0
    assert shell("verify", "--probe", "--window", "0s") == 10
    assert shell("watch", "--once") == 0
    assert shell("confirm") == 0
    shell.environment["FCN_PASSWORD"] = f"wrong-{PASSWORD}"
    assert shell("verify", "--json") == 5
    assert "authentication failed" in shell.said
    assert shell("rollback") == 5
    shell.environment["FCN_PASSWORD"] = PASSWORD
    assert shell("rollback") == 0
    assert shell.owned() == []
    for secret in (PASSWORD, TOKEN):
        assert secret not in shell.said
        assert secret not in "".join(running)
        assert [str(f) for f in written(shell) if secret.encode() in f.read_bytes()] == []


def written(shell: Shell) -> list[Path]:
    """Every file that was written, but the secret itself and the driver that knows it."""
    own = {shell.token, shell.directory / "site" / "fcn_vault.py"}
    files = [f for f in shell.directory.rglob("*") if f.is_file() and f not in own]
    names = {f.name for f in files}
    assert {"plan.json", "journal.sqlite", "guardian.log", "watch-gpt.json", "leaf1.json"} <= names
    return files


def test_a_plan_with_a_password_in_it_is_refused(shell: Shell):
    body = json.loads(shell.plan.read_text())
    assert "vault:leaf1" in json.dumps(body["switches"])
    made = plan_for({"leaf1": [A]})
    for reference in (f"ssh:admin:{PASSWORD}@leaf1", f"ssh://admin:{PASSWORD}@leaf1"):
        switches = (SwitchAddress(SwitchName("leaf1"), "fake", reference),)
        shell.plan.write_text(plan_to_json(replace(made, switches=switches)))
        assert shell("apply") == 3
    assert not (shell.state / "journal.sqlite").exists()
    assert PASSWORD not in shell.said
