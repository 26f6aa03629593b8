"""What a policy must fulfil beyond the form of its values: its names and globs must mean something in the fabric."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from flowcheck_net.spec.base import gbps, split_end
from flowcheck_net.spec.check_topology import Device, devices
from flowcheck_net.spec.explain import did_you_mean
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology
from flowcheck_net.spec.yamlpos import Fault


def check_policy(policy: Policy) -> Iterator[Fault]:
    """Every fault of the policy by itself."""
    monitor = policy.monitor
    if monitor.rate_model == "measured" and not monitor.measured:
        yield Fault(("monitor", "rate_model"), "measured needs rates", "add measured: {'leaf1:Ethernet1:rx': 120G}")
    if monitor.rate_model != "measured" and monitor.measured:
        words = f"has no effect with rate_model {monitor.rate_model}"
        yield Fault(("monitor", "measured"), words, "say rate_model: measured, or remove it", at_key=True)


def check_policy_places(policy: Policy, topology: Topology) -> Iterator[Fault]:
    """Every port, rate and glob of the policy must name something of the topology."""
    known = devices(topology)
    switches = {name: device for name, device in known.items() if device.kind == "switches"}
    ports = [f"{name}:{port}" for name, device in switches.items() for port in device.ports]
    for i, glob in enumerate(policy.allowed_ports):
        if not any(fnmatchcase(port, glob) for port in ports):
            words = f"'{glob}' matches no switch port of the topology"
            yield Fault(("allowed_ports", i), words, "the form is switch:port, such as leaf*:*")
    domains = {domain for device in switches.values() for domain in device.failure_domains}
    for i, glob in enumerate(policy.failure_domains.copies_apart):
        if not any(fnmatchcase(domain, glob) for domain in domains):
            words = f"'{glob}' matches no failure domain of a switch"
            yield Fault(("failure_domains", "copies_apart", i), words, did_you_mean(glob, domains))
    for place, rate in policy.monitor.measured.items():
        yield from _measured(place, rate, switches)


def _measured(place: str, rate: str, switches: dict[str, Device]) -> Iterator[Fault]:
    path = ("monitor", "measured", place)
    name, port = split_end(place.rpartition(":")[0])
    switch = switches.get(name)
    if switch is None:
        yield Fault(path, f"there is no switch '{name}'", did_you_mean(name, switches), at_key=True)
    elif port not in switch.ports:
        yield Fault(path, f"{name} has no port '{port}'", did_you_mean(port, switch.ports), at_key=True)
    elif gbps(rate) > gbps(switch.ports[port]):
        yield Fault(path, f"{rate} is more than the port's {switch.ports[port]}")
