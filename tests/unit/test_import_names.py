"""Which spellings are one port, and which texts are names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcheck_net.importers.names import (
    is_mac,
    is_management_port,
    is_port_name,
    longest_spelling,
    natural,
    port_key,
    spec_name,
)
from flowcheck_net.spec.ranges import NAME_PATTERN, PORT_PATTERN

SAME = [
    ("Ethernet1/1", "Eth1/1", "Et1/1", "eth1/1", "Ethernet 1/1"),
    ("Ethernet1", "Et1", "et1"),
    ("Ten-GigabitEthernet1/0/30", "XGE1/0/30", "TenGigabitEthernet1/0/30", "Te1/0/30", "TenGigE1/0/30", "10GE1/0/30"),
    ("XGigabitEthernet0/0/1", "XGE0/0/1"),
    ("FortyGigE1/0/1", "FGE1/0/1", "FortyGigabitEthernet1/0/1", "Fo1/0/1", "40GE1/0/1"),
    ("HundredGigE1/0/1", "HGE1/0/1", "Hu1/0/1", "100GE1/0/1"),
    ("Twenty-FiveGigE1/0/1", "WGE1/0/1", "TwentyFiveGigE1/0/1", "25GE1/0/1"),
    ("FourHundredGigE0/0/0/1", "400GE0/0/0/1"),
    ("GigabitEthernet0/0/1", "Gi0/0/1", "GE0/0/1"),
    ("FastEthernet1/0/9", "Fa1/0/9"),
    ("xe-0/0/0", "xe-0/0/0.0", "XE-0/0/0"),
    ("et-0/0/1:0", "et-0/0/1:0.0"),
    ("ethernet-1/1", "e1-1"),
    ("ethernet-1/1/2", "e1-1-2"),
]
DIFFERENT = [
    ("eth1", "Ethernet1"),  # Linux and EOS; SONiC has eth0 and Ethernet0 at once
    ("Ethernet1/1", "Ethernet1/11"),
    ("Ethernet1/1", "Ethernet1/1/1"),
    ("Gi1/0/1", "Te1/0/1"),
    ("et-0/0/1:0", "et-0/0/1:1"),
    ("et-0/0/1", "Ethernet0/0/1"),
    ("swp1s0", "swp1s1"),
    ("swp1", "swp1s0"),
    ("e1-1", "e1-11"),
    ("mlx5_0", "mlx5_1"),
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda spellings: spellings[0])
def test_spellings_of_one_port(spellings):
    assert len({port_key(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_ports_stay_different(one, other):
    assert port_key(one) != port_key(other)


NAMES = st.one_of(
    st.text(max_size=20),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(
            ["Eth", "ETHERNET ", "xge", "Hu", "e", "ethernet-", "xe-", "swp", "eth", "10GE", "Po", "mlx5_"]
        ),
        st.integers(0, 99),
        st.sampled_from(["", "/1", "-1", "/1/2", "/1/2.0", ":1", "s0", ".100"]),
    ),
)


@given(NAMES)
def test_the_key_of_a_key_is_itself(name):
    assert port_key(port_key(name)) == port_key(name)


@given(NAMES)
def test_spaces_around_a_name_do_not_count(name):
    assert port_key(f"  {name}\t") == port_key(name)


FORMS = st.sampled_from(["Ethernet{}/{}", "Te{}/0/{}", "XGE{}/0/{}", "HGE{}/0/{}", "e{}-{}", "swp{}s{}", "xe-0/{}/{}"])


@given(
    FORMS, FORMS, st.tuples(st.integers(0, 70), st.integers(0, 70)), st.tuples(st.integers(0, 70), st.integers(0, 70))
)
def test_numbers_are_never_lost(form, other_form, numbers, other_numbers):
    """Two names with one key have the same numbers in the same order."""
    one, other = form.format(*numbers), other_form.format(*other_numbers)
    if port_key(one) == port_key(other):
        assert re.findall(r"\d+", one)[-2:] == re.findall(r"\d+", other)[-2:]


@pytest.mark.parametrize(
    "text",
    ["2c:c2:60:81:ea:f9", "2C-C2-60-81-EA-F9", "2cc2.6081.eaf9", "b8d6-f6ff-7390", "2cc26081eaf9", "0:1:2:a:b:c"],
)
def test_mac_addresses_are_no_port_names(text):
    assert is_mac(text)
    assert not is_port_name(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ethernet1/1", True),
        ("eth3", True),
        ("ens4f0np0", True),
        ("mlx5_0", True),
        ("10GE1/0/1", True),
        ("1/1/1", True),
        ("549", False),  # an ifIndex
        ("To switch", False),  # what somebody wrote as a description
        ("uplink to leaf1 Ethernet1/1", False),
        ("", False),
    ],
)
def test_port_names(text, expected):
    assert is_port_name(text) is expected


@pytest.mark.parametrize(
    "name", ["Management1", "Ma1", "mgmt0", "fxp0", "me0", "vme", "MEth0/0/0", "M-GigabitEthernet0/0/0"]
)
def test_management_ports(name):
    assert is_management_port(name) is (name != "vme")


@pytest.mark.parametrize("name", ["eth0", "Ethernet0", "mlx5_0", "em1x", "swp1"])
def test_data_ports_are_no_management_ports(name):
    assert not is_management_port(name)


@given(st.text(max_size=80))
def test_every_text_becomes_a_name_of_our_files(text):
    assert re.fullmatch(NAME_PATTERN, spec_name(text))
    assert re.fullmatch(PORT_PATTERN, spec_name(text, port=True))
    assert len(spec_name(text)) <= 63
    assert spec_name(spec_name(text)) == spec_name(text)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True))
def test_a_good_name_is_kept(name):
    assert spec_name(name) == name


def test_natural_order():
    assert sorted(["leaf10", "leaf2", "Leaf", "leaf1"], key=natural) == ["Leaf", "leaf1", "leaf2", "leaf10"]


def test_the_fullest_spelling_wins_in_any_order():
    assert longest_spelling(["Eth1/1", "Ethernet1/1 ", "Et1/1"]) == "Ethernet1/1"
    assert longest_spelling(["Et1/1", "Ethernet1/1", "Eth1/1"]) == "Ethernet1/1"
