"""Which driver is chosen, and what is said when there is none or there are two."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from flowcheck_net.drivers import registry
from flowcheck_net.errors import ConnectError, DriverError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress


def at(management: str, platform: str = "fake") -> SwitchAddress:
    return SwitchAddress(SwitchName("leaf1"), platform, management)


def install(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    """Also shows that the right group is asked for, and that nothing is kept from before."""
    registry._installed.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == registry.GROUP else ())


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """What a test installed is gone after it."""
    yield
    registry._installed.cache_clear()


def test_the_fake_is_built_in_and_holds_its_state_in_the_state_directory(tmp_path: Path):
    with registry.open_driver(at("fake:leaf1"), "gpt", tmp_path) as driver:
        assert driver.read().owned == ()
        assert driver.capabilities().platform == "fake"


def test_an_unknown_driver_lists_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("acme", "acme.driver:open", registry.GROUP))
    with pytest.raises(DriverError, match="no driver named 'fakee'") as caught:
        registry.open_driver(at("fakee:leaf1"), "gpt", tmp_path)
    assert caught.value.hint == f"known drivers: {', '.join(sorted({'acme', *registry.BUILT_IN}))}"
    assert caught.value.exit_code == 5


def test_a_driver_claimed_twice_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("fake", "acme.driver:open", registry.GROUP))
    with pytest.raises(DriverError, match=r"flowcheck_net\.drivers\.fake:open_fake .* and acme\.driver:open"):
        registry.open_driver(at("fake:leaf1"), "gpt", tmp_path)


def test_an_installed_driver_is_imported_only_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "acme_lazy_driver.py").write_text("def open_it(address, job, state_dir):\n    return (address, job)\n")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, EntryPoint("acme", "acme_lazy_driver:open_it", registry.GROUP))
    assert "acme" in registry.known_drivers()
    assert "acme_lazy_driver" not in sys.modules
    opened: object = registry.open_driver(at("acme:x"), "gpt", tmp_path)
    assert opened == (at("acme:x"), "gpt")


@pytest.mark.parametrize("value", ["no_such_module_at_all:open", "json:no_such_function", "json:__name__"])
def test_a_driver_that_cannot_be_loaded_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str):
    install(monkeypatch, EntryPoint("acme", value, registry.GROUP))
    with pytest.raises(DriverError, match=r"cannot be loaded|not callable"):
        registry.open_driver(at("acme:x"), "gpt", tmp_path)


@pytest.mark.parametrize("reference", ["../evil", "a/b", "", ".hidden"])
def test_a_fake_reference_cannot_leave_the_state_directory(tmp_path: Path, reference: str):
    with pytest.raises(ConnectError, match="does not name a fake switch"):
        registry.open_driver(at(f"fake:{reference}"), "gpt", tmp_path)


def test_a_driver_whose_extra_is_not_installed_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.BUILT_IN, "p4rt", "no_such_module_at_all:open")
    with pytest.raises(DriverError, match="cannot be loaded") as caught:
        registry.open_driver(at("p4rt:leaf1:9559?device=1"), "gpt", tmp_path)
    assert caught.value.hint == "pip install 'flowcheck-net[p4]'"
