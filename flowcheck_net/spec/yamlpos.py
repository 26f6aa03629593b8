"""YAML with positions: a plain tree for pydantic, and the line and column of every key and value.

An ordinary document is read by libyaml into the tree alone (``yamlfast``). Only where something is unusual or wrong are
its nodes made, which know their places: by ruamel, whose messages are the better ones, or by libyaml where the file is
so large that ruamel would take minutes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import yaml as libyaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.spec import yamlfast

PathPart = str | int
DocPath = tuple[PathPart, ...]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_EXTRA_NODES = 100_000
"""What aliases may add to a document when they are expanded; a "billion laughs" file asks for far more."""

LARGE = 2 * 1024 * 1024
"""Characters of a document whose nodes libyaml makes: ruamel reads about 0.1 million characters a second."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_SCALARS = frozenset(_TAG + t for t in ("str", "int", "float", "bool", "null"))
_TEXT_SCALARS = frozenset(_TAG + t for t in ("timestamp", "value"))
"""Scalars that YAML gives a meaning which no input file uses: they stay the text that was written."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong at a place of a document, before the place has a line number."""

    path: DocPath
    message: str
    cure: str = ""
    at_key: bool = False
    """Point at the key and not at its value."""


@dataclass(frozen=True)
class Document:
    """A YAML file as plain dicts, tuples and scalars, with the way back to lines and columns."""

    file: str
    tree: Any
    text: str = field(repr=False)

    @cached_property
    def _root(self) -> Node:
        """Made when a place is asked for: a file without faults needs none."""
        return _nodes(self.text)

    def place(self, path: DocPath, *, at_key: bool = False) -> tuple[int, int]:
        """1-based line and column of the value at ``path``, or of the deepest part of it that exists."""
        node, key = self._root, None
        for part in path:
            found = _child(node, part)
            if found is None:
                key = None
                break
            key, node = found
        mark = key.start_mark if key is not None and (at_key or _is_blank(node)) else node.start_mark
        return mark.line + 1, mark.column + 1

    def problem(self, fault: Fault) -> Problem:
        """The fault with its line and column."""
        line, column = self.place(fault.path, at_key=fault.at_key)
        return Problem(self.file, line, column, dotted(fault.path), fault.message, fault.cure)


def dotted(path: DocPath) -> str:
    """``("switches", 0, "name")`` -> ``switches.0.name``."""
    return ".".join(str(part) for part in path)


