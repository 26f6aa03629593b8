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
from tests.doubles.p4runtime_entries import ALL_PORT, DELETE, MODIFY, clone_update, describe, rule, table_update
from tests.doubles.p4runtime_info import build_p4info
from tests.doubles.p4runtime_server import Server

PORT = {"port": (3, ALL_PORT)}
Cases = list[tuple[p4runtime_pb2.Update, str, str]]


def send(server: Server, *updates: p4runtime_pb2.Update) -> list[UpdateError | None]:
    client = Client(parse_reference(f"p4rt:{server.address}?device=1"))
    try:
        with client.primary():
            return client.write_all(updates)
    finally:
        client.close()


def cases(server: Server) -> Cases:
    info = server.device.p4info()
    server.put(clone_update(5, (3, 1)), rule(info, "ingress", PORT, 5))
    wide = rule(info, "ingress", {"port": (1 << 9, 1 << 9)}, 5)
    default = table_update(info, "fc.sessions", {}, "fc.describe", {"job_tag": 1, "session_number": 1})
    default.entity.table_entry.is_default_action = True
    register = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
    register.entity.register_entry.register_id = 1
    few = rule(info, "ingress", {"port": (4, ALL_PORT)}, 5)
    del few.entity.table_entry.action.action.params[0]
    twice = rule(info, "ingress", {"port": (4, ALL_PORT)}, 5)
    twice.entity.table_entry.match.add().CopyFrom(twice.entity.table_entry.match[0])
    return [
        (rule(info, "ingress", PORT, 5), "ALREADY_EXISTS", "it is there already"),
        (clone_update(5, (3, 1)), "ALREADY_EXISTS", "it is there already"),
        (rule(info, "egress", PORT, 5, kind=MODIFY), "NOT_FOUND", "it is not there any more"),
        (rule(info, "egress", PORT, 5, kind=DELETE), "NOT_FOUND", "it is not there any more"),
        (clone_update(6, kind=DELETE), "NOT_FOUND", "it is not there any more"),
        (rule(info, "ingress", {"port": (4, ALL_PORT)}, 5, priority=0), "INVALID_ARGUMENT", "does not take it"),
        (few, "INVALID_ARGUMENT", "Wrong number of action parameters"),
        (rule(info, "ingress", {"port": (3, 1)}, 5), "INVALID_ARGUMENT", "Value is outside of its mask"),
        (wide, "INVALID_ARGUMENT", "does not fit within 9 bits"),
        (clone_update(6, (3, 1), (3, 1)), "INVALID_ARGUMENT", "Duplicate replica"),
        (clone_update(32768, (3, 1)), "INVALID_ARGUMENT", "out of range"),
        (twice, "INVALID_ARGUMENT", "duplicate match field"),
        (default, "PERMISSION_DENIED", "constant in the program, or outside of our role"),
        (clone_update(6, (3, 1), service=1), "UNIMPLEMENTED", "this switch cannot do it"),
        (register, "UNIMPLEMENTED", "this switch cannot do it"),
        (clone_update(6, (3, 1), length=64), "UNKNOWN", "no reason that we know (UNKNOWN: no text)"),
        (rule(info, "ingress", {"port": (4, ALL_PORT)}, 99), "FAILED_PRECONDITION", "something that it needs"),
    ]


def test_each_update_of_a_mixed_batch_has_its_own_answer_and_the_good_ones_are_done():
    with Server() as server:
        every = cases(server)
        good = describe(server.device.p4info(), 5, "gpt", 0)
        told = send(server, good, *(update for update, _, _ in every), clone_update(8, (3, 1)))
        assert told[0] is None
        assert told[-1] is None
        assert sorted(server.device.clones) == [5, 8]
        for (_, code, words), error in zip(every, told[1:-1], strict=True):
            assert error is not None
            assert error.code == code
            assert words in str(error), (words, str(error))


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
