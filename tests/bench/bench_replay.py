"""Packets a second of ``replay`` beside a bare C loop, tshark, tcpdump and scapy, in one run on the same files.

Everything runs on one core (but for ``replay_two_cores``) with the file in the page cache, and is measured in seconds
of processor time of the whole command, so that another process on the machine does not count.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench.capture import LARGE, LARGE_FIFTH, SMALL, Missing, Shape, capture, compiled
from tests.bench.measure import BUILD, ROOT, Result, least_cpu_seconds, peak_anonymous, warm

SCAPY = """
import sys
from scapy.utils import RawPcapReader
with RawPcapReader(sys.argv[1]) as reader:
    packets = sum(1 for _ in reader)
if packets != int(sys.argv[2]):
    sys.exit(f"scapy read {packets} packets")
"""
TWO_CORES = """
import json, sys, time
from pathlib import Path
from flowcheck_net.receive.replay import replay_to_file
paths = [Path(each) for each in sys.argv[2:]]
def seconds(jobs):
    start = time.perf_counter()
    replay_to_file(paths, Path(sys.argv[1]), captures={str(each): each.stem for each in paths}, jobs=jobs)
    return time.perf_counter() - start
print(json.dumps([min(seconds(jobs) for _ in range(3)) for jobs in (1, 2)]))
"""
UNIT = "packets/s"


def bench() -> list[Result]:
    """All readers and the ratios between them."""
    results = []
    for shape, prefix, bar in ((LARGE, "replay", 0.6), (SMALL, "replay_small", 0.3)):
        results.extend(_against_c(shape, prefix, bar))
    results.extend(_against_peers())
    results.append(_two_cores())
    results.append(_memory())
    return results


def _against_c(shape: Shape, prefix: str, bar: float) -> list[Result]:
    """The whole command, the C core alone and the bare loop, by turns."""
    path = capture(shape)
    commands = {"command": replay_command(path, shape), "core": core_command(path), "c": bare_loop_command(path, shape)}
    warm(path)
    seconds = least_cpu_seconds(commands)
    note = f"{shape.packets:,} packets, {path.stat().st_size / shape.packets:.0f} B each with its block"
    rates = {name: shape.packets / each for name, each in seconds.items()}
    return [
        Result(f"{prefix}_rate", rates["command"], UNIT, note=note),
        Result(f"{prefix}_core_rate", rates["core"], UNIT, note="the C part alone"),
        Result(f"{prefix}_c_rate", rates["c"], UNIT, note="bare C loop over the mapped file"),
        Result(f"{prefix}_core_vs_c", rates["core"] / rates["c"], "ratio"),
        Result(f"{prefix}_vs_c", rates["command"] / rates["c"], "ratio", bar),
    ]


def _against_peers() -> list[Result]:
    """Programs that read captures, once each: they are slow, and on a file of a fifth."""
    path = capture(LARGE_FIFTH)
    warm(path)
    ours = least_cpu_seconds({"command": replay_command(path, LARGE_FIFTH)})["command"]
    results = []
    peers: dict[str, tuple[Callable[[Path, int], list[str]], float | None]] = {
        "tshark": (tshark_command, 5.0),
        "tcpdump": (tcpdump_command, 5.0),
        "scapy": (scapy_command, None),
    }
    for name, (command, bar) in peers.items():
        try:
            theirs = least_cpu_seconds({name: command(path, LARGE_FIFTH.packets)}, runs=1)[name]
        except Missing as reason:
            results.append(Result(f"replay_vs_{name}", None, "ratio", bar, note=str(reason)))
            continue
        results.append(Result(f"{name}_rate", LARGE_FIFTH.packets / theirs, UNIT))
        results.append(Result(f"replay_vs_{name}", theirs / ours, "ratio", bar))
    return results


def _two_cores() -> Result:
    """Two files of two ports on two threads against one after the other, wall clock, without the start of Python.

    The one number here that other processes on the machine falsify.
    """
    path = capture(LARGE)
    warm(path)
    links = [BUILD / f"port{number}.pcapng" for number in range(2)]
    for link in links:
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    command = [sys.executable, "-c", TWO_CORES, str(BUILD / "records.fcr"), *map(str, links)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    one, two = json.loads(done.stdout)
    return Result("replay_two_cores", one / two, "ratio", 1.7, note=f"{one:.2f} s on one, {two:.2f} s on two")


def _memory() -> Result:
    """Peak anonymous memory of the command at five times the length over that at one."""
    peaks = [peak_anonymous(replay_command(capture(shape), shape)) for shape in (LARGE_FIFTH, LARGE)]
    note = " and ".join(f"{peak / 2**20:.1f} MiB" for peak in peaks) + " at 1 and 5 M packets"
    return Result("replay_memory_growth", peaks[1] / peaks[0], "ratio", 1.2, higher_is_better=False, note=note)


def replay_command(path: Path, shape: Shape) -> list[str]:
    """The whole command as a user types it; its records must hold every packet."""
    records = BUILD / "records.fcr"
    command = [str(Path(sys.executable).with_name("flowcheck-net")), "replay", str(path), "-o", str(records)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    from flowcheck_net.receive.records_read import read_records

    read = read_records(records)
    seen = sum(port.packets for port in read.captures)
    messages = sum(len(flow.messages) for flow in read.flows)
    lost = any(missing.cause != "capture_end" for flow in read.flows for missing in flow.missing)
    if seen != shape.packets or lost or messages < shape.packets // shape.message:
        raise RuntimeError(f"replay saw {seen} of {shape.packets} packets, {messages} messages, or holes")
    return command


def core_command(path: Path) -> list[str]:
    """The same in C, without writing records: what the rest costs is the difference."""
    core, sources = ROOT / "receiver" / "core", ROOT / "receiver" / "sources"
    files = [*core.glob("*.c"), *sources.glob("capfile*.c"), sources / "window.c"]
    flags = ("-std=gnu17", "-DNDEBUG", "-fPIC", f"-I{core}", f"-I{sources}")
    program = compiled("core_loop", *(each for each in files if not each.stem.endswith("_test")), flags=flags)
    return [str(program), str(path)]


def bare_loop_command(path: Path, shape: Shape) -> list[str]:
    """The bare C loop; it must count every packet as RoCEv2."""
    program = compiled("bare_loop", flags=("-march=native",))
    counted = subprocess.run([str(program), str(path)], check=True, capture_output=True, text=True).stdout.split()
    if counted[:2] != [str(shape.packets)] * 2:
        raise RuntimeError(f"the bare loop counted {counted[:2]} of {shape.packets} packets")
    return [str(program), str(path)]


def tshark_command(path: Path, _packets: int) -> list[str]:
    """Tshark dissecting everything and printing one line of statistics."""
    if shutil.which("tshark") is None:
        raise Missing("tshark is not installed")
    return ["tshark", "-n", "-q", "-z", "io,stat,0", "-r", str(path)]


def tcpdump_command(path: Path, _packets: int) -> list[str]:
    """Tcpdump printing one line a packet."""
    if shutil.which("tcpdump") is None:
        raise Missing("tcpdump is not installed")
    return ["tcpdump", "-n", "-r", str(path)]


def scapy_command(path: Path, packets: int) -> list[str]:
    """Scapy's raw reader, which dissects nothing."""
    try:
        import scapy  # noqa: F401
    except ImportError:
        raise Missing("scapy is not installed") from None
    return [sys.executable, "-c", SCAPY, str(path), str(packets)]
