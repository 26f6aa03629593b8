"""A SONiC switch without its chip: a real redis-server with a real CONFIG_DB, its tools, and what orchagent does.

``command`` answers single commands as the real tools do. It shares no code with the driver.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.doubles import sonic_acl
from tests.doubles.redis_server import RedisServer
from tests.doubles.sonic_yang import SAMPLES, complaint

DATABASES = {"APPL_DB": 0, "COUNTERS_DB": 2, "CONFIG_DB": 4, "STATE_DB": 6}
APPL, COUNTERS, CONFIG, STATE = 0, 2, 4, 6
Fields = dict[str, str]
Answer = tuple[int, str, str]
"""Exit code, stdout, stderr."""
_KNOWN = set(
    ["type", "src_ip", "dst_ip", "gre_type", "dscp", "ttl", "queue", "policer", "src_port", "dst_port", "direction"]
)
_KNOWN |= {"sample_rate", "truncate_size"}


@dataclass
class SonicSwitch:
    """One switch; ``reset`` makes it new."""

    redis: RedisServer
    boot: int = 0
    pid: int = 30
    several_asics: bool = False
    most_sessions: int = 4
    crashes_on: set[str] = field(default_factory=set)
    """Fields of a session at which orchagent of this chip exits."""
    crashed: bool = False
    deaf: bool = False
    """orchagent runs, and takes nothing up."""
    files: dict[str, str] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)
    patches: list[object] = field(default_factory=list)
    refuse_patch: int = -1
    """So many patches from now one is refused."""

    def reset(self) -> None:
        """The CONFIG_DB of the samples, and the state that comes of it."""
        self.redis.call(0, "FLUSHALL")
        self.boot, self.crashed, self.deaf, self.refuse_patch = 1, False, False, -1
        self.crashes_on.clear()
        self.files.clear()
        self.typed.clear()
        self.patches.clear()
        rows = {}
        for key, entry in json.loads((SAMPLES / "utilities_mock_config_db.json").read_text()).items():
            value = entry["value"] if entry.get("type") == "hash" and "value" in entry else entry
            rows[key] = {str(k): str(v) for k, v in value.items()} or {"NULL": "NULL"}
        self.redis.load(CONFIG, rows)
        # As they stand in the samples these two are none that the YANG module of the samples would take.
        self.redis.set(CONFIG, "MIRROR_SESSION|test_session_sampled", {})
        self.redis.call(CONFIG, "HSET", "MIRROR_SESSION|test_session_db1", "type", "SPAN")
        self.redis.set(CONFIG, "FLEX_COUNTER_TABLE|PORT", {"POLL_INTERVAL": "1", "FLEX_COUNTER_STATUS": "enable"})
        self.redis.set(CONFIG, "FLEX_COUNTER_TABLE|ACL", {"POLL_INTERVAL": "1", "FLEX_COUNTER_STATUS": "enable"})
        self.redis.set(CONFIG, "LOOPBACK_INTERFACE|Loopback0", {"NULL": "NULL"})
        self.redis.set(CONFIG, "LOOPBACK_INTERFACE|Loopback0|10.1.0.32/32", {"NULL": "NULL"})
        ports = [key.partition("|")[2] for key in self.redis.keys(CONFIG, "PORT|*")]
        names = {port: f"oid:0x10000000000{number:02x}" for number, port in enumerate(ports)}
        self.redis.load(APPL, {f"PORT_TABLE:{p}": {"oper_status": "up", "admin_status": "up"} for p in ports})
        parts = ("IN_UCAST", "IN_NON_UCAST", "OUT_UCAST", "OUT_NON_UCAST")
        counts = {f"SAI_PORT_STAT_IF_{part}_PKTS": "1000" for part in parts}
        self.redis.load(COUNTERS, {f"COUNTERS:{oid}": counts for oid in names.values()})
        self.redis.set(COUNTERS, "COUNTERS_PORT_NAME_MAP", names)
        able = {"MIRROR": "true", "PORT_INGRESS_MIRROR_CAPABLE": "true", "PORT_EGRESS_MIRROR_CAPABLE": "true"}
        self.redis.set(STATE, "SWITCH_CAPABILITY|switch", able)
        actions = "COUNTER_ACTION,MIRROR_INGRESS_ACTION,PACKET_ACTION"
        stage = {"action_list": actions, "is_action_list_mandatory": "false"}
        self.redis.set(STATE, "ACL_STAGE_CAPABILITY_TABLE|INGRESS", stage)
        self.orchagent()

    def put(self, key: str, fields: Fields) -> None:
        """Somebody writes a row of the configuration behind everybody's back."""
        self.redis.set(CONFIG, key, fields)
        self.orchagent()

    def restart(self) -> None:
        """The switch boots; the configuration was saved."""
        self.boot += 1
        self.pid += 1
        for pattern in ("MIRROR_SESSION_TABLE|*", "ACL_TABLE_TABLE|*"):
            for key in self.redis.keys(STATE, pattern):
                self.redis.set(STATE, key, {})
        self.orchagent()

    def command(self, line: str, stdin: str) -> Answer:
        """Carry out one command."""
        self.typed.append(line)
        words = shlex.split(line)
        if words[:1] == ["sudo"]:
            words = words[1:]
        for name, tool in self._tools().items():
            if words[: len(name.split())] == name.split():
                return tool(words[len(name.split()) :], stdin)
        return 127, "", f"bash: {words[0]}: command not found\n"

    def _tools(self) -> dict[str, Callable[[list[str], str], Answer]]:
        return {
            "sonic-db-dump": self._dump,
            "config apply-patch": self._apply_patch,
            "docker exec swss supervisorctl status orchagent": self._supervisor,
            "test -d": lambda words, _: (0 if words == ["/var/run/redis0"] and self.several_asics else 1, "", ""),
            "cat /proc/sys/kernel/random/boot_id": lambda _, __: (0, f"boot-{self.boot}\n", ""),
            "mktemp": self._mktemp,
            "tee": self._tee,
            "rm -f": lambda words, _: (0, self.files.pop(words[0], "")[:0], ""),
        }

    def _mktemp(self, words: list[str], _: str) -> Answer:
        name = "/tmp/" + words[-1].replace("XXXXXXXX", f"{len(self.typed):08d}")
        self.files[name] = ""
        return 0, name + "\n", ""

    def _tee(self, words: list[str], stdin: str) -> Answer:
        self.files[words[0]] = stdin
        return 0, stdin, ""

    def _supervisor(self, _: list[str], __: str) -> Answer:
        if self.crashed:
            return 3, "orchagent                        EXITED    Nov 30 10:00 PM\n", ""
        return 0, f"orchagent                        RUNNING   pid {self.pid}, uptime 3 days, 2:01:09\n", ""

    def _dump(self, words: list[str], _: str) -> Answer:
        database, pattern = words[words.index("-n") + 1], words[words.index("-k") + 1]
        number = DATABASES[database]
        found = {}
        for key, value in self.redis.hashes(number, pattern).items():
            found[key] = {"expireat": 1602451533.237415, "ttl": -0.001, "type": "hash", "value": value}
        return 0, json.dumps(found, indent=2) + "\n", ""

    def _apply_patch(self, words: list[str], _: str) -> Answer:
        text = self.files[words[0]]
        patch = json.loads(text)
        self.patches.append(patch)
        self.refuse_patch -= 1
        if self.refuse_patch == -1:
            return _failed("ConfigDB validation failed: somebody said no")
        before = self.config()
        after = json.loads(json.dumps(before))
        try:
            for operation in patch:
                _operate(after, operation)
        except LookupError as error:
            if not isinstance(error, KeyError):
                return _failed(str(error))
            return _failed(f"can't remove a non-existent object {error}")
        if empty := [t for t, rows in after.items() if not rows]:
            return _failed(f"given patch is not valid because it will result in empty tables. Table: {empty[0]}")
        if text := _invalid(after):
            return _failed(f"Given patch will produce invalid config. Error: {text}")
        for table in sorted({*before, *after}):
            old, new = before.get(table, {}), after.get(table, {})
            for key in {*old, *new}:
                if old.get(key) != new.get(key):
                    self.redis.set(CONFIG, f"{table}|{key}", _flat(new.get(key)))
        self.orchagent()
        return 0, "Patch Applier: localhost: Patch application starting.\nPatch applied successfully.\n", ""

    def config(self) -> dict[str, dict[str, dict[str, object]]]:
        """CONFIG_DB as ``show runningconfiguration all`` has it."""
        found: dict[str, dict[str, dict[str, object]]] = {}
        for name, row in self.redis.hashes(CONFIG, "*").items():
            table, _, key = name.partition("|")
            named = {k: v for k, v in row.items() if k != "NULL"}
            fields: dict[str, object] = {
                k.removesuffix("@"): v.split(",") if k.endswith("@") else v for k, v in named.items()
            }
            found.setdefault(table, {})[key] = fields
        return found

    def orchagent(self) -> None:
        """Bring the state database in line with the configuration, as far as orchagent would."""
        if self.crashed or self.deaf:
            return
        rows = {k.partition("|")[2]: row for k, row in self.redis.hashes(CONFIG, "MIRROR_SESSION|*").items()}
        there = [k.partition("|")[2] for k in self.redis.keys(STATE, "MIRROR_SESSION_TABLE|*")]
        for name in [n for n in there if n not in rows]:
            self.redis.set(STATE, f"MIRROR_SESSION_TABLE|{name}", {})
            there.remove(name)
        for name, row in rows.items():
            if self.crashes_on & row.keys():
                self.crashed = True
                return
            if name not in there and len(there) < self.most_sessions and self._takes(row):
                there.append(name)
                port = row.get("dst_port", "")
                active = "active" if port else "inactive"
                state = {"status": active, "monitor_port": port, "dst_mac": "00:00:00:00:00:00", "vlan_id": "0"}
                self.redis.set(STATE, f"MIRROR_SESSION_TABLE|{name}", state)
        self._tables()

    def _takes(self, row: Mapping[str, str]) -> bool:
        ports = set(self.redis.hash(COUNTERS, "COUNTERS_PORT_NAME_MAP"))
        channels = {k.split("|")[1] for k in self.redis.keys(CONFIG, "PORTCHANNEL_MEMBER|*")}
        sources = [p for p in row.get("src_port", "").split(",") if p]
        if row.keys() - _KNOWN or not set(sources) <= ports | channels:
            return False
        return row.get("type") == "ERSPAN" or row.get("dst_port") in ports

    def _tables(self) -> None:
        wanted = {k.partition("|")[2] for k in self.redis.keys(CONFIG, "ACL_TABLE|*")}
        for key in self.redis.keys(STATE, "ACL_TABLE_TABLE|*"):
            if key.partition("|")[2] not in wanted:
                self.redis.set(STATE, key, {})
        rules = self.redis.hash(COUNTERS, "ACL_COUNTER_RULE_MAP")
        now = {k.partition("|")[2].replace("|", ":") for k in self.redis.keys(CONFIG, "ACL_RULE|*")}
        self.redis.load(STATE, {f"ACL_TABLE_TABLE|{table}": {"status": "Active"} for table in wanted})
        for rule in [r for r in rules if r not in now]:
            self.redis.set(COUNTERS, f"COUNTERS:{rules.pop(rule)}", {})
        fresh = {rule: f"oid:0x9{len(self.typed):06x}{n:04x}" for n, rule in enumerate(sorted(now - rules.keys()))}
        zero = {"SAI_ACL_COUNTER_ATTR_PACKETS": "0", "SAI_ACL_COUNTER_ATTR_BYTES": "0"}
        self.redis.load(COUNTERS, {f"COUNTERS:{oid}": zero for oid in fresh.values()})
        rules |= fresh
        self.redis.set(COUNTERS, "ACL_COUNTER_RULE_MAP", rules)

    def pass_packets(self, port: str, side: str, packets: int, pair: tuple[str, str] | None) -> None:
        """Packets pass a port; ``side`` is IN or OUT, RoCEv2 between a pair of addresses where one is given."""
        oid = self.redis.hash(COUNTERS, "COUNTERS_PORT_NAME_MAP")[port]
        self.redis.call(COUNTERS, "HINCRBY", f"COUNTERS:{oid}", f"SAI_PORT_STAT_IF_{side}_UCAST_PKTS", str(packets))
        for rule, counter in self.redis.hash(COUNTERS, "ACL_COUNTER_RULE_MAP").items():
            table, _, _ = rule.partition(":")
            bound = self.redis.hash(CONFIG, f"ACL_TABLE|{table}")
            row = self.redis.hash(CONFIG, "ACL_RULE|" + rule.replace(":", "|", 1))
            if side == "IN" and pair and port in bound.get("ports@", "").split(",") and _matches(row, pair):
                which = (f"COUNTERS:{counter}", "SAI_ACL_COUNTER_ATTR_PACKETS", str(packets))
                self.redis.call(COUNTERS, "HINCRBY", *which)


