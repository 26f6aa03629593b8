"""A run of BMv2 simple_switch_grpc on capture files: no root, no interfaces, packets in a fixed order.

Needs the p4 extra (grpc and the P4Runtime stubs), which is imported only here.
"""

import contextlib
import importlib
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.doubles.p4_twin import Sent, Twin
from tests.p4.artefacts import ARTEFACTS, BMV2, P4INFO

WAIT_S = 8
"""Seconds between the start of the switch and its first packet: time to fill the tables."""
SPACING_US = 10_000
"""Between packets: an egress queue holds 64, so its thread may be kept waiting for half a second by other work."""


def free_port() -> int:
    """A free TCP port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_pcap(path: Path, packets: Sequence[tuple[int, bytes]]) -> None:
    """Packets (microseconds, frame)."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for when, frame in packets:
        out += struct.pack("<IIII", when // 1_000_000, when % 1_000_000, len(frame), len(frame)) + frame
    path.write_bytes(out)


def read_pcap(path: Path) -> list[bytes]:
    """The whole frames of a capture that may still be written."""
    data = path.read_bytes() if path.exists() else b""
    frames, place = [], 24
    while place + 16 <= len(data):
        size = struct.unpack_from("<I", data, place + 8)[0]
        if place + 16 + size > len(data):
            break
        frames.append(data[place + 16 : place + 16 + size])
        place += 16 + size
    return frames


class Controller:
    """Just enough of a P4Runtime client to fill tables and read counters."""

    def __init__(self, address: str) -> None:
        """Connect and become the primary."""
        grpc: Any = importlib.import_module("grpc")
        text_format: Any = importlib.import_module("google.protobuf.text_format")
        p4info: Any = importlib.import_module("p4.config.v1.p4info_pb2")
        stubs: Any = importlib.import_module("p4.v1.p4runtime_pb2_grpc")
        self.pb: Any = importlib.import_module("p4.v1.p4runtime_pb2")
        self.info = text_format.Parse((ARTEFACTS / P4INFO).read_text(), p4info.P4Info())
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=20)
        self.stub: Any = stubs.P4RuntimeStub(self.channel)
        self.stop = False
        self.stream = self.stub.StreamChannel(self._requests())
        next(self.stream)

    def _requests(self) -> Iterator[Any]:
        request = self.pb.StreamMessageRequest()
        request.arbitration.election_id.low = 1
        yield request
        while not self.stop:
            time.sleep(0.02)

    def close(self) -> None:
        """End the stream."""
        self.stop = True
        self.channel.close()

    def push(self) -> None:
        """Load the program."""
        request = self.pb.SetForwardingPipelineConfigRequest(
            action=self.pb.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.election_id.low = 1
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = (ARTEFACTS / BMV2).read_bytes()
        self.stub.SetForwardingPipelineConfig(request)

    def fill(self, twin: Twin) -> None:
        """The entries and clone sessions of a twin."""
        request = self.pb.WriteRequest()
        request.election_id.low = 1
        for name, table in twin.tables.items():
            for entry in table.entries:
                action = f"{name[:-4]}_mirror" if name.endswith("_acl") else entry.action
                update = request.updates.add(type=self.pb.Update.INSERT)
                self._entry(update.entity.table_entry, name, entry.match, action, entry.parameters, entry.priority)
        for session, replicas in twin.clone_sessions.items():
            update = request.updates.add(type=self.pb.Update.INSERT)
            clone = update.entity.packet_replication_engine_entry.clone_session_entry
            clone.session_id = session
            for port, instance in replicas:
                clone.replicas.add(egress_port=port, instance=instance)
        self.stub.Write(request)

    def _entry(self, out: Any, name: str, match: Any, action: str, parameters: Any, priority: int) -> None:
        table = next(t for t in self.info.tables if t.preamble.name == name)
        out.table_id, out.priority = table.preamble.id, priority
        for field in table.match_fields:
            if field.name not in match:
                continue
            value, mask = match[field.name]
            one = out.match.add(field_id=field.id)
            if field.match_type == field.EXACT:
                one.exact.value = _octets(value)
            else:
                one.ternary.value, one.ternary.mask = _octets(value & mask), _octets(mask)
        found = next(a for a in self.info.actions if a.preamble.name == action)
        out.action.action.action_id = found.preamble.id
        for parameter in found.params:
            out.action.action.params.add(param_id=parameter.id, value=_octets(parameters[parameter.name]))

    def counter(self, name: str) -> dict[int, tuple[int, int]]:
        """Index -> (packets, bytes) of an indexed counter, zeros left out."""
        found = next(c for c in self.info.counters if c.preamble.name == name)
        request = self.pb.ReadRequest()
        request.entities.add().counter_entry.counter_id = found.preamble.id
        cells = [e.counter_entry for answer in self.stub.Read(request) for e in answer.entities]
        return {c.index.index: (c.data.packet_count, c.data.byte_count) for c in cells if c.data.packet_count}

    def direct(self, table: str) -> list[tuple[int, int]]:
        """(packets, bytes) of each entry of a table, sorted."""
        found = next(t for t in self.info.tables if t.preamble.name == table)
        request = self.pb.ReadRequest()
        entry = request.entities.add().table_entry
        entry.table_id = found.preamble.id
        entry.counter_data.SetInParent()
        entries = [e.table_entry for answer in self.stub.Read(request) for e in answer.entities]
        return sorted((e.counter_data.packet_count, e.counter_data.byte_count) for e in entries)


def _octets(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


@contextlib.contextmanager
def run(
    binary: Path, folder: Path, twin: Twin, packets: Sequence[tuple[int, bytes]], ports: Sequence[int]
) -> Iterator[tuple[Controller, list[Sent]]]:
    """Fill a switch as the twin is filled, send it packets (port, frame), and give what it sent (port by port)."""
    for port in ports:
        mine = [((n + 1) * SPACING_US, frame) for n, (at, frame) in enumerate(packets) if at == port]
        write_pcap(folder / f"p{port}_in.pcap", mine)
    grpc_port, thrift_port = free_port(), free_port()
    interfaces = [part for port in ports for part in ("-i", f"{port}@{folder}/p{port}")]
    command = [str(binary), "--use-files", str(WAIT_S), *interfaces, "--thrift-port", str(thrift_port), "--no-p4"]
    command += ["--", "--grpc-server-addr", f"127.0.0.1:{grpc_port}"]
    with (folder / "log").open("wb") as log:
        started = time.monotonic()
        switch = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            controller = Controller(f"127.0.0.1:{grpc_port}")
            try:
                controller.push()
                controller.fill(twin)
                if time.monotonic() - started > WAIT_S - 1:
                    raise TimeoutError("the tables were not filled before the first packet: the machine is too busy")
                yield controller, _collect(folder, ports, WAIT_S + len(packets) * SPACING_US / 1e6 + 1)
            finally:
                controller.close()
        finally:
            switch.kill()
            switch.wait(timeout=10)


def _collect(folder: Path, ports: Sequence[int], quiet_after: float) -> list[Sent]:
    """What stands in the output files once nothing more comes."""
    time.sleep(quiet_after)
    before: list[Sent] | None = None
    for _ in range(60):
        found = [Sent(port, frame) for port in ports for frame in read_pcap(folder / f"p{port}_out.pcap")]
        if found == before:
            break
        before = found
        time.sleep(0.5)
    return before or []
