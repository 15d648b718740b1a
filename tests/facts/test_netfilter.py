"""Netfilter: asked for what is in use, and for nothing that asking would load."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.door_values import Chain
from nodeprep.doors.node_host import Host
from nodeprep.facts.network import netfilter
from nodeprep.facts.network.netfilter import FACT, Netfilter
from nodeprep.model import Unreadable, Why

MODERN = Chain("ip", "filter", "FORWARD", "drop")


class Told(Host):
    """A host with these files whose kernel has one chain; remembers what was asked."""

    def __init__(self, root: Path, answer: tuple[Chain, ...] | Unreadable) -> None:
        super().__init__(str(root), live=False)
        self.answer = answer
        self.asked: tuple[bool, bool] | None = None

    def forward_chains(self, *, modern: bool, legacy: bool) -> tuple[Chain, ...] | Unreadable:
        self.asked = modern, legacy
        return self.answer


USED = [
    # module nf_tables, /proc/net/ip_tables_names, asked for
    (False, None, (False, False)),
    (True, None, (True, False)),
    (False, "", (False, False)),
    (False, "nat\nmangle", (False, False)),
    (False, "nat\nfilter", (False, True)),
    (True, "filter", (True, True)),
]


@pytest.mark.parametrize(("module", "names", "asked"), USED)
def test_what_is_asked(tmp_path: Path, module: bool, names: str | None, asked: tuple[bool, bool]) -> None:
    if module:
        (tmp_path / "sys/module/nf_tables").mkdir(parents=True)
    if names is not None:
        (tmp_path / "proc/net").mkdir(parents=True)
        (tmp_path / "proc/net/ip_tables_names").write_text(names + "\n")
    host = Told(tmp_path, (MODERN,))
    seen = netfilter.observe(host)
    assert isinstance(seen, Netfilter)
    assert host.asked == asked
    assert seen.forward == (Chain("ip", "filter", "FORWARD", "drop"),)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    refused = Unreadable(Why.DENIED, "netfilter", 1)
    assert netfilter.observe(Told(tmp_path, refused)) == refused
    (tmp_path / "proc/net/ip_tables_names").mkdir(parents=True)
    assert isinstance(netfilter.observe(Told(tmp_path, ())), Unreadable)


def test_a_dead_tree_has_none() -> None:
    assert FACT.live


def test_this_machines_own() -> None:
    seen = netfilter.observe(Host())
    assert isinstance(seen, Netfilter) or seen.kind is Why.DENIED, seen
