"""What a terminal shows while switches are worked on, and spans of time as a user writes them."""

import click
import pytest

from flowcheck_net.cli.apply_progress import line
from flowcheck_net.cli.duration import Duration
from flowcheck_net.ids import SwitchName


def test_few_switches_are_named_and_many_counted():
    stages = {SwitchName(f"leaf{n}"): "read" for n in range(1, 10)}
    assert line(stages) == "read 9 switches"
    stages[SwitchName("leaf2")] = "writing"
    stages[SwitchName("leaf3")] = "writing"
    stages[SwitchName("leaf1")] = "reading back"
    assert line(stages) == "reading back leaf1; writing leaf2 leaf3; read leaf4 leaf5 leaf6 leaf7 leaf8 leaf9"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1h0m1s", 3601)])
def test_spans(text: str, seconds: int):
    assert Duration(10, 86400).convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "-5m", "5m5m", "1d", "9s", "25h"])
def test_what_is_no_span_or_too_long_is_refused(text: str):
    with pytest.raises(click.BadParameter):
        Duration(10, 86400).convert(text, None, None)
