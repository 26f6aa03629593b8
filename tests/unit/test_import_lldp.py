"""LLDP reports: names of files, both sides, JSON and text mixed, and text that a template drops in silence."""

import json

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.cables import FindingKind, PortIdKind, Role
from flowcheck_net.importers.lldp import Report, parse_report_argument, port_id_kind
from flowcheck_net.importers.lldp_read import read_lldp
from flowcheck_net.importers.merge import merge

EOS = """\
Interface {port} detected 1 LLDP neighbors:

  Neighbor 0050.568b.67c8/"{far}", age 12 seconds
  Discovered 0:01:11 ago; Last changed 0:01:11 ago
  - Chassis ID type: MAC address (4)
    Chassis ID     : 0050.568b.67c8
  - Port ID type: {kind}
    Port ID     : {far}
  - Time To Live: 120 seconds
  - Port Description: "{description}"
  - System Name: "{name}"
  - System Capabilities : Bridge, Router
    Enabled Capabilities: {enabled}

"""
NXOS = """\
Chassis id: 5087.89a1.d8d6
Port id: {far}
Local Port id: {port}
Port Description: {description}
System Name: {name}
System Description: Cisco Nexus Operating System
Time remaining: 93 seconds
System Capabilities: B, R
Enabled Capabilities: B, R
Management Address: 10.30.140.21
Vlan ID: {vlan}

"""


def _eos(port, name, far, kind="Interface name (5)", description="", enabled="Bridge, Router"):
    return EOS.format(port=port, name=name, far=far, kind=kind, description=description, enabled=enabled)


def _nxos(port, name, far, description="", vlan="1"):
    return NXOS.format(port=port, name=name, far=far, description=description, vlan=vlan)


def _napalm(**ports):
    return json.dumps(
        {
            port: [{"remote_port": far, "remote_system_name": name, "remote_port_description": description}]
            for port, (name, far, description) in ports.items()
        }
    )


@pytest.fixture
def read(tmp_path):
    """Write the texts as files and read them as the reports of the devices of their names."""

    def run(**texts):
        reports = []
        for name, text in texts.items():
            path = tmp_path / f"{name}.txt"
            path.write_text(text)
            reports.append(Report(path, name))
        return read_lldp(reports)

    return run


def _links(survey, **options):
    return [f"{link.a} {link.b}" for link in merge(survey, **options).links]


@pytest.mark.parametrize(
    ("text", "path", "device"),
    [
        ("leaf1.json", "leaf1.json", "leaf1"),
        ("dir/leaf1.example.txt", "dir/leaf1.example.txt", "leaf1"),
        ("spine1.example.com=dump/a.txt", "dump/a.txt", "spine1.example.com"),
        ("dir=x/leaf1.txt", "x/leaf1.txt", "dir"),
        ("./a=b/leaf1.txt", "./a=b/leaf1.txt", "leaf1"),
    ],
)
def test_the_name_of_the_device_that_reports(text, path, device):
    report = parse_report_argument(text)
    assert (str(report.path), report.device) == (path.removeprefix("./"), device)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MAC address (3)", PortIdKind.MAC),
        ("Interface name (5)", PortIdKind.NAME),
        ("Interface alias (1)", PortIdKind.ALIAS),
        ("Locally assigned (7)", PortIdKind.LOCAL),
        ("Interface name", PortIdKind.NAME),
        ("", PortIdKind.UNSAID),
    ],
)
def test_port_id_subtypes(text, kind):
    assert port_id_kind(text) is kind


def test_two_vendors_and_two_forms_agree(read):
    survey = read(
        leaf1=_eos("Ethernet1", "spine1.example.com", "Eth1/7") + _eos("Ethernet2", "spine2", "Ethernet1/7"),
        spine1=_nxos("Eth1/7", "leaf1", "Ethernet1", "to leaf1"),
        spine2=_napalm(**{"Ethernet1/7": ("leaf1.example.com", "Ethernet2", "")}),
    )
    assert _links(survey) == ["leaf1:Ethernet1 spine1:Eth1/7", "leaf1:Ethernet2 spine2:Ethernet1/7"]
    assert not [finding for finding in merge(survey).findings if finding.is_problem]


def test_a_mac_address_with_its_subtype(read):
    """The MAC of b's port looks like nothing; b's own report answers, and the description does not count."""
    survey = read(
        a=_eos("Ethernet1", "b", "0050.568b.67c8", "MAC address (3)", "Ethernet9"),
        b=_eos("Ethernet4", "a", "Ethernet1"),
    )
    assert _links(survey) == ["a:Ethernet1 b:Ethernet4"]


def test_a_subtype_of_mac_is_believed_before_the_form_of_the_text(read):
    survey = read(a=_eos("Ethernet1", "b", "Ethernet3", "MAC address (3)", "Ethernet4"))
    assert _links(survey, accept_one_sided=True) == ["a:Ethernet1 b:Ethernet4"]


