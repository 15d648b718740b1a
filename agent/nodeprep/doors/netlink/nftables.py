"""Asks netfilter for the policies of chains that forwarded packets pass: of nf_tables and of legacy iptables.

Reads only. A question loads the module that answers it. So callers first look whether that module is in use.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from enum import IntEnum

from nodeprep.door_values import Chain
from nodeprep.doors.netlink import nlsocket
from nodeprep.doors.netlink.nlsocket import Message, Nest, NetlinkSocket

NETLINK_NETFILTER = 12
NF_INET_FORWARD = 2  # include/uapi/linux/netfilter.h
FAMILIES = {1: "inet", 2: "ip"}  # NFPROTO_INET, NFPROTO_IPV4; no check asks about IPv6
POLICIES = {0: "drop", 1: "accept"}  # NF_DROP, NF_ACCEPT
# include/uapi/linux/netfilter_ipv4/ip_tables.h
IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES = 64, 65
INFO = struct.Struct("=32sI5I5III")  # name, valid_hooks, hook_entry, underflow, num_entries, size
ENTRIES = struct.Struct("=32sI4x")  # name, size; the entries follow at 8
ENTRY = 112  # struct ipt_entry
TARGET = struct.Struct("=H30si")  # struct xt_standard_target: size, name, verdict
ANSWER_LIMIT_BYTES = 64 << 20  # bytes; a table of 100,000 rules has less


class NftCommand(IntEnum):
    """NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN (include/uapi/linux/netfilter/nf_tables.h)."""

    NFT_MSG_GETCHAIN = 10 << 8 | 4


class ChainMessage(Message):
    """struct nfgenmsg."""

    fields = (("family", "B"), ("version", "B"), ("resource", "H"))
    nla_map = ((1, "table", "asciiz"), (3, "name", "asciiz"), (4, "hook", "Hook"), (5, "policy", "be32"))

    class Hook(Nest):
        """NFTA_CHAIN_HOOK."""

        nla_map = ((1, "number", "be32"),)


def chains() -> tuple[Chain, ...]:
    """The chains of nf_tables at the forward hook.

    Raises:
        OSError: the kernel refused, or gave no valid answer.
    """
    with NetlinkSocket(NETLINK_NETFILTER) as kernel:
        return forwarding(kernel)


def forwarding(kernel: NetlinkSocket) -> tuple[Chain, ...]:
    return tuple(
        Chain(FAMILIES[said.field("family")], said.text("table") or "", said.text("name") or "", _policy(said))
        for said in kernel.dump(NftCommand.NFT_MSG_GETCHAIN, ChainMessage, bytes(4))
        if said.field("family") in FAMILIES and said.nest("hook").number("number") == NF_INET_FORWARD
    )


def legacy() -> Chain:
    """The chain FORWARD of the filter table of legacy iptables. Raises as `chains`."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as asking:
        info = INFO.unpack(socket_option(asking, IPT_SO_GET_INFO, INFO.pack(b"filter", *bytes(13))))
        underflow, size = info[7 + NF_INET_FORWARD], info[13]
        if size > ANSWER_LIMIT_BYTES:
            raise nlsocket.malformed(f"a filter table of {size} bytes")
        answer = socket_option(asking, IPT_SO_GET_ENTRIES, ENTRIES.pack(b"filter", size) + bytes(size))
    return Chain("", "filter", "FORWARD", verdict(answer[ENTRIES.size :], underflow))


def verdict(entries: bytes, offset: int) -> str:
    """The policy of a chain: the rule at its end has the verdict -NF_DROP - 1 or -NF_ACCEPT - 1."""
    if len(entries) < offset + ENTRY + TARGET.size:
        raise nlsocket.malformed(f"a filter table of {len(entries)} bytes without the end of FORWARD at {offset}")
    _, _, number = TARGET.unpack_from(entries, offset + ENTRY)
    return POLICIES.get(-number - 1, str(number))


def _policy(said: ChainMessage) -> str:
    number = said.number("policy")
    return POLICIES.get(1 if number is None else number, str(number))


def socket_option(asking: socket.socket, option: int, question: bytes) -> bytes:
    """The answer of getsockopt(2) to a question in its buffer. Python's getsockopt cannot pass one."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(question, len(question))
    length = ctypes.c_uint32(len(question))
    if libc.getsockopt(asking.fileno(), socket.SOL_IP, option, buffer, ctypes.byref(length)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer.raw
