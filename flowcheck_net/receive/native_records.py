"""The door to the C reader of records files, which tests every length, checksum and row of a file from anywhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from flowcheck_net._native import ffi, lib

FORMAT: int = lib.FCK_RECORDS_FORMAT


class Kind(IntEnum):
    """What a block holds."""

    MESSAGES = lib.FCK_RECORDS_MESSAGES
    SEEN = lib.FCK_RECORDS_SEEN
    REPEATS = lib.FCK_RECORDS_REPEATS
    MISSING = lib.FCK_RECORDS_MISSING
    GAPS = lib.FCK_RECORDS_GAPS
    INDEX = lib.FCK_RECORDS_INDEX


@dataclass(frozen=True, slots=True)
class Block:
    """A whole block; its rows are sound."""

    kind: Kind
    chain: int
    flow: int
    content: memoryview


class Unsound(Exception):
    """What is wrong with the file, in words that follow its name."""


def blocks(data: bytes) -> Iterator[Block]:
    """The blocks of a records file, the index last.

    Raises:
        Unsound: the file is no records file, of another version, cut or damaged.
    """
    view = memoryview(data)
    out = ffi.new("struct fck_recordfile **")
    if lib.fck_recordfile_new(out, ffi.from_buffer(data), len(data)) < 0:
        raise MemoryError
    try:
        found = ffi.new("struct fck_recordfile_block *")
        while lib.fck_recordfile_next(out[0], found) == 1:
            content = view[found.offset : found.offset + found.length]
            yield Block(Kind(found.kind), found.chain, found.flow, content)
        report = lib.fck_recordfile_report(out[0])
        if report.state != lib.FCK_RECORDS_WHOLE:
            reason = ffi.string(report.reason).decode() if report.reason else ""
            raise Unsound(_fault(report.state, report.claimed, report.offset, len(data), reason))
    finally:
        lib.fck_recordfile_free(out[0])


def _fault(state: int, claimed: int, offset: int, size: int, reason: str) -> str:
    if state == lib.FCK_RECORDS_VERSION:
        return f"version {claimed}, this program reads version {FORMAT}"
    if state == lib.FCK_RECORDS_UNFINISHED:
        return "never finished: the command that wrote it was stopped"
    if state == lib.FCK_RECORDS_TRUNCATED:
        return f"the file ends early, after {size:,} of {claimed:,} bytes"
    if state == lib.FCK_RECORDS_CORRUPT:
        return f"damaged at byte {offset:,} of {size:,}: {reason}"
    return "it does not begin like a records file"
