"""libyaml's quick way against ruamel's careful one: where the quick one answers, both say the same."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flowcheck_net.errors import SpecError
from flowcheck_net.spec import yamlfast, yamlpos
from flowcheck_net.spec.dump import dump_yaml
from flowcheck_net.spec.yamlfast import quick_tree
from flowcheck_net.spec.yamlpos import parse_document

WORDS = (
    "a b : - , { } [ ] # ' \" ~ | > & * ! ? % @ < = << yes true null 1 0 007 0x1F 0o7 1e3 1_000 .5 .inf -1 + 1:30 "
    "2020-01-01 2.19.3 10.0.0.1 fd00::1 400G host1:mlx5_0"
)
PIECES = st.sampled_from(WORDS.split(" "))
SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", ": ", ", "])
TEXTS = st.lists(st.tuples(PIECES, SPACES), max_size=14).map(lambda pairs: "".join(a + b for a, b in pairs))


def carefully(text):
    """The tree that ruamel's nodes give; None where the text is refused."""
    try:
        return parse_document(text, "f.yaml", prepare=lambda root: None).tree
    except SpecError:
        return None


@settings(max_examples=600)
@given(TEXTS)
@example("a: 1\nb: [x, 'y', \"z\", ~, true, yes, 1e3, 0x1F, 0o7, 007, 1_0, 12:30]\n")
@example("{a: , b: {}, c: []}\n")
@example("- - - x\n")
@example("a: |\n  text\nb: >\n  folded\n  on\n")
def test_where_it_answers_it_says_what_ruamel_says(text):
    quick = quick_tree(text)
    if quick is not None:
        careful = carefully(text)
        assert repr(quick) == repr(careful)  # repr tells 1 from 1.0 and from True


@settings(max_examples=300)
@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text(text):
    quick = quick_tree(text)
    assert quick is None or repr(quick) == repr(carefully(text))


@pytest.mark.parametrize(
    "text",
    [
        *("a: &x 1\nb: *x\n", "a: !!str 1\n", "%YAML 1.2\n---\na: 1\n", "a: 1\n---\nb: 1\n", "a: 1\na: 2\n"),
        *("[a]: 1\n", "<<: {a: 1}\n", "=: 1\n", "", "# nothing\n", "a: [1\n", "a: '\x85'\n", "a:\tb\n", "|#\n"),
        *("[" * 200 + "]" * 200, "a: " + "9" * 5000 + "\n"),
    ],
)
def test_the_unusual_is_left_to_ruamel(text):
    assert quick_tree(text) is None


def test_an_ordinary_document_is_read_without_ruamel(monkeypatch):
    def never(self, stream):
        raise AssertionError("ruamel was asked")

    monkeypatch.setattr(YAML, "compose", never)
    text = dump_yaml({"version": 1, "links": [["host1:mlx5_0", "leaf1:Ethernet1/1"]], "rate": 0.5, "flag": True})
    expected = {"version": 1, "links": (("host1:mlx5_0", "leaf1:Ethernet1/1"),), "rate": 0.5, "flag": True}
    assert parse_document(text, "f.yaml").tree == expected


PLACES = [(), ("a",), ("b",), ("b", 0), ("b", 1), ("b", 1, "c"), ("b", 1, "gone"), ("b", 9), ("d", "e"), ("empty",)]
TEXT = "a: 1\nb:\n  - x\n  - {c: 2, d: 'y'}\nd:\n  e: \u00e9\u00e9 # words\n  f: [1, 2]\nempty:\nlast: x\n"


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("at_key", [False, True])
def test_places_in_a_large_file_are_those_of_a_small_one(path, at_key, monkeypatch):
    small = parse_document(TEXT, "f.yaml").place(path, at_key=at_key)
    monkeypatch.setattr(yamlpos, "LARGE", 0)
    assert parse_document(TEXT, "f.yaml").place(path, at_key=at_key) == small


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: this key is here twice (the first is in line 1)"),
        ("a: !secret {b: 1}\n", "f.yaml:1:4: a: the YAML tag !secret is not allowed (remove it)"),
        ("a: !!int x\n", "f.yaml:1:4: a: not a valid int (quote it if it is text)"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: not valid YAML: while parsing a flow sequence"),
        ("a: *nowhere\n", "f.yaml:1:4: not valid YAML: found undefined alias"),
        ("a: 1\n---\nb: 1\n", "not valid YAML: expected a single document in the stream"),
        ("a: \x00\n", "not valid YAML"),
        ("a: &a [*a]\n", "f.yaml:1:4: "),
        ("# none\n", "f.yaml: the file is empty"),
    ],
)
def test_faults_in_a_large_file(text, expected, monkeypatch):
    monkeypatch.setattr(yamlpos, "LARGE", 0)
    with pytest.raises(SpecError) as caught:
        parse_document(text, "f.yaml")
    assert expected in str(caught.value.problems[0])


@pytest.mark.parametrize("text", ["yes", "on", "0777", "1:30:00", "2020-01-01", "1_000", "0b1", "~", "+1"])
def test_scalars_of_a_large_file_mean_what_yaml_1_2_says(text, monkeypatch):
    document = f"a: [{text}, &x 1, *x]\n"  # the alias sends it to the nodes
    small = parse_document(document, "f.yaml").tree
    monkeypatch.setattr(yamlpos, "LARGE", 0)
    assert repr(parse_document(document, "f.yaml").tree) == repr(small)


def test_tags_are_those_of_ruamel():
    resolver = YAML(typ="safe", pure=True).resolver
    from ruamel.yaml.nodes import ScalarNode

    for text in ("", "a", "1", "1.5", "true", "no", "~", "<<", "=", "0x1", "1e5", "2001-01-01", ".nan", "!x", "&", "*"):
        assert yamlfast.plain_tag(text) == str(resolver.resolve(ScalarNode, text, (True, False)))
