"""Wanted mirror sessions x what the switch has -> the ordered steps between them."""

from collections.abc import Sequence

from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchState


def diff(wanted: Sequence[MirrorSession], actual: SwitchState) -> tuple[Step, ...]:
    """The steps that make our sessions on one switch exactly the ``wanted`` ones.

    Deletes come before creates, so that a limit that a session or source frees is free when it is needed; within each
    kind the order is that of the sessions. An equal session gives no step; a changed one is a delete and a create.
    Foreign sessions are never named in a step.
    """
    want, have = set(wanted), set(actual.owned)
    deletes = (Step(StepKind.DELETE, session) for session in sorted(have - want))
    creates = (Step(StepKind.CREATE, session) for session in sorted(want - have))
    return (*deletes, *creates)
