"""sysctl.forward-policy: what forwarded packets meet at the end of the chains."""

from __future__ import annotations

import pytest

from nodeprep.checks.sysctl.forward_policy import CHECK
from nodeprep.door_values import Chain
from nodeprep.facts.network.netfilter import Netfilter
from tests.cni_values import terway
from tests.values import say, verdicts

LEGACY, MODERN = Chain("", "filter", "FORWARD", "drop"), Chain("ip", "filter", "FORWARD", "drop")
OPEN = Chain("inet", "firewall", "forward", "accept")

ROWS = [
    ((), "absent Nothing"),
    ((OPEN,), "ok ForwardAccepted"),
    ((LEGACY,), "warn ForwardDropped"),
    ((MODERN,), "warn ForwardDropped"),
    ((OPEN, MODERN), "warn ForwardDropped"),  # a packet passes both
]


@pytest.mark.parametrize(("chains", "says"), ROWS)
def test_says(chains: tuple[Chain, ...], says: str) -> None:
    assert say(CHECK, Netfilter(0.0, chains), terway()) == says
    assert say(CHECK, Netfilter(0.0, chains), terway(present=False)) == "absent Nothing"


def test_messages() -> None:
    (modern,) = verdicts(CHECK, Netfilter(0.0, (MODERN, LEGACY)), terway())
    assert modern.message == (
        "policy of ip filter FORWARD, filter FORWARD is drop: what no rule there accepts of pods is lost; Terway wants "
        "accept: see nft list chain ip filter FORWARD, and who set it (Docker does)"
    )
    (legacy,) = verdicts(CHECK, Netfilter(0.0, (LEGACY,)), terway())
    assert "see iptables-legacy -S FORWARD" in legacy.message
