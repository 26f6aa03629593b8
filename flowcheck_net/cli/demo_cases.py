"""What the demo runs: the shipped examples, clean and with faults, and the verdict that each must end in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """One example under one condition."""

    example: str
    """Folder below ``topologies/``."""
    title: str
    faults: tuple[str, ...]
    """As ``flowcheck-net synth --fault`` takes them."""
    expected: str
    """The verdict of the whole run."""
    exit_code: int
    """Of ``flowcheck-net audit``."""


CASES = (
    Case("two-host", "clean", (), "COVERED", 0),
    Case("two-host", "one mirrored copy lost", ("loss:hop=dp0/0/1,iteration=2,packet=30",), "GAP", 4),
    Case("four-host", "clean", (), "COVERED", 0),
    Case("four-host", "copies of one hop lost", ("loss:hop=dp0/0/1,iteration=2,packet=40-80",), "RECOVERED", 0),
    Case("four-host", "another tenant's flow", ("foreign:",), "UNPLANNED", 6),
    Case("eight-host", "clean", (), "COVERED", 0),
    Case("eight-host", "sender repeats packets", ("retransmit:hop=dp0/0/4,iteration=1,packet=5",), "COVERED", 0),
    Case("eight-host", "packets mirrored twice", ("duplicate:hop=dp0/1/3,iteration=1,packet=3-9",), "DUPLICATE", 6),
    Case("tree-four-host", "clean", (), "COVERED", 0),
    Case("tree-four-host", "copies of one edge lost", ("loss:hop=dp0/0/2,iteration=1,packet=40-80",), "RECOVERED", 0),
)
