"""``flowcheck-net import``: files of other tools -> our input files; one lazily loaded command a kind of file."""

from typing import ClassVar

import click

from flowcheck_net.cli.main import LazyGroup

_TOPOLOGY = "flowcheck_net.cli.import_topology"


class ImportGroup(LazyGroup):
    """The kinds of files that can be imported."""

    commands_by_name: ClassVar[dict[str, tuple[str, str]]] = {
        "containerlab": (f"{_TOPOLOGY}:containerlab", "A containerlab *.clab.yml -> topology.yaml."),
        "netbox": (f"{_TOPOLOGY}:netbox", "A NetBox dump, through patch panels -> topology.yaml."),
        "lldp": (f"{_TOPOLOGY}:lldp", "LLDP neighbours (NAPALM JSON, CLI text) -> topology.yaml."),
        "batfish": (f"{_TOPOLOGY}:batfish", "A Batfish layer-1 topology -> topology.yaml."),
        "netq": (f"{_TOPOLOGY}:netq", "A NetQ topologyGraph.json -> topology.yaml."),
        "ibnetdiscover": (f"{_TOPOLOGY}:ibnetdiscover", "An InfiniBand fabric: its graph only."),
        "slurm": ("flowcheck_net.cli.import_slurm:command", "Compare Slurm's switches with a topology; hints only."),
        "nccl": ("flowcheck_net.cli.import_nccl:nccl", "NCCL debug logs of all ranks -> job.yaml."),
        "nccl-xml": ("flowcheck_net.cli.import_nccl:nccl_xml", "NCCL topology and graph XML."),
    }


@click.group("import", cls=ImportGroup)
def command() -> None:
    """Turn files of other tools into the input files of flowcheck-net.

    A topology is written only when every cable is proven: both ends agree, and no port is cabled twice. What does not
    fit is listed with file and line (exit code 2). What the source cannot tell is written FILL, and no FILL loads.
    """
