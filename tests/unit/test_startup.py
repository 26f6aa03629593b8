"""Start-up stays fast: heavy packages are imported only by the command that needs them."""

import subprocess
import sys

import pytest

HEAVY = (
    "_native",
    "grpc",
    "highspy",
    "jinja2",
    "napalm",
    "netmiko",
    "networkx",
    "numpy",
    "p4",
    "p4runtime_sh",
    "pydantic",
    "rich",
    "ruamel",
    "yaml",
)
PROGRAM = """
import sys
from flowcheck_net.cli.main import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as done:
    assert done.code == 0, done.code
loaded = {name.removeprefix("flowcheck_net.").split(".")[0] for name in sys.modules}
print("LOADED", *sorted(loaded & set(%r)))
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["plan", "--help"], ["replay", "--help"], ["records", "--help"]]
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % (HEAVY,), *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].strip() == "LOADED"
