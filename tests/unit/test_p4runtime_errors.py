"""Every error that a P4Runtime server was seen to give (domain/p4-facts.md), in plain words and with its effect."""

from collections.abc import Callable

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from flowcheck_net.drivers.p4runtime_client import Client
from flowcheck_net.drivers.p4runtime_errors import UpdateError, call_words, had_no_effect, update_errors
from flowcheck_net.drivers.p4runtime_reference import parse_reference
from tests.doubles.p4runtime_device import BMV2, STRATUM, Quirks
from tests.doubles.p4runtime_entries import ALL_PORT, clone_update, describe, rule
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_server import Server
from tests.doubles.p4runtime_wrong import before, wrong_updates

PORT = {"port": (3, ALL_PORT)}
WORDS = {
    "ALREADY_EXISTS": "it is there already, written by someone else",
    "NOT_FOUND": "it is not there any more",
    "INVALID_ARGUMENT": "the switch's program does not take it",
    "PERMISSION_DENIED": "constant in the program, or outside of our role",
    "UNIMPLEMENTED": "this switch cannot do it",
    "UNKNOWN": "no reason that we know (UNKNOWN: no text)",
    "FAILED_PRECONDITION": "something that it needs is not there",
}


def send(server: Server, *updates: p4runtime_pb2.Update) -> list[UpdateError | None]:
    client = Client(parse_reference(f"p4rt:{server.address}?device=1"))
    try:
        with client.primary():
            return client.write_all(updates)
    finally:
        client.close()


def test_each_update_of_a_mixed_batch_has_its_own_answer_and_the_good_ones_are_done():
    with Server() as server:
        info = server.device.p4info()
        server.put(*before(info))
        absent = (rule(info, "ingress", {"port": (4, ALL_PORT)}, 99), "FAILED_PRECONDITION")
        every = [*wrong_updates(info), absent]
        told = send(server, describe(info, 5, "gpt", 0), *(update for update, _ in every), clone_update(8, (3, 1)))
        assert told[0] is None
        assert told[-1] is None
        assert sorted(server.device.clones) == [5, 8]
        for (_, code), error in zip(every, told[1:-1], strict=True):
            assert error is not None
            assert error.code == code
            assert WORDS[code] in str(error)


@pytest.mark.parametrize("quirks", [BMV2, STRATUM])
def test_a_full_table_is_called_full(quirks: Quirks):
    with Server(quirks) as server:
        server.load(info=build_p4info(sizes={"fc.ingress_acl": 1}))
        info = server.device.p4info()
        server.put(clone_update(5, (3, 1)), rule(info, "ingress", PORT, 5))
        (error,) = send(server, rule(info, "ingress", {"port": (4, ALL_PORT)}, 5))
        assert "the table is full" in str(error)


class Failed(grpc.RpcError):  # type: ignore[misc]
    """A call that failed, made by hand."""

    def __init__(self, code: grpc.StatusCode, details: str = "", *, bytes_: bytes | None = None) -> None:
        super().__init__()
        self._code, self._details, self._bytes = code, details, bytes_

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return () if self._bytes is None else (("grpc-status-details-bin", self._bytes),)


def details(*codes: int, pack: Callable[[any_pb2.Any, int], None] | None = None) -> bytes:
    status = status_pb2.Status(code=code_pb2.UNKNOWN)
    for code in codes:
        (pack or (lambda box, c: box.Pack(p4runtime_pb2.Error(canonical_code=c))))(status.details.add(), code)
    return bytes(status.SerializeToString())


def test_an_answer_that_does_not_say_which_update_failed_is_no_answer():
    unknown = grpc.StatusCode.UNKNOWN
    assert update_errors(Failed(unknown), 2) is None
    assert update_errors(Failed(unknown, bytes_=b"\xff\xff"), 2) is None
    assert update_errors(Failed(unknown, bytes_=details(0, 5)), 3) is None
    assert (
        update_errors(Failed(unknown, bytes_=details(0, pack=lambda box, _: box.Pack(status_pb2.Status()))), 1) is None
    )
    assert update_errors(Failed(unknown, bytes_=details(0, 5)), 2) == [None, UpdateError("NOT_FOUND", "")]


@pytest.mark.parametrize(
    ("code", "words", "no_effect"),
    [
        ("PERMISSION_DENIED", "another controller is the primary, or the device number is wrong", True),
        ("FAILED_PRECONDITION", "the switch runs no pipeline", True),
        ("UNIMPLEMENTED", "does not offer this call", True),
        ("UNAUTHENTICATED", "does not accept our credentials", True),
        ("NOT_FOUND", "no such device", True),
        ("INVALID_ARGUMENT", "does not understand the request", True),
        ("RESOURCE_EXHAUSTED", "no room for the request", False),
        ("DEADLINE_EXCEEDED", "no answer in time", False),
        ("UNAVAILABLE", "the connection is lost", False),
        ("CANCELLED", "the connection was ended", False),
        ("UNKNOWN", "the server failed", False),
        ("INTERNAL", "the server failed", False),
    ],
)
def test_a_call_that_fails_as_a_whole_is_told_in_words(code: str, words: str, no_effect: bool):
    error = Failed(grpc.StatusCode[code], "some\nwords of the server")
    assert words in call_words(error)
    assert call_words(error).endswith(f"({code}: some words of the server)")
    assert had_no_effect(error) is no_effect
