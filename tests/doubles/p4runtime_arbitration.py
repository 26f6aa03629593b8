"""Which controller is the primary of a device, by role: the part of the test server that knows who is connected."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2


class Controller:
    """One stream."""

    def __init__(self) -> None:
        self.out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.role = ""
        self.election = 0
        self.failure: tuple[grpc.StatusCode, str] | None = None
        """With what the stream ends."""

    def messages(self) -> Iterator[Any]:
        """What is sent to it, until the stream ends."""
        while (message := self.out.get()) is not None:
            yield message


class Arbitration:
    """Controllers by role; the highest election id of a role is its primary."""

    def __init__(self, device: int, *, remembers: bool) -> None:
        self._device = device
        self._remembers = remembers
        self._lock = threading.RLock()
        self._joined: list[Controller] = []
        self._highest: dict[str, int] = {}

    def listen(self, controller: Controller, requests: Iterator[Any]) -> None:
        """Take in what a controller sends, until it takes leave or is cut off."""
        try:
            for request in requests:
                if request.HasField("arbitration"):
                    self._arbitrate(controller, request.arbitration)
        except Exception:  # noqa: BLE001 - however a stream is cut off, the controller is gone
            pass
        self.leave(controller)

    def leave(self, controller: Controller) -> None:
        """A stream is over; the next one is told if it becomes the primary."""
        with self._lock:
            was_primary = self._primary(controller.role) is controller
            if controller in self._joined:
                self._joined.remove(controller)
            if was_primary:
                self._tell(controller.role)
        controller.out.put(None)

    def end_all(self) -> None:
        """Every stream ends."""
        with self._lock:
            for controller in list(self._joined):
                self.leave(controller)

    def join_stranger(self, election: int, role: str = "") -> Controller:
        """Another controller connects."""
        controller = Controller()
        request = p4runtime_pb2.MasterArbitrationUpdate(device_id=self._device)
        request.election_id.low = election
        request.role.name = role
        self._arbitrate(controller, request)
        return controller

    def may_write(self, role: str, election: Any) -> bool:
        """Is a writer with this id the primary, or nobody connected at all?"""
        number = (election.high << 64) + election.low
        with self._lock:
            primary = self._primary(role)
            return number == 0 if not self._joined else primary is not None and primary.election == number

    def _arbitrate(self, controller: Controller, asked: Any) -> None:
        number = (asked.election_id.high << 64) + asked.election_id.low
        with self._lock:
            role = asked.role.name
            if asked.device_id != self._device:
                return self._fail(controller, grpc.StatusCode.FAILED_PRECONDITION, "Invalid device id")
            others = [c for c in self._joined if c is not controller and c.role == role]
            if any(c.election == number for c in others):
                return self._fail(controller, grpc.StatusCode.INVALID_ARGUMENT, "Election id already exists")
            controller.role, controller.election = role, number
            if controller not in self._joined:
                self._joined.append(controller)
            self._highest[role] = max(self._highest.get(role, 0), number)
            if self._primary(role) is controller:
                self._tell(role)
            else:
                controller.out.put(self._news(controller))
        return None

    def _fail(self, controller: Controller, code: grpc.StatusCode, text: str) -> None:
        controller.failure = (code, text)
        controller.out.put(None)

    def _primary(self, role: str) -> Controller | None:
        found = max((c for c in self._joined if c.role == role), key=lambda c: c.election, default=None)
        if found and self._remembers and found.election < self._highest.get(role, 0):
            return None
        return found

    def _tell(self, role: str) -> None:
        for controller in self._joined:
            if controller.role == role:
                controller.out.put(self._news(controller))

    def _news(self, controller: Controller) -> Any:
        primary = self._primary(controller.role)
        message = p4runtime_pb2.StreamMessageResponse()
        news = message.arbitration
        news.device_id = self._device
        number = primary.election if primary else self._highest.get(controller.role, 0)
        news.election_id.high, news.election_id.low = number >> 64, number & (1 << 64) - 1
        if primary is controller:
            news.status.code, news.status.message = code_pb2.OK, "Is primary"
        elif primary:
            news.status.code, news.status.message = code_pb2.ALREADY_EXISTS, "Is backup"
        else:
            news.status.code, news.status.message = code_pb2.NOT_FOUND, "No primary"
        return message
