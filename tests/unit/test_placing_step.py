"""Queue pairs whose iterations are numbered one beside another are not placed: it would mix two gradients."""

from flowcheck_net.checkpoint.placing import _together


def test_one_iteration_apart() -> None:
    """Iterations each 500; the second port missed the first of them, and was numbered as if it had not."""
    one = {0: 1000, 1: 1500, 2: 2000}
    assert _together([one, {0: 1020, 1: 1510, 2: 2030}])
    assert _together([one, {1: 1510, 2: 2030}])
    assert not _together([one, {0: 1510, 1: 2030}])


def test_too_few_to_tell() -> None:
    assert not _together([{0: 1000, 1: 1500}, {1: 1510}])
    assert _together([{0: 1000}])
