"""A plain list of NIC addresses: lines of ``host nic address``, as a site's own tools can print it."""

from collections.abc import Iterator
from pathlib import Path

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.cables import PortRef
from flowcheck_net.spec.ranges import canonical_address
from flowcheck_net.spec.yamlpos import read_text


def read_addresses(path: Path) -> tuple[tuple[PortRef, tuple[str, ...]], ...]:
    """Addresses by NIC, in the order of the file; a NIC may have several lines. ``#`` begins a comment.

    Raises:
        SpecError: the file cannot be read, or a line is wrong; every problem.
    """
    problems: list[Problem] = []
    found: dict[PortRef, list[str]] = {}
    for number, words in _lines(read_text(path)):
        if len(words) != 3:
            problems.append(Problem(str(path), number, 1, "", "a line must be: host nic address"))
            continue
        try:
            found.setdefault(PortRef(words[0], words[1]), []).append(canonical_address(words[2]))
        except ValueError as error:
            problems.append(Problem(str(path), number, 1, "", f"{words[2]}: {error}"))
    if problems:
        raise SpecError(problems)
    return tuple((nic, tuple(addresses)) for nic, addresses in found.items())


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words
