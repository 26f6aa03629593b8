"""Survey -> topology: select, merge, tell roles, write. The steps that every importer shares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.cables import Cable, Device, End, Finding, FindingKind, Link, Role, Source, Survey
from flowcheck_net.importers.document import Imported, build_document
from flowcheck_net.importers.merge import merge
from flowcheck_net.importers.names import port_key
from flowcheck_net.importers.options import Choice, Options, fits
from flowcheck_net.importers.roles import assign_roles, fast_links, usable_links


@dataclass(frozen=True, slots=True)
class Graph:
    """What an import found: also the answer where no topology can be written."""

    devices: tuple[Device, ...]
    roles: dict[str, Role]
    links: tuple[Link, ...]
    imported: Imported

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that keep the topology from being trusted."""
        return tuple(finding for finding in self.imported.findings if finding.is_problem)


def import_topology(survey: Survey, options: Options) -> Graph:
    """Judge a survey and write its topology.

    Raises:
        SpecError: the survey holds no cable at all, or a file of it gave nothing.
    """
    findings: list[Finding] = []
    kept = _select(survey, options, findings)
    merged = merge(kept, accept_one_sided=options.accept_one_sided)
    findings += merged.findings
    fast = fast_links(merged.links, findings)
    roles = assign_roles(merged.devices, fast, options, findings)
    links = usable_links(fast, roles, findings)
    if not links:
        source = min(cable.source for cable in survey.cables)
        message = f"of {len(survey.cables)} statements about cables none is left to write"
        findings.append(Finding(Source(source.file), FindingKind.NOTHING, message))
    platform = (Choice("*", survey.platform),) if survey.platform else ()
    chosen = replace(options, platform=(*platform, *options.platform))
    imported = build_document(options.name or survey.name, merged.devices, roles, links, chosen, findings)
    return Graph(merged.devices, roles, merged.links, imported)


def _select(survey: Survey, options: Options, findings: list[Finding]) -> Survey:
    """The survey without what the user excludes; a file that gave nothing at all is an error."""
    spoken = {cable.source.file for cable in survey.cables} | {finding.source.file for finding in survey.findings}
    empty = [file for file in survey.files if not survey.cables or file not in spoken]
    if empty:
        message = f"no cable was found in what should be {survey.kind} data"
        listed = [finding.problem() for finding in survey.findings if finding.is_problem]
        hint = "check the file and the KIND of the import"
        raise SpecError([*listed, *(Problem(file, 0, 0, "", message) for file in empty)], hint=hint)
    return replace(survey, cables=tuple(cable for cable in survey.cables if _is_kept(cable, options, findings)))


def _is_kept(cable: Cable, options: Options, findings: list[Finding]) -> bool:
    if any(_is_excluded(end, options.exclude) for end in (cable.a, cable.b)):
        findings.append(Finding(cable.source, FindingKind.IGNORED, f"{cable}: excluded"))
        return False
    return True


def _is_excluded(end: End, globs: Sequence[str]) -> bool:
    if not globs:
        return False
    names = (end.device, str(end), f"{end.device}:{port_key(end.port)}")
    return any(fits(name, globs) for name in names)
