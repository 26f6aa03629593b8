"""Switch, host or checkpoint node: by the user's globs, else by what the source says, else by a telling name."""

from typing import get_args

from flowcheck_net.importers.cables import Device, Finding, FindingKind, Link, Role
from flowcheck_net.importers.options import CHECKPOINT_GLOBS, Options, fits
from flowcheck_net.spec.topology import Speed

USABLE_SPEEDS = frozenset(get_args(Speed))
"""The speeds that a topology can hold."""


def assign_roles(
    devices: tuple[Device, ...], links: tuple[Link, ...], options: Options, findings: list[Finding]
) -> dict[str, Role]:
    """The role of every device that a link needs; a device without one is a finding."""
    linked = {end.device for link in links for end in link.ends}
    roles: dict[str, Role] = {}
    for device in devices:
        if device.name not in linked:
            continue
        role = _role(device, options, findings)
        if role is None:
            word = f" (a {device.platform})" if device.platform else ""
            message = f"{device.name}{word}: is it a switch, a host or a checkpoint node?"
            cure = "say so with --switch, --host or --checkpoint GLOB"
            findings.append(Finding(device.source, FindingKind.UNKNOWN_ROLE, message, cure))
        else:
            roles[device.name] = role
    return roles


def _role(device: Device, options: Options, findings: list[Finding]) -> Role | None:
    given = options.role(device.name)
    if given is not None:
        return given
    if device.role is not Role.SWITCH and fits(device.name.casefold(), CHECKPOINT_GLOBS):
        return Role.CHECKPOINT
    if device.role is not None and device.basis:
        findings.append(
            Finding(device.source, FindingKind.ASSUMED, f"{device.name} is a {device.role}: {device.basis}")
        )
    return device.role


def fast_links(links: tuple[Link, ...], findings: list[Finding]) -> tuple[Link, ...]:
    """The links that can be part of a training fabric: their speed is not known, or one that our files can hold."""
    fast = []
    for link in links:
        if link.speed is None or link.speed in USABLE_SPEEDS:
            fast.append(link)
            continue
        message = f"{link.a} -- {link.b}: {link.speed} is no speed of a training fabric (10G to 800G)"
        findings.append(Finding(link.source, FindingKind.IGNORED, message))
    return tuple(fast)


def usable_links(links: tuple[Link, ...], roles: dict[str, Role], findings: list[Finding]) -> list[Link]:
    """The links whose devices have roles, and of which at least one is a switch."""
    usable = []
    for link in links:
        kinds = [roles.get(end.device) for end in link.ends]
        if None in kinds:
            continue
        if Role.SWITCH in kinds:
            usable.append(link)
            continue
        message = f"{link.a} -- {link.b}: no switch at either end"
        cure = "correct the role of one of them with --switch GLOB, or --exclude the cable"
        findings.append(Finding(link.source, FindingKind.CONFLICT, message, cure))
    return usable
