"""The interfaces of every network namespace, and the node's own ways, in namespaces of our own."""

from __future__ import annotations

import errno
from functools import cache
from typing import Any

from tests.rigs.idle_host import proved

SETUP = """
mount -t tmpfs none /run
ip link set lo up
ip link add a0 type veth peer name b0; ip link add br0 type bridge; ip link set a0 master br0
ip link add link b0 name mv type macvlan; ip netns add blue; ip link set mv netns blue
ip addr add 10.0.0.1/24 dev b0; ip addr add fd00::1/64 dev b0 nodad; ip link set b0 up; ip link set a0 up
touch /run/netns/empty
sleep infinity & unshare --net sleep infinity &
"""
LOOK = """
from nodeprep.values import asdict
import time
while True:
    spaces = Host().network_namespaces()
    if len(spaces) == 3:
        break
    time.sleep(0.1)
ways = Host().own_ways(["10.0.0.9", "fd00::9", "10.0.0.1", "192.0.2.1"])
own = Host().own_namespace()
before = os.stat("/proc/self/ns/net").st_ino
refused = Path("/run/refused")
found = {
    "spaces": [asdict(one) for one in spaces],
    "own": asdict(own),
    "ways": [asdict(one) for one in ways],
    "stays": before == os.stat("/proc/self/ns/net").st_ino,
    "broken": str(Host("/run/refused").network_namespaces()),
}
os.setresuid(NOBODY, NOBODY, NOBODY)
found["nobody"] = str(Host().network_namespaces())
print(json.dumps(found))
"""


@cache
def found() -> dict[str, Any]:
    return proved(SETUP, LOOK)


def test_each_namespace_once_with_who_lives_in_it() -> None:
    own, *others = found()["spaces"]
    assert (own["holder"], own["is_own"]) == ("this node", True)
    assert own == found()["own"]
    process = next(one for one in others if one["holder"].startswith("process "))
    assert process["holder"].endswith("(sleep)")
    assert [link["name"] for link in process["links"]] == ["lo"]
    kept = next(one for one in others if not one["holder"].startswith("process "))
    assert kept["holder"] == "/run/netns/blue"
    assert found()["stays"]


def test_what_a_link_rides_on() -> None:
    own, *others = found()["spaces"]
    links = {link["name"]: link for link in own["links"]}
    assert links["a0"]["master"] == links["br0"]["index"]
    assert (links["a0"]["kind"], links["br0"]["kind"], links["lo"]["kind"]) == ("veth", "bridge", None)
    blue = next(one for one in others if one["holder"] == "/run/netns/blue")
    (macvlan,) = (link for link in blue["links"] if link["name"] == "mv")
    assert (macvlan["below"], macvlan["is_below_elsewhere"]) == (links["b0"]["index"], True)
    assert (links["b0"]["below"], links["b0"]["is_below_elsewhere"]) == (links["a0"]["index"], False)


def test_the_ways_of_the_node_itself() -> None:
    index = next(link["index"] for link in found()["own"]["links"] if link["name"] == "b0")
    four, six, here, nowhere = found()["ways"]
    assert [(one["oif"], one["errno"]) for one in (four, six)] == [(index, None), (index, None)]
    assert here["kind"] == "local"
    assert nowhere["errno"] == errno.ENETUNREACH


def test_who_may_not_look_and_where_there_is_nothing_to_look_at() -> None:
    assert "denied" in found()["nobody"]
    assert "network namespaces: io-error" in found()["broken"]
