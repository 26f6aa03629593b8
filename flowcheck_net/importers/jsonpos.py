"""JSON with the line of every object: what a finding points at."""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.cables import Source
from flowcheck_net.spec.yamlpos import read_text


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A parsed JSON file."""

    file: str
    tree: Any
    places: Mapping[int, int] = field(repr=False)
    """``id`` of each object in ``tree`` -> offset of its brace; the tree keeps the objects alive."""
    line_starts: Sequence[int] = field(repr=False)

    def source(self, value: object) -> Source:
        """Where an object of the tree begins; the whole file for anything else."""
        offset = self.places.get(id(value))
        return Source(self.file, bisect_right(self.line_starts, offset) if offset is not None else 0)

    def refuse(self, message: str, cure: str = "", *, at: object = None) -> NoReturn:
        """Stop: the file is not of the form that was asked for."""
        place = self.source(at)
        raise SpecError([Problem(place.file, place.line, 1 if place.line else 0, "", message, cure)])


def read_json(path: Path) -> JsonFile:
    """Read a JSON file.

    Raises:
        SpecError: the file is missing, not UTF-8, empty, not JSON, repeats a key, or is nested too deeply.
    """
    text = read_text(path)
    places: dict[int, int] = {}
    decoder = _decoder(places)
    try:
        tree = decoder.decode(text)
    except json.JSONDecodeError as error:
        what = "the file is empty" if not text.strip() else f"not valid JSON: {error.msg}"
        place = (error.lineno, error.colno) if text.strip() else (0, 0)
        raise SpecError([Problem(str(path), *place, "", what)]) from None
    except _Repeated as error:
        line = text.count("\n", 0, error.offset) + 1
        raise SpecError([Problem(str(path), line, 1, error.key, "this key is here twice in one object")]) from None
    except (RecursionError, ValueError):
        raise SpecError([Problem(str(path), 0, 0, "", "nested too deeply, or a number too long")]) from None
    starts = [0, *(i + 1 for i, char in enumerate(text) if char == "\n")]
    return JsonFile(str(path), tree, places, starts)


class _Repeated(Exception):
    """Carries a place and never leaves this module."""

    def __init__(self, key: str, offset: int) -> None:
        super().__init__(key)
        self.key = key
        self.offset = offset


def _decoder(places: dict[int, int]) -> json.JSONDecoder:
    """The standard library's own Python scanner, with a note of where each object began."""
    decoder = json.JSONDecoder(object_pairs_hook=list)
    parse = json.decoder.JSONObject  # type: ignore[attr-defined] # undocumented, the same in 3.11 to 3.14

    def parse_object(start: tuple[str, int], *rest: Any) -> tuple[dict[str, Any], int]:  # noqa: ANN401 - passed on
        pairs, end = parse(start, *rest)
        value = dict(pairs)
        if len(value) != len(pairs):
            names = [key for key, _ in pairs]
            raise _Repeated(next(key for key in names if names.count(key) > 1), start[1] - 1)
        places[id(value)] = start[1] - 1
        return value, end

    decoder.parse_object = parse_object  # type: ignore[attr-defined] # see above
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined] # see above
    return decoder
