"""The sockets of the network namespace, as /proc/net shows them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.network import sockets
from nodeprep.facts.network.sockets import IpSocket
from nodeprep.model import Unreadable, Why

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ROW = "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0\n"


def test_the_sockets_of_this_process_as_they_are() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("::1", 0), family=socket.AF_INET6):
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller, listener.accept()[0]:
            found = sockets.observe(Host())
            assert not isinstance(found, Unreadable)
            mine = {(one.local, one.local_port, one.remote_port): one for one in found if one.protocol == "tcp"}
            assert mine["127.0.0.1", port, 0].state == "listen"
            assert mine["127.0.0.1", port, 0].inode == int(
                Path(f"/proc/self/fd/{listener.fileno()}").readlink().name[8:-1]
            )
            connected = mine["127.0.0.1", caller.getsockname()[1], port]
            assert connected.is_established
            assert str(connected) == f"tcp 127.0.0.1:{caller.getsockname()[1]} to 127.0.0.1:{port} (established)"
            assert any(one.local == "::1" and one.state == "listen" for one in found)


def test_udp_and_an_ipv4_address_on_an_ipv6_socket() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.bind(("::ffff:127.0.0.1", 0))
        port = one.getsockname()[1]
        found = sockets.observe(Host())
        assert not isinstance(found, Unreadable)
        assert [(each.local, each.state) for each in found if (each.protocol, each.local_port) == ("udp", port)] == [
            ("127.0.0.1", "close")
        ]


def test_a_row_by_its_fields() -> None:
    text = HEAD + ROW.format(local="0500000A:1F90", remote="0200000A:C350", state="06", inode=0)
    assert list(sockets.rows("tcp", text)) == [IpSocket("tcp", "10.0.0.5", 8080, "10.0.0.2", 50000, "time-wait", 0)]
    odd = HEAD + ROW.format(local="0500000A:1F90", remote="0200000A:C350", state="7F", inode=0)
    assert next(sockets.rows("tcp", odd)).state == "7F"


TORN = [
    "   0: 0500000A:1F90\n",
    "   0: 0500:1F90 xyz 01 a b c d e 1\n",
    ROW.format(local="a", remote="b", state="1", inode=1),
]


@pytest.mark.parametrize("row", TORN)
def test_a_table_of_another_shape_is_unreadable(tmp_path: Path, row: str) -> None:
    tables = tmp_path / "proc/self/net"
    tables.mkdir(parents=True)
    for name in sockets.PROTOCOLS:
        (tables / name).write_text(HEAD)
    assert sockets.observe(Host(str(tmp_path))) == ()
    (tables / "udp").write_text(HEAD + row)
    found = sockets.observe(Host(str(tmp_path)))
    assert isinstance(found, Unreadable)
    assert (found.kind, found.path) == (Why.MALFORMED, "/proc/self/net/udp")


@pytest.mark.parametrize(("name", "is_needed"), sockets.PROTOCOLS.items())
def test_only_a_kernel_without_ipv6_lacks_a_table(tmp_path: Path, name: str, is_needed: bool) -> None:
    tables = tmp_path / "proc/self/net"
    tables.mkdir(parents=True)
    for other in set(sockets.PROTOCOLS) - {name}:
        (tables / other).write_text(HEAD)
    assert isinstance(sockets.observe(Host(str(tmp_path))), Unreadable) is is_needed
