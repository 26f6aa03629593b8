"""NetBox cables through patch panels: small dumps, each with the path drawn beside it."""

import json

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.cables import FindingKind, Role
from flowcheck_net.importers.merge import merge
from flowcheck_net.importers.netbox import read_netbox


class Dump:
    """Writes a dump, with primary keys counted per model."""

    def __init__(self):
        self.objects = []
        self._keys = {}
        self._devices = {}

    def add(self, model, **fields):
        key = self._keys[model] = self._keys.get(model, 0) + 1
        self.objects.append({"model": f"dcim.{model}", "pk": key, "fields": fields})
        return key

    def device(self, name):
        if name not in self._devices:
            self._devices[name] = self.add("device", name=name)
        return self._devices[name]

    def interface(self, device, name, **fields):
        return "interface", self.add("interface", device=self.device(device), name=name, **fields)

    def panel(self, positions=1):
        """A panel: its rear port, and a front port for each position."""
        rear = self.add("rearport", device=self.device("panel"), name="rear", positions=positions)
        fronts = [
            self.add("frontport", device=self.device("panel"), name=f"f{n}", rear_port=rear, rear_port_position=n)
            for n in range(1, positions + 1)
        ]
        return ("rearport", rear), [("frontport", front) for front in fronts]

    def cable(self, *ends, status="connected"):
        """Between one end and another; an end may be a list of plugs."""
        key = self.add("cable", status=status)
        for side, end in zip("AB", ends, strict=False):
            for kind, target in end if isinstance(end, list) else [end]:
                fields = {"cable": key, "cable_end": side, "termination_type": ["dcim", kind], "termination_id": target}
                self.add("cabletermination", **fields)
        return key

    def read(self, tmp_path):
        path = tmp_path / "dump.json"
        path.write_text(json.dumps(self.objects))
        return merge(read_netbox((path,)))


@pytest.fixture
def dump():
    return Dump()


def _links(merged):
    return [f"{link.a} {link.b}" for link in merged.links]


def _unknown(merged):
    return sorted(f.message for f in merged.findings if f.kind is FindingKind.UNKNOWN_END)


def test_a_plain_cable(dump, tmp_path):
    dump.cable(dump.interface("h", "eth0"), dump.interface("s", "Ethernet1"))
    merged = dump.read(tmp_path)
    assert _links(merged) == ["h:eth0 s:Ethernet1"]
    assert merged.findings == ()


def test_through_two_panels_with_a_trunk(dump, tmp_path):
    """s1:e1..e4 - panel A [1..4] = trunk = panel B [1..4] - s2:e1..e4, patched crosswise at B."""
    rear_a, front_a = dump.panel(4)
    rear_b, front_b = dump.panel(4)
    dump.cable(rear_a, rear_b)
    for n in range(4):
        dump.cable(dump.interface("s1", f"e{n}"), front_a[n])
        dump.cable(front_b[3 - n], dump.interface("s2", f"e{n}"))
    merged = dump.read(tmp_path)
    assert _links(merged) == [f"s1:e{n} s2:e{3 - n}" for n in range(4)]
    assert merged.findings == ()


def test_through_a_trunk_in_a_trunk(dump, tmp_path):
    """s1 - A[2] = A' -- big panel C[1] == D[1] -- B' = B[2] - s2: positions come out in the order of a stack."""
    rear_a, front_a = dump.panel(2)
    rear_c, front_c = dump.panel(3)
    rear_d, front_d = dump.panel(3)
    rear_b, front_b = dump.panel(2)
    dump.cable(rear_a, front_c[2])
    dump.cable(rear_c, rear_d)
    dump.cable(front_d[2], rear_b)
    dump.cable(dump.interface("s1", "e1"), front_a[1])
    dump.cable(dump.interface("s2", "e1"), front_b[1])
    dump.cable(dump.interface("s2", "e2"), front_b[0])
    merged = dump.read(tmp_path)
    assert _links(merged) == ["s1:e1 s2:e1"]
    (message,) = _unknown(merged)
    assert message.startswith("s2:e2: ends behind rearport")


