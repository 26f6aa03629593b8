"""Packets per second of ``replay``, beside tshark, scapy and a bare C loop, in one run on one file."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.capture import big_capture
from tests.bench.measure import BUILD, ROOT, Result, best_seconds, warm

SCAPY = """
import sys
from scapy.utils import RawPcapReader
with RawPcapReader(sys.argv[1]) as reader:
    packets = sum(1 for _ in reader)
if packets != int(sys.argv[2]):
    sys.exit(f"scapy read {packets} packets")
"""
UNIT = "packets/s"


class Missing(Exception):
    """A peer is not on this machine."""


def bench() -> list[Result]:
    """Four readers and the ratios between them."""
    path, packets = big_capture()
    warm(path)
    readers: dict[str, Callable[[Path, int], list[str]]] = {
        "replay": replay_command,
        "tshark": tshark_command,
        "scapy": scapy_command,
        "c": bare_loop_command,
    }
    rates: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, command in readers.items():
        try:
            rates[name] = packets / best_seconds(command(path, packets))
        except Missing as reason:
            notes[name] = str(reason)
    size = path.stat().st_size / packets
    notes.setdefault("replay", f"{packets} packets, {size:.0f} B each with its block")
    results = [Result(f"{name}_rate", rates.get(name), UNIT, note=notes.get(name, "")) for name in readers]
    for peer, bar in (("tshark", 5.0), ("c", 0.3), ("scapy", None)):
        value = rates["replay"] / rates[peer] if peer in rates and "replay" in rates else None
        note = "" if value is not None else notes.get(peer) or notes["replay"]
        results.append(Result(f"replay_vs_{peer}", value, "ratio", bar, note=note))
    return results


def replay_command(path: Path, packets: int) -> list[str]:
    """The whole command as a user types it; its records must hold every packet."""
    program = Path(sys.executable).with_name("flowcheck-net")
    if not program.exists():
        raise Missing(f"{program} is not installed")
    command = [str(program), "replay", str(path), "-o", str(BUILD / "records.json")]
    try:
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    except subprocess.CalledProcessError as error:
        raise Missing(f"replay fails here: {error.stderr.decode().strip().splitlines()[-1]}") from error
    from flowcheck_net.receive.records_json import records_from_json

    records = records_from_json((BUILD / "records.json").read_text(), "records.json")
    seen = sum(capture.packets for capture in records.captures)
    if seen != packets or any(flow.missing for flow in records.flows):
        raise RuntimeError(f"replay saw {seen} of {packets} packets, or holes where there are none")
    return command


def tshark_command(path: Path, _packets: int) -> list[str]:
    """Tshark dissecting everything and printing one line of statistics."""
    if shutil.which("tshark") is None:
        raise Missing("tshark is not installed")
    return ["tshark", "-n", "-q", "-z", "io,stat,0", "-r", str(path)]


def scapy_command(path: Path, packets: int) -> list[str]:
    """Scapy's raw reader, which dissects nothing."""
    try:
        import scapy  # noqa: F401
    except ImportError:
        raise Missing("scapy is not installed") from None
    return [sys.executable, "-c", SCAPY, str(path), str(packets)]


def bare_loop_command(path: Path, packets: int) -> list[str]:
    """The bare C loop, compiled here; it must count every packet as RoCEv2."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("no C compiler")
    program = BUILD / "bare_loop"
    source = Path(__file__).with_name("bare_loop.c")
    subprocess.run([compiler, "-O3", "-march=native", "-Wall", "-Wextra", "-o", str(program), str(source)], check=True)
    counted = subprocess.run([str(program), str(path)], check=True, capture_output=True, text=True).stdout.split()
    if counted[:2] != [str(packets)] * 2:
        raise RuntimeError(f"the bare loop counted {counted[:2]} of {packets} packets")
    return [str(program), str(path)]
