"""YAML with positions: a plain tree for pydantic, and the line and column of every key and value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from flowcheck_net.errors import Problem, SpecError

PathPart = str | int
DocPath = tuple[PathPart, ...]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_EXTRA_NODES = 100_000
"""What aliases may add to a document when they are expanded; a "billion laughs" file asks for far more."""

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


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as plain dicts, lists and scalars, with the way back to lines and columns."""

    file: str
    tree: Any
    root: Node = field(repr=False)

    def place(self, path: DocPath, *, at_key: bool = False) -> tuple[int, int]:
        """1-based line and column of the value at ``path``, or of the deepest part of it that exists."""
        node, key = self.root, None
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
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        if root is None:
            raise SpecError([Problem(source, 0, 0, "", "the file is empty", "copy one from topologies/two-host")])
        _refuse_bomb(root, source)
        if prepare is not None:
            prepare(root)
        builder = _Builder(yaml)
        tree = builder.build(root, ())
    except RecursionError:
        raise SpecError([Problem(source, 0, 0, "", "nested too deeply")]) from None
    except MarkedYAMLError as error:
        raise SpecError([_syntax_problem(error, source)]) from None
    except YAMLError as error:
        first = " ".join(str(error).split())
        raise SpecError([Problem(source, 0, 0, "", f"not valid YAML: {first}")]) from None
    document = Document(source, tree, root)
    if builder.faults:
        raise SpecError(
            [
                Problem(source, node.start_mark.line + 1, node.start_mark.column + 1, dotted(f.path), f.message, f.cure)
                for node, f in builder.faults
            ]
        )
    return document


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


def _syntax_problem(error: MarkedYAMLError, source: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    begun = f" (begun in line {error.context_mark.line + 1})" if error.context_mark is not None else ""
    what = ": ".join(part for part in (f"{error.context or ''}{begun}".strip(), error.problem) if part)
    cure = "indent with spaces" if "'\\t'" in what else ""
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
    return Problem(source, line, column, "", f"not valid YAML: {' '.join(what.split())}", cure)


def _children(node: Node) -> Iterator[Node]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, SequenceNode):
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
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == part:
                return key, value
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return None, node.value[part]
    return None


def _is_blank(node: Node) -> bool:
    """A value that was not written has no place of its own (ruamel gives that of the next token)."""
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index


class _Builder:
    """Nodes -> plain Python values, collecting every fault on the way."""

    def __init__(self, yaml: YAML) -> None:
        self._constructor = yaml.constructor
        self.faults: list[tuple[Node, Fault]] = []

    def build(self, node: Node, path: DocPath) -> Any:  # noqa: ANN401 - any YAML value
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return tuple(self.build(child, (*path, i)) for i, child in enumerate(node.value))
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        return self._refuse(node, path, f"the YAML tag {node.tag} is not allowed", "remove it")

    def _mapping(self, node: MappingNode, path: DocPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in _PLAIN_SCALARS:
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
            return self._constructor.construct_object(node)
        except (ValueError, OverflowError, YAMLError):
            return self._refuse(node, path, f"not a valid {node.tag.removeprefix(_TAG)}", "quote it if it is text")

    def _refuse(self, node: Node, path: DocPath, message: str, cure: str) -> None:
        self.faults.append((node, Fault(path, message, cure)))
