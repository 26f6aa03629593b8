"""NETCONF over an SSH connection that is there already: ncclient's session, without its own way of connecting.

ncclient knows no jump host and no pinned key, and napalm's driver above it checks no host key at all.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, fromstring, tostring

from flowcheck_net.drivers.ssh_connect import Lost

if TYPE_CHECKING:
    from paramiko import SSHClient

_SUBSYSTEM = "netconf"


class NetconfSession:
    """One session; elements in, elements without namespaces out."""

    def __init__(self, client: "SSHClient", jump: "SSHClient | None", host: str, seconds: float) -> None:
        from ncclient.devices.junos import JunosDeviceHandler
        from ncclient.manager import Manager
        from ncclient.operations import RaiseMode
        from ncclient.transport.ssh import SSHSession

        self._client, self._jump = client, jump
        handler = JunosDeviceHandler({"name": "junos"})
        session: Any = SSHSession(handler)
        # What SSHSession.connect does once it is let in.
        session._host = host
        session._transport = client.get_transport()
        session._connected = True
        try:
            session._channel = session._transport.open_session(timeout=seconds)
            session._channel.invoke_subsystem(_SUBSYSTEM)
            session._post_connect(seconds)
        except Exception:
            self.close()
            raise
        session.parser = handler.get_xml_parser(session)
        self._manager: Any = Manager(session, handler, timeout=seconds, raise_mode=RaiseMode.NONE)

    def call(self, request: Element) -> Element:
        """The whole reply to one request; raises Lost where none came."""
        try:
            reply = self._manager.rpc(tostring(request, "unicode"))
        except Exception as error:
            raise Lost(f"the connection broke: {error or type(error).__name__}") from error
        # ncclient has read it before, and written it again.
        return fromstring(reply.tostring)  # noqa: S314

    def getters(self) -> Any:  # noqa: ANN401 -- napalm is not typed
        """Napalm's driver over this session, for its getters only: its own ``open`` would check no host key."""
        from jnpr.junos import jxml
        from napalm.junos.junos import JunOSDriver
        from ncclient.manager import Manager
        from ncclient.operations import RaiseMode

        session = self._manager._session
        driver: Any = JunOSDriver(session.host, "", "", timeout=self._manager.timeout)
        # It hangs up when it is forgotten, and the session is not its own.
        driver.close = _nothing
        device = driver.device
        # What Device.open of PyEZ does once it is let in.
        device._conn = Manager(
            session, self._manager._device_handler, timeout=self._manager.timeout, raise_mode=RaiseMode.ERRORS
        )
        device.connected = True
        device._nc_transform = device.transform
        device._norm_transform = jxml.normalize_xslt.encode
        return driver

    def close(self) -> None:
        """Hang up; never raises. The switch lets go of its lock then."""
        for client in (self._client, self._jump):
            if client is not None:
                with suppress(Exception):
                    client.close()


def _nothing() -> None:
    """What is done with what is not ours to close."""
