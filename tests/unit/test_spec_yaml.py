"""YAML with positions: every way a file can be no file of ours is a SpecError with a place, never a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import SpecError
from flowcheck_net.spec.load import load_yaml
from flowcheck_net.spec.yamlpos import MAX_EXTRA_NODES, Document, parse_document, read_document


def problems_of(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_document(text, "f.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_plain_values_and_lists_become_tuples():
    document = parse_document("a: [1, 0x514, 2.5, yes, true, 2.19.3, 2024-01-01, fd00::1, ~]\nb: {c: '1'}\n", "f.yaml")
    assert document.tree == {
        "a": (1, 1300, 2.5, "yes", True, "2.19.3", "2024-01-01", "fd00::1", None),
        "b": {"c": "1"},
    }


# line and column counted by hand in this text, both from 1:
#            1         2
#   123456789012345678901234567
TEXT = """\
version: 1
switches:
  - name: leaf1
    ports:
      - {name: e1, speed: 400G}
      - {name: e2,
         speed:   100G}
empty:
last: x
"""


@pytest.mark.parametrize(
    ("path", "at_key", "place"),
    [
        (("version",), False, (1, 10)),
        (("version",), True, (1, 1)),
        (("switches", 0), False, (3, 5)),
        (("switches", 0, "name"), False, (3, 11)),
        (("switches", 0, "ports", 0), False, (5, 9)),
        (("switches", 0, "ports", 0, "speed"), False, (5, 27)),
        (("switches", 0, "ports", 0, "speed"), True, (5, 20)),
        (("switches", 0, "ports", 1, "speed"), False, (7, 19)),
        (("switches", 0, "ports", 1, "gone"), True, (6, 9)),
        (("switches", 0, "ports", 9, "speed"), False, (5, 7)),
        (("empty",), False, (8, 1)),
        (("last",), False, (9, 7)),
        ((), False, (1, 1)),
    ],
)
def test_places_counted_by_hand(path, at_key, place):
    assert parse_document(TEXT, "f.yaml").place(path, at_key=at_key) == place


def test_a_place_inside_an_alias_is_where_it_was_written():
    document = parse_document("a: &x\n  k: 1\nb: *x\n", "f.yaml")
    assert document.tree["b"] == {"k": 1}
    assert document.place(("b", "k")) == (2, 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yaml: the file is empty (copy one from topologies/two-host)"),
        ("# only a comment\n", "f.yaml: the file is empty (copy one from topologies/two-host)"),
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: this key is here twice (the first is in line 1)"),
        ("a:\n  - x: 1\n    x: 2\n", "f.yaml:3:5: a.0.x: this key is here twice (the first is in line 2)"),
        ("a: !!python/name:os.system x\n", "the YAML tag tag:yaml.org,2002:python/name:os.system is not allowed"),
        ("a: !secret {b: 1}\n", "f.yaml:1:4: a: the YAML tag !secret is not allowed (remove it)"),
        ("a: !!int x\n", "f.yaml:1:4: a: not a valid int (quote it if it is text)"),
        ("a: " + "9" * 5000 + "\n", "f.yaml:1:4: a: not a valid int (quote it if it is text)"),
        ("<<: {a: 1}\n", "f.yaml:1:1: a key must be a plain word"),
        ("? [a, b]\n: 1\n", "f.yaml:1:3: a key must be a plain word"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: not valid YAML: while parsing a flow sequence (begun in line 1)"),
        ("a: b: c\n", "f.yaml:1:5: not valid YAML: mapping values are not allowed"),
        ("a: 'x\n", "not valid YAML: while scanning a quoted scalar"),
        ("a:\n\tb: 1\n", "(indent with spaces)"),
        ("a: *nowhere\n", "f.yaml:1:4: not valid YAML: found undefined alias"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2:1: not valid YAML: expected a single document in the stream"),
        ("a: \x00\n", "not valid YAML"),
        ("a: &a [*a]\n", "f.yaml:1:4: an alias refers to what contains it"),
        ("[" * 2000, "f.yaml: nested too deeply"),
    ],
)
def test_faults_of_form(text, expected):
    assert any(expected in line for line in problems_of(text)), problems_of(text)


def test_every_duplicate_key_is_reported():
    assert len(problems_of("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3\n")) == 3


def test_an_alias_bomb_is_refused_before_it_is_expanded():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    (line,) = problems_of("\n".join(lines))
    assert "aliases expand to" in line


def test_aliases_within_the_limit_are_allowed():
    uses = MAX_EXTRA_NODES // 20
    document = parse_document("a: &a [1, 2, 3]\nb: [" + ", ".join(["*a"] * uses) + "]\n", "f.yaml")
    assert document.tree["b"] == ((1, 2, 3),) * uses


class TestFiles:
    def fault(self, path: Path) -> str:
        with pytest.raises(SpecError) as caught:
            read_document(path)
        (problem,) = caught.value.problems
        return str(problem)

    def test_missing(self, tmp_path):
        assert self.fault(tmp_path / "no.yaml") == f"{tmp_path}/no.yaml: no such file"

    def test_directory(self, tmp_path):
        assert "is a directory" in self.fault(tmp_path)

    def test_below_a_file(self, tmp_path):
        (tmp_path / "f").write_text("a: 1")
        assert "cannot be read" in self.fault(tmp_path / "f" / "g.yaml")

    def test_no_regular_file(self):
        assert "is not a regular file" in self.fault(Path("/dev/zero"))

    def test_impossible_name(self):
        assert "cannot be read" in self.fault(Path("a\0b"))

    def test_not_utf8(self, tmp_path):
        path = tmp_path / "latin1.yaml"
        path.write_bytes("a: 1\nname: caf\u00e9\n".encode("latin-1"))
        assert self.fault(path) == f"{path}:2:10: not UTF-8: byte 0xe9 (save it as UTF-8)"

    def test_utf16(self, tmp_path):
        path = tmp_path / "utf16.yaml"
        path.write_bytes("a: 1\n".encode("utf-16"))
        assert "not UTF-8: byte 0xff" in self.fault(path)

    def test_byte_order_mark_is_no_part_of_the_text(self, tmp_path):
        path = tmp_path / "bom.yaml"
        path.write_bytes(b"\xef\xbb\xbfa: 1\n")
        assert load_yaml(path) == {"a": 1}

    def test_too_large(self, tmp_path, monkeypatch):
        monkeypatch.setattr("flowcheck_net.spec.yamlpos.MAX_FILE_BYTES", 4)
        path = tmp_path / "big.yaml"
        path.write_text("a: 12")
        assert "is larger than" in self.fault(path)


def outcome(read: Callable[[], Document]) -> tuple[Any, int]:
    """The tree, or the number of problems."""
    try:
        return read().tree, 0
    except SpecError as error:
        return error, len(error.problems)


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("ab:-?[]{},&*!|>'\"%@`#\n\t 019.<~=e+_xX\u00e9\x00\x85\ufeff"), max_size=60))
def test_any_text_is_a_document_or_a_spec_error(text):
    tree, count = outcome(lambda: parse_document(text, "f.yaml"))
    assert count > 0 or tree is None or isinstance(tree, dict | tuple | str | int | float | bool)


@settings(max_examples=100)
@given(data=st.binary(max_size=80))
def test_any_bytes_are_a_document_or_a_spec_error(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "f.yaml"
    path.write_bytes(data)
    tree, count = outcome(lambda: read_document(path))
    assert count > 0 or tree is None or isinstance(tree, dict | tuple | str | int | float | bool)