def test_a_coupler_inside_of_a_trunk(dump, tmp_path):
    """s1 - A[2] = rear A - coupler with one position - rear B = B[2] - s2: the coupler takes no position."""
    rear_a, front_a = dump.panel(3)
    rear_x, front_x = dump.panel(1)
    rear_b, front_b = dump.panel(3)
    dump.cable(rear_a, rear_x)
    dump.cable(front_x[0], rear_b)
    dump.cable(dump.interface("s1", "e1"), front_a[2])
    dump.cable(dump.interface("s2", "e1"), front_b[2])
    assert _links(dump.read(tmp_path)) == ["s1:e1 s2:e1"]


def test_mappings_of_netbox_4_5_that_swap_a_pair(dump, tmp_path):
    """Front ports 1 and 2 on positions 2 and 1 of the rear port; the other panel is straight."""
    rears, fronts = [], []
    for order in ((2, 1), (1, 2)):
        rear = dump.add("rearport", device=dump.device("panel"), name="rear", positions=2)
        rears.append(("rearport", rear))
        for position in order:
            front = dump.add("frontport", device=dump.device("panel"), name="f", positions=1)
            fields = {"front_port": front, "front_port_position": 1, "rear_port": rear, "rear_port_position": position}
            dump.add("portmapping", **fields)
            fronts.append(("frontport", front))
    dump.cable(*rears)
    for n, front in enumerate(fronts):
        dump.cable(dump.interface("s1" if n < 2 else "s2", f"e{n % 2}"), front)
    assert _links(dump.read(tmp_path)) == ["s1:e0 s2:e1", "s1:e1 s2:e0"]


def test_a_front_port_that_fans_out_to_two_rear_ports(dump, tmp_path):
    """NetBox 4.5: an MPO front port of two positions, each on a rear port of its own; at the far panel the reverse."""
    for _ in range(2):
        front = dump.add("frontport", device=dump.device("panel"), name="mpo", positions=2)
        for position in (1, 2):
            rear = dump.add("rearport", device=dump.device("panel"), name=f"r{position}", positions=1)
            fields = {"front_port": front, "front_port_position": position, "rear_port": rear, "rear_port_position": 1}
            dump.add("portmapping", **fields)
    dump.cable(("frontport", 1), ("frontport", 2))
    for n, rear in enumerate((1, 2)):
        dump.cable(dump.interface("s1", f"e{n}"), ("rearport", rear))
        dump.cable(dump.interface("s2", f"e{n}"), ("rearport", rear + 2))
    assert _links(dump.read(tmp_path)) == ["s1:e0 s2:e0", "s1:e1 s2:e1"]


def test_front_to_front_between_panels(dump, tmp_path):
    """s1 - A = A' - B' = B - s2 with one position each."""
    rear_a, front_a = dump.panel()
    rear_b, front_b = dump.panel()
    dump.cable(dump.interface("s1", "e1"), front_a[0])
    dump.cable(rear_a, rear_b)
    dump.cable(front_b[0], dump.interface("s2", "e1"))
    assert _links(dump.read(tmp_path)) == ["s1:e1 s2:e1"]


def test_an_interface_plugged_into_the_rear_of_a_trunk(dump, tmp_path):
    """Which of its positions the light takes nobody can say."""
    rear, front = dump.panel(4)
    dump.cable(dump.interface("s1", "e1"), rear)
    dump.cable(dump.interface("s2", "e1"), front[0])
    merged = dump.read(tmp_path)
    assert "s1:e1: enters rearport 1, a trunk of many positions, at no certain one" in _unknown(merged)


def test_an_open_patch(dump, tmp_path):
    _, front = dump.panel()
    dump.cable(dump.interface("s1", "e1"), front[0])
    assert _unknown(dump.read(tmp_path)) == ["s1:e1: ends behind frontport 1: no cable at rearport 1"]


def test_a_cable_in_the_air(dump, tmp_path):
    dump.cable(dump.interface("s1", "e1"))
    assert _unknown(dump.read(tmp_path)) == ["s1:e1: ends in nothing: the cable has no other side"]


def test_cabling_in_a_circle(dump, tmp_path):
    rear_a, front_a = dump.panel(2)
    rear_b, front_b = dump.panel(2)
    dump.cable(dump.interface("s1", "e1"), front_a[0])
    dump.cable(rear_a, rear_b)
    dump.cable(front_b[0], front_b[1])
    dump.cable(front_a[1], dump.interface("s2", "e1"))
    # out at B1, back in at B2, out at A2: a loop-back patch that does end at an interface
    merged = dump.read(tmp_path)
    assert _links(merged) == []
    assert all("circle" in message for message in _unknown(merged))


