"""SONiC: rows and patches against the YANG module and the cases of the samples; what goes wrong on the switch."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.drivers.sonic_check import complaint_about
from flowcheck_net.drivers.sonic_db import Snapshot, tables_from
from flowcheck_net.drivers.sonic_patch import additions, removals
from flowcheck_net.drivers.sonic_rows import Rows, find, rows_of
from flowcheck_net.drivers.sonic_yang import RISKY, problems_of
from flowcheck_net.errors import ConnectError, Rejected, StateUnknown
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import RemarkKind
from tests.conformance import bench_sonic
from tests.conformance.bench import Cannot, create, delete, session
from tests.conformance.bench_sonic import SonicBench
from tests.doubles import sonic_acl, sonic_yang
from tests.doubles.sonic_switch import CONFIG, COUNTERS, STATE
from tests.doubles.switches import session as named

SAMPLES = sonic_yang.SAMPLES
pytestmark = pytest.mark.skipif(not sonic_yang.MODULE.is_file(), reason="../shared/samples/sonic is not here")
PAIRS = [("10.0.0.1", "10.0.0.2"), ("fd77::1", "fd77::2")]


@pytest.fixture(scope="module")
def made() -> Iterator[SonicBench]:
    with tempfile.TemporaryDirectory() as name:
        try:
            setting = bench_sonic.double(Path(name))
            bench = setting.__enter__()
        except Cannot as why:
            pytest.skip(str(why))
        yield bench
        setting.__exit__(None, None, None)
        bench_sonic.close()


@pytest.fixture
def bench(made: SonicBench) -> SonicBench:
    """As new."""
    made.renew()
    return made


def cases() -> list[tuple[str, bool]]:
    """Name, and whether the YANG module is said to take it."""
    if not sonic_yang.MODULE.is_file():
        return []
    read = json.loads((SAMPLES / "yang_mirror_session_cases.json").read_text())
    return [(name, not {"eStr", "eStrKey"} & set(case)) for name, case in read.items()]


def document(name: str) -> tuple[dict[str, dict[str, str]], Snapshot]:
    """Sessions, ports and policers of a case."""
    read = json.loads((SAMPLES / "yang_mirror_session.json").read_text())[name]
    lists: dict[str, list[dict[str, str]]] = {"MIRROR_SESSION": [], "PORT": [], "POLICER": []}
    for module in read.values():
        for table, rows in module.items():
            lists[table.rpartition(":")[2]] = rows[table.rpartition(":")[2] + "_LIST"] if table else []
    sessions = {r["name"]: {k: v for k, v in r.items() if k != "name"} for r in lists["MIRROR_SESSION"]}
    tables: dict[str, dict[str, dict[str, str]]] = {t: {r["name"]: {} for r in lists[t]} for t in ("PORT", "POLICER")}
    return sessions, Snapshot(tables, {}, {})


@pytest.mark.parametrize(("name", "valid"), cases())
def test_we_and_the_yang_module_judge_the_cases_of_the_samples_alike(name: str, valid: bool):
    sessions, snapshot = document(name)
    theirs = sonic_yang.complaint(sessions, snapshot.config["PORT"], snapshot.config["POLICER"])
    ours = [text for key, row in sessions.items() for text in problems_of(key, row, snapshot)]
    assert (not theirs, not ours) == (valid, valid), (theirs, ours)


@pytest.mark.parametrize(
    ("file", "word"),
    [("queue_invalid_1", "queue '5o4'"), ("ttl_invalid_1", "ttl '-1is'"), ("valid_1", "")],
)
def test_the_everflow_files_of_the_samples(file: str, word: str):
    (entry,) = json.loads((SAMPLES / f"everflow_config_{file}.json").read_text())
    found = problems_of("session1", entry["MIRROR_SESSION_TABLE:session1"], Snapshot({}, {}, {}))
    assert [f for f in found if word and word in f] == found
    assert bool(found) == bool(word)


def sample_snapshot() -> Snapshot:
    """The CONFIG_DB of the samples."""
    read = json.loads((SAMPLES / "utilities_mock_config_db.json").read_text())
    wrapped = {k: v if "value" in v and "expireat" in v else {"type": "hash", "value": v} for k, v in read.items()}
    return Snapshot(tables_from(json.dumps(wrapped), "|"), {}, {})


WRITTEN = [
    named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet64"),
    named("fcn-gpt-1", "Ethernet0:tx", "Ethernet4:tx", to="Ethernet64"),
    named("fcn-gpt-2", "Ethernet0:rx", "Ethernet0:tx", to="Ethernet64"),
    named("fcn-gpt-3", "Ethernet0:rx", "PortChannel0002:rx", to="erspan:192.0.2.9"),
    named("fcn-gpt-4", "Ethernet0:rx", "Ethernet4:rx", to="erspan:192.0.2.9", filters=PAIRS),
    named("fcn-gpt-5", "Ethernet0:rx", to="Ethernet64", filters=PAIRS[:1]),
]


def _as_json(rows: Rows) -> dict[str, dict[str, dict[str, object]]]:
    """The rows as they stand in the patch."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for operation in additions(rows, Snapshot({t: {"x": {}} for t, _ in rows}, {}, {})):
        _, table, key = str(operation["path"]).split("/")
        found.setdefault(table, {})[key.replace("~1", "/")] = operation["value"]  # type: ignore[assignment]
    return found


