"""The P4Info of the v1model program as it was compiled, with tables taken away or made smaller for tests."""

from collections.abc import Iterable

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from tests.p4.artefacts import ARTEFACTS, P4INFO


def build_p4info(without: Iterable[str] = (), sizes: dict[str, int] | None = None) -> p4info_pb2.P4Info:
    """The whole program, less the tables named, with other sizes where given."""
    info = text_format.Parse((ARTEFACTS / P4INFO).read_text(), p4info_pb2.P4Info())
    kept = [t for t in info.tables if t.preamble.name not in without]
    for table in kept:
        table.size = (sizes or {}).get(table.preamble.name, table.size)
    found = p4info_pb2.P4Info()
    found.CopyFrom(info)
    del found.tables[:]
    found.tables.extend(kept)
    return found
