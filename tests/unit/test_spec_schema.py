"""The JSON Schema says the same as the loader, as far as a schema can."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from flowcheck_net.spec.load import KINDS, json_schema

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"
EXAMPLES = sorted(p.parent.name for p in TOPOLOGIES.glob("*/topology.yaml"))
CASES = sorted(p.parent.name for p in TOPOLOGIES.glob("broken/*/expected.txt"))

SEEN = {
    "algorithm": "job",
    "bad-mtu": "job",
    "copies": "policy",
    "empty-file": "policy",
    "headroom": "policy",
    "job-name": "job",
    "list-not-mapping": "policy",
    "many-faults": "job",
    "missing-key": "job",
    "nccl-version-number": "job",
    "nic-without-address": "topology",
    "secret-in-management": "topology",
    "unknown-key": "topology",
    "unknown-speed": "topology",
    "wrong-type": "job",
    "wrong-version": "policy",
}
"""Broken examples whose fault is one of form: the file in which an editor marks it."""
NO_YAML = {"alias-bomb", "duplicate-key", "yaml-syntax", "yaml-tab"}


@cache
def validator(kind: str) -> Draft202012Validator:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def plain(path: Path) -> Any:
    return parsed(path.read_text())


@cache
def parsed(text: str) -> Any:
    """Most broken examples differ from the others in one of their files."""
    return YAML(typ="safe", pure=True).load(text)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_fits(name, kind):
    validator(kind).validate(plain(TOPOLOGIES / name / f"{kind}.yaml"))


@pytest.mark.parametrize("name", [c for c in CASES if c not in NO_YAML])
def test_broken_examples_are_refused_where_a_schema_can_see_it(name):
    refused = {
        kind for kind in KINDS if not validator(kind).is_valid(plain(TOPOLOGIES / "broken" / name / f"{kind}.yaml"))
    }
    assert (SEEN.get(name) in refused) if name in SEEN else not refused


@pytest.mark.parametrize("name", sorted(NO_YAML - {"alias-bomb"}))
def test_what_is_no_yaml_is_none_for_others_too(name):
    kind = {"duplicate-key": "job", "yaml-syntax": "topology", "yaml-tab": "policy"}[name]
    with pytest.raises(YAMLError):
        plain(TOPOLOGIES / "broken" / name / f"{kind}.yaml")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_key_is_described(kind):
    schema = json_schema(kind)
    for model in [schema, *schema.get("$defs", {}).values()]:
        assert model["description"]
        for key, value in model["properties"].items():
            assert "description" in value or "$ref" in value, f"{model['title']}.{key}"


@pytest.mark.parametrize(
    ("model", "key", "unit"), [("BucketSpec", "elements", "elements"), ("BroadcastSpec", "bytes", "Bytes")]
)
def test_descriptions_name_units(model, key, unit):
    assert unit in json_schema("job")["$defs"][model]["properties"][key]["description"]