def _invalid(config: Mapping[str, Mapping[str, Mapping[str, object]]]) -> str:
    """What the YANG modules say of mirror sessions, and of access lists that are not of the samples."""
    sessions = {k: {f: str(v) for f, v in row.items()} for k, row in config.get("MIRROR_SESSION", {}).items()}
    if text := complaint(sessions, config.get("PORT", {}), config.get("POLICER", {})):
        return text
    made = {t: {k: r for k, r in config.get(t, {}).items() if k.startswith("fcn-")} for t in sonic_acl.TABLES}
    return sonic_acl.complaint(made, set(sessions), {*config.get("PORT", {}), *config.get("PORTCHANNEL", {})})


def _matches(rule: Mapping[str, str], pair: tuple[str, str]) -> bool:
    ends = [rule.get(a) or rule.get(a + "V6", "") for a in ("SRC_IP", "DST_IP")]
    return rule.get("L4_DST_PORT") == "4791" and [re.sub("/(32|128)$", "", e) for e in ends] == list(pair)


def _operate(config: dict[str, dict[str, dict[str, object]]], operation: Mapping[str, object]) -> None:
    """RFC 6902: ``add``, ``remove`` and ``test`` of tables and rows."""
    parts = [p.replace("~1", "/").replace("~0", "~") for p in str(operation["path"]).split("/")[1:]]
    place: dict[str, object] = config  # type: ignore[assignment]
    for part in parts[:-1]:
        place = place[part]  # type: ignore[assignment]
    if operation["op"] == "add":
        place[parts[-1]] = operation["value"]
    elif operation["op"] == "test":
        if place[parts[-1]] != operation["value"]:
            raise LookupError(f"{operation['path']} is not as it was tested for")
    else:
        del place[parts[-1]]


def _flat(row: Mapping[str, object] | None) -> Fields:
    if row is None:
        return {}
    flat = {k: str(v) for k, v in row.items() if not isinstance(v, list)}
    flat |= {f"{k}@": ",".join(v) for k, v in row.items() if isinstance(v, list)}
    return flat or {"NULL": "NULL"}


def _failed(text: str) -> Answer:
    usage = "Usage: config apply-patch [OPTIONS] PATCH_FILE_PATH\nTry 'config apply-patch -h' for help.\n\n"
    return 2, "", f"{usage}Error: Failed to apply patch on the following scopes:\n- localhost: {text}\n"
