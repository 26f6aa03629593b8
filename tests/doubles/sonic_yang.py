"""The YANG module of the samples in yangson, with small modules of our own in place of those that it imports."""

import json
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from yangson import DataModel
from yangson.enumerations import ContentType
from yangson.exceptions import YangsonException

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "sonic"
MODULE = SAMPLES / "sonic-mirror-session.yang"
_PORT = """module sonic-port {
  yang-version 1.1; namespace "urn:fcn:port"; prefix port;
  container sonic-port { container PORT { list PORT_LIST { key name; leaf name { type string; } } } }
}"""
_POLICER = """module sonic-policer {
  yang-version 1.1; namespace "urn:fcn:policer"; prefix policer;
  container sonic-policer { container POLICER { list POLICER_LIST { key name; leaf name { type string; } } } }
}"""
_INET = r"""module ietf-inet-types {
  yang-version 1.1; namespace "urn:fcn:inet"; prefix inet;
  typedef ip-address { type union {
    type string { pattern "(([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\\.){3}([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"; }
    type string { pattern "[0-9a-fA-F:]*:[0-9a-fA-F:.]*"; }
  } }
}"""  # noqa: E501
_NUMBERS = {"dscp", "ttl", "queue", "sample_rate", "truncate_size"}


@lru_cache(maxsize=1)
def model() -> DataModel:
    """The data model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sonic-mirror-session@2026-04-14.yang").write_text(MODULE.read_text())
        for module, text in (("sonic-port", _PORT), ("sonic-policer", _POLICER), ("ietf-inet-types", _INET)):
            (folder / f"{module}.yang").write_text(text)
        rows = [
            {"name": n, "revision": r, "namespace": s, "conformance-type": c}
            for n, r, s, c in (
                ("sonic-mirror-session", "2026-04-14", "http://github.com/sonic-net/sonic-mirror-session", "implement"),
                ("sonic-port", "", "urn:fcn:port", "implement"),
                ("sonic-policer", "", "urn:fcn:policer", "implement"),
                ("ietf-inet-types", "", "urn:fcn:inet", "import"),
            )
        ]
        library = {"ietf-yang-library:modules-state": {"module-set-id": "1", "module": rows}}
        return DataModel(json.dumps(library), (str(folder),))


def complaint(
    sessions: Mapping[str, Mapping[str, str]], ports: Mapping[str, object], policers: Mapping[str, object]
) -> str:
    """Why a configuration with these mirror sessions is not valid; empty: it is."""
    rows = []
    for name, fields in sessions.items():
        typed = {k: int(v) if k in _NUMBERS and v.isdigit() else v for k, v in fields.items()}
        rows.append({"type": "ERSPAN", "name": name, **typed})
    data = {
        "sonic-mirror-session:sonic-mirror-session": {"MIRROR_SESSION": {"MIRROR_SESSION_LIST": rows}},
        "sonic-port:sonic-port": {"PORT": {"PORT_LIST": [{"name": p} for p in ports]}},
        "sonic-policer:sonic-policer": {"POLICER": {"POLICER_LIST": [{"name": p} for p in policers]}},
    }
    try:
        model().from_raw(data).validate(ctype=ContentType.config)
    except YangsonException as error:
        return f"{type(error).__name__}: {error}"
    return ""
