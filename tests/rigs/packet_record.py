"""Records the packets that a guest sends and gets by one of its NICs: QEMU's filter-dump, which writes a pcap file."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rigs.lab_setup import Nic
from tests.rigs.virtual_machine import VirtualMachine

# https://ietf-opsawg-wg.github.io/draft-ietf-opsawg-pcap/draft-ietf-opsawg-pcap.html
FILE_HEADER, RECORD_HEADER = 24, struct.Struct("<IIII")
TYPE, IPV4_TARGET, IPV6_TARGET = slice(12, 14), slice(30, 34), slice(38, 54)  # of an Ethernet frame
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"


@contextmanager
def recorded(machine: VirtualMachine, nic: Nic, file: Path) -> Iterator[None]:
    """Writes the packets of this NIC to a file, as long as it is open."""
    name = f"record-{nic.id}"
    machine.qmp("object-add", **{"qom-type": "filter-dump", "id": name, "netdev": f"net-{nic.id}", "file": str(file)})
    try:
        yield
    finally:
        machine.qmp("object-del", id=name)


def destinations(file: Path, network: str) -> set[str]:
    """The unicast addresses outside of `network` to which packets of the file went."""
    inside, found = ipaddress.ip_network(network), set()
    for frame in frames(file.read_bytes()):
        packed = {IPV4: frame[IPV4_TARGET], IPV6: frame[IPV6_TARGET]}.get(frame[TYPE])
        address = ipaddress.ip_address(packed) if packed else None
        if address is not None and not address.is_multicast and not address.is_link_local and address not in inside:
            found.add(str(address))
    return found - {"255.255.255.255"}


def frames(data: bytes) -> Iterator[bytes]:
    at = FILE_HEADER
    while at + RECORD_HEADER.size <= len(data):
        _, _, kept, _ = RECORD_HEADER.unpack_from(data, at)
        at += RECORD_HEADER.size
        yield data[at : at + kept]
        at += kept
