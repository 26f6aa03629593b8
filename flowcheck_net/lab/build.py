"""A lab made, looked at, and taken away without a trace."""

import os
import shutil
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import LabError
from flowcheck_net.lab import bmv2, switch
from flowcheck_net.lab.blueprint import BMV2, OVS, Blueprint, End, blueprint, mac_text
from flowcheck_net.lab.bmv2 import Bmv2Switch
from flowcheck_net.lab.place import LABS, Place, read_processes
from flowcheck_net.lab.switch import LabSwitch, Switch
from flowcheck_net.spec.dump import dump_yaml
from flowcheck_net.spec.load import Specs, load_specs, spec_paths

_PROGRAMS = ("ip", "nsenter", "unshare", "setpriv", "sh")
_MTU = 9000
RECEIVER = "/receiver"
"""How the names of receivers end."""
FILTERS = "flowcheck_lab"
"""The nftables table of faults, in the namespaces of switches."""
SPECS = "specs"
"""Folder of the lab's copy of the three files."""


def missing(platforms: Collection[str] = (OVS,)) -> str:
    """Why there can be no lab with switches of these platforms here; empty: there can."""
    if os.geteuid():
        return "needs root for network namespaces"
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)} is missing: apt-get install iproute2 util-linux"
    if OVS in platforms and (lack := switch.lacking()):
        return f"no Open vSwitch here ({lack} is missing): apt-get install openvswitch-switch"
    return bmv2.lacking() if BMV2 in platforms else ""


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that is up."""

    place: Place
    drawn: Blueprint
    switches: Mapping[str, LabSwitch]

    @property
    def specs(self) -> Path:
        """The three files as this lab has them: its own databases in ``management``."""
        return self.place.directory / SPECS

    def interface(self, end: End) -> str:
        """``NETNS/IFACE`` of a host's or checkpoint node's NIC, or of a switch's port."""
        return f"{self.place.namespace(end.node)}/{end.interface}"

    def packets_in(self, node: str) -> int:
        """What the kernel has counted as arrived on all interfaces of a node."""
        lines = Path(f"/proc/{self.place.processes[node].pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
        return sum(int(line.partition(":")[2].split()[1]) for line in lines)

    def ip(self, node: str, line: str) -> None:
        """``ip`` in a node's namespace."""
        self.place.run("ip", *line.split(), inside=node)


def directory_of(name: str, root: Path = LABS) -> Path:
    """Where the lab of this name is written down."""
    return root / name


@contextmanager
def lab_of(specs: Specs, directory: Path) -> Iterator[Lab]:
    """A lab for as long as the block lasts; nothing of it outlives this process, whatever ends it."""
    with Place(directory, tied=True) as place:
        _check(place, specs)
        try:
            with _named_faults(directory):
                place.make()
                lab = _make(place, specs)
            yield lab
        finally:
            place.clear()


def up(specs: Specs, directory: Path) -> None:
    """Make a lab that stays. Raises LabError; then nothing of it is left."""
    with Place(directory, tied=False) as place:
        _check(place, specs)
        try:
            with _named_faults(directory):
                place.make()
                _make(place, specs)
        except BaseException:
            place.clear()
            raise


@contextmanager
def standing(directory: Path) -> Iterator[Lab]:
    """The lab that ``up`` made, for as long as the block lasts.

    Raises:
        LabError: there is none, or something of it has died.
    """
    with Place(directory, tied=False) as place:
        if not place.processes:
            raise LabError(f"no lab {place.name!r} is up", hint="flowcheck-net lab up DIRECTORY")
        for name in [name for name in place.processes if name.endswith(RECEIVER)]:
            place.end(name, signal.SIGKILL)  # of a run that was killed
        dead = [name for name, process in place.processes.items() if not process.alive]
        if dead:
            raise LabError(
                f"the lab {place.name!r} is not whole: {', '.join(dead)} ended",
                hint=f"flowcheck-net lab down --name {place.name}, then lab up again",
            )
        specs = load_specs(*spec_paths(directory / SPECS))
        drawn = blueprint(specs.topology)
        _heal(place, drawn)
        yield Lab(place, drawn, _switches(place, drawn))


def _heal(place: Place, drawn: Blueprint) -> None:
    """Undo the faults of a run that was killed: filters on switches, links that are down."""
    for node in drawn.all_nodes:
        ends = [end.interface for cable in drawn.cables for end in cable if end.node == node]
        place.run("ip", "-batch", "-", inside=node, stdin="\n".join(f"link set {name} up" for name in ends))
    if shutil.which("nft") is not None:
        for switch in drawn.switches:
            tables = place.run("nft", "list", "tables", inside=switch)
            if f"netdev {FILTERS}" in tables:
                place.run("nft", "delete", "table", "netdev", FILTERS, inside=switch)


def down(directory: Path) -> int:
    """End a lab's processes, remove its files; how many processes were still there."""
    with Place(directory, tied=False) as place:
        count = sum(process.alive for process in place.processes.values())
        place.clear()
    return count


@dataclass(frozen=True, slots=True)
class Status:
    """What stands of a lab."""

    name: str
    alive: Mapping[str, int]
    """Process number by name, such as ``leaf1/vswitchd``; a plain name is a node's namespace."""
    dead: tuple[str, ...]


def statuses(root: Path = LABS) -> tuple[Status, ...]:
    """All labs of this machine that are written down, by name."""
    found = []
    for directory in sorted(root.glob("*/")):
        processes = read_processes(directory)
        alive = {name: process.pid for name, process in processes.items() if process.alive}
        found.append(Status(directory.name, alive, tuple(sorted(processes.keys() - alive.keys()))))
    return tuple(found)


def _check(place: Place, specs: Specs) -> None:
    """Can it be made here? Nothing is made yet."""
    if why := missing({each.platform for each in specs.topology.switches}):
        raise LabError(f"no lab can be made: {why}", hint="see docs/lab.md for what a lab needs")
    blueprint(specs.topology)
    place.check_free()


@contextmanager
def _named_faults(directory: Path) -> Iterator[None]:
    """What the machine refuses while a lab is made, such as room on its disk, is a LabError."""
    try:
        yield
    except OSError as error:
        raise LabError(
            f"the lab cannot be made in {directory}: {error.strerror or error}",
            hint="docs/lab.md says what a lab needs",
        ) from error


def _make(place: Place, specs: Specs) -> Lab:
    drawn = blueprint(specs.topology)
    switches = _switches(place, drawn)
    _write(specs, place.directory / SPECS, switches)
    for node in drawn.all_nodes:
        _namespace(place, node)
    for node in drawn.all_nodes:
        _cables(place, drawn, node)
    for node in drawn.all_nodes:
        _cards(place, drawn, node)
    for each in switches.values():
        each.make()
    return Lab(place, drawn, switches)


def _switches(place: Place, drawn: Blueprint) -> dict[str, LabSwitch]:
    return {name: _switch(place, drawn, name) for name in drawn.switches}


def _switch(place: Place, drawn: Blueprint, name: str) -> LabSwitch:
    ports, ways = drawn.ports(name), drawn.ways[name]
    if drawn.platforms[name] == BMV2:
        return Bmv2Switch(place, name, ports, ways)
    return Switch(place, name, ports, ways, drawn.collectors.values())


def _write(specs: Specs, folder: Path, switches: Mapping[str, LabSwitch]) -> None:
    """The three files, with the lab's databases in place of those that the user's name."""
    topology = specs.topology.model_dump(mode="json", exclude_unset=True)
    for described in topology["switches"]:
        described["management"] = switches[described["name"]].reference
    folder.mkdir()
    documents = (topology, *(s.model_dump(mode="json", exclude_unset=True) for s in (specs.job, specs.policy)))
    for path, document in zip(spec_paths(folder), documents, strict=True):
        path.write_text(dump_yaml(document), encoding="utf-8")


def _namespace(place: Place, node: str) -> None:
    """A namespace that lives as long as the process that holds it; quiet, for nobody in it sends anything unasked."""
    ours = Path("/proc/self/ns/net").readlink()
    holder = place.spawn(node, ["unshare", "--net", "--", "sleep", "infinity"])
    place.expect(node, lambda: _link(holder.namespace) not in (ours, None), f"namespace of {node}")
    quiet = (
        "for each in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do "
        "[ ! -d $each ] || echo 1 > $each/disable_ipv6; done; ip link set lo up"
    )
    place.run("sh", "-c", quiet, inside=node)


def _link(path: str) -> Path | None:
    """Where a link leads; None: nowhere any more."""
    try:
        return Path(path).readlink()
    except OSError:
        return None


def _cables(place: Place, drawn: Blueprint, node: str) -> None:
    """All cables whose first end is at the node."""
    lines = [
        f"link add {one.interface} mtu {_MTU} type veth peer name {other.interface} mtu {_MTU} "
        f"netns {place.processes[other.node].pid}"
        for one, other in drawn.cables
        if one.node == node
    ]
    place.run("ip", "-batch", "-", inside=node, stdin="\n".join(lines))


def _cards(place: Place, drawn: Blueprint, node: str) -> None:
    """Every interface of a node up; a host's NICs with their addresses.

    IPv4 only, and without a route: frames are made whole by the sender, and a kernel that could answer them would.
    """
    lines = []
    for end in (end for cable in drawn.cables for end in cable if end.node == node):
        addresses = drawn.cards.get(end, ())
        if addresses:
            lines.append(f"link set {end.interface} address {mac_text(addresses[0])}")
        lines += [f"address add {one}/32 dev {end.interface}" for one in addresses if ":" not in one]
        lines.append(f"link set {end.interface} up")
    place.run("ip", "-batch", "-", inside=node, stdin="\n".join(lines))
