"""What a P4Runtime server answers when something is wrong, in plain words.

A failed write bears one ``p4.v1.Error`` for each update in the trailing metadata ``grpc-status-details-bin``, also for
those that succeeded. p4runtime-shell's own iterator never ends on such a mixture, so it is decoded here.
"""

import os
from dataclasses import dataclass

# gRPC's core writes failed handshakes to standard error; what they mean is told elsewhere. Read when it is imported,
# which this module does before all others of the driver. A user who sets the variable gets its log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

DETAILS = "grpc-status-details-bin"
_UPDATE = {
    "ALREADY_EXISTS": "it is there already, written by someone else meanwhile",
    "NOT_FOUND": "it is not there any more, removed by someone else meanwhile",
    "INVALID_ARGUMENT": "the switch's program does not take it",
    "PERMISSION_DENIED": "it may not be changed: constant in the program, or outside of our role",
    "UNIMPLEMENTED": "this switch cannot do it",
    "RESOURCE_EXHAUSTED": "the table is full",
    "FAILED_PRECONDITION": "something that it needs is not there",
}
_FULL = "Error when adding match entry to target"
"""BMv2 says UNKNOWN with this text when the table is full."""
_CALL = {
    "PERMISSION_DENIED": "another controller is the primary, or the device number is wrong",
    "FAILED_PRECONDITION": "the switch runs no pipeline",
    "UNIMPLEMENTED": "the server does not offer this call",
    "UNAUTHENTICATED": "the server does not accept our credentials",
    "NOT_FOUND": "the server has no such device",
    "INVALID_ARGUMENT": "the server does not understand the request",
    "RESOURCE_EXHAUSTED": "the server has no room for the request, or the answer is too long",
    "DEADLINE_EXCEEDED": "no answer in time",
    "UNAVAILABLE": "the connection is lost",
    "CANCELLED": "the connection was ended",
}
_NO_EFFECT = frozenset(
    {
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
    }
)


class Refused(Exception):
    """The server refused the whole call: nothing of it took effect. ``hint`` is the cure."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Lost(Exception):
    """No answer, or one that does not say what took effect."""


class Unreachable(Exception):
    """No connection: nothing was sent. ``hint`` is the cure."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class UpdateError:
    """Why one update of a batch had no effect."""

    code: str
    """Name of the canonical code."""
    message: str

    def __str__(self) -> str:
        if self.code == "UNKNOWN" and _FULL in self.message:
            words = "the table is full, or the switch has no room of another kind"
        else:
            words = _UPDATE.get(self.code, "the switch gives no reason that we know")
        return f"{words} ({self.code}: {one_line(self.message) or 'no text'})"


def update_errors(error: grpc.RpcError, count: int) -> list[UpdateError | None] | None:
    """Of each of ``count`` updates its error or None; None for all: the answer does not say."""
    status = _status(error)
    if status is None or len(status.details) != count:
        return None
    found: list[UpdateError | None] = []
    for detail in status.details:
        one = p4runtime_pb2.Error()
        if not detail.Unpack(one):
            return None
        found.append(UpdateError(code_name(one.canonical_code), one.message) if one.canonical_code else None)
    return found


def call_words(error: grpc.RpcError) -> str:
    """What a failed call means, with the server's own words."""
    name = error.code().name
    words = _CALL.get(name, "the server failed")
    return f"{words} ({name}: {one_line(error.details() or '') or 'no text'})"


def had_no_effect(error: grpc.RpcError) -> bool:
    """Was the call refused as a whole, before anything of it was done?"""
    return error.code() in _NO_EFFECT


def code_name(code: int) -> str:
    """``NOT_FOUND`` for 5."""
    values = code_pb2.Code.DESCRIPTOR.values_by_number
    return str(values[code].name) if code in values else f"code {code}"


def one_line(text: str) -> str:
    """The first 200 characters, without line ends."""
    return " ".join(text.split())[:200]


def _status(error: grpc.RpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS:
            status = status_pb2.Status()
            try:
                status.ParseFromString(value)
            except DecodeError:
                return None
            return status
    return None