def _channels(snapshot: Snapshot) -> set[str]:
    return set(snapshot.config.get("PORTCHANNEL", {}))


@pytest.mark.parametrize(
    ("table", "key", "row"),
    [
        ("ACL_RULE", "t|r0", {"PRIORITY": "1", "NEXT_HEADER": "17"}),
        ("ACL_RULE", "t|r0", {"PRIORITY": "1", "IP_PROTOCOL": "0"}),
        ("ACL_RULE", "t|r0", {"PRIORITY": "1000000"}),
        ("ACL_RULE", "t|r0", {"SRC_IP": "10.0.0.1/32"}),
        ("ACL_RULE", "t|r0", {"PRIORITY": "1", "SRC_IP": "10.0.0.1"}),
        ("ACL_RULE", "t|r0", {"PRIORITY": "1", "SRC_IP": "10.0.0.1/32", "DST_IPV6": "::1/128"}),
        ("ACL_RULE", "t|r0", {"PRIORITY": "1", "MIRROR_INGRESS_ACTION": "nobody"}),
        ("ACL_RULE", "nowhere|r0", {"PRIORITY": "1"}),
        ("ACL_TABLE", "t", {"type": "t", "stage": "sideways"}),
        ("ACL_TABLE", "t", {"type": "nothing"}),
        ("ACL_TABLE", "t", {"type": "t", "ports": ["Ethernet999"]}),
        ("ACL_TABLE_TYPE", "t", {"MATCHES": [], "BIND_POINTS": ["PORT"]}),
        ("ACL_TABLE_TYPE", "t", {"MATCHES": ["SRC_IP"], "BIND_POINTS": ["VLAN"]}),
    ],
)
def test_the_double_refuses_acl_rows_that_the_published_module_refuses(table: str, key: str, row: dict[str, object]):
    """Each of these was refused by sonic-acl.yang (086b03bd) in yangson as well, outside the project."""
    config: dict[str, dict[str, dict[str, object]]] = {
        "ACL_TABLE_TYPE": {"t": {"MATCHES": ["SRC_IP"], "BIND_POINTS": ["PORT"]}},
        "ACL_TABLE": {"t": {"type": "t", "stage": "ingress", "ports": ["Ethernet0"]}},
        "ACL_RULE": {"t|r0": {"PRIORITY": "1"}},
    }
    assert sonic_acl.complaint(config, {"s"}, {"Ethernet0"}) == ""
    config[table] = {**config[table], key: row}
    assert sonic_acl.complaint(config, {"s"}, {"Ethernet0"})


