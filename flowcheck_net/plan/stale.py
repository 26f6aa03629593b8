"""Is a plan still of the inputs that are there now? Of the three files, and of the site's platform tables."""

from collections.abc import Iterable

from flowcheck_net.errors import StalePlan
from flowcheck_net.model.platforms import SITE_TABLES, on_asic, site_digests
from flowcheck_net.plan.plan import Fingerprint, Plan
from flowcheck_net.spec.fields import changed_fields, field_digests
from flowcheck_net.spec.load import Specs, fingerprint

_FIELDS_SHOWN = 6


def verify_inputs(plan: Plan, specs: Specs) -> None:
    """Prove that the plan was made from these very inputs.

    Raises:
        StalePlan: Names each of topology, job and policy that changed since, and the fields in them.
    """
    verify_tables(plan, (on_asic(s.platform, s.asic) for s in specs.topology.switches))
    now = Fingerprint(*fingerprint(specs), field_digests(specs))
    changed = [name for name in ("topology", "job", "policy") if getattr(now, name) != getattr(plan.fingerprint, name)]
    if changed:
        names = changed_fields(plan.fingerprint.fields, now.fields)
        listed = ", ".join(names[:_FIELDS_SHOWN]) + (" and more" if len(names) > _FIELDS_SHOWN else "")
        raise StalePlan(
            f"changed since the plan was made: {', '.join(changed)}" + (f" ({listed})" if listed else ""),
            hint="run `flowcheck-net plan` again",
        )


def verify_tables(plan: Plan, platforms: Iterable[str] = ()) -> None:
    """Prove that the site's platform tables are those by which the plan was made.

    Args:
        plan: whose switches' platforms are looked at.
        platforms: further ones.

    Raises:
        StalePlan: Names each table that changed, came or went since.
    """
    then = dict(plan.fingerprint.tables)
    now = dict(site_digests({*then, *(switch.platform for switch in plan.switches), *platforms}))
    changed = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    if changed:
        raise StalePlan(
            f"the site's platform tables changed since the plan was made: {', '.join(changed)}",
            hint=f"run `flowcheck-net plan` again, where {SITE_TABLES} names the same folder",
        )
