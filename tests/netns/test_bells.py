"""The event sources in a network namespace of their own: real links, addresses, routes, rules and uevents."""

from __future__ import annotations

import pytest

from tests.rigs.unshared import seen_in

LISTEN = """
import json, subprocess
from nodeprep.doors.events.listener import EventSources
from nodeprep.doors.events.kernel_events import LinkEvents, DeviceEvents
from nodeprep.model import Topic

def heard(event_sources, seconds, deaf=frozenset()):
    rang = event_sources.wait(seconds, deaf)
    while more := event_sources.wait(0.5 if rang else 0, deaf):
        rang |= more
    return sorted(rang)

def shell(script):
    subprocess.run(["sh", "-ec", script], check=True)

kinds = {"links": LinkEvents, "uevents": DeviceEvents}
"""
AT_ONCE = """
event_sources, said = EventSources(sources=[kinds["%s"]()]), {}
for script in %r:
    heard(event_sources, 0.2)
    shell(script)
    said[script] = heard(event_sources, %g)
print(json.dumps(said))
"""
SETUP = "ip link add a0 type veth peer name b0; ip link set lo up; ip addr add 10.0.0.1/24 dev a0; ip link set a0 up"
# What is done; whether it rings.
LINKS = {
    "ip link set b0 up": True,
    "ip link set b0 down": True,
    "ip link set a0 mtu 1400": True,
    "ip link add c0 type veth peer name d0": True,
    "ip link del c0": True,
    "ip addr add 10.0.1.1/24 dev b0": True,
    "ip addr del 10.0.1.1/24 dev b0": True,
    "ip -6 addr add fd00::1/64 dev a0": True,
    "ip rule add from 10.9.0.1 lookup 77": True,
    "ip rule del from 10.9.0.1 lookup 77": True,
    "ip route add 10.3.0.0/24 via 10.0.0.9 dev a0 onlink": True,
    "ip route del 10.3.0.0/24": True,
    "ip route add 10.4.0.0/24 via 10.0.0.9 dev a0 onlink proto bird": False,
    "ip route del 10.4.0.0/24": False,
    "ip neigh add 10.0.0.7 lladdr 02:00:00:00:00:01 dev a0": False,
    "ip link show > /dev/null": False,
}


@pytest.mark.parametrize("rings", [True, False])
def test_links_addresses_rules_and_routes(rings: bool) -> None:
    scripts = [script for script, rang in LINKS.items() if rang is rings]
    said = seen_in(SETUP, LISTEN + AT_ONCE % ("links", scripts, 10 if rings else 0.5))
    assert said == dict.fromkeys(scripts, ["link"] if rings else [])


def test_uevents_of_links_ring_for_links_alone() -> None:
    """A pod that comes and goes is no reason to look at devices."""
    scripts = ["ip link add c0 type veth peer name d0", "ip link del c0"]
    said = seen_in("", LISTEN + AT_ONCE % ("uevents", scripts, 10))
    assert said == {script: ["link"] for script in scripts}


STORM = """
import os, socket, struct, time
event_sources = EventSources(sources=[LinkEvents()])
heard(event_sources, 0.2)
index = socket.if_nametoindex("a0")
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
def storm(times):
    for turn in range(times):
        body = struct.pack("=BBHiII", 0, 0, 0, index, 0, 0) + struct.pack("=HHI", 8, 13, 100 + turn % 2)  # IFLA_TXQLEN
        kernel.send(struct.pack("=IHHII", 16 + len(body), 16, 1, turn, 0) + body)
storm(20_000)
before = time.process_time()
quiet = sorted(event_sources.wait(1.0, frozenset({Topic.LINK})))
spent = time.process_time() - before
after = sorted(event_sources.wait(10))
while event_sources.wait(0.5):
    pass
shell("ip link set a0 down")
later, state = sorted(event_sources.wait(10)), event_sources.states()["links"]
told = {"quiet": quiet, "spent": spent, "after": after, "later": later}
print(json.dumps(told | {"alive": state.alive, "restarts": state.restarts}))
"""


def test_a_storm_costs_nothing_while_nobody_listens_and_is_one_ring_then() -> None:
    said = seen_in(SETUP, LISTEN + STORM)
    assert (said["quiet"], said["after"], said["later"]) == ([], ["link"], ["link"])
    assert said["spent"] < 0.2
    assert (said["alive"], said["restarts"]) == (True, 0), "more than the socket holds is no death"
