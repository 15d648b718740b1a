"""Sets the policy of forwarded packets in this network namespace, without a firewall program on the machine.

    python tests/rigs/netns_firewall.py legacy|nftables drop|accept

Real here: the kernel's tables, made by its own interfaces as iptables-legacy and nft make them.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nodeprep.doors.netlink import nftables as nftables_door
from nodeprep.doors.netlink.nftables import ENTRIES, ENTRY, INFO, IPT_SO_GET_ENTRIES, IPT_SO_GET_INFO, TARGET

UNAVAILABLE = 77  # exit code of tests that could not be run, by automake's convention
IPT_SO_SET_REPLACE = 64
FORWARD = 2
VERDICTS = {"drop": -1, "accept": -2}  # -NF_DROP - 1, -NF_ACCEPT - 1
POLICIES = {"drop": 0, "accept": 1}
# include/uapi/linux/netfilter/nf_tables.h, nfnetlink.h
BATCH_BEGIN, BATCH_END, NEWTABLE, NEWCHAIN = 0x10, 0x11, 10 << 8 | 0, 10 << 8 | 3
REQUEST, ACK, CREATE = 0x01, 0x04, 0x400


def legacy(policy: str) -> None:
    """Change only the verdict at the end of FORWARD in the filter table."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as kernel:
        packed = nftables_door.socket_option(kernel, IPT_SO_GET_INFO, INFO.pack(b"filter", *bytes(13)))
        info = INFO.unpack(packed)
        size, end = info[13], info[7 + FORWARD]
        entries = bytearray(
            nftables_door.socket_option(kernel, IPT_SO_GET_ENTRIES, ENTRIES.pack(b"filter", size) + bytes(size))[
                ENTRIES.size :
            ]
        )
        struct.pack_into("=i", entries, end + ENTRY + TARGET.size - 4, VERDICTS[policy])
        counters = ctypes.create_string_buffer(16 * info[12])
        # struct ipt_replace: name, valid_hooks, num_entries, size, hook_entry, underflow, num_counters, counters
        head = struct.pack("=32sIII5I5II", b"filter", info[1], info[12], size, *info[2:12], info[12])
        head += bytes(-len(head) % 8) + struct.pack("=Q", ctypes.addressof(counters))
        kernel.setsockopt(socket.SOL_IP, IPT_SO_SET_REPLACE, head + bytes(entries))


def nftables(policy: str) -> None:
    """A table with a chain as `iptables-nft -P FORWARD` leaves them, and irrelevant chains."""
    table = string(1, "filter")
    hook = attribute(4 | 0x8000, number(1, FORWARD) + number(2, 0))
    entry = attribute(4 | 0x8000, number(1, 1) + number(2, 0))
    chain = table + string(3, "FORWARD") + hook + number(5, POLICIES[policy]) + string(7, "filter")
    other = table + string(3, "INPUT") + entry + number(5, POLICIES["drop"]) + string(7, "filter")
    unhooked = table + string(3, "KUBE-FORWARD")
    messages = [message(BATCH_BEGIN, 10, 0), message(NEWTABLE, 0, 2, table)]
    messages += [message(NEWCHAIN, 0, 2, one) for one in (chain, other, unhooked)]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as kernel:
        kernel.settimeout(5)
        kernel.send(b"".join([*messages, message(BATCH_END, 10, 0)]))
        for _ in messages[1:]:
            answer = kernel.recv(1 << 16)
            code = struct.unpack_from("=i", answer, 16)[0]
            if code:
                raise OSError(-code, os.strerror(-code))


def message(kind: int, resource: int, family: int, body: bytes = b"") -> bytes:
    """A netlink message with a struct nfgenmsg. Its resource is in network order."""
    flags = REQUEST | (ACK | CREATE if body else 0)
    whole = struct.pack("=BB", family, 0) + struct.pack(">H", resource) + body
    return struct.pack("=IHHII", 16 + len(whole), kind, flags, 1, 0) + whole


def attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def string(kind: int, words: str) -> bytes:
    return attribute(kind, words.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack(">I", value))


def main(arguments: list[str]) -> int:
    which, policy = arguments
    try:
        (legacy if which == "legacy" else nftables)(policy)
    except OSError as error:
        print(f"netns_firewall: not on this machine: {which}: {error}", file=sys.stderr)
        return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
