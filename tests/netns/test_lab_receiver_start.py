"""A receiver that starts while packets come: those of another interface are nobody's."""

from pathlib import Path

from flowcheck_net.plan.make import make_plan
from flowcheck_net.receive.records_read import read_records
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.dpdk.receiving import RECEIVE, needs_receiver
from tests.netns.veth import namespace, needs_namespaces

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "lab-leaf-spine"


@needs_receiver
@needs_namespaces
def test_a_quiet_port_beside_a_busy_one_stays_quiet(tmp_path: Path):
    """DPDK's packet socket hears every interface until it is bound: thousands of packets at this rate."""
    sent, output = tmp_path / "sent.pcapng", tmp_path / "records.json"
    synthesize(make_plan(load_specs(*spec_paths(EXAMPLE))), sent, iterations=5, senders=True)
    with namespace() as place:
        place.pair("near0", "busy")
        place.pair("near1", "quiet")
        sender = place.start(sent, "--to", "near0", "--pps", "20000", "--loop", "0")
        try:
            ports = ("--port", "quiet=af_packet:quiet", "--port", "busy=af_packet:busy")
            place.run(*RECEIVE, *ports, "--duration", "0.5", "-o", output)
        finally:
            sender.terminate()
            sender.communicate()
    packets = {str(capture.name): capture.packets for capture in read_records(output).captures}
    assert packets.pop("busy") > 1000
    assert sum(packets.values()) == 0
