"""Audit of synthesized captures from the files of a job: clean traffic in forms that tempt the audit to lie."""

from dataclasses import replace
from pathlib import Path

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import FlowUse
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.receive.records import Flow
from tests.doubles.audit_synth import audited, seen, verdicts


def test_turns_that_come_round_within_an_iteration_are_covered(tmp_path: Path) -> None:
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 2"
    assert verdicts(audited(tmp_path, nccl)) == [Verdict.COVERED] * 3


def test_a_queue_pair_that_carries_only_empty_messages_is_known(tmp_path: Path) -> None:
    # One element: chunk 0 has it and chunk 1 is empty. Messages take turns, so on hop 0->1 queue pair 0 carries the
    # empty partial sum of chunk 1 and queue pair 1 the reduced chunk 0; on hop 1->0 it is the other way round.
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 2"
    report = audited(tmp_path, nccl, elements=[1])
    assert verdicts(report) == [Verdict.COVERED] * 3
    assert {flow.use for flow in report.flows} == {FlowUse.RING, FlowUse.CONTROL}
    assert report.verdict is Verdict.COVERED


def test_a_channel_without_a_share_has_nothing_to_lose(tmp_path: Path) -> None:
    # From 2.20 on a bucket of one element is one channel's alone.
    nccl = "version: 2.20.5, protocol: Simple, channels: 2, threads: 512"
    report = audited(tmp_path, nccl, elements=[1])
    assert verdicts(report) == [Verdict.COVERED] * 6
    assert "no message of any bucket" in report.rings[-1].reason
    assert all(i.publishable for i in report.iterations)
    broadcast = audited(tmp_path, nccl, elements=[1], extra="broadcasts:\n  - {bytes: 20000}\n")
    assert verdicts(broadcast) == [Verdict.COVERED] * 6
    assert broadcast.verdict is Verdict.COVERED


def without_first_packet(flow: Flow) -> Flow:
    """As if the copy of the first packet, with the length of its message, had been lost."""
    (first, last), *rest = flow.seen
    head, *messages = flow.messages
    torn = replace(head, position=first + 1, first_psn=head.first_psn + 1, bytes=None, packets=head.packets - 1)
    return replace(flow, seen=((first + 1, last), *rest), messages=(torn, *messages))


def test_a_broadcast_that_lost_its_first_packet_is_no_iteration(tmp_path: Path) -> None:
    # 20 000 B are 20 packets, an iteration takes 4: the last ones of the broadcast looked like an iteration.
    nccl = "version: 2.20.5, protocol: Simple, channels: 1, threads: 512"
    expectation_, records = seen(
        tmp_path, nccl, elements=[1], extra="broadcasts:\n  - {bytes: 20000}\n", start_psn=5000
    )
    flows = tuple(without_first_packet(f) if f.bytes > 20_000 else f for f in records.flows)
    assert flows != records.flows
    report = audit(expectation_, replace(records, flows=flows))
    assert verdicts(report) == [Verdict.COVERED] * 3


def test_packets_before_the_first_known_message_prove_nothing(tmp_path: Path) -> None:
    # One message of 1 packet a broadcast, 1 packet a chunk: that the packet before the first iteration is a chunk of an
    # earlier one is a guess.
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512"
    expectation_, records = seen(
        tmp_path, nccl, elements=[100], extra="broadcasts:\n  - {bytes: 1500}\n", start_psn=5000
    )
    flows = tuple(without_first_packet(f) if f.bytes > 3000 else f for f in records.flows)
    assert flows != records.flows
    report = audit(expectation_, replace(records, flows=flows))
    assert not any(i.publishable for i in report.iterations[:-3])
    assert verdicts(report)[-3:] == [Verdict.COVERED] * 3


def test_declared_broadcasts_of_one_packet_do_not_shift_equal_chunks(tmp_path: Path) -> None:
    nccl = "version: 2.24.3, protocol: LL128, channels: 1, threads: 512, qps_per_connection: 3, split_data_on_qps: true"
    broadcasts = "broadcasts:\n" + "  - {bytes: 1000}\n" * 3
    report = audited(tmp_path, nccl, elements=[5000, 5000], extra=broadcasts, start_psn=5, mtu=4096)
    assert verdicts(report) == [Verdict.COVERED] * 3


def test_empty_messages_do_not_number_the_iterations(tmp_path: Path) -> None:
    # A broadcast of 100 B leaves its pieces on queue pairs 1 and 2 empty, like the messages of channel 1.
    nccl = "version: 2.19.3, protocol: LL128, channels: 2, threads: 512, qps_per_connection: 3"
    report = audited(tmp_path, nccl, elements=[1000], extra="broadcasts:\n  - {bytes: 100}\n")
    assert [i.number for i in report.iterations] == [0, 1, 2]
    assert all(i.publishable for i in report.iterations)
    assert {r.verdict for r in report.rings if r.channel == 0} == {Verdict.COVERED}


