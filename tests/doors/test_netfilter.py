"""Policies of forwarded packets: of this kernel's own tables, in a network namespace of our own."""

from __future__ import annotations

import ast
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.door_values import Chain
from nodeprep.doors.netlink import nftables
from nodeprep.doors.netlink.nftables import ENTRY
from tests.doors.netlink_kernel import kernel, nest, nla, text
from tests.rigs import netns_firewall
from tests.rigs.absent import cannot_start

RIG = netns_firewall.__file__
AGENT = Path(nftables.__file__).parents[3]
LOOK = f"""
import sys
sys.path.insert(0, {str(AGENT)!r})
from nodeprep.doors.netlink import nftables
print([(one.family, one.table, one.name, one.policy) for one in {{}}])
"""


def look(which: str, policy: str, question: str) -> object:
    """Sets a policy in a new namespace and looks at it there."""
    flags = ["--net"] if os.geteuid() == 0 else ["--net", "--user", "--map-root-user"]
    script = f'"$0" {RIG} {which} {policy} && exec "$0" -c "$1"'
    argv = ["unshare", *flags, "sh", "-c", script, sys.executable, LOOK.format(question)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == netns_firewall.UNAVAILABLE or "unshare" in done.stderr:
        cannot_start(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


@pytest.mark.parametrize("policy", ["drop", "accept"])
def test_legacy_iptables(policy: str) -> None:
    assert look("legacy", policy, "[nftables.legacy()]") == [("", "filter", "FORWARD", policy)]


@pytest.mark.parametrize("policy", ["drop", "accept"])
def test_nf_tables(policy: str) -> None:
    """INPUT drops and is no chain of forwarded packets; a chain without a hook has no policy."""
    assert look("nftables", policy, "nftables.chains()") == [("ip", "filter", "FORWARD", policy)]


def be32(kind: int, number: int) -> bytes:
    return nla(kind, struct.pack(">I", number))


def chain(family: int, hook: int, *others: bytes) -> bytes:
    return struct.pack("=BBH", family, 0, 0) + text(1, "t") + text(3, "c") + nest(4, be32(1, hook)) + b"".join(others)


CHAINS = [
    (chain(1, 2, be32(5, 0)), (Chain("inet", "t", "c", "drop"),)),
    (chain(2, 2, be32(5, 1)), (Chain("ip", "t", "c", "accept"),)),
    (chain(2, 2), (Chain("ip", "t", "c", "accept"),)),
    (chain(2, 2, be32(5, 9)), (Chain("ip", "t", "c", "9"),)),
    (chain(10, 2, be32(5, 0)), ()),  # IPv6
    (chain(2, 1, be32(5, 0)), ()),
    (struct.pack("=BBH", 2, 0, 0) + text(1, "t") + text(3, "c"), ()),
]


@pytest.mark.parametrize(("body", "found"), CHAINS)
def test_which_chains_count(body: bytes, found: tuple[Chain, ...]) -> None:
    with kernel(lambda *_: [body]) as (asking, played):
        assert nftables.forwarding(asking) == found
    assert played.asked == [(10 << 8 | 4, bytes(4))]


def test_a_table_without_its_end_is_no_answer() -> None:
    with pytest.raises(OSError, match="without the end of FORWARD"):
        nftables.verdict(bytes(ENTRY), 0)
