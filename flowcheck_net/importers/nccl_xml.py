"""NCCL's XML files as elements with lines. No document type, so no entity is ever defined or fetched."""

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from flowcheck_net.errors import Problem, SpecError

MAX_BYTES = 16 * 1024 * 1024
"""NCCL itself reads at most 32 768 elements (``MAX_NODES``, ``src/graph/xml.h``)."""
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """One element; two elements are equal only where they are the same one."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: "list[Element]" = field(default_factory=list)

    def number(self, name: str) -> int | None:
        """A whole number in decimal or with ``0x``; None where it is not there or not one."""
        text = self.attributes.get(name, "")
        try:
            return int(text, 0)
        except ValueError:
            return None

    def of_tag(self, tag: str) -> "list[Element]":
        """Children with this tag."""
        return [child for child in self.children if child.tag == tag]


class _Refused(Exception):
    """The file holds what this reader does not take."""


def read_xml(path: Path) -> Element:
    """The root element of an XML file.

    Raises:
        SpecError: The file cannot be read, is too large or too deep, is not XML, or has a document type.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError([Problem(str(path), 0, 0, "", f"cannot be read: {error.strerror or error}")]) from None
    if len(data) > MAX_BYTES:
        raise SpecError([Problem(str(path), 0, 0, "", f"more than {MAX_BYTES} bytes: not an NCCL file")])
    return parse_xml(data, str(path))


def parse_xml(data: bytes, source: str) -> Element:
    """The root element; ``source`` is the file name for messages. Raises SpecError like ``read_xml``."""
    parser = expat.ParserCreate()
    builder = _Builder(parser)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        words = f"not XML: {expat.errors.messages.get(error.code, 'broken')}"
        raise SpecError([Problem(source, error.lineno, error.offset + 1, "", words)]) from None
    except _Refused as refused:
        raise SpecError(
            [Problem(source, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1, "", str(refused))]
        ) from None
    return builder.root()


class _Builder:
    """Hangs itself on an expat parser and builds the tree."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._open: list[Element] = []
        self._roots: list[Element] = []
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._doctype

    def root(self) -> Element:
        """The finished tree; expat has checked that there is exactly one root."""
        return self._roots[0]

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _Refused(f"more than {MAX_DEPTH} elements deep: not an NCCL file")
        element = Element(tag, attributes, self._parser.CurrentLineNumber)
        (self._open[-1].children if self._open else self._roots).append(element)
        self._open.append(element)

    def _end(self, tag: str) -> None:
        del tag
        self._open.pop()

    def _doctype(self, *declared: object) -> None:
        del declared
        raise _Refused("a document type is refused: NCCL writes none, and its entities could be a trap")
