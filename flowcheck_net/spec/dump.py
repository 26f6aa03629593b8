"""The one writer of YAML, and the reader of YAML that other programs wrote.

What ``dump_yaml`` writes, ``yamlpos`` reads back to the same values. It is written here and not by ruamel's emitter
because a large fabric has a million lines, which ruamel needs minutes for.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from re import compile as regex

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.spec.yamlfast import plain_tag
from flowcheck_net.spec.yamlpos import Document, parse_document, read_text

_MAX_FLOW = 110
"""Characters of a list or mapping on one line; a longer one gets a line an entry."""
_PLAIN = regex(r"[A-Za-z0-9._/](?:[A-Za-z0-9._/:+-]*[A-Za-z0-9._/+-])?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"


def dump_yaml(document: Mapping[str, object], *, comment: str = "") -> str:
    """The document as YAML text: block style outside, one line for a small mapping or list of plain values.

    Args:
        document: mappings with text keys, sequences, text, numbers, booleans and None, nested.
        comment: lines for the top of the file, without ``#``.

    Raises:
        TypeError: a value that is none of these.
    """
    head = [f"# {line}".rstrip() for line in comment.splitlines()]
    body = list(_mapping(document, "")) if document else ["{}"]
    return "\n".join([*head, *body]) + "\n"


def read_foreign(path: Path) -> Document:
    """Read a YAML file of another program: merge keys (``<<``) are resolved, the rest is as strict as our own files.

    Raises:
        SpecError: like ``yamlpos.read_document``.
    """
    return parse_document(read_text(path), str(path), prepare=lambda root: _resolve_merges(root, str(path), set()))


def _mapping(value: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, inner in value.items():
        short = _short(inner, len(indent) + len(key) + 2)
        name = _text(key)
        if short is not None:
            yield f"{indent}{name}: {short}"
        elif isinstance(inner, Mapping):
            yield f"{indent}{name}:"
            yield from _mapping(inner, indent + "  ")
        else:
            yield f"{indent}{name}:"
            yield from _sequence(_entries(inner), indent + "  ")


def _sequence(value: Sequence[object], indent: str) -> Iterator[str]:
    for inner in value:
        short = _short(inner, len(indent) + 2)
        if short is not None:
            yield f"{indent}- {short}"
            continue
        deeper = indent + "  "
        lines = _mapping(inner, deeper) if isinstance(inner, Mapping) else _sequence(_entries(inner), deeper)
        yield f"{indent}- {next(lines)[len(deeper) :]}"
        yield from lines


def _entries(value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    raise TypeError(f"no YAML form for {type(value).__name__}")


def _short(value: object, column: int) -> str | None:
    """The value on one line; None where it is nested or too long."""
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        if any(_is_nested(inner, depth=1) for inner in value.values()):
            return None
        text = "{" + ", ".join(f"{_text(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        if any(_is_nested(inner, depth=0) for inner in value):
            return None
        text = _flow(value)
    else:
        return _scalar(value)
    return text if column + len(text) <= _MAX_FLOW or not value else None


def _is_nested(value: object, depth: int) -> bool:
    """True where the value holds more than ``depth`` levels of lists, or any filled mapping."""
    if isinstance(value, Mapping):
        return True
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return depth == 0 or any(_is_nested(inner, depth - 1) for inner in value)
    return False


def _flow(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(_scalar(inner) for inner in value) + "]"
    return _scalar(value)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    raise TypeError(f"no YAML form for {type(value).__name__}")


def _number(value: float) -> str:
    """YAML wants a point in a number with an exponent, and its own words for the odd values."""
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


@lru_cache(maxsize=65536)
def _text(value: str) -> str:
    """Plain where YAML reads it back as this text, else in double quotes."""
    if _PLAIN.fullmatch(value) and plain_tag(value) == _TEXT:
        return value
    return '"' + "".join(_escaped(char) for char in value) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    if code > 0xFFFF:
        return f"\\U{code:08X}"
    return f"\\u{code:04X}"


def _resolve_merges(node: Node, source: str, done: set[int]) -> None:
    """Replace every ``<<: *other`` by the pairs of ``other`` that the mapping does not write itself."""
    if id(node) in done:
        return
    done.add(id(node))
    if isinstance(node, SequenceNode):
        for child in node.value:
            _resolve_merges(child, source, done)
    elif isinstance(node, MappingNode):
        for _, value in node.value:
            _resolve_merges(value, source, done)
        if any(key.tag == _MERGE for key, _ in node.value):
            node.value = _merged(node, source)


def _merged(node: MappingNode, source: str) -> list[tuple[Node, Node]]:
    own = [(key, value) for key, value in node.value if key.tag != _MERGE]
    taken = {key.value for key, _ in own if isinstance(key, ScalarNode)}
    for key, value in node.value:
        if key.tag != _MERGE:
            continue
        for other in value.value if isinstance(value, SequenceNode) else [value]:
            if not isinstance(other, MappingNode):
                mark = key.start_mark
                message = "a merge key needs a mapping, or a list of them"
                raise SpecError([Problem(source, mark.line + 1, mark.column + 1, "", message)])
            own += [pair for pair in other.value if pair[0].value not in taken]
            taken |= {name.value for name, _ in other.value if isinstance(name, ScalarNode)}
    return own
