"""The Tofino program before the front end of p4c: names, types, widths. Only its Tofino back end places tables."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

P4 = Path(__file__).resolve().parents[2] / "p4"


def test_the_front_end_accepts_the_tofino_program():
    program = os.environ.get("FLOWCHECK_P4TEST") or shutil.which("p4test")
    folders = os.environ.get("FLOWCHECK_TNA_INCLUDE", "").split(os.pathsep)
    if not program or not folders[0]:
        pytest.skip("needs FLOWCHECK_P4TEST=/path/to/p4test and FLOWCHECK_TNA_INCLUDE=/of/tna.p4:/of/core.p4")
    includes = [word for folder in folders for word in ("-I", folder)]
    command = [program, "-D__TARGET_TOFINO__=1", *includes, str(P4 / "tna" / "flowcheck.p4")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
