"""LLDP answers of the common vendors' command lines, read by ntc-templates (``lldp_dialects``)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.errors import FlowcheckError, Problem, SpecError
from flowcheck_net.importers.cables import Finding, FindingKind, PortIdKind, Source
from flowcheck_net.importers.lldp import Neighbor, Report, port_id_kind
from flowcheck_net.importers.lldp_dialects import DIALECTS, Dialect
from flowcheck_net.spec.yamlpos import read_text


@dataclass(frozen=True, slots=True)
class _Piece:
    """The lines of one neighbour, with the line of its local port before them."""

    text: str
    line: int
    """1-based line at which the neighbour begins."""


def read_cli(report: Report, findings: list[Finding]) -> list[tuple[Neighbor, Source]]:
    """The neighbours in a CLI answer; what cannot be read is a finding.

    Raises:
        SpecError: the file cannot be read, or is no answer of a known command.
        FlowcheckError: ntc-templates is not installed.
    """
    text = read_text(report.path)
    dialect = _dialect(text, report.path)
    template = _template(dialect)
    found = []
    for piece in _pieces(text, dialect):
        source = Source(str(report.path), piece.line)
        neighbor = _neighbor(piece, dialect, template)
        if isinstance(neighbor, str):
            message = f"{report.device}: a neighbour that the {dialect.name} template cannot read: {neighbor}"
            findings.append(Finding(source, FindingKind.UNREADABLE, message, "collect the answer anew, unwrapped"))
        else:
            found.append((neighbor, source))
    return found


def is_cli_answer(text: str) -> bool:
    """True where a text has the marks of a vendor's LLDP command."""
    return any(dialect.signature.search(text) for dialect in DIALECTS)


def _dialect(text: str, path: Path) -> Dialect:
    fitting = [dialect for dialect in DIALECTS if dialect.signature.search(text)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(dialect.name for dialect in DIALECTS)
    message = "no LLDP answer of a known command" if not fitting else "LLDP answers of several vendors in one file"
    raise SpecError([Problem(str(path), 0, 0, "", message, f"known: NAPALM's JSON, and CLI text of {known}")])


def _template(dialect: Dialect) -> Any:  # noqa: ANN401 - textfsm has no types
    try:
        import ntc_templates
        import textfsm
    except ImportError as error:
        raise FlowcheckError(
            f"reading CLI text needs the package {error.name}", hint="pip install 'flowcheck-net[importers]'"
        ) from None
    path = Path(next(iter(ntc_templates.__path__))) / "templates" / f"{dialect.template}.textfsm"
    with path.open(encoding="utf-8") as file:
        return textfsm.TextFSM(file)


def _pieces(text: str, dialect: Dialect) -> Iterator[_Piece]:
    """The answer, cut before each neighbour and before each line that names a local port."""
    heading = ""
    begun: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), start=1):
        is_begin = dialect.begin.match(line) is not None
        is_local = dialect.local is not None and dialect.local.match(line) is not None
        if begun and (is_begin or is_local or dialect.is_table):
            yield _Piece("\n".join(begun) + "\n", start)
            begun = []
        if is_local or (dialect.is_table and dialect.signature.match(line)):
            heading = line
        elif is_begin:
            begun, start = [heading, line] if heading else [line], number
        elif begun:
            begun.append(line)
    if begun:
        yield _Piece("\n".join(begun) + "\n", start)


def _neighbor(piece: _Piece, dialect: Dialect, template: Any) -> Neighbor | str:  # noqa: ANN401 - see above
    """The neighbour of a piece, or why there is none."""
    import textfsm

    template.Reset()
    try:
        rows = template.ParseTextToDicts(piece.text)
    except textfsm.TextFSMError as error:
        return " ".join(str(error).split())[:120]
    rows = [row for row in rows if _cell(row, "NEIGHBOR_NAME") or _cell(row, "CHASSIS_ID")]
    if len(rows) != 1:
        return f"{len(rows)} rows came of it, for a field that is required is missing or repeated"
    row = rows[0]
    enabled = _field(dialect.capabilities, piece.text)
    description = _field(dialect.description, piece.text) or ""
    return Neighbor(
        _cell(row, "LOCAL_INTERFACE"),
        _cell(row, "NEIGHBOR_NAME"),
        _cell(row, "NEIGHBOR_PORT_ID") or _cell(row, "NEIGHBOR_INTERFACE"),
        _kind(dialect, piece.text),
        port_description=description,
        chassis_id=_cell(row, "CHASSIS_ID"),
        system_description=_cell(row, "NEIGHBOR_DESCRIPTION"),
        capabilities=tuple(re.split(r"[\s,]+", enabled.strip())) if enabled is not None else None,
    )


def _cell(row: dict[str, Any], name: str) -> str:
    value = row.get(name, "")
    return " ".join(value) if isinstance(value, list) else str(value).strip()


def _field(pattern: re.Pattern[str] | None, text: str) -> str | None:
    found = pattern.search(text) if pattern is not None else None
    return found[1].strip() if found is not None else None


def _kind(dialect: Dialect, text: str) -> PortIdKind:
    return port_id_kind(_field(dialect.subtype, text) or "")
