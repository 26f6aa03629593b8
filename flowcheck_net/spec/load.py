"""The three input files together: read, check, and show every problem at once."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.spec.base import Spec
from flowcheck_net.spec.check_job import check_job, check_job_places
from flowcheck_net.spec.check_policy import check_policy, check_policy_places
from flowcheck_net.spec.check_topology import check_topology, devices
from flowcheck_net.spec.explain import explain
from flowcheck_net.spec.inventory import Inventory
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology
from flowcheck_net.spec.yamlpos import DocPath, Document, Fault, dotted, read_document

FILL = "FILL"
"""What an importer writes where its source could not tell a value. No file is valid before all of them are replaced."""

KINDS: dict[str, type[Spec]] = {"topology": Topology, "job": JobSpec, "policy": Policy}

_S = TypeVar("_S", bound=Spec)


@dataclass(frozen=True, slots=True)
class _Read(Generic[_S]):
    """A file that fits its model, and the way back to its lines."""

    document: Document
    spec: _S

    def problems(self, faults: Iterable[Fault]) -> list[Problem]:
        """The faults with their lines and columns."""
        return [self.document.problem(fault) for fault in faults]


@dataclass(frozen=True, slots=True)
class Specs:
    """The three files, valid alone and together."""

    topology: Topology
    job: JobSpec
    policy: Policy


def spec_paths(directory: Path) -> tuple[Path, Path, Path]:
    """The topology, job and policy file of a directory."""
    return directory / "topology.yaml", directory / "job.yaml", directory / "policy.yaml"


def load_specs(topology: Path, job: Path, policy: Path) -> Specs:
    """Read and check the three files.

    Raises:
        SpecError: every problem of the three files, each with its place.
    """
    problems: list[Problem] = []
    fabric = _read(topology, Topology, problems)
    work = _read(job, JobSpec, problems)
    rules = _read(policy, Policy, problems)
    if fabric is not None:
        problems += fabric.problems(check_topology(fabric.spec))
    if work is not None:
        problems += work.problems(check_job(work.spec))
        if fabric is not None:
            problems += work.problems(check_job_places(work.spec, devices(fabric.spec)))
    if rules is not None:
        problems += rules.problems(check_policy(rules.spec))
        if fabric is not None:
            problems += rules.problems(check_policy_places(rules.spec, fabric.spec))
    if problems or fabric is None or work is None or rules is None:
        raise SpecError(problems)
    return Specs(fabric.spec, work.spec, rules.spec)


def specs_from_documents(topology: Mapping[str, Any], job: Mapping[str, Any], policy: Mapping[str, Any]) -> Specs:
    """Check three documents that were never files: mappings, tuples and scalars, as generators make them.

    Raises:
        SpecError: every problem; the file names are ``topology``, ``job`` and ``policy``, without lines.
    """
    problems: list[Problem] = []
    fabric = _validated("topology", topology, Topology, problems)
    work = _validated("job", job, JobSpec, problems)
    rules = _validated("policy", policy, Policy, problems)
    if fabric is None or work is None or rules is None:
        raise SpecError(problems)
    known = devices(fabric)
    faults = {
        "topology": check_topology(fabric),
        "job": chain(check_job(work), check_job_places(work, known)),
        "policy": chain(check_policy(rules), check_policy_places(rules, fabric)),
    }
    problems += [_placeless(name, fault) for name, found in faults.items() for fault in found]
    if problems:
        raise SpecError(problems)
    return Specs(fabric, work, rules)


def check_job_document(job: Mapping[str, Any]) -> None:
    """Check a job (mappings, tuples and scalars) before it is written. Raises SpecError with every problem."""
    problems: list[Problem] = []
    work = _validated("job", job, JobSpec, problems)
    if work is not None:
        problems += [_placeless("job", fault) for fault in check_job(work)]
    if problems:
        raise SpecError(problems)


def load_topology(path: Path) -> Topology:
    """Read and check a topology by itself. Raises SpecError with every problem of it."""
    problems: list[Problem] = []
    fabric = _read(path, Topology, problems)
    if fabric is not None:
        problems += fabric.problems(check_topology(fabric.spec))
    if problems or fabric is None:
        raise SpecError(problems)
    return fabric.spec


def load_inventory(path: Path) -> Inventory:
    """Read and check an inventory. Raises SpecError with every problem of it."""
    problems: list[Problem] = []
    read = _read(path, Inventory, problems)
    if read is not None:
        names = [device.name for device in read.spec.devices]
        twice = [n for n, name in enumerate(names) if name in names[:n]]
        problems += read.problems(Fault(("devices", n, "name"), f"{names[n]} is there twice") for n in twice)
    if problems or read is None:
        raise SpecError(problems)
    return read.spec


def load_yaml(path: Path) -> Any:  # noqa: ANN401 - any YAML value
    """Any other YAML file (a platform table) as plain dicts, tuples and scalars. Raises SpecError."""
    return read_document(path).tree


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of ``topology``, ``job`` or ``policy``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **KINDS[kind].model_json_schema()}


def fingerprint(specs: Specs) -> tuple[str, str, str]:
    """SHA-256 (hex) of the canonical JSON of topology, job and policy: comments and layout do not count."""
    return _digest(specs.topology), _digest(specs.job), _digest(specs.policy)


def _read(path: Path, model: type[_S], problems: list[Problem]) -> _Read[_S] | None:
    """The file as ``model``; None where it does not fit, with the reasons added to ``problems``."""
    try:
        document = read_document(path)
        # Looked for in the text first: to walk the tree of a large fabric takes seconds.
        blanks = [document.problem(fault) for fault in _blanks(document.tree, ())] if FILL in document.text else []
        if blanks:
            problems += blanks
            return None
        return _Read(document, model.model_validate(document.tree))
    except SpecError as error:
        problems.extend(error.problems)
    except ValidationError as error:
        problems.extend(document.problem(fault) for fault in explain(error, model))
    return None


def _validated(name: str, tree: Mapping[str, Any], model: type[_S], problems: list[Problem]) -> _S | None:
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        problems.extend(_placeless(name, fault) for fault in explain(error, model))
    return None


def _placeless(name: str, fault: Fault) -> Problem:
    return Problem(name, 0, 0, dotted(fault.path), fault.message, fault.cure)


def _blanks(tree: Any, path: DocPath) -> Iterator[Fault]:  # noqa: ANN401 - any YAML value
    """Every value that an importer left open."""
    if tree == FILL:
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        yield Fault(path, f"{name or 'this value'} is still to be filled in", f"replace {FILL} by the real value")
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _blanks(value, (*path, key))
    elif isinstance(tree, tuple):
        for i, value in enumerate(tree):
            yield from _blanks(value, (*path, i))


def _digest(spec: Spec) -> str:
    text = json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