def test_a_breakout_cable_does_not_say_which_plug_is_which(dump, tmp_path):
    legs = [dump.interface(f"h{n}", "eth0") for n in range(4)]
    dump.cable(dump.interface("s1", "e1"), legs)
    merged = dump.read(tmp_path)
    assert "s1:e1: cable 1 has 1 plugs here and 4 there: which belongs to which is not said" in _unknown(merged)
    assert len(_unknown(merged)) == 5


def test_power_console_management_and_planned_cables_are_left_out(dump, tmp_path):
    dump.cable(("powerport", 1), ("poweroutlet", 1))
    dump.cable(("consoleport", 1), ("consoleserverport", 1))
    dump.cable(dump.interface("s1", "m", mgmt_only=True), dump.interface("oob", "e1", mgmt_only=True))
    dump.cable(dump.interface("s1", "e1"), dump.interface("s2", "e1"), status="planned")
    dump.cable(dump.interface("s1", "e2"), dump.interface("s2", "e2"))
    merged = dump.read(tmp_path)
    assert _links(merged) == ["s1:e2 s2:e2"]
    said = {finding.message for finding in merged.findings}
    assert said == {"2 power and console cables", "1 cables that are not connected", "2 management interfaces"}


@pytest.mark.parametrize(
    ("fields", "speed"),
    [
        ({"speed": 400_000_000}, "400G"),
        ({"speed": 100_000_000, "type": "400gbase-x-qsfpdd"}, "100G"),  # set by hand below the type's rate
        ({"type": "100gbase-x-qsfp28"}, "100G"),
        ({"type": "25gbase-x-sfp28"}, "25G"),
        ({"type": "other"}, None),
        ({}, None),
    ],
)
def test_speeds(dump, tmp_path, fields, speed):
    dump.cable(dump.interface("h", "eth0", **fields), dump.interface("s", "e1"))
    assert [link.speed for link in dump.read(tmp_path).links] == [speed]


def test_types_that_differ_are_a_conflict(dump, tmp_path):
    ends = dump.interface("h", "eth0", type="100gbase-x-qsfp28"), dump.interface("s", "e1", type="400gbase-x-osfp")
    dump.cable(*ends)
    merged = dump.read(tmp_path)
    assert [finding.kind for finding in merged.findings] == [FindingKind.CONFLICT]


def test_roles(dump, tmp_path):
    roles = {slug: dump.add("devicerole", slug=slug) for slug in ("tor-switch", "gpu-server", "pdu", "checkpoint-node")}
    for slug, key in roles.items():
        dump.add("device", name=slug, role=key)
    dump.add("device", name="old-form", device_role=roles["gpu-server"])
    dump.cable(dump.interface("a", "e1"), dump.interface("b", "e1"))
    found = {device.name: device.role for device in dump.read(tmp_path).devices}
    assert found["tor-switch"] is Role.SWITCH
    assert found["gpu-server"] is found["old-form"] is Role.HOST
    assert found["checkpoint-node"] is Role.CHECKPOINT
    assert found["pdu"] is None


def test_a_device_without_a_name_is_called_by_its_number(dump, tmp_path):
    key = dump.add("device", name=None)
    port = dump.add("interface", device=key, name="e1")
    dump.cable(("interface", port), dump.interface("s", "e1"))
    assert _links(dump.read(tmp_path)) == ["device-1:e1 s:e1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a list of objects"),
        ("{}", "must be a list of objects"),
        ("[1]", "an entry is no object"),
        ('[{"model": "dcim.cable", "pk": "1", "fields": {}}]', "has model, pk and fields"),
        ('[{"model": "dcim.cable", "pk": 1, "fields": {}}]', "no dcim.cabletermination"),
        ('[{"model": "dcim.cable", "pk": 1, "fields": {}}, {"model": "dcim.cable", "pk": 1, "fields": {}}]', "twice"),
    ],
)
def test_what_is_no_dump(tmp_path, text, message):
    path = tmp_path / "dump.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=message):
        read_netbox((path,))


def test_a_damaged_termination_is_named(dump, tmp_path):
    dump.cable(dump.interface("a", "e1"), dump.interface("b", "e1"))
    dump.add("cabletermination", cable=[1], cable_end="A", termination_type=["dcim", "interface"], termination_id=1)
    kinds = {finding.kind for finding in dump.read(tmp_path).findings}
    assert kinds == {FindingKind.UNREADABLE}
