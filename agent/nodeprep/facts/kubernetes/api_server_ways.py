"""By which interfaces this node reaches its API server. Only the idle proof asks.

The addresses are those of the kubelet's kubeconfig, of the connections that the kubelet has now, and of the service
that pods are told. Where the kubelet speaks to a proxy on this node, the connections to the server's port tell the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from nodeprep.facts.kubernetes import kubelet
from nodeprep.facts.machine import processes
from nodeprep.facts.network import sockets
from nodeprep.facts.network.sockets import IpSocket
from nodeprep.model import Unreadable, Why
from nodeprep.pattern import Pattern
from nodeprep.values import Value

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

KUBECONFIGS = (
    "/etc/kubernetes/kubelet.conf",
    "/etc/kubernetes/bootstrap-kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
)
HOSTS = "/etc/hosts"
OPTION = Pattern(rb"--kubeconfig[=\0]([^\0]+)")
# As YAML has it in a line of its own, or as JSON and YAML's flow style have it between others.
SERVER = Pattern(
    r"""(?:^[ \t-]*|[{,]\s*)["']?server["']?[ \t]*:[ \t]*["']?https?://(\[[0-9A-Fa-f:.]+\]|[^/:,}\s"']+)(?::(\d{1,5}))?""",
    re.MULTILINE,
)
HTTPS_PORT, API_PORT = 443, 6443
API_SERVERS = ("kube-apiserver", "k3s-server")  # by the kernel's names of processes
COMMAND_LINE_BYTES = 1 << 16


class ApiWay(Value):
    """A way to one address of the API server. `netdev` is "" where `errno` says that there is no way."""

    address: str
    netdev: str
    via: str
    errno: int | None
    said_by: str


class ApiWays(Value):
    """All ways. `absent` says why this node can have no API server, "" if it can."""

    ways: tuple[ApiWay, ...]
    absent: str = ""


class _Server(Value):
    """A server as a kubeconfig names it."""

    host: str
    port: int
    said_by: str


def observe(host: Host, service_host: str = "") -> ApiWays | Unreadable:
    """`service_host` is what pods are told as KUBERNETES_SERVICE_HOST, "" outside of a pod."""
    files = host.files
    running = processes.commands(files)
    if isinstance(running, Unreadable):
        return running
    pids = kubelet.pids(running)
    servers = _servers(files, pids)
    if isinstance(servers, Unreadable):
        return servers
    home = files.entry(kubelet.HOME)
    if isinstance(home, Unreadable):
        return home
    if not (pids or servers or service_host or home):
        return ApiWays((), f"no kubelet runs, there is no {kubelet.HOME} and no kubeconfig of a kubelet")
    addresses = _addresses(host, servers, pids, running)
    if isinstance(addresses, Unreadable):
        return addresses
    if _is_address(service_host):
        addresses = {sockets.short(service_host): "KUBERNETES_SERVICE_HOST", **addresses}
    return _asked(host, addresses)


def _servers(files: Files, pids: tuple[int, ...]) -> tuple[_Server, ...] | Unreadable:
    found: list[_Server] = []
    for path in dict.fromkeys((*_given(files, pids), *KUBECONFIGS)):
        text = files.text(path)
        if isinstance(text, Unreadable):
            return text
        for name, port in SERVER.findall(text or ""):
            found.append(_Server(name.strip("[]"), int(port or HTTPS_PORT), path))
    return tuple(found)


def _given(files: Files, pids: tuple[int, ...]) -> Iterator[str]:
    """The kubeconfigs that kubelets were started with."""
    for pid in pids:
        line = files.data(f"{processes.PROC}/{pid}/cmdline", COMMAND_LINE_BYTES)
        for path in OPTION.findall(line) if isinstance(line, bytes) else ():
            yield path.decode(errors="replace")


def _addresses(
    host: Host, servers: tuple[_Server, ...], pids: tuple[int, ...], running: Mapping[int, str]
) -> dict[str, str] | Unreadable:
    """The server's addresses, and who says each. Unreadable if a server is named whose address nothing here tells."""
    told = sockets.observe(host)
    if isinstance(told, Unreadable):
        return told
    owners = processes.sockets(host.files, pids)
    remote = [one for one in told if one.is_established and not _is_loopback(one.remote)]
    found = {one.remote: "a connection of the kubelet" for one in remote if _is_to_server(one, servers, owners)}
    for server in servers:
        known = _of_server(host.files, server)
        if known and not _is_loopback(known):
            found[known] = server.said_by
        elif known:  # a proxy, or the server itself
            found |= {one.remote: f"a connection to port {API_PORT}" for one in remote if one.remote_port == API_PORT}
        if not (found or (known and set(running.values()) & set(API_SERVERS))):
            detail = f"{server.said_by} names {server.host}, and neither {HOSTS} nor a connection tells its address"
            return Unreadable(Why.MISSING, "way to the API server", detail=detail)
    if not servers and not found:
        detail = "there is a kubelet, and neither its kubeconfig nor a connection of it tells its API server"
        return Unreadable(Why.MISSING, "way to the API server", detail=detail)
    return found


def _is_to_server(one: IpSocket, servers: tuple[_Server, ...], owners: Mapping[int, int]) -> bool:
    """The kubelet also has connections to pods, whose probes it makes."""
    return one.inode in owners and one.remote_port in {API_PORT, HTTPS_PORT, *(server.port for server in servers)}


def _of_server(files: Files, server: _Server) -> str:
    """The address of a server, "" if only a name server could tell it: nobody is asked over the network."""
    if _is_address(server.host):
        return sockets.short(server.host)
    text = files.text(HOSTS)
    for line in text.splitlines() if isinstance(text, str) else ():
        address, *names = line.partition("#")[0].split() or [""]
        if server.host in names and _is_address(address):
            return sockets.short(address)
    return ""


def _asked(host: Host, addresses: Mapping[str, str]) -> ApiWays | Unreadable:
    told, ways = host.route_netlink(), host.own_ways(tuple(addresses))
    if isinstance(told, Unreadable):
        return told
    if isinstance(ways, Unreadable):
        return ways
    names = {link.index: link.name for link in told.links}
    return ApiWays(
        tuple(
            ApiWay(address, names.get(way.oif, str(way.oif or "")), way.via, way.errno, said_by)
            for (address, said_by), way in zip(addresses.items(), ways, strict=True)
        )
    )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback
