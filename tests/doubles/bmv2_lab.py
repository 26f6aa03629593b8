"""A real BMv2 (simple_switch_grpc) in a network namespace, its ports cables whose far ends belong to the test.

The switch listens at a Unix socket, reached from every namespace; drivers reach it through a relay on loopback.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from p4.v1 import p4runtime_pb2

from tests.doubles.ovs_lab import wait_until
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_relay import Relay
from tests.netns.veth import namespace, needs_namespaces
from tests.p4.artefacts import ARTEFACTS, BMV2

DEVICE = 1


def missing() -> str:
    """Why there can be no BMv2 here; empty: there can."""
    named = os.environ.get("FLOWCHECK_BMV2")
    if not named:
        return "no BMv2 (FLOWCHECK_BMV2=/path/to/simple_switch_grpc)"
    if not os.access(named, os.X_OK):
        return f"FLOWCHECK_BMV2 names {named}, which cannot be run"
    return str(needs_namespaces.mark.kwargs["reason"]) if needs_namespaces.mark.args[0] else ""


class Bmv2Lab:
    """One switch with these ports, from the constructor to ``close``."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._ending = ExitStack()
        self._cookie = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="fcn-bmv2-", dir="/tmp"))
        self._ending.callback(shutil.rmtree, self._directory, ignore_errors=True)
        self.info = build_p4info()
        try:
            self.place = self._ending.enter_context(namespace())
            self.place.ip("link set lo up")
            for port in ports:
                self.place.pair(f"n{port}", f"f{port}")
            self.relay = self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the switch, and its namespace with it."""
        self._stop()
        self._ending.close()

    def reset(self) -> None:
        """No sessions, no entries, counters at 0. Sessions go first: BMv2 keeps them over a push."""
        everything = p4runtime_pb2.Entity()
        everything.packet_replication_engine_entry.clone_session_entry.session_id = 0
        if self._cookie:
            self.put(*(p4runtime_pb2.Update(type=p4runtime_pb2.Update.DELETE, entity=e) for e in self.read(everything)))
        self.load()

    def restart(self) -> None:
        """Kill it; it comes back empty, and its pipeline is loaded."""
        self.revive()
        self.load()

    def revive(self) -> None:
        """Kill it; it comes back without a pipeline."""
        self._stop()
        self.relay = self._start()

    def load(self) -> None:
        """Push the pipeline, whatever is there."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE)
        request.action = request.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = (ARTEFACTS / BMV2).read_bytes()
        self._cookie += 1
        request.config.cookie.cookie = self._cookie
        self.relay.stub.SetForwardingPipelineConfig(request, timeout=30)
        self.relay.script.know(self.info)
        self.relay.script.fault = None

    def put(self, *updates: p4runtime_pb2.Update) -> None:
        """Somebody writes, while no controller is connected."""
        if updates:
            self.relay.stub.Write(p4runtime_pb2.WriteRequest(device_id=DEVICE, updates=updates), timeout=30)

    def read(self, *entities: p4runtime_pb2.Entity) -> list[Any]:
        """What the switch has of them."""
        request = p4runtime_pb2.ReadRequest(device_id=DEVICE, entities=entities)
        return [found for answer in self.relay.stub.Read(request, timeout=30) for found in answer.entities]

    def cross(self, enters: int, leaves: int, frames: Sequence[bytes], sessions: Iterable[int]) -> None:
        """Let frames in at a port and out at another; returns when they and the copies of these sessions are out."""
        with self.place.listening(f"f{leaves}") as out, self.place.listening(f"f{enters}") as into:
            for frame in frames:
                into.socket.send(frame)
                time.sleep(0.0005)
            assert len(out.frames(len(frames))) == len(frames)
        names = {c.preamble.name: c.preamble.id for c in self.info.counters}
        asked = [_cell(names[f"fc.{gress}_copies"], n) for gress in ("ingress", "egress") for n in sessions]
        sent = [_cell(names["fc.sent_copies"], n) for n in sessions]
        wait_until(lambda: self._sum(asked) == self._sum(sent), "copies")

    def _sum(self, cells: Sequence[p4runtime_pb2.Entity]) -> int:
        return sum(e.counter_entry.data.packet_count for e in self.read(*cells))

    def _start(self) -> Relay:
        path = self._directory / "p4rt.sock"
        path.unlink(missing_ok=True)
        interfaces = [word for port in self._ports for word in ("-i", f"{port}@n{port}")]
        words = [
            *(os.environ["FLOWCHECK_BMV2"], "--no-p4", "--device-id", DEVICE, *interfaces, "--log-level", "off"),
            *("--notifications-addr", f"ipc://{self._directory}/notify.ipc"),
            *("--", "--grpc-server-addr", f"unix:{path}"),
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self.place.words(*map(str, words)), stdout=log, stderr=log)
        wait_until(path.exists, "simple_switch_grpc")
        return Relay(f"unix:{path}")

    def _stop(self) -> None:
        if hasattr(self, "relay"):
            self.relay.stop()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process = None


def _cell(counter: int, index: int) -> p4runtime_pb2.Entity:
    entity = p4runtime_pb2.Entity()
    entity.counter_entry.counter_id = counter
    entity.counter_entry.index.index = index
    return entity
