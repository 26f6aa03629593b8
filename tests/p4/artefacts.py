"""The compiled forms of the BMv2 program: ``make p4`` writes them where p4c is present; test_artefacts.py compares.

The JSON is kept without positions in the source, so that it is the same wherever it is compiled.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).parents[2] / "p4"
ARTEFACTS = HOME / "artefacts"
PROGRAM = "v1model/flowcheck.p4"
P4INFO, BMV2 = "flowcheck.p4info.txtpb", "flowcheck.bmv2.json"
MANIFEST = "manifest.json"
FOLDERS = ("common", "controls", "v1model")


def find_p4c() -> Path | None:
    """The BMv2 back end of p4c: ``FLOWCHECK_P4C`` or ``p4c-bm2-ss`` on the path."""
    named = os.environ.get("FLOWCHECK_P4C") or shutil.which("p4c-bm2-ss")
    return Path(named) if named else None


def source_hash() -> str:
    """SHA-256 (hex) of the names and contents of all sources of the program."""
    files = sorted(path for folder in FOLDERS for path in (HOME / folder).glob("*.p4"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(HOME).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _strip(value: object) -> object:
    if isinstance(value, dict):
        return {key: _strip(item) for key, item in value.items() if key not in ("source_info", "program")}
    if isinstance(value, list):
        return [_strip(item) for item in value]
    return value


def compile_program(p4c: Path) -> dict[str, str]:
    """File name -> text of the P4Info and the BMv2 JSON; the compiler's warnings count as errors."""
    with tempfile.TemporaryDirectory() as folder:
        info, out = Path(folder, P4INFO), Path(folder, BMV2)
        command = [str(p4c), "--Werror", "--p4runtime-files", str(info), "-o", str(out), PROGRAM]
        subprocess.run(command, cwd=HOME, check=True, capture_output=True, text=True, timeout=120)
        program = json.dumps(_strip(json.loads(out.read_text())), indent=1, sort_keys=True) + "\n"
        return {P4INFO: info.read_text(), BMV2: program}


def version(p4c: Path) -> str:
    """What the compiler calls itself."""
    ran = subprocess.run([str(p4c), "--version"], check=True, capture_output=True, text=True, timeout=60)
    return next(line.split("Version ")[1] for line in (ran.stdout + ran.stderr).splitlines() if "Version " in line)


def manifest(files: dict[str, str], compiler: str) -> str:
    """What was compiled from which sources, by which compiler."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return json.dumps({"files": digests, "p4c": compiler, "sources": source_hash()}, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Compile and write ``p4/artefacts``."""
    p4c = find_p4c()
    if p4c is None:
        sys.stderr.write("no p4c: set FLOWCHECK_P4C=/path/to/p4c-bm2-ss or put p4c-bm2-ss on the path\n")
        return 2
    try:
        files = compile_program(p4c)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        return 1
    files[MANIFEST] = manifest(files, version(p4c))
    for name, text in files.items():
        (ARTEFACTS / name).write_text(text)
    sys.stdout.write(f"wrote {', '.join(sorted(files))} to {ARTEFACTS}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