def test_equal_queue_pairs_are_assigned_in_ascending_order_whatever_was_lost(tmp_path: Path) -> None:
    # Both channels carry equal shares; channel 0 loses a packet of a partial sum, which is its queue pair's alone.
    nccl = "version: 2.18.3, protocol: LL, channels: 2, threads: 512"
    report = audited(tmp_path, nccl, elements=[131_072], faults=["loss:hop=dp0/0/0,iteration=1,packet=0"])
    assert [r.verdict for r in report.rings if r.channel == 1] == [Verdict.COVERED] * 3
    assert [r.verdict for r in report.rings if r.channel == 0][1] is Verdict.RECOVERED


def test_queue_pairs_that_take_turns_in_the_only_iteration_are_of_one_iteration(tmp_path: Path) -> None:
    nccl = "version: 2.23.4, protocol: LL128, channels: 1, threads: 512, qps_per_connection: 4"
    report = audited(tmp_path, nccl, elements=[7, 5000], iterations=1)
    assert verdicts(report) == [Verdict.COVERED]


def test_a_broadcast_of_the_size_of_a_chunk_does_not_shift_the_iterations(tmp_path: Path) -> None:
    # Both chunks of 5 000 floats and the broadcast are 10 000 B each; the connection begins with the broadcast.
    nccl = "version: 2.24.3, protocol: LL128, channels: 1, threads: 512"
    report = audited(
        tmp_path, nccl, extra="broadcasts:\n  - {bytes: 10000}\n", faults=["loss:hop=dp0/0/0,iteration=0,packet=12"]
    )
    assert verdicts(report) == [Verdict.GAP, Verdict.COVERED, Verdict.COVERED]


def test_empty_broadcasts_before_the_first_iteration_are_no_iteration(tmp_path: Path) -> None:
    # Channel 1 has one message of data; what ends on it before looks like the end of an iteration.
    nccl = "version: 2.10.3, protocol: LL, channels: 2, threads: 256"
    broadcast = "broadcasts:\n  - {bytes: 1000}\n"
    report = audited(tmp_path, nccl, elements=[5000, 1, 5000], extra=broadcast, start_psn=5)
    assert verdicts(report) == [Verdict.COVERED] * 6
    assert report.verdict is Verdict.COVERED


def test_queue_pairs_whose_patterns_are_rotations_of_each_other_are_told_apart(tmp_path: Path) -> None:
    # Two messages of data and two empty ones in turn: queue pair 0 carries data first, queue pair 1 an empty one.
    nccl = "version: 2.23.4, protocol: Simple, channels: 1, threads: 256, qps_per_connection: 3"
    report = audited(tmp_path, nccl, elements=[1000, 1000, 1000])
    assert verdicts(report) == [Verdict.COVERED] * 3


def test_a_doubt_about_empty_messages_only_does_not_matter(tmp_path: Path) -> None:
    # One element in one iteration: queue pair 1 of hop 0->1 carries empty messages only, without a pause between them.
    nccl = "version: 2.20.5, protocol: Simple, channels: 1, threads: 256, qps_per_connection: 2"
    report = audited(tmp_path, nccl, elements=[1], iterations=1, start_psn=7)
    assert verdicts(report) == [Verdict.COVERED]
    assert report.verdict is Verdict.COVERED


def test_packets_that_were_not_captured_whole_prove_no_update(tmp_path: Path) -> None:
    expectation_, records = seen(tmp_path, "version: 2.19.3, protocol: LL, channels: 1, threads: 512")
    flows = tuple(replace(flow, truncated=sum(flow.packets.values())) for flow in records.flows)
    report = audit(expectation_, replace(records, flows=flows))
    assert verdicts(report) == [Verdict.UNKNOWN] * 3
    assert "not captured whole" in report.rings[0].reason
    assert not any(i.publishable for i in report.iterations)


def test_a_capture_that_begins_inside_an_iteration_of_equal_pieces_is_no_gap(tmp_path: Path) -> None:
    # From 2.29 on the immediate may be a request number, and the pieces on queue pair 0 are equal: nothing says which
    # of them were seen. The last half of the only iteration holds all fully reduced chunks.
    nccl = (
        "version: 2.29.2, protocol: Simple, channels: 1, threads: 640, qps_per_connection: 2, split_data_on_qps: true"
    )
    late = ["late:iteration=0,at=0.45"]
    expectation_, records = seen(tmp_path, nccl, elements=[20_010], iterations=1, start_psn=50, faults=late)
    flows = tuple(replace(f, messages=tuple(replace(m, immediate=1 << 24) for m in f.messages)) for f in records.flows)
    report = audit(expectation_, replace(records, flows=flows))
    assert Verdict.GAP not in verdicts(report)
    assert not any(i.publishable for i in report.iterations)
    # as lengths (big-endian) they tell which of the pieces they are
    assert verdicts(audit(expectation_, records)) == [Verdict.RECOVERED]


def test_empty_pieces_of_broadcasts_are_no_iteration_of_other_lengths(tmp_path: Path) -> None:
    # Channel 1 ends its broadcasts with empty messages; its iterations are an empty message and one of data.
    nccl = "version: 2.19.3, protocol: LL128, channels: 2, threads: 640"
    broadcasts = "broadcasts:\n  - {bytes: 50001}\n  - {bytes: 20000}\n  - {bytes: 1000}\n"
    report = audited(tmp_path, nccl, extra=broadcasts, start_psn=50, mtu=2048)
    assert verdicts(report) == [Verdict.COVERED] * 6
