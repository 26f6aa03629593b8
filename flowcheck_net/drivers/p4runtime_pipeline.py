"""Which program a switch runs, and loading ours: only where the reference asks for it (``push=``)."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from flowcheck_net.drivers.p4runtime_errors import Unreachable
from flowcheck_net.drivers.p4runtime_reference import Push, Reference
from flowcheck_net.drivers.p4runtime_schema import OtherProgram, Schema, schema_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """The pipeline that the reference names."""

    p4info: p4info_pb2.P4Info
    program: bytes

    @property
    def mark(self) -> int:
        """The high half of the cookie: the first four bytes of the SHA-256 of P4Info and program."""
        text = self.p4info.SerializeToString(deterministic=True)
        return int.from_bytes(hashlib.sha256(text + self.program).digest()[:4], "big")

    def new_cookie(self) -> int:
        """The mark, then seconds since 1970: each push has its own, so that a push shows as a restart."""
        return self.mark << 32 | int(time.time()) & 0xFFFFFFFF

    def is_running(self, p4info: p4info_pb2.P4Info, cookie: int) -> bool:
        """Is it this program? By our cookie, or, pushed by someone else, by its P4Info."""
        return cookie >> 32 == self.mark or bool(p4info == self.p4info)


@dataclass(frozen=True, slots=True)
class Running:
    """What a switch runs."""

    schema: Schema | None
    """None: no mirror block of ours."""
    cookie: int
    push: str = ""
    """Why the next write pushes our pipeline; empty: it does not."""
    doubt: str = ""
    """What is to be remarked of the program."""


def load_wanted(where: Reference) -> Wanted | None:
    """The files that the reference names; None: none. Raises Unreachable where they cannot be used."""
    if where.p4info is None:
        return None
    program = _read(where.program) if where.program else b""
    p4info = p4info_pb2.P4Info()
    try:
        text_format.Parse(_read(where.p4info).decode(), p4info)
        schema_of(p4info)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise Unreachable(f"{where.p4info} is no P4Info in text form: {' '.join(str(error).split())}") from error
    except OtherProgram as error:
        raise Unreachable(f"{where.p4info}: {error}") from error
    return Wanted(p4info, program)


def judge(pipeline: tuple[p4info_pb2.P4Info, int] | None, wanted: Wanted | None, push: Push) -> Running:
    """What to do with what the switch runs.

    Raises:
        Unreachable: it cannot be used as it is, and must not be replaced.
    """
    if pipeline is None:
        if push is Push.NEVER:
            cure = "let its controller load one, or add p4info=FILE&program=FILE&push=empty to the reference"
            raise Unreachable("the switch runs no pipeline", cure)
        return Running(None, 0, push="the switch runs no pipeline")
    p4info, cookie = pipeline
    try:
        schema = schema_of(p4info)
    except OtherProgram as error:
        if push is not Push.REPLACE:
            raise Unreachable(
                str(error), "add the block to the site's program, or let push=replace load ours in its place"
            ) from error
        return Running(None, cookie, push=str(error))
    if wanted is None or wanted.is_running(p4info, cookie):
        return Running(schema, cookie)
    if push is Push.REPLACE:
        return Running(schema, cookie, push="the switch runs another version of the program")
    return Running(schema, cookie, doubt="it has the mirror block, but is not the program that p4info= names")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror}") from error
