"""pydantic's errors in the words of a network engineer, with what to write instead."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from flowcheck_net.spec.yamlpos import DocPath, Fault

_COMPARED = 64
"""Words that a misspelt one is compared with."""
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
}
_SHAPES = {
    "version": ("must be three numbers, such as 2.19.3", ""),
    "management": ("must be kind:reference", "such as fake:leaf1; no user and no password here"),
    "job name": ("must be lower-case letters and digits with single dashes between", "such as gpt-dp2"),
    "name": ("must be letters, digits, dot, dash or underscore", "no spaces and no colon"),
    "host": ("must be letters, digits, dot, dash or underscore", "no spaces and no colon"),
    "nic": ("must be letters, digits, dot, dash or underscore", "no spaces and no colon"),
    "platform": ("must be letters, digits, dot, dash or underscore", "no spaces and no colon"),
    "group": ("must be a data-parallel group", "dp0, dp1 and so on"),
    "links": ("must be device:port", "such as leaf1:Ethernet1"),
    "failure_domains": ("must be letters, digits, dot, dash or underscore", "no spaces and no colon"),
    "allowed_ports": ("must be switch:port, each may be a glob", "such as leaf*:*"),
    "measured": ("must be switch:port:rx or :tx, with a rate", "such as 'leaf1:Ethernet1:rx': 120G"),
}


class Words:
    """The words that would have been right, and which of them was probably meant."""

    def __init__(self, known: Iterable[str]) -> None:
        self._words = sorted(set(known), key=lambda word: (word.casefold(), word))
        self._folded = [word.casefold() for word in self._words]

    def cure(self, word: object) -> str:
        """``did you mean 'x'?`` where a word is close, else the known words (up to 12 of them)."""
        meant = self.nearest(word)
        if meant:
            return f"did you mean '{meant}'?"
        if not self._words:
            return ""
        return "known: " + ", ".join(self._words[:12]) + (", ..." if len(self._words) > 12 else "")

    def nearest(self, word: object) -> str:
        """The closest word, the first of equals; empty where none is close."""
        text = str(word).casefold()
        low, high = 0, len(self._words)
        if high > _COMPARED:  # a job of another fabric has thousands of unknown hosts: compare alphabetic neighbours
            middle = bisect_left(self._folded, text)
            low, high = max(0, middle - _COMPARED // 2), middle + _COMPARED // 2
        close = get_close_matches(text, self._folded[low:high], n=4, cutoff=0.6)
        if not close:
            return ""
        best = SequenceMatcher(a=close[0], b=text).ratio()
        equals = (folded for folded in close if SequenceMatcher(a=folded, b=text).ratio() >= best)
        return self._words[self._folded.index(min(equals))]


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The cure for one unknown word."""
    return Words(known).cure(word)


def show(value: object) -> str:
    """A found value, short enough for one line."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, tuple | list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def explain(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    """Every fault of a document that does not fit its model."""
    details = error.errors(include_url=False)
    yield from dict.fromkeys(_fault(detail, model) for detail in details if not _is_echo(detail))


def _is_echo(detail: ErrorDetails) -> bool:
    """Pydantic counts only entries that are right: a list that is long enough but has a wrong entry is no new fault."""
    return detail["type"] == "too_short" and len(detail["input"]) >= detail["ctx"]["min_length"]


def _fault(detail: ErrorDetails, model: type[BaseModel]) -> Fault:
    path: DocPath = tuple(part for part in detail["loc"] if part != "[key]")
    kind = detail["type"]
    found = detail["input"]
    if kind == "missing" and isinstance(path[-1], int):
        return Fault(path[:-1], f"must be a pair (found {show(found)})", "such as [host1:mlx5_0, leaf1:Ethernet1]")
    if kind == "missing":
        # The place is that of the mapping, the path names the key that is not there.
        return Fault(path, "this key is missing")
    if kind == "extra_forbidden":
        return Fault(path, "unknown key", did_you_mean(path[-1], _keys_at(model, path[:-1])), at_key=True)
    message, cure = _value_words(kind, detail.get("ctx", {}), found, path)
    if path[-1:] == ("management",):
        return Fault(path, message, cure)  # what was found may be a secret
    return Fault(path, f"{message} (found {show(found)})", cure, at_key=detail["loc"][-1:] == ("[key]",))


def _value_words(kind: str, ctx: Mapping[str, Any], found: object, path: DocPath) -> tuple[str, str]:
    """What a value must be, and a cure."""
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}", _type_cure(kind, found, path)
    if kind == "literal_error":
        return _literal_words(found, ctx["expected"])
    if kind == "string_pattern_mismatch":
        return _shape(path)
    if kind == "value_error":
        return str(ctx["error"]), ""
    if path == ("version",):
        return "this program reads version 1", ""
    bounds = {
        "greater_than_equal": ("ge", "must be {} or more"),
        "greater_than": ("gt", "must be more than {}"),
        "less_than_equal": ("le", "must be {} or less"),
        "less_than": ("lt", "must be less than {}"),
        "too_short": ("min_length", "must have {} or more entries"),
        "too_long": ("max_length", "must have {} or fewer entries"),
        "string_too_long": ("max_length", "must have {} or fewer characters"),
    }
    if kind in bounds:
        name, words = bounds[kind]
        return words.format(ctx[name]), ""
    return {"finite_number": "must be a finite number"}.get(kind, f"not valid ({kind})"), ""


def _literal_words(found: object, expected: str) -> tuple[str, str]:
    """From pydantic's ``'a', 'b' or 'c'``."""
    words = expected.replace(" or ", ", ").replace("'", "").split(", ")
    if len(words) == 1:
        return f"this version knows {words[0]} only", ""
    meant = Words(words).nearest(found)
    return f"must be one of {', '.join(words)}", f"did you mean '{meant}'?" if meant else ""


def _type_cure(kind: str, found: object, path: DocPath) -> str:
    if kind == "string_type" and isinstance(found, int | float):
        return "write all three parts, such as 2.19.3" if path[-1:] == ("version",) else "put it in quotes"
    if kind in ("int_type", "float_type") and isinstance(found, str):
        return "write the number without quotes or unit"
    return ""


def _shape(path: DocPath) -> tuple[str, str]:
    if path == ("name",):
        return _SHAPES["job name"]
    for part in reversed(path):
        if part in _SHAPES:
            return _SHAPES[str(part)]
    return "has a wrong form", ""


def _keys_at(model: type[BaseModel], path: DocPath) -> tuple[str, ...]:
    """The keys that are allowed at a place of the document."""
    current: Any = model
    for part in path:
        nested = _model_in(current)
        if isinstance(part, str) and nested is not None and part in nested.model_fields:
            current = nested.model_fields[part].annotation
    nested = _model_in(current)
    return tuple(nested.model_fields) if nested is not None else ()


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any type expression
    """The model inside ``tuple[Model, ...]``, ``Model | None`` or ``Annotated[...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
