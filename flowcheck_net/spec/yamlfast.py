"""libyaml for what ruamel is too slow for: a file of a large fabric has a million values.

``quick_tree`` gives the plain tree of an ordinary document without keeping a place for anything; ``compose`` gives the
nodes with their places. Both leave to ruamel what a scalar means (YAML 1.2), so both readers agree; where a document
uses anything unusual, ``quick_tree`` gives up and the careful way decides.
"""

from collections.abc import Callable
from functools import lru_cache
from re import compile as regex
from typing import Any, Final

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import ScalarNode
from yaml._yaml import CParser

_TAG: Final = "tag:yaml.org,2002:"
_TEXT: Final = _TAG + "str"
_DEPTH: Final = 100
"""Deeper documents are none of ours."""
_OTHER_BREAKS: Final = ("\x85", "\u2028", "\u2029", "%", "\t")
"""YAML 1.1 breaks lines where 1.2 does not, and directives and tabs have rules of their own."""

_ruamel = YAML(typ="safe", pure=True)
_resolvers = {
    char: tuple((str(tag), regex(regexp.pattern, regexp.flags)) for tag, regexp in found)
    for char, found in _ruamel.resolver.versioned_resolver.items()
}
"""First character of a scalar (empty: of the empty one) -> the tags that it may have, and what they look like."""
_BLOCKS: Final = ("|", ">")
"""libyaml takes a comment right after these, ruamel does not."""
_VALUES: Final = frozenset(_TAG + kind for kind in ("int", "float", "bool", "null"))
_TEXTS: Final = frozenset(_TAG + kind for kind in ("timestamp", "value"))


@lru_cache(maxsize=4096)
def plain_tag(text: str) -> str:
    """The tag that YAML 1.2 gives to an unquoted scalar."""
    for tag, regexp in _resolvers.get(text[:1], ()):
        if regexp.match(text):
            return tag
    return _TEXT


def quick_tree(text: str) -> Any:  # noqa: ANN401 - any YAML value
    """The document as dicts, tuples and scalars; None where it is empty, unusual or wrong in any way.

    Unusual are anchors, aliases, tags, directives, block scalars, several documents, and keys that are no plain words.
    """
    if any(mark in text for mark in _OTHER_BREAKS):
        return None
    try:
        return _Quick(text).tree()
    except (_UnusualError, yaml.YAMLError, YAMLError, ValueError, OverflowError):
        return None


def compose(text: str) -> Any:  # noqa: ANN401 - a node of PyYAML, which has no types
    """The root node; None where the document is empty. Raises ``yaml.YAMLError``."""
    return _Composer(text).get_single_node()


class _Composer(CParser):
    """Nodes with the tags of YAML 1.2."""

    def resolve(self, kind: type[Any], value: str, implicit: Any) -> str:  # noqa: ANN401 - libyaml's pair or bool
        if kind is yaml.ScalarNode:
            return plain_tag(value) if implicit[0] else _TEXT
        return _TAG + ("seq" if kind is yaml.SequenceNode else "map")

    def descend_resolver(self, node: Any, index: Any) -> None:  # noqa: ANN401
        """Tags do not depend on the place."""

    def ascend_resolver(self) -> None:
        """Tags do not depend on the place."""


class _UnusualError(Exception):
    """The document uses what ``quick_tree`` leaves to others."""


class _Quick:
    """One pass over libyaml's events."""

    def __init__(self, text: str) -> None:
        self._next: Callable[[], Any] = CParser(text).get_event

    def tree(self) -> Any:  # noqa: ANN401 - any YAML value
        """See ``quick_tree``."""
        self._expect(yaml.StreamStartEvent)
        self._expect(yaml.DocumentStartEvent)
        root = self._value()
        self._expect(yaml.DocumentEndEvent)
        self._expect(yaml.StreamEndEvent)
        return root

    def _expect(self, kind: type[Any]) -> None:
        if not isinstance(self._next(), kind):
            raise _UnusualError

    def _value(self) -> Any:  # noqa: ANN401 - any YAML value
        """The next value, without recursion: ``around`` holds the unfinished containers around ``items``."""
        scalar, mapping, sequence = yaml.ScalarEvent, yaml.MappingStartEvent, yaml.SequenceStartEvent
        mapping_end, sequence_end = yaml.MappingEndEvent, yaml.SequenceEndEvent
        items: list[Any] = []  # of a mapping: key, value, key, value
        in_map = False
        around: list[tuple[list[Any], bool]] = []
        while True:
            event = self._next()
            kind = type(event)
            is_key = in_map and not len(items) & 1
            if kind is scalar:
                items.append(_scalar(event, is_key=is_key))
            elif kind is mapping or kind is sequence:
                if is_key or event.tag is not None or event.anchor is not None or len(around) > _DEPTH:
                    raise _UnusualError
                around.append((items, in_map))
                items, in_map = [], kind is mapping
                continue
            elif kind is mapping_end or kind is sequence_end:
                done = _mapping(items) if in_map else tuple(items)
                items, in_map = around.pop()
                items.append(done)
            else:
                raise _UnusualError
            if not around:
                return items[0]


def _mapping(items: list[Any]) -> dict[str, Any]:
    done = dict(zip(items[::2], items[1::2], strict=True))
    if 2 * len(done) != len(items):
        raise _UnusualError  # a key is there twice
    return done


def _scalar(event: Any, *, is_key: bool) -> Any:  # noqa: ANN401 - an event of PyYAML; any YAML scalar
    if event.tag is not None or event.anchor is not None or event.style in _BLOCKS:
        raise _UnusualError
    text: str = event.value
    if not event.implicit[0] or text[:1] not in _resolvers:
        return text
    tag = plain_tag(text)
    if is_key:
        if tag != _TEXT and tag not in _VALUES:
            raise _UnusualError
        return text
    if tag == _TEXT or tag in _TEXTS:
        return text
    if tag not in _VALUES:
        raise _UnusualError
    if text.isdecimal() and text.isascii() and len(text) < 19:
        return int(text)
    return _ruamel.constructor.construct_object(ScalarNode(tag, text))