@pytest.mark.parametrize("wanted", WRITTEN, ids=lambda s: s.name)
def test_what_we_write_is_valid_read_back_and_taken_away_wholly(wanted):
    snapshot = sample_snapshot()
    rows = rows_of(wanted, "10.1.0.32")
    sessions = {key: row for (table, key), row in rows.items() if table == "MIRROR_SESSION"}
    assert sonic_yang.complaint(sessions, snapshot.config["PORT"], {}) == ""
    assert not {field for row in sessions.values() for field in row} & set(RISKY)
    assert sonic_acl.complaint(_as_json(rows), set(sessions), set(snapshot.config["PORT"]) | _channels(snapshot)) == ""
    config = {table: dict(keys) for table, keys in snapshot.config.items()}
    for (table, key), row in rows.items():
        config.setdefault(table, {})[key] = row
    found = find(Snapshot(config, {}, {}))[wanted.name]
    assert (found.session, found.untold) == (wanted, "")
    assert sorted(found.rows) == sorted(rows)


def test_the_patch_of_a_span_session_word_for_word():
    rows = rows_of(WRITTEN[0], "")
    value = {"type": "SPAN", "dst_port": "Ethernet64", "src_port": "Ethernet0", "direction": "RX"}
    assert additions(rows, sample_snapshot()) == [{"op": "add", "path": "/MIRROR_SESSION/fcn-gpt-0", "value": value}]
    empty = Snapshot({"PORT": {}}, {}, {})
    assert additions(rows, empty) == [{"op": "add", "path": "/MIRROR_SESSION", "value": {"fcn-gpt-0": value}}]
    alone = Snapshot({"MIRROR_SESSION": {"fcn-gpt-0": {}}}, {}, {})
    assert removals([("MIRROR_SESSION", "fcn-gpt-0")], alone) == [
        {"op": "test", "path": "/MIRROR_SESSION", "value": {"fcn-gpt-0": {}}},
        {"op": "remove", "path": "/MIRROR_SESSION"},
    ]
    two = Snapshot({"MIRROR_SESSION": {"fcn-gpt-0": {}, "other": {}}}, {}, {})
    assert removals([("MIRROR_SESSION", "fcn-gpt-0")], two) == [{"op": "remove", "path": "/MIRROR_SESSION/fcn-gpt-0"}]


def test_the_rules_of_a_filter_word_for_word():
    rows = rows_of(WRITTEN[4], "10.1.0.32")
    assert rows["ACL_RULE", "fcn-gpt-4-v6|r0"] == {
        "PRIORITY": "9999",
        "SRC_IPV6": "fd77::1/128",
        "DST_IPV6": "fd77::2/128",
        "L4_DST_PORT": "4791",
        "MIRROR_INGRESS_ACTION": "fcn-gpt-4",
    }
    assert rows["MIRROR_SESSION", "fcn-gpt-4"] == {"type": "ERSPAN", "src_ip": "10.1.0.32", "dst_ip": "192.0.2.9"}
    (table,) = [o["value"] for o in additions(rows, sample_snapshot()) if o["path"] == "/ACL_TABLE/fcn-gpt-4-v4"]
    assert isinstance(table, dict)
    assert table["ports"] == ["Ethernet0", "Ethernet4"]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet65"), "not a port of the switch"),
        (named("fcn-gpt-0", "Ethernet1:rx", to="Ethernet64"), "no port Ethernet1"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="CPU"), "no place for copies"),
        (named("fcn-gpt-0", "Ethernet0:rx", "Ethernet4:tx", to="Ethernet64"), "one direction"),
        (named("fcn-gpt-0", "Ethernet0:tx", to="Ethernet64", filters=PAIRS), "not for what leaves"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet64", filters=[("10.0.0.1", "::2")]), "two IP versions"),
        (named("fcn-gpt-0", "Ethernet40:rx", to="Ethernet64"), "test_session_db1 watches Ethernet40 rx already"),
        (named("fcn-gpt-0", "Ethernet44:rx", to="Ethernet64"), "test_session_db1 sends to Ethernet44"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet44"), "test_session_db1 sends to Ethernet44 already"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet40"), "test_session_db1 watches Ethernet40"),
        (named("fcn-gpt-0", "PortChannel0001:rx", "Ethernet112:rx", to="Ethernet64"), "member of PortChannel0001"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="Ethernet112"), "is a member of PortChannel"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="erspan:not-an-address"), "not an address"),
        (named("fcn-gpt-0", "Ethernet0:rx", to="erspan:2001:db8::1"), "not of one IP version"),
        (named("fcn-" + "x" * 40 + "-0", "Ethernet0:rx", to="Ethernet64"), "32 characters"),
    ],
)
def test_what_the_switch_would_not_take_is_refused_before_it_is_sent(wanted, why: str):
    snapshot = sample_snapshot()
    there = [f.session for f in find(snapshot).values() if f.session.name == "test_session_db1"]
    assert why in complaint_about(wanted, there, snapshot, origin="10.1.0.32", job="gpt")


