"""From the trainer's gradients to laid ones: synthesized frames, the core, the audit, the layer; all as in use."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flowcheck_net.checkpoint.accept.draw import Belief, Ground
from flowcheck_net.checkpoint.accept.trainer import BUCKETS, GROUP, Trainer
from flowcheck_net.checkpoint.payload import Wanted, write_gradients
from flowcheck_net.errors import SpecError
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_to_json
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from flowcheck_net.spec.load import load_specs

MTU = 256
"""Small, so that a small gradient has packets to lose."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A fabric and the job on it; plans are made once."""

    example: Path
    """Directory with topology.yaml, job.yaml and policy.yaml; buckets, MTU and copies of the job are ours."""
    _plans: dict[tuple[object, ...], Plan] = field(default_factory=dict)

    def plan(self, trainer: Trainer, belief: Belief | None = None) -> Plan:
        """The plan in force; or, with ``belief``, the one that the node wrongly has."""
        buckets, mtu, copies = _buckets(trainer), MTU, 2
        if belief is Belief.BUCKETS:
            buckets = [(name, elements + 256, kind) for name, elements, kind in buckets]
        elif belief is Belief.SWAPPED:
            buckets = buckets[::-1]
        elif belief is Belief.DTYPE:
            half = {"fp32": "bf16", "bf16": "fp32"}
            double = {"fp32": 2.0, "bf16": 0.5}
            buckets = [(name, round(elements * double[kind]), half[kind]) for name, elements, kind in buckets]
        elif belief is Belief.MTU:
            mtu = 2 * MTU
        elif belief is Belief.POINTS:
            copies = 1  # of the plan in force: the node's has more
        key = (*buckets, mtu, copies)
        if key not in self._plans:
            self._plans[key] = self._make(buckets, mtu, copies)
        return self._plans[key]

    def ground(self, trainers: Sequence[Trainer], steps: int) -> Ground:
        """What faults can be drawn from, whichever of the trainers sends; counted by the synthesizer."""
        packets: dict[str, int] = {}
        captures: list[str] = []
        for trainer in trainers:
            plan = self.plan(trainer)
            with tempfile.TemporaryDirectory() as place:
                told = synthesize(plan, Path(place) / "clean.pcapng", iterations=1)
            watched = sorted({f"{hop.group}/{hop.channel}/{hop.index}" for hop in plan.hops})
            counts = {hop: sum(span.packets for span in told.spans if span.hop == hop) for hop in watched}
            packets = {hop: min(count, packets.get(hop, count)) for hop, count in counts.items()}
            captures = [capture.name for capture in told.captures]
        return Ground(steps, packets, captures)

    def lay(
        self,
        mirrored: Plan,
        believed: Plan,
        gradients: Sequence[bytes],
        place: Path,
        *,
        faults: Sequence[str] = (),
        seed: int = 0,
    ) -> Path:
        """What the node has of the gradients; nothing of it where nothing was captured that it understands.

        Args:
            mirrored: The plan that the switches follow.
            believed: The node's.
            gradients: Buckets one behind another, an iteration each.
            place: An empty directory.
            faults: Of the mirror, as ``synth --fault`` takes them.
            seed: Of random faults.
        """
        given = place / "given"
        for number, data in enumerate(gradients):
            directory = given / f"iteration-{number:06d}"
            directory.mkdir(parents=True)
            (directory / f"{GROUP}.gradient").write_bytes(data)
        capture = place / "mirror.pcapng"
        made = parse_faults(list(faults))
        synthesize(mirrored, capture, iterations=len(gradients), faults=made, seed=seed, gradients=given)

        def feed(core: Core) -> None:
            core.read(capture, lambda name: name or capture.stem)

        wanted = Wanted(place / "laid", plan_digest=json.loads(plan_to_json(believed))["digest"])
        write_gradients(expectation(believed), replay([capture]), wanted, feed, Core)
        (place / "laid").mkdir(exist_ok=True)
        return place / "laid"

    def _make(self, buckets: Sequence[tuple[str, int, str]], mtu: int, copies: int) -> Plan:
        with tempfile.TemporaryDirectory() as place:
            job, policy = Path(place) / "job.yaml", Path(place) / "policy.yaml"
            text = (self.example / "job.yaml").read_text(encoding="utf-8")
            job.write_text(_job(text, buckets, mtu, self.example), encoding="utf-8")
            text = (self.example / "policy.yaml").read_text(encoding="utf-8")
            policy.write_text(text.replace("copies: 2", f"copies: {copies}"), encoding="utf-8")
            return make_plan(load_specs(self.example / "topology.yaml", job, policy))


def _buckets(trainer: Trainer) -> list[tuple[str, int, str]]:
    kind = "bf16" if trainer.setting.master else "fp32"
    sizes: Mapping[str, int] = {name: parameter.numel() for name, parameter in trainer.named.items()}
    return [(f"bucket{n}", sum(sizes[name] for name in names), kind) for n, names in enumerate(BUCKETS)]


def _job(text: str, buckets: Sequence[tuple[str, int, str]], mtu: int, example: Path) -> str:
    head, found, rest = text.partition("\nbuckets:")
    place = rest.find("\niteration_time:")
    lines = head.splitlines()
    if not found or place < 0 or not any(line.startswith("mtu:") for line in lines):
        raise SpecError([], hint=f"{example}/job.yaml needs lines that begin with mtu:, buckets: and iteration_time:")
    head = "\n".join(f"mtu: {mtu}" if line.startswith("mtu:") else line for line in lines)
    told = "".join(f"  - {{name: {name}, elements: {elements}, dtype: {kind}}}\n" for name, elements, kind in buckets)
    return f"{head}\nbuckets:\n{told}{rest[place + 1 :]}"
