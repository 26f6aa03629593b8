"""One BMv2 with our P4 program: simple_switch_grpc in a network namespace, its server at a Unix socket."""

import os
import re
import shutil
import signal
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flowcheck_net.errors import LabError
from flowcheck_net.ids import Address
from flowcheck_net.lab.buffers import dropped, enlarge
from flowcheck_net.lab.place import Place
from flowcheck_net.lab.switch import accepts
from flowcheck_net.receive.synth_frames import mac_of

if TYPE_CHECKING:
    from p4.config.v1 import p4info_pb2
    from p4.v1 import p4runtime_pb2

ARTEFACTS = Path(__file__).resolve().parents[2] / "p4" / "artefacts"
VARIABLE = "FLOWCHECK_BMV2"
_PROGRAM = "simple_switch_grpc"
_P4INFO, _JSON = "flowcheck.p4info.txtpb", "flowcheck.bmv2.json"
_PORT = re.compile(r"(.*?)(\d{1,3})")
_DEVICE = 1
_FORWARD, _TO_PORT = "fc.forward", "fc.to_port"
_COOKIE = 1


def program() -> str | None:
    """The switch's program: what ``FLOWCHECK_BMV2`` names, or what is on the path."""
    return shutil.which(os.environ.get(VARIABLE) or _PROGRAM)


def lacking() -> str:
    """What is missing for a BMv2; empty: nothing."""
    if program() is None:
        return f"{_PROGRAM} is not here: build BMv2, and name it by {VARIABLE}=/path/to/{_PROGRAM}"
    if not (ARTEFACTS / _JSON).is_file():
        return f"{ARTEFACTS / _JSON} is not here: use a checkout of flowcheck-net"
    if find_spec("p4") is None or find_spec("grpc") is None:
        return "P4Runtime is not installed: pip install 'flowcheck-net[p4]'"
    return ""


def port_numbers(switch: str, ports: Iterable[str]) -> tuple[str, dict[str, int]]:
    """What stands before the number in all names of a switch's ports, and the number of each.

    Raises:
        LabError: they are not one word and numbers from 1 to 510, each once (0 and 511 mean something else to BMv2).
    """
    numbers: dict[str, int] = {}
    words = set()
    for port in ports:
        match = _PORT.fullmatch(port)
        if match and 0 < int(match[2]) < 511 and f"{match[1]}{int(match[2])}" == port:
            words.add(match[1])
            numbers[port] = int(match[2])
        else:
            words |= {port, ""}
    if len(words) != 1:
        raise LabError(
            f"{switch}: ports of a BMv2 are numbers, but it has {', '.join(sorted(ports))}",
            hint="call all of them by one word and a number from 1 to 510, such as p1, p2",
        )
    return words.pop(), numbers


class Bmv2Switch:
    """A switch of a lab: the namespace of the process ``NAME`` must be there, with the ports in it."""

    def __init__(self, place: Place, name: str, ports: Iterable[str], ways: Mapping[Address, str]) -> None:
        self.name = name
        self.directory = place.directory / name
        self._place = place
        self._word, self._numbers = port_numbers(name, sorted(ports))
        self._ways = ways

    @property
    def reference(self) -> str:
        """``management`` in a topology."""
        words = f"?device={_DEVICE}" + (f"&ports={self._word}" if self._word else "")
        return f"p4rt:unix:{self._socket}{words}"

    def make(self) -> None:
        """The program, the pipeline in it, and forwarding."""
        self.directory.mkdir()
        self.boot()

    def boot(self) -> None:
        """Start it. It comes up empty, as BMv2 always does: mirror sessions are gone, and are to be applied anew."""
        self._socket.unlink(missing_ok=True)
        interfaces = [word for name, number in self._numbers.items() for word in ("-i", f"{number}@{name}")]
        words = [program() or _PROGRAM, "--no-p4", "--device-id", str(_DEVICE), *interfaces, "--log-level", "off"]
        words += ["--notifications-addr", f"ipc://{self.directory}/notify.ipc"]
        words += ["--", "--grpc-server-addr", f"unix:{self._socket}"]
        process = self._place.spawn(self._process, words, inside=self.name, cwd=self.directory)
        self._place.expect(self._process, lambda: accepts(self._socket), f"BMv2 {self.name}")
        self._load()
        enlarge(process)
        self.begin()  # what it did not take before it was ready belongs to its start

    def begin(self) -> None:
        """Ready for a run: losses count from 0."""
        self.lost()

    def crash(self) -> None:
        """End it at once, as a power failure does."""
        self._place.end(self._process, signal.SIGKILL)

    def lost(self) -> int:
        """Frames that did not fit into its buffers since this was asked last."""
        return dropped(self._place.processes[self._process])

    @property
    def _socket(self) -> Path:
        return self.directory / "p4rt.sock"

    @property
    def _process(self) -> str:
        return f"{self.name}/bmv2"

    def _load(self) -> None:
        """Our program, and a rule for each hardware address; what is for nobody is dropped."""
        from google.protobuf import text_format
        from p4.config.v1 import p4info_pb2

        from flowcheck_net.drivers.p4runtime_client import Client
        from flowcheck_net.drivers.p4runtime_errors import Lost, Refused, Unreachable
        from flowcheck_net.drivers.p4runtime_reference import parse_reference

        p4info = text_format.Parse((ARTEFACTS / _P4INFO).read_text(encoding="utf-8"), p4info_pb2.P4Info())
        rules = [_rule(p4info, mac_of(address), self._numbers[port]) for address, port in self._ways.items()]
        try:
            client = Client(parse_reference(self.reference))
            try:
                with client.primary():
                    client.push_pipeline(p4info, (ARTEFACTS / _JSON).read_bytes(), _COOKIE)
                    wrong = [error for error in client.write_all(rules) if error is not None]
            finally:
                client.close()
        except (Lost, Refused, Unreachable) as error:
            raise LabError(f"BMv2 {self.name} does not take our program: {error}") from error
        if wrong:
            raise LabError(f"BMv2 {self.name} does not take a forwarding rule: {wrong[0]}")


def _rule(p4info: "p4info_pb2.P4Info", mac: bytes, port: int) -> "p4runtime_pb2.Update":
    """Frames to a hardware address leave at a port."""
    from p4.v1 import p4runtime_pb2

    table = next(t for t in p4info.tables if t.preamble.name == _FORWARD)
    action = next(a for a in p4info.actions if a.preamble.name == _TO_PORT)
    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
    entry = update.entity.table_entry
    entry.table_id, entry.priority = table.preamble.id, 1
    field = next(f.id for f in table.match_fields if f.name == "ether_dst")
    match = entry.match.add(field_id=field)
    match.ternary.value, match.ternary.mask = mac, b"\xff" * 6
    entry.action.action.action_id = action.preamble.id
    entry.action.action.params.add(param_id=action.params[0].id, value=port.to_bytes(2, "big").lstrip(b"\0"))
    return update
