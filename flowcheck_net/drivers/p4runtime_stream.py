"""The arbitration stream of one controller: open it and one may become the primary; close it and that is over."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_errors import code_name

Answer = Any
"""An arbitration message, the ``grpc.RpcError`` that ended the stream, or None: ended, or no answer."""


class Stream:
    """One bidirectional stream and the thread that reads it, which ends with ``close``."""

    def __init__(self, open_stream: Callable[[Iterator[Any]], Any], device: int, election: int, role: str) -> None:
        """Open it and ask to be the primary; ``answer`` tells."""
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[Any] = queue.SimpleQueue()
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = device
        request.arbitration.election_id.low = election
        if role:
            request.arbitration.role.name = role
        self._out.put(request)
        self._call = open_stream(iter(self._out.get, None))
        # A daemon: whatever the server does, the program can end.
        self._thread = threading.Thread(target=self._receive, name="p4runtime-stream", daemon=True)
        self._thread.start()

    def answer(self, seconds: float) -> Answer:
        """The next arbitration message, the ``grpc.RpcError`` that ended the stream, or None: ended, or no answer."""
        try:
            return self._in.get(timeout=seconds)
        except queue.Empty:
            return None

    def taken_over(self) -> str:
        """Who took the switch from us since, in words; empty: nobody did."""
        while not self._in.empty():
            news = self._in.get()
            if news is None or isinstance(news, grpc.RpcError):
                self._in.put(news)
                return "the server has ended our stream"
            if news.status.code:
                self._in.put(news)
                return f"the controller with election id {election_text(news.election_id)} has taken over"
        return ""

    def close(self, seconds: float = 2.0) -> None:
        """Take leave, so that the server has released the switch when this returns; cut the stream if it does not."""
        self._out.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._call.cancel()
            self._thread.join(seconds)

    def _receive(self) -> None:
        try:
            for message in self._call:
                if message.HasField("arbitration"):
                    self._in.put(message.arbitration)
        except grpc.RpcError as error:
            self._in.put(error)
        else:
            self._in.put(None)


def election_text(election: p4runtime_pb2.Uint128) -> str:
    """An election id as people write it."""
    return str((election.high << 64) + election.low)


def refusal(answer: Answer, election: int) -> tuple[str, str]:
    """Why ``answer`` does not make us the primary: the text and the cure; both empty: we are."""
    if answer is None:
        return "the server gives no answer to our election id", "is the device number right?"
    if isinstance(answer, grpc.RpcError):
        text = f"{answer.code().name}: {answer.details()}"
        if answer.code() is grpc.StatusCode.INVALID_ARGUMENT and "lection id" in (answer.details() or ""):
            return (
                f"another controller is connected with election id {election}, perhaps another flowcheck-net ({text})",
                "wait for it to end, or give this one another id: election=N",
            )
        return f"the server refuses our election id {election} ({text})", "look at device=, role= and election="
    if answer.status.code == 0:
        return "", ""
    other = election_text(answer.election_id)
    if code_name(answer.status.code) == "NOT_FOUND":
        return (
            f"there is no primary, and election id {election} cannot become it: {other} was seen before",
            f"election={int(other) + 1} in the reference makes us the primary",
        )
    return (
        f"the controller with election id {other} is the primary; ours is {election}",
        f"wait until it ends; or take the switch from it with election={int(other) + 1} in the reference, "
        "which stops its writes; or use a role of your own (role=NAME)",
    )
