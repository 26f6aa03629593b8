"""A P4Runtime server that passes all on to a real one, and breaks what the test's script says."""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from tests.doubles.p4runtime_faults import Script
from tests.doubles.p4runtime_server import fail


class Relay(p4runtime_pb2_grpc.P4RuntimeServicer):  # type: ignore[misc]
    """On a free port of loopback, for the server at ``target``, from the constructor to ``stop``."""

    def __init__(self, target: str) -> None:
        self.script = Script()
        self._channel = grpc.insecure_channel(target)
        grpc.channel_ready_future(self._channel).result(timeout=30)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        """The real one."""
        self._streams: dict[queue.SimpleQueue[Any], threading.Event] = {}
        self._server = grpc.server(ThreadPoolExecutor(16), options=(("grpc.so_reuseport", 0),))
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``."""
        return f"127.0.0.1:{self._port}"

    def stop(self) -> None:
        """All connections end."""
        self._end_streams()
        self._server.stop(None).wait()
        self._channel.close()

    # The calls of the service; their names are the specification's.

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._pass(self.stub.Capabilities, request, context)

    def GetForwardingPipelineConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._pass(self.stub.GetForwardingPipelineConfig, request, context)

    def SetForwardingPipelineConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._pass(self.stub.SetForwardingPipelineConfig, request, context)

    def Read(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            yield from self.stub.Read(request)
        except grpc.RpcError as error:
            _repeat(error, context)

    def Write(self, request: Any, context: grpc.ServicerContext) -> Any:
        fault, struck = self.script.strike(request)
        if fault == "lost before":
            self._lose(context)
        if fault == "refuse":
            rest = p4runtime_pb2.WriteRequest()
            rest.CopyFrom(request)
            del rest.updates[struck]
            if rest.updates:
                self.stub.Write(rest)
            errors = [p4runtime_pb2.Error() for _ in request.updates]
            errors[struck].canonical_code, errors[struck].message = code_pb2.INTERNAL, "refused on script"
            fail(context, errors)
        answer = self._pass(self.stub.Write, request, context)
        if fault == "lost after":
            self._lose(context)
        return answer

    def StreamChannel(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._streams[out] = over = threading.Event()
        threading.Thread(target=_forward, args=(requests, out), daemon=True).start()
        context.add_callback(lambda: out.put(None))
        try:
            yield from self.stub.StreamChannel(iter(out.get, None))
        except grpc.RpcError as error:
            _repeat(error, context)
        finally:
            over.set()
            self._streams.pop(out, None)

    def _pass(self, call: Any, request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request)
        except grpc.RpcError as error:
            return _repeat(error, context)

    def _lose(self, context: grpc.ServicerContext) -> None:
        self._end_streams()
        context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")

    def _end_streams(self) -> None:
        """Take leave of the real server, and wait until it has let go."""
        for out, over in list(self._streams.items()):
            out.put(None)
            over.wait(5)


def _forward(requests: Iterator[Any], out: "queue.SimpleQueue[Any]") -> None:
    try:
        for request in requests:
            out.put(request)
    except Exception:  # noqa: BLE001 - however the stream is cut off, it is over
        pass
    out.put(None)


def _repeat(error: grpc.RpcError, context: grpc.ServicerContext) -> None:
    kept = [(key, value) for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    context.set_trailing_metadata(tuple(kept))
    context.abort(error.code(), error.details() or "")
