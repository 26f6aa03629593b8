"""The Tofino program before p4c: its front end (names, types, widths), and its Tofino back end, which places it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

P4 = Path(__file__).resolve().parents[2] / "p4"


def includes() -> list[str]:
    """Where ``tna.p4`` and ``core.p4`` are, as options."""
    folders = os.environ.get("FLOWCHECK_TNA_INCLUDE", "").split(os.pathsep)
    return [word for folder in folders if folder for word in ("-I", folder)]


def test_the_front_end_accepts_the_tofino_program():
    program = os.environ.get("FLOWCHECK_P4TEST") or shutil.which("p4test")
    if not program or not includes():
        pytest.skip("needs FLOWCHECK_P4TEST=/path/to/p4test and FLOWCHECK_TNA_INCLUDE=/of/tna.p4:/of/core.p4")
    command = [program, "-D__TARGET_TOFINO__=1", *includes(), str(P4 / "tna" / "flowcheck.p4")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(1200)
def test_the_back_end_places_the_program_in_eleven_stages(tmp_path: Path):
    compiler, assembler = (os.environ.get(f"FLOWCHECK_{name}", "") for name in ("P4C_TOFINO", "BFAS"))
    if not compiler or not assembler or not includes():
        pytest.skip("needs FLOWCHECK_P4C_TOFINO=/path/to/p4c-barefoot, FLOWCHECK_BFAS, FLOWCHECK_TNA_INCLUDE")
    (tmp_path / "logs").mkdir()
    source = str(P4 / "tna" / "flowcheck.p4")
    target = ["--target", "tofino"]
    words = [*target, "--arch", "tna", "--std", "p4-16", "-D__TARGET_TOFINO__=1", *includes(), "-o", str(tmp_path)]
    subprocess.run([compiler, *words, source], check=True, capture_output=True)
    assembly = tmp_path / "pipe" / "flowcheck.bfa"
    # The parser of a compiler that loses the values of select would take every frame for IPv4.
    assert "0x86dd:" in assembly.read_text()
    subprocess.run([assembler, *target, "-o", str(tmp_path), str(assembly)], check=True, capture_output=True)
    assert (tmp_path / "tofino.bin").stat().st_size > 0
    stages = re.findall(r"^stage (\d+) (ingress|egress):", assembly.read_text(), re.MULTILINE)
    assert max(int(number) for number, gress in stages if gress == "ingress") == 10
    assert max(int(number) for number, gress in stages if gress == "egress") == 5
