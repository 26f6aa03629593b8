"""What is wanted of the four switches of a crash test, and what is done for it."""

from dataclasses import replace

from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.ids import Address, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource
from tests.conformance.crash import Bed, Scene
from tests.doubles.switches import plan_for, session


class Wish:
    """Two plans for the four switches of a bed: between them sessions are made, moved and removed."""

    def __init__(self, bed: Bed) -> None:
        def made(at: SwitchName, number: int, to: int, *places: tuple[int, Direction]) -> MirrorSession:
            plain = session(f"fcn-gpt-{number}", to=bed.destinations(at)[to])
            sources = tuple(MirrorSource(bed.sources(at)[place], direction) for place, direction in places)
            return MirrorSession(plain.name, sources, plain.destination)

        def one(at: SwitchName) -> MirrorSession:
            return made(at, 0, 0, (0, Direction.RX), (0, Direction.TX))

        def other(at: SwitchName, source: str = "10.0.0.1") -> MirrorSession:
            if not bed.filters:
                return made(at, 1, 1, (1, Direction.RX if source == "10.0.0.1" else Direction.TX))
            filters = (FlowFilter(Address(source), Address("10.0.0.2")),)
            return replace(made(at, 1, 1, (1, Direction.RX)), filters=filters)

        first, second, third, fourth = bed.names
        moved = made(first, 0, 0, (2, Direction.RX))
        self.former_state = [(moved,), (other(second, "10.0.0.7"),), (), (one(fourth),)]
        self.planned_state = [(one(first), other(first)), (one(second), other(second)), (one(third),), ()]
        self.former, self.plan = (
            plan_for({name: wanted for name, wanted in zip(bed.names, state, strict=True) if wanted})
            for state in (self.former_state, self.planned_state)
        )

    def apply(self, scene: Scene) -> None:
        with scene.journal() as journal:
            apply_plan(self.plan, "d1", journal, scene.reach())

    def apply_to_confirm(self, scene: Scene) -> None:
        with scene.journal() as journal:
            apply_plan(self.plan, "d1", journal, scene.reach(), confirm_within=300)

    def resume(self, scene: Scene) -> None:
        with scene.journal() as journal:
            if journal.open_run():
                resume_plan(self.plan, "d1", journal, scene.reach())
            else:
                apply_plan(self.plan, "d1", journal, scene.reach())

    def undo(self, scene: Scene) -> None:
        with scene.journal() as journal:
            newest = journal.last_run("gpt")
            if newest is not None and newest.plan_digest == "d1":
                rollback(journal, scene.reach)