def test_encapsulated_copies_need_an_address_of_the_switch():
    text = complaint_about(WRITTEN[3], [], sample_snapshot(), origin="", job="gpt")
    assert "write origin=ADDRESS" in text


def test_a_session_that_is_sampled_cut_or_policed_is_read_and_remarked_as_such(bench: SonicBench):
    wanted = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(wanted))
        more = {"sample_rate": "512", "truncate_size": "128", "policer": "p"}
        row = bench.switch.redis.hash(CONFIG, "MIRROR_SESSION|fcn-gpt-0")
        bench.switch.redis.set(CONFIG, "MIRROR_SESSION|fcn-gpt-0", row | more)
        kinds = {r.kind for r in driver.read().remarks}
    assert {RemarkKind.SAMPLING, RemarkKind.TRUNCATION, RemarkKind.POLICER} <= kinds


def test_copies_without_a_way_are_remarked(bench: SonicBench):
    wanted = named("fcn-gpt-0", "Ethernet0:rx", "Ethernet4:rx", to="erspan:192.0.2.9", filters=PAIRS)
    with bench.open() as driver:
        driver.write(create(wanted))
        state = driver.read()
        assert state.owned == (wanted,)
        assert {r.kind for r in state.remarks} == {RemarkKind.INACTIVE, RemarkKind.NO_NEXT_HOP}
        driver.write(delete(wanted))
        assert driver.read().owned == ()
    assert not bench.switch.redis.keys(CONFIG, "ACL_*|fcn-*")


def test_a_session_that_orchagent_does_not_take_up_is_taken_away_again(bench: SonicBench):
    before = bench.switch.config()
    bench.switch.deaf = True
    with bench.open() as driver:
        driver._patience = 0.1
        with pytest.raises(Rejected, match="orchagent did not take it up"):
            driver.write(create(session(bench, 0, "0:rx")))
    assert bench.switch.config() == before


def test_an_orchagent_that_dies_of_a_step_is_an_unknown_state_and_nothing_more_is_sent(bench: SonicBench):
    bench.switch.crashes_on.add("src_port")
    with bench.open() as driver:
        driver._patience = 0.1
        with pytest.raises(StateUnknown, match="orchagent does not run any more"):
            driver.write(create(session(bench, 0, "0:rx"), session(bench, 1, "1:rx", to=1)))
        with pytest.raises(Rejected, match="orchagent does not run"):
            driver.write(create(session(bench, 1, "1:rx", to=1)))
    assert not [p for p in bench.switch.patches if "fcn-gpt-1" in json.dumps(p)]


def test_a_switch_of_several_asics_is_refused(bench: SonicBench):
    bench.switch.several_asics = True
    try:
        with pytest.raises(ConnectError, match="several ASICs"), bench.open():
            pass
    finally:
        bench.switch.several_asics = False
    assert not bench.switch.patches


def test_what_the_switch_says_that_it_can_and_cannot(bench: SonicBench):
    with bench.open() as driver:
        able = driver.capabilities()
        assert (sorted(able.directions), able.filters) == (["rx", "tx"], True)
        bench.switch.redis.call(STATE, "HSET", "SWITCH_CAPABILITY|switch", "PORT_EGRESS_MIRROR_CAPABLE", "false")
        bench.switch.redis.call(STATE, "DEL", "ACL_STAGE_CAPABILITY_TABLE|INGRESS")
        able = driver.capabilities()
        assert (sorted(able.directions), able.filters) == (["rx"], False)
        with pytest.raises(Rejected, match="cannot mirror tx"):
            driver.write(create(session(bench, 0, "0:tx")))


