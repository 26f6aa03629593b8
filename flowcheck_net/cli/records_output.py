"""Where commands leave records, and the one line that they say of them."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowcheck_net.receive.records import Records


def is_json(path: Path) -> bool:
    """Is this the name of a JSON document? All others get the binary form."""
    return path.suffix.lower() == ".json"


def write_any(output: Path, records: "Records") -> None:
    """Write records in the form that the name asks for; raises OutputError."""
    if is_json(output):
        from flowcheck_net.cli.output import write_file
        from flowcheck_net.receive.records_json import records_to_json

        write_file(output, records_to_json(records) + "\n", "-o")
        return
    from flowcheck_net.receive.records_write import write_records

    write_records(output, records)


def summary(records: "Records") -> str:
    """What there is, without the time that tables cost."""
    from flowcheck_net.receive.replay_chain import count

    packets = sum(capture.packets for capture in records.captures)
    missing = sum(each.packets for flow in records.flows for each in flow.missing)
    messages = sum(len(flow.messages) for flow in records.flows)
    return (
        f"{count(packets, 'packet')} at {count(len(records.captures), 'capture port')}: "
        f"{count(len(records.flows), 'flow')}, {count(messages, 'message')}, {count(missing, 'packet')} missing"
    )
