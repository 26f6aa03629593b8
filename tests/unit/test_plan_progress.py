"""The progress of planning: a bar on a terminal, nothing at all elsewhere."""

import io

from rich.console import Console

from flowcheck_net.cli.plan_progress import planning


def test_nothing_where_nobody_watches() -> None:
    out = io.StringIO()
    with planning(Console(file=out)) as tell:
        assert tell is None
    assert not out.getvalue()


def test_parts_move_a_bar_and_other_words_do_not() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with planning(console) as tell:
        assert tell is not None
        tell("reading the fabric")
        tell("solving part 65 of 128: 2 rings, 64 switches")
        console.print("between")
        tell("checking the plan")
    text = out.getvalue()
    assert "between" in text
    assert "solving part 65 of 128" in text or "checking the plan" in text