def test_the_neighbours_of_a_sonic_switch_are_told_in_the_words_of_the_importers(bench: SonicBench):
    row = {
        "lldp_rem_port_id": "Ethernet1/1",
        "lldp_rem_port_id_subtype": "5",
        "lldp_rem_port_desc": "to leaf1",
        "lldp_rem_sys_name": "spine1",
        "lldp_rem_sys_desc": "Arista Networks EOS",
        "lldp_rem_chassis_id": "52:54:00:79:16:93",
    }
    bench.switch.redis.set(0, "LLDP_ENTRY_TABLE:Ethernet0", row)
    with bench.open() as driver:
        found = driver.surroundings()
    (heard,) = json.loads(found.neighbors)["Ethernet0"]
    assert (heard["remote_system_name"], heard["remote_port"]) == ("spine1", "Ethernet1/1")
    assert found.speeds[PortName("Ethernet0")] == 40000


def test_half_of_a_filtered_session_can_be_cleared_away(bench: SonicBench):
    """Somebody killed the tool of the switch between two rows."""
    wanted = session(bench, 0, "0:rx", filters=PAIRS)
    for (table, key), row in rows_of(wanted, "").items():
        if table != "ACL_RULE":
            bench.switch.put(f"{table}|{key}", row)
    with bench.open() as driver:
        (half,) = driver.read().owned
        assert half != wanted
        driver.write(delete(half))
        assert driver.read().owned == ()
    assert not bench.switch.redis.keys(CONFIG, "*fcn-gpt-0*")


def test_names_stay_within_what_the_yang_module_takes():
    assert (
        problems_of(SessionName("fcn-" + "a" * 26 + "-0"), {"type": "SPAN", "dst_port": "CPU"}, sample_snapshot()) == []
    )


@pytest.mark.parametrize(
    "command", ["rm -f", "sonic-db-dump -n STATE_DB -y -k 'MIRROR_SESSION_TABLE|fcn", "supervisorctl"]
)
def test_a_connection_lost_after_the_patch_is_an_unknown_state_never_a_refusal(bench: SonicBench, command: str):
    armed: list[str] = []

    def dies(line: str) -> bool:
        armed.extend([line] if "apply-patch" in line else [])
        return bool(armed) and command in line

    bench.box.before = dies
    try:
        with bench.open() as driver, pytest.raises(StateUnknown):
            driver.write(create(session(bench, 0, "0:rx")))
    finally:
        bench.box.before = lambda _: False
    with bench.open() as driver:
        assert driver.read().owned == (session(bench, 0, "0:rx"),)


def test_a_table_that_somebody_added_to_meanwhile_is_not_removed_with_our_last_row(bench: SonicBench):
    for key in list(bench.switch.redis.keys(CONFIG, "MIRROR_SESSION|*")):
        bench.switch.redis.set(CONFIG, key, {})
    theirs = {"type": "SPAN", "src_port": "Ethernet80", "direction": "RX", "dst_port": "Ethernet84"}
    made = session(bench, 0, "0:rx")
    with bench.open() as driver:
        driver.write(create(made))

    def meanwhile(line: str) -> bool:
        if "apply-patch" in line:
            bench.switch.put("MIRROR_SESSION|netops", theirs)
        return False

    bench.box.before = meanwhile
    try:
        with bench.open() as driver, pytest.raises(Rejected):
            driver.write(delete(made))
    finally:
        bench.box.before = lambda _: False
    assert bench.switch.redis.hash(CONFIG, "MIRROR_SESSION|netops") == theirs
    with bench.open() as driver:
        driver.write(delete(made))
    assert bench.switch.redis.hash(CONFIG, "MIRROR_SESSION|netops") == theirs


def test_a_counter_that_is_no_number_is_not_known(bench: SonicBench):
    with bench.open() as driver:
        driver.write(create(session(bench, 0, "0:rx")))
        oid = bench.switch.redis.hash(COUNTERS, "COUNTERS_PORT_NAME_MAP")[bench.sources[0]]
        bench.switch.redis.call(COUNTERS, "HSET", f"COUNTERS:{oid}", "SAI_PORT_STAT_IF_IN_UCAST_PKTS", "N/A")
        assert driver.counters().ports == {}
