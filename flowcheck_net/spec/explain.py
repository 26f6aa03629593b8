"""pydantic's errors in the words of a network engineer, with what to write instead."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from flowcheck_net.spec.yamlpos import DocPath, Fault

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
    "measured": ("must be switch:port:rx or :tx, with a rate", "such as leaf1:Ethernet1:rx: 120G"),
}


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` where a known word is close, else the known words (up to 12 of them)."""
    words = sorted(set(known))
    by_fold = {w.casefold(): w for w in words}
    close = get_close_matches(str(word).casefold(), by_fold, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{by_fold[close[0]]}'?"
    if not words:
        return ""
    shown = ", ".join(words[:12])
    return f"known: {shown}, ..." if len(words) > 12 else f"known: {shown}"


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
    for detail in error.errors(include_url=False):
        yield _fault(detail, model)


def _fault(detail: ErrorDetails, model: type[BaseModel]) -> Fault:
    path: DocPath = tuple(part for part in detail["loc"] if part != "[key]")
    kind = detail["type"]
    found = detail["input"]
    if kind == "missing":
        # The place is that of the mapping; the path names the key that is not there.
        return Fault(path, "this key is missing")
    if kind == "extra_forbidden":
        return Fault(path, "unknown key", did_you_mean(path[-1], _keys_at(model, path[:-1])), at_key=True)
    message, cure = _value_words(kind, detail.get("ctx", {}), found, path)
    return Fault(path, f"{message} (found {show(found)})", cure, at_key=detail["loc"][-1:] == ("[key]",))


def _value_words(kind: str, ctx: Mapping[str, Any], found: object, path: DocPath) -> tuple[str, str]:
    """What a value must be, and a cure."""
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}", _type_cure(kind, found, path)
    if kind == "literal_error":
        return "must be " + _one_of(ctx["expected"]), did_you_mean_literal(found, ctx["expected"])
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


def _one_of(expected: str) -> str:
    return "one of " + expected.replace(" or ", ", ").replace("'", "") if " or " in expected else expected


def did_you_mean_literal(found: object, expected: str) -> str:
    """The closest of pydantic's list of literals, if one is close."""
    words = expected.replace(" or ", ", ").replace("'", "").split(", ")
    cure = did_you_mean(found, words)
    return cure if cure.startswith("did you mean") else ""


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
