"""p4runtime-shell's client, made safe for a library: deadlines, no exit, no print, no thread that stays.

The original leaves the process when a file is missing or a server does not answer, waits without a bound, prints that
it is only a backup, reads its stream in a thread that keeps the program from ending, and never returns from a batch of
which a part failed. So the connection, the stream, reads and writes are made anew here over its stubs.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeException

from flowcheck_net.drivers.p4runtime_errors import (
    Lost,
    Refused,
    Unreachable,
    UpdateError,
    call_words,
    had_no_effect,
    update_errors,
)
from flowcheck_net.drivers.p4runtime_reference import Reference
from flowcheck_net.drivers.p4runtime_stream import Stream, refusal
from flowcheck_net.drivers.p4runtime_tls import credentials, diagnose

SECONDS = 10.0
"""For every call."""
PUSH_SECONDS = 120.0
"""For loading a pipeline: a Tofino takes its time."""
_OPTIONS = (
    # A connection of our own: shared ones would share a failure, and its pause, with other drivers of this process.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 64 << 20),
)
_NOT_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Client(P4RuntimeClient):  # type: ignore[misc]
    """One connection to one device, from the constructor to ``close``."""

    def __init__(self, where: Reference, seconds: float = SECONDS) -> None:
        """Connect; raises Unreachable with the cure."""
        self.device_id = where.device
        self.election_id = (0, where.election)
        self.role_name = where.role or None
        self._where = where
        self._seconds = seconds
        self._stream: Stream | None = None
        self.channel = self._open_channel()
        raw = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        names = ("Read", "Write", "Capabilities", "GetForwardingPipelineConfig")
        self.stub = SimpleNamespace(**{name: partial(getattr(raw, name), timeout=seconds) for name in names})
        self.stub.SetForwardingPipelineConfig = partial(raw.SetForwardingPipelineConfig, timeout=PUSH_SECONDS)
        self.stub.StreamChannel = raw.StreamChannel
        try:
            self.api_version()
        except P4RuntimeException as error:
            # A server from before version 1.1 has no such call: it answers, which is all that is asked here.
            if error.grpc_error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                self.close()
                raise self._unreachable(error.grpc_error) from error

    def close(self) -> None:
        """Hang up; never raises."""
        self._leave()
        self.channel.close()

    @contextmanager
    def primary(self) -> Iterator[None]:
        """Be the primary inside the block; raises Refused, with who is it in our place, or Lost."""
        self._stream = Stream(self.stub.StreamChannel, self.device_id, self._where.election, self._where.role)
        try:
            answer = self._stream.answer(self._seconds)
            if isinstance(answer, grpc.RpcError) and answer.code() in _NOT_THERE:
                raise Lost(call_words(answer))
            text, cure = refusal(answer, self._where.election)
            if text:
                raise Refused(text, cure)
            yield
        finally:
            self._leave()

    def get_pipeline(self) -> tuple[p4info_pb2.P4Info, int] | None:
        """The P4Info and the cookie; None: the switch runs no pipeline. Raises Refused, Lost."""
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=self.device_id)
        request.response_type = p4runtime_pb2.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        try:
            config = self.stub.GetForwardingPipelineConfig(request).config
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise self._failure(error) from error
        return (config.p4info, config.cookie.cookie) if config.p4info.tables else None

    def push_pipeline(self, p4info: p4info_pb2.P4Info, program: bytes, cookie: int) -> None:
        """Load a pipeline, which empties all tables. Raises Refused, Lost.

        Never RECONCILE_AND_COMMIT: BMv2 cannot be used any more after it.
        """
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=self.device_id, role=self.role_name or "")
        request.election_id.low = self._where.election
        request.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = program
        request.config.cookie.cookie = cookie
        try:
            self.stub.SetForwardingPipelineConfig(request)
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def read_all(self, entities: Sequence[Any]) -> list[Any]:
        """Every entity of the switch that one of ``entities`` asks for. Raises Refused, Lost."""
        if not entities:
            return []
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id, role=self.role_name or "", entities=entities)
        try:
            return [found for answer in self.stub.Read(request) for found in answer.entities]
        except grpc.RpcError as error:
            raise self._failure(error) from error

    def write_all(self, updates: Sequence[Any]) -> list[UpdateError | None]:
        """Carry out a batch, of each update its error or None.

        Raises:
            Refused: nothing of it was done.
            Lost: any part of it may be done.
        """
        if self._stream is None:
            raise Refused("we are not the primary")
        if told := self._stream.taken_over():
            raise Refused(told)
        request = p4runtime_pb2.WriteRequest(device_id=self.device_id, role=self.role_name or "")
        request.election_id.low = self._where.election
        request.updates.extend(updates)
        try:
            self.stub.Write(request)
        except grpc.RpcError as error:
            errors = update_errors(error, len(updates))
            if errors is not None:
                return errors
            raise self._failure(error) from error
        return [None] * len(updates)

    def _failure(self, error: grpc.RpcError) -> Exception:
        if had_no_effect(error):
            return Refused(call_words(error))
        return Lost(call_words(error))

    def _leave(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _open_channel(self) -> grpc.Channel:
        where = self._where
        if not where.tls:
            return grpc.insecure_channel(where.server, _OPTIONS)
        name = (("grpc.ssl_target_name_override", where.name),) if where.name else ()
        return grpc.secure_channel(where.server, credentials(), (*_OPTIONS, *name))

    def _unreachable(self, error: grpc.RpcError) -> Unreachable:
        if error.code() in _NOT_THERE:
            return diagnose(self._where, call_words(error))
        return Unreachable(f"{self._where.server}: {call_words(error)}")
