"""A stateful P4Runtime server for tests: arbitration, batches, faults and TLS around ``p4runtime_device``.

It forwards and copies packets by the Python twin (``offer``). Shares no code with the driver.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from tests.doubles.p4_twin import Sent
from tests.doubles.p4runtime_arbitration import Arbitration, Controller
from tests.doubles.p4runtime_check import Refusal
from tests.doubles.p4runtime_device import BMV2, Device, Quirks
from tests.doubles.p4runtime_faults import Script
from tests.doubles.p4runtime_info import build_p4info

DEVICE = 1
_PUSH = p4runtime_pb2.SetForwardingPipelineConfigRequest


class Server(p4runtime_pb2_grpc.P4RuntimeServicer):  # type: ignore[misc]
    """One server with one device, on a free port of loopback, inside a ``with`` block."""

    def __init__(
        self, quirks: Quirks = BMV2, *, loaded: bool = True, credentials: grpc.ServerCredentials | None = None
    ) -> None:
        self.device = Device(quirks)
        self.arbitration = Arbitration(DEVICE, remembers=quirks.remembers)
        self.script = Script()
        self.writes: list[p4runtime_pb2.WriteRequest] = []
        """All that were let through to the device."""
        self._lock = threading.RLock()
        self._credentials = credentials
        self._port = 0
        self._server: grpc.Server | None = None
        if loaded:
            self.load()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, again at the same port where it was stopped."""
        server = grpc.server(ThreadPoolExecutor(16), options=(("grpc.so_reuseport", 0),))
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, server)
        place = f"127.0.0.1:{self._port}"
        self._port = (
            server.add_secure_port(place, self._credentials) if self._credentials else server.add_insecure_port(place)
        )
        server.start()
        self._server = server

    def stop(self) -> None:
        """All connections end at once."""
        self.arbitration.end_all()
        if self._server is not None:
            self._server.stop(None).wait()
        self._server = None

    def load(self, cookie: int = 1, info: Any = None) -> None:
        """A pipeline is there, loaded by somebody."""
        config = p4runtime_pb2.ForwardingPipelineConfig()
        config.p4info.CopyFrom(info or build_p4info())
        config.cookie.cookie = cookie
        with self._lock:
            self.device.load(config)
            self.script.know(config.p4info)

    def restart(self) -> None:
        """As BMv2 restarts: everything is gone, then its owner loads the pipeline again, with a cookie of its own."""
        cookie = self.device.config.cookie.cookie
        self.stop()
        self.device = Device(self.device.quirks)
        self.load(cookie + 1)
        self.start()

    def put(self, *updates: p4runtime_pb2.Update) -> None:
        """Somebody writes, past arbitration."""
        with self._lock:
            for update in updates:
                self.device.update(update)

    def offer(self, port: int, frames: Sequence[bytes]) -> list[Sent]:
        """What leaves when these frames enter at a port."""
        with self._lock:
            return [sent for frame in frames for sent in self.device.twin.receive(port, frame)]

    # The calls of the service; their names are the specification's.

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:
        del request, context
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version="1.3.0")

    def StreamChannel(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        controller = Controller()
        context.add_callback(lambda: self.arbitration.leave(controller))
        threading.Thread(target=self.arbitration.listen, args=(controller, requests), daemon=True).start()
        yield from controller.messages()
        if controller.failure:
            context.abort(*controller.failure)

    def GetForwardingPipelineConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self._lock:
            if self.device.program is None:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set for this device")
            answer = p4runtime_pb2.GetForwardingPipelineConfigResponse()
            if request.response_type in (request.ALL, request.P4INFO_AND_COOKIE):
                answer.config.p4info.CopyFrom(self.device.p4info())
            answer.config.cookie.CopyFrom(self.device.config.cookie)
            return answer

    def SetForwardingPipelineConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._must_be_primary(request, context)
        with self._lock:
            if self.device.broken or not request.config.p4_device_config:
                context.abort(grpc.StatusCode.UNKNOWN, "Error in first phase of device update")
            if request.action == _PUSH.RECONCILE_AND_COMMIT:
                self.device.broken = True
                context.abort(grpc.StatusCode.UNKNOWN, "Error when reconciling config")
            if request.action == _PUSH.VERIFY_AND_COMMIT:
                self.device.load(request.config)
                self.script.know(request.config.p4info)
            return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def Write(self, request: Any, context: grpc.ServicerContext) -> Any:
        fault, struck = self.script.strike(request)
        if fault == "take over":
            self.arbitration.join_stranger(99)
        if fault == "stall":
            time.sleep(2.0)
        self._must_be_primary(request, context)
        if request.atomicity != request.CONTINUE_ON_ERROR:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Only CONTINUE_ON_ERROR is supported")
        if fault == "lost before":
            self._lose(context)
        with self._lock:
            if self.device.program is None:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set for this device")
            self.writes.append(request)
            errors = self._carry_out(request.updates, struck if fault == "refuse" else -1)
        if fault == "lost after":
            self._lose(context)
        if any(error.canonical_code for error in errors):
            fail(context, errors)
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with self._lock:
            try:
                found = [each for entity in request.entities for each in self.device.read(entity)]
            except Refusal as refusal:
                context.abort(_CODES[refusal.code], refusal.message)
        for start in range(0, len(found), 200):
            yield p4runtime_pb2.ReadResponse(entities=found[start : start + 200])

    def _carry_out(self, updates: Sequence[Any], refused: int) -> list[Any]:
        errors = [p4runtime_pb2.Error(space="ALL-sswitch-p4org") for _ in updates]
        places = range(len(updates))
        for place in reversed(places) if self.device.quirks.backwards else places:
            try:
                if place == refused:
                    raise Refusal(code_pb2.INTERNAL, "refused on script")
                self.device.update(updates[place])
            except Refusal as refusal:
                errors[place].canonical_code, errors[place].message = refusal.code, refusal.message
        return errors

    def _must_be_primary(self, request: Any, context: grpc.ServicerContext) -> None:
        if request.device_id != DEVICE or not self.arbitration.may_write(request.role, request.election_id):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Not primary")

    def _lose(self, context: grpc.ServicerContext) -> None:
        """As a client sees a connection that breaks; streams end with it."""
        self.arbitration.end_all()
        context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")


def fail(context: grpc.ServicerContext, errors: Sequence[Any]) -> None:
    """Answer with one error for each update."""
    status = status_pb2.Status(code=code_pb2.UNKNOWN)
    for error in errors:
        detail = any_pb2.Any()
        detail.Pack(error)
        status.details.append(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, "")


_CODES = {code.value[0]: code for code in grpc.StatusCode}