def test_napalm_of_many_devices_in_one_file(read):
    both = {"a": json.loads(_napalm(e1=("b", "e2", ""))), "b": json.loads(_napalm(e2=("a", "e1", "")))}
    assert _links(read(all=json.dumps(both))) == ["a:e1 b:e2"]


def test_enabled_capabilities_tell_roles(read):
    survey = read(a=_eos("Ethernet1", "h", "eth0", enabled="Station") + _eos("Ethernet2", "s", "Ethernet1"))
    roles = {device.name: (device.role, bool(device.basis)) for device in survey.devices}
    assert roles == {"a": (Role.SWITCH, True), "h": (Role.HOST, True), "s": (Role.SWITCH, True)}


def test_a_neighbour_that_the_template_drops_is_a_finding(read):
    """The EOS template drops a neighbour without a system name in silence."""
    nameless = _eos("Ethernet2", "c", "Ethernet1").replace('  - System Name: "c"\n', "")
    survey = read(a=_eos("Ethernet1", "b", "Ethernet1") + nameless)
    assert [cable.b.device for cable in survey.cables] == ["b"]
    (finding,) = [f for f in survey.findings if f.kind is FindingKind.UNREADABLE]
    assert finding.source.line == 17  # 14 lines a neighbour, and "Neighbor" is the third of the second


def test_a_neighbour_without_the_line_that_ends_it(read):
    """In the whole text the NX-OS template would mix two neighbours, for it ends each at its VLAN line."""
    survey = read(a=_nxos("Eth1/1", "b", "Eth1").replace("Vlan ID: 1\n", "") + _nxos("Eth1/2", "c", "Eth2"))
    assert [(cable.a.port, str(cable.b)) for cable in survey.cables] == [("Eth1/1", "b:Eth1"), ("Eth1/2", "c:Eth2")]


def test_a_napalm_neighbour_without_a_system_name_is_an_unknown_end(read):
    survey = read(a=_napalm(e1=("", "e2", "")))
    (finding,) = merge(survey).findings
    assert finding.kind is FindingKind.UNKNOWN_END
    assert finding.message == "a:e1: the neighbour tells no system name, only e2"


def test_comware_prints_names_that_do_not_fit_on_a_line_of_their_own(read):
    """The template drops such a name in silence; here the row without its name is a finding."""
    text = (
        "System Name          Local Interface Chassis ID      Port ID\n"
        "a-very-long-name-of-a-switch\n"
        "                     XGE1/0/1        bcea-fa00-0001  Ten-GigabitEthernet1/0/30\n"
        "SW-2                 XGE1/0/2        bcea-fa00-0002  Ten-GigabitEthernet1/0/30\n"
    )
    survey = read(a=text)
    assert [cable.b.device for cable in survey.cables] == ["SW-2"]
    assert [(f.kind, f.source.line) for f in survey.findings] == [(FindingKind.UNREADABLE, 3)]


def test_a_prompt_after_a_table_belongs_to_no_row(read):
    text = (
        "{master:0}\n"
        "Local Interface    Parent Interface    Chassis Id          Port info          System Name\n"
        "ge-0/0/1           ae0                 2c:6b:f5:a1:c2:c0   ge-0/0/1           vmx2\n"
        "{master:0}\nroot@leaf1>\n"
    )
    survey = read(a=text)
    assert [str(cable) for cable in survey.cables] == ["a:ge-0/0/1 -- vmx2:ge-0/0/1"]
    assert survey.findings == ()


def test_a_port_that_is_in_the_answer_twice(read):
    """A JSON object with a repeated key would drop the first of them in silence."""
    with pytest.raises(SpecError, match="e1: this key is here twice"):
        read(a='{"e1": [],\n "e2": [], "e1": []}')


def test_two_reports_of_one_device(read, tmp_path):
    path = tmp_path / "x.txt"
    path.write_text(_eos("Ethernet1", "b", "Ethernet1"))
    with pytest.raises(SpecError, match=r"leaf1 has a report in .* already"):
        read_lldp([Report(path, "leaf1"), Report(path, "leaf1")])


def test_every_bad_file_is_named_at_once(tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text(_eos("Ethernet1", "b", "Ethernet1"))
    bad.write_text("leaf1# show version\n")
    with pytest.raises(SpecError) as caught:
        read_lldp([Report(bad, "x"), Report(good, "y"), Report(tmp_path / "absent.txt", "z")])
    assert len(caught.value.problems) == 2
    assert "no LLDP answer of a known command" in caught.value.message


def test_answers_of_two_vendors_in_one_file(read):
    with pytest.raises(SpecError, match="several vendors"):
        read(a=_eos("Ethernet1", "b", "Ethernet1") + _nxos("Eth1/1", "b", "Eth1/1"))
