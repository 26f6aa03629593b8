"""The YAML writer against the YAML reader, and merge keys of foreign files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flowcheck_net.errors import SpecError
from flowcheck_net.spec.dump import dump_yaml, read_foreign
from flowcheck_net.spec.load import load_topology
from flowcheck_net.spec.yamlpos import parse_document

WORDS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(
        ["yes", "NO", "~", "null", "1e3", "0x1F", "1_000", "12:30:45", "2020-01-01", ".inf", "<<", "=", "-"]
    ),
    st.from_regex(r"[0-9a-zA-Z._/:+-]{1,8}", fullmatch=True),
)
SCALARS = st.one_of(WORDS, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
TREES = st.dictionaries(
    WORDS,
    st.recursive(
        SCALARS,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
        max_leaves=12,
    ),
    max_size=5,
)


def _tuples(tree):
    if isinstance(tree, dict):
        return {key: _tuples(value) for key, value in tree.items()}
    return tuple(_tuples(value) for value in tree) if isinstance(tree, list) else tree


@given(TREES)
def test_what_is_written_reads_back(tree):
    assert parse_document(dump_yaml(tree), "x").tree == _tuples(tree)


@given(TREES)
def test_another_reader_agrees(tree):
    assert YAML(typ="safe").load(dump_yaml(tree)) == tree  # the libyaml parser, where ours is ruamel's own


def test_looks_like_the_shipped_examples():
    tree = {
        "version": 1,
        "switches": [{"name": "leaf1", "domains": ["rack-1"], "ports": [{"name": "Ethernet1/1", "speed": "400G"}]}],
        "links": [["host1:mlx5_0", "leaf1:Ethernet1/1"]],
        "note": "a: b",
        "nothing": [],
    }
    assert dump_yaml(tree, comment="one\n\ntwo") == (
        "# one\n#\n# two\nversion: 1\nswitches:\n"
        "  - name: leaf1\n    domains: [rack-1]\n    ports:\n      - {name: Ethernet1/1, speed: 400G}\n"
        'links:\n  - [host1:mlx5_0, leaf1:Ethernet1/1]\nnote: "a: b"\nnothing: []\n'
    )


def test_a_value_without_a_yaml_form_is_refused():
    with pytest.raises(TypeError, match="bytes"):
        dump_yaml({"a": b"raw"})


def test_merge_keys_are_resolved_like_another_reader_does(tmp_path):
    text = "base: &b {kind: linux, image: x}\nother: &o {kind: srl, type: t}\n"
    text += "n:\n  <<: [*b, *o]\n  image: mine\n  deep: {<<: *o}\n"
    path = tmp_path / "a.yml"
    path.write_text(text)
    assert read_foreign(path).tree == YAML(typ="safe").load(text)


def test_a_merge_key_without_a_mapping_has_a_place(tmp_path):
    path = tmp_path / "a.yml"
    path.write_text("a: 1\nb:\n  <<: text\n")
    with pytest.raises(SpecError, match=r"a.yml:3:3.*merge key"):
        read_foreign(path)


def test_our_own_files_still_refuse_merge_keys():
    with pytest.raises(SpecError, match="merge keys"):
        parse_document("a: &a {b: 1}\nc: {<<: *a}\n", "x")


def test_each_blank_is_refused_by_name(tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text("version: 1\nname: x\nswitches:\n  - {name: a, platform: FILL}\nlinks: FILL\n")
    with pytest.raises(SpecError) as caught:
        load_topology(path)
    assert [(p.line, p.path) for p in caught.value.problems] == [(4, "switches.0.platform"), (5, "links")]
    assert "platform is still to be filled in" in caught.value.message
