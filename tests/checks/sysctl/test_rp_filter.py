"""sysctl.rp-filter: none or a loose one, now and after the next boot."""

from __future__ import annotations

import pytest

from nodeprep.checks.sysctl.rp_filter import CHECK
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.model import Unreadable, Why
from tests.cni_values import terway
from tests.route_values import persisted, sysctls
from tests.values import changed, say, verdicts

CONF = "net.ipv4.conf"
REMEDY = f"sysctl_terway(key={CONF}.{{}}.rp_filter, value=0)"


def live(**values: int) -> Sysctls:
    return sysctls({f"{CONF}.{link}.rp_filter": value for link, value in values.items()})


def boot(*lines: tuple[str, str]) -> Sysctls:
    return sysctls(persisted=tuple(persisted(key=f"{CONF}.{one}.rp_filter", value=value) for one, value in lines))


ROWS: list[tuple[Sysctls, str]] = [
    (live(), "ok NoStrictFilter"),
    (live(all=1), f"warn StrictFilter {REMEDY.format('all')}"),
    (live(eth1=1), f"warn StrictFilter {REMEDY.format('eth1')}"),
    (live(default=1), f"warn StrictFilter {REMEDY.format('default')}"),
    (live(all=1, eth0=1), f"warn StrictFilter {REMEDY.format('all')}"),
    (live(all=2), "ok NoStrictFilter"),
    (live(all=2, eth0=1, default=1), "ok NoStrictFilter"),  # the greater of both counts
    (live(eth0=2), "ok NoStrictFilter"),
    (live(lo=1), "ok NoStrictFilter"),
    (boot(("*", "2")), "ok NoStrictFilter"),
    (boot(("*", "1")), f"warn StrictFilterAtBoot {REMEDY.format('*')}"),
    (boot(("all", "1")), f"warn StrictFilterAtBoot {REMEDY.format('all')}"),
    (boot(("eth0", "1")), f"warn StrictFilterAtBoot {REMEDY.format('eth0')}"),
    (boot(("default", "1")), f"warn StrictFilterAtBoot {REMEDY.format('default')}"),
    (boot(("gone0", "1")), "ok NoStrictFilter"),
    (boot(("all", "2"), ("eth0", "1")), "ok NoStrictFilter"),
    (boot(("all", "0"), ("default", "0")), "ok NoStrictFilter"),
    (changed(live(), persisted=Unreadable(Why.DENIED, "/etc/sysctl.d/x.conf")), "unknown CannotLook"),
    (changed(live(), live=Unreadable(Why.DENIED, "/proc/sys/net")), "unknown CannotLook"),
]


@pytest.mark.parametrize(("seen", "says"), ROWS)
def test_says(seen: Sysctls, says: str) -> None:
    assert say(CHECK, seen, terway()) == says
    assert say(CHECK, seen, terway(present=False)) == "absent Nothing"


def test_messages() -> None:
    (now,) = verdicts(CHECK, live(all=1), terway())
    assert now.message == (
        "net.ipv4.conf.all.rp_filter is 1, so the filter is strict on default, cali1, eth0 and 1 more; Terway sets 0 "
        "when a pod starts, somebody else set it since: sysctl -w net.ipv4.conf.all.rp_filter=0"
    )
    (later,) = verdicts(CHECK, boot(("*", "1")), terway())
    assert later.message == (
        "/usr/lib/sysctl.d/50-default.conf:12 sets net.ipv4.conf.*.rp_filter = 1 at the next boot; now no interface "
        "filters strictly, as Terway needs"
    )
