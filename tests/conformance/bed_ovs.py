"""Four bridges of one real Open vSwitch for the crash test. They are put back by a transaction, never by a restart.

The moments inside are: before and after each message to ovsdb-server and ovs-vswitchd, and each call of ovs-ofctl.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.drivers.base import Driver
from flowcheck_net.drivers.ovs_flows import FlowTable
from flowcheck_net.drivers.ovs_reference import Remote
from flowcheck_net.drivers.ovs_rpc import Connection
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import PortName, SwitchName
from flowcheck_net.intent import SwitchAddress
from flowcheck_net.lab.build import missing
from tests.conformance.bench import JOB, Cannot
from tests.conformance.bench_ovs import add_mirror
from tests.conformance.crash import Tick
from tests.doubles.ovs_lab import VOLATILE, OvsLab

BRIDGES = {"leaf1": "p", "leaf2": "q", "leaf3": "r", "leaf9": "s"}
"""Bridge -> the first letter of its ports: an interface has one name in the whole switch."""
OURS = f"fcn-{JOB}-"
COOKIE = "cookie=0xfc4e"
TABLES = ("Mirror", "Port", "Interface", "Bridge", "Open_vSwitch")
MIRROR = ("name", "select_src_port", "select_dst_port", "output_port", "external_ids")
Row = Mapping[str, object]
_shared: list[OvsLab] = []


class OvsBed:
    """See ``crash.Bed``. On each bridge are a mirror of netops, one of another job, and the rules that forward."""

    filters = True
    names: Sequence[SwitchName] = tuple(SwitchName(name) for name in BRIDGES)
    # A prime, so that the moments of the four switches are not hit in step.
    stride = int(os.environ.get("FLOWCHECK_CRASH", "79"))

    def __init__(self, lab: OvsLab) -> None:
        self._lab = lab
        self._put([], {bridge: [] for bridge in BRIDGES})

    def sources(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.sources``."""
        return [PortName(f"{BRIDGES[switch]}h{n}") for n in (1, 2, 3)]

    def destinations(self, switch: SwitchName) -> Sequence[PortName]:
        """See ``Bed.destinations``."""
        return [PortName(f"{BRIDGES[switch]}c{n}") for n in (1, 2)]

    def open(self, name: SwitchName, job: str) -> Driver:
        """See ``Bed.open``."""
        return open_driver(SwitchAddress(name, "ovs", self._lab.reference(name)), job, self._lab.directory)

    def save(self, folder: Path) -> None:
        """See ``Bed.save``."""
        folder.mkdir(parents=True)
        (folder / "bed.json").write_text(json.dumps(self._ours()))

    def load(self, folder: Path) -> None:
        """See ``Bed.load``."""
        wanted = json.loads((folder / "bed.json").read_text())
        if wanted != json.loads(json.dumps(self._ours())):
            self._put(*wanted)

    def foreign_bytes(self) -> bytes:
        """See ``Bed.foreign_bytes``: rows and rules that are not ours, also those of ports, bridges and the switch."""
        rows = [
            {k: v for k, v in row.items() if k not in VOLATILE and k != "mirrors"}
            for table in self._select(*TABLES)
            for row in table
        ]
        texts = [text for row in rows if OURS not in (text := json.dumps(row, sort_keys=True))]
        rules = [rule for bridge in BRIDGES for rule in self._rules(bridge) if COOKIE not in rule]
        return "\n".join(sorted(texts) + rules).encode()

    def arm(self, tick: Tick) -> None:
        """See ``Bed.arm``."""
        send, run = Connection._send, FlowTable._run

        def ticking_send(self: Connection, message: dict[str, object]) -> None:
            tick()
            send(self, message)
            tick()

        def ticking_run(self: FlowTable, words: list[str], stdin: str) -> str:
            tick()
            found = run(self, words, stdin)
            tick()
            return found

        Connection._send = ticking_send  # type: ignore[method-assign]
        FlowTable._run = ticking_run  # type: ignore[method-assign]

    def _ours(self) -> tuple[list[Row], dict[str, list[str]]]:
        bridges, mirrors = self._select("Bridge", "Mirror")
        owner = {u: b["name"] for b in bridges for u in [str(m) for m in _members(b["mirrors"])]}
        rows = [
            {"bridge": owner.get(str(m["_uuid"])), "row": {c: m[c] for c in MIRROR}}
            for m in mirrors
            if OURS in str(m["name"])
        ]
        rules = {b: [r for r in self._rules(b) if COOKIE in r] for b in BRIDGES}
        return sorted(rows, key=str), rules

    def _put(self, rows: Sequence[Row], rules: Mapping[str, Sequence[str]]) -> None:
        (mirrors,) = self._select("Mirror")
        gone = [m["_uuid"] for m in mirrors if OURS in str(m["name"])]
        work: list[object] = [
            {"op": "mutate", "table": "Bridge", "where": [], "mutations": [["mirrors", "delete", ["set", gone]]]}
        ]
        for place, each in enumerate(rows):
            new = f"m{place}"
            where = [["name", "==", each["bridge"]]]
            work.append({"op": "insert", "table": "Mirror", "uuid-name": new, "row": each["row"]})
            mutation = ["mirrors", "insert", ["set", [["named-uuid", new]]]]
            work.append({"op": "mutate", "table": "Bridge", "where": where, "mutations": [mutation]})
        work.append({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]})
        assert not any(isinstance(a, dict) and a.get("error") for a in self._transact(work))
        for bridge in BRIDGES:
            self._ofctl("del-flows", bridge, "cookie=0xfc4e000000000000/0xffff000000000000")
            if rules[bridge]:
                self._ofctl("add-flows", bridge, "-", stdin="\n".join(rules[bridge]))

    def _rules(self, bridge: str) -> list[str]:
        lines = self._ofctl("--no-stats", "dump-flows", bridge).splitlines()
        return sorted(line.strip().replace(" actions", ",actions") for line in lines if "actions=" in line)

    def _select(self, *tables: str) -> list[list[Row]]:
        answers = self._transact([{"op": "select", "table": t, "where": []} for t in tables])
        return [a["rows"] for a in answers]

    def _transact(self, work: Sequence[object]) -> list[dict[str, list[Row]]]:
        with Connection(Remote("unix", str(self._lab.database))) as there:
            found = there.call("transact", ["Open_vSwitch", *work])
        assert isinstance(found, list)
        return found

    def _ofctl(self, *words: str, stdin: str = "") -> str:
        """The bridge is the one word that is one; by its socket, without a process to enter the namespace."""
        known = [f"unix:{self._lab.directory}/{w}.mgmt" if w in BRIDGES else w for w in words]
        command = ["ovs-ofctl", "-O", "OpenFlow14", *known]
        return subprocess.run(command, input=stdin, text=True, capture_output=True, check=True).stdout


def _members(value: object) -> Sequence[object]:
    """Of a set on the wire, which is its bare element where it has one."""
    assert isinstance(value, list)
    return value[1] if value[0] == "set" else [value]


@contextmanager
def real(_: Path) -> Iterator[OvsBed]:
    """One lab for all crash tests of the process."""
    if why := missing():
        raise Cannot(why)
    if not _shared:
        lab = OvsLab().__enter__()
        _shared.append(lab)
        for bridge, letter in BRIDGES.items():
            lab.add_bridge(bridge, [f"{letter}{port}" for port in ("h1", "h2", "h3", "c1", "c2", "x1", "x2")])
            add_mirror(lab, bridge, "netops-span", f"{letter}h3", f"{letter}x1", "owner=netops")
            marks = ("flowcheck-net\\:job=bert", "flowcheck-net\\:session=fcn-bert-0", "flowcheck-net\\:digest=0")
            add_mirror(lab, bridge, "fcn-bert-0", f"{letter}h3", f"{letter}x2", *marks)
    yield OvsBed(_shared[0])


def close() -> None:
    """End the lab."""
    while _shared:
        _shared.pop().close()