def read_document(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        SpecError: the file is missing, no regular file, not UTF-8, empty, not valid YAML, repeats a key, or expands
            beyond the limit.
    """
    return parse_document(read_text(path), str(path))


def parse_document(text: str, source: str, *, prepare: Callable[[Node], None] | None = None) -> Document:
    """Read YAML text; ``source`` is the file name for messages. Raises SpecError like ``read_document``.

    ``prepare`` may change the nodes before they become values (merge keys of foreign files).
    """
    if prepare is None:
        tree = yamlfast.quick_tree(text)
        if tree is not None:
            return Document(source, tree, text)
    try:
        root = _nodes(text)
        if root is None:
            raise SpecError([Problem(source, 0, 0, "", "the file is empty", "copy one from topologies/two-host")])
        _refuse_bomb(root, source)
        if prepare is not None:
            prepare(root)
        builder = _Builder()
        tree = builder.build(root, ())
    except RecursionError:
        raise SpecError([Problem(source, 0, 0, "", "nested too deeply")]) from None
    except (MarkedYAMLError, libyaml.MarkedYAMLError) as error:
        raise SpecError([_syntax_problem(error, source)]) from None
    except (YAMLError, libyaml.YAMLError) as error:
        first = " ".join(str(error).split())
        raise SpecError([Problem(source, 0, 0, "", f"not valid YAML: {first}")]) from None
    if builder.faults:
        raise SpecError(
            [
                Problem(source, node.start_mark.line + 1, node.start_mark.column + 1, dotted(f.path), f.message, f.cure)
                for node, f in builder.faults
            ]
        )
    return Document(source, tree, text)


def read_text(path: Path) -> str:
    """The text of an input file. Raises SpecError: missing, no regular file, too large, or not UTF-8."""

    def stop(message: str, cure: str = "", line: int = 0, column: int = 0) -> SpecError:
        return SpecError([Problem(str(path), line, column, "", message, cure)])

    try:
        if path.is_dir():
            raise stop(
                "is a directory", "give the file, or the directory that holds topology.yaml, job.yaml, policy.yaml"
            )
        if path.exists() and not path.is_file():
            raise stop("is not a regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise stop(f"is larger than {MAX_FILE_BYTES // 2**20} MiB")
        data = path.read_bytes()
    except FileNotFoundError:
        raise stop("no such file") from None
    except (OSError, ValueError) as error:
        raise stop(f"cannot be read: {error}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8-sig")) + 1
        raise stop(f"not UTF-8: byte 0x{data[error.start]:02x}", "save it as UTF-8", line, column) from None


def _nodes(text: str) -> Node:
    """The root node; None where the document is empty. Raises ``YAMLError`` of ruamel or of PyYAML."""
    root: Node = yamlfast.compose(text) if len(text) > LARGE else YAML(typ="safe", pure=True).compose(text)
    return root


def _is_mapping(node: Node) -> TypeGuard[MappingNode]:
    """Of ruamel or PyYAML: their nodes have the same attributes."""
    return isinstance(node, MappingNode | libyaml.MappingNode)


def _is_sequence(node: Node) -> TypeGuard[SequenceNode]:
    return isinstance(node, SequenceNode | libyaml.SequenceNode)


def _is_scalar(node: Node) -> TypeGuard[ScalarNode]:
    return isinstance(node, ScalarNode | libyaml.ScalarNode)


def _syntax_problem(error: MarkedYAMLError | libyaml.MarkedYAMLError, source: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    begun = f" (begun in line {error.context_mark.line + 1})" if error.context_mark is not None else ""
    what = ": ".join(part for part in (f"{error.context or ''}{begun}".strip(), error.problem) if part)
    cure = "indent with spaces" if "'\\t'" in what else ""
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    return Problem(source, line, column, "", f"not valid YAML: {' '.join(what.split())}", cure)


def _children(node: Node) -> Iterator[Node]:
    if _is_mapping(node):
        for key, value in node.value:
            yield key
            yield value
    elif _is_sequence(node):
        yield from node.value


def _refuse_bomb(root: Node, source: str) -> None:
    """Refuse a document whose aliases would expand to far more than is written, or that contains itself."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            mark = node.start_mark
            raise SpecError(
                [Problem(source, mark.line + 1, mark.column + 1, "", "an alias refers to what contains it")]
            )
        open_nodes.add(id(node))
        total = 1 + sum(size(child) for child in _children(node))
        open_nodes.discard(id(node))
        sizes[id(node)] = total
        return total

    expanded = size(root)
    if expanded - len(sizes) > MAX_EXTRA_NODES:
        raise SpecError(
            [Problem(source, 0, 0, "", f"aliases expand to {expanded} values", "write the values out, without aliases")]
        )


def _child(node: Node, part: PathPart) -> tuple[ScalarNode | None, Node] | None:
    if _is_mapping(node):
        for key, value in node.value:
            if _is_scalar(key) and key.value == part:
                return key, value
    elif _is_sequence(node) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None


def _is_blank(node: Node) -> bool:
    """A value that was not written has no place of its own (ruamel gives that of the next token)."""
    return _is_scalar(node) and node.start_mark.index == node.end_mark.index


class _Builder:
    """Nodes -> plain Python values, collecting every fault on the way."""

    def __init__(self) -> None:
        self._constructor = YAML(typ="safe", pure=True).constructor
        self.faults: list[tuple[Node, Fault]] = []

    def build(self, node: Node, path: DocPath) -> Any:  # noqa: ANN401 - any YAML value
        if _is_mapping(node) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if _is_sequence(node) and node.tag == _TAG + "seq":
            return tuple(self.build(child, (*path, i)) for i, child in enumerate(node.value))
        if _is_scalar(node):
            return self._scalar(node, path)
        return self._refuse(node, path, f"the YAML tag {node.tag} is not allowed", "remove it")

    def _mapping(self, node: MappingNode, path: DocPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key, value in node.value:
            if not _is_scalar(key) or key.tag not in _PLAIN_SCALARS:
                self._refuse(
                    key, path, "a key must be a plain word", "merge keys and structured keys are not supported"
                )
                continue
            name = key.value
            if name in result:
                self._refuse(key, (*path, name), "this key is here twice", f"the first is in line {first_lines[name]}")
                continue
            first_lines[name] = key.start_mark.line + 1
            result[name] = self.build(value, (*path, name))
        return result

    def _scalar(self, node: ScalarNode, path: DocPath) -> Any:  # noqa: ANN401 - any YAML scalar
        if node.tag in _TEXT_SCALARS:
            return node.value
        if node.tag not in _PLAIN_SCALARS:
            return self._refuse(node, path, f"the YAML tag {node.tag} is not allowed", "remove it, or quote the value")
        try:
            return self._constructor.construct_object(ScalarNode(node.tag, node.value, node.start_mark, node.end_mark))
        except (ValueError, OverflowError, YAMLError):
            return self._refuse(node, path, f"not a valid {node.tag.removeprefix(_TAG)}", "quote it if it is text")

    def _refuse(self, node: Node, path: DocPath, message: str, cure: str) -> None:
        self.faults.append((node, Fault(path, message, cure)))
