"""Builders for tests: the facts of a healthy node. Change one thing, and read the verdicts of the check."""

from __future__ import annotations

from string import Formatter
from typing import Any

from nodeprep import check_round
from nodeprep.facts.expected import inventory
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.pci import Pci, PciDevice
from nodeprep.facts.network.links import Link, Links
from nodeprep.facts.rdma.rdma import Gid, Port, Rdma, RdmaDevice
from nodeprep.facts.rdma.rdma_netlink import RdmaNetlink
from nodeprep.job_profile import AtLeast, Expectation, Profile
from nodeprep.model import Check, Seen, Shown, Status, Verdict, WantedBy, raw, values_of
from nodeprep.values import Value, asdict, replace

BDF = "0000:5c:00.0"
# The verdicts so far: id, reason and status. tests/given.py separates them by test file.
GIVEN: set[tuple[str, str, Status]] = set()
# The calls of `verdicts` so far: tests/unreadable_fields.py asks the failing ones again.
ASKED: list[Asked] = []


class Asked(Value):
    """What a check was asked, and the places of the subjects that failed."""

    check: Check
    facts: tuple[object, ...]
    want: object
    before: tuple[object, ...] | None
    seconds: float
    failing: frozenset[tuple[str, int | None]]

    def again(self, facts: tuple[object, ...]) -> tuple[Verdict, ...]:
        """The verdicts on other facts."""
        return tuple(_judged(self.check, facts, self.want, self.before, self.seconds))


def port(**different: Any) -> Port:
    """mlx5_3/1, a healthy 400 Gb/s RoCE port."""
    usual: dict[str, Any] = {
        "device": "mlx5_3",
        "number": 1,
        "bdf": BDF,
        "netdev": "eth2",
        "state": "4: ACTIVE",
        "physical": "5: LinkUp",
        "rate": 400.0,
        "layer": "Ethernet",
        "lid": "0x0",
        "sm_lid": "0x0",
        "gids": (gid(),),
        "like": "15b3:1021 MT_0000000838 Ethernet",
    }
    return Port(**(usual | different))


def gid(**different: Any) -> Gid:
    """A RoCE v2 entry with 10.99.0.2."""
    usual: dict[str, Any] = {
        "index": 3,
        "value": "0000:0000:0000:0000:0000:ffff:0a63:0002",
        "kind": "RoCE v2",
        "netdev": "eth2",
    }
    return Gid(**(usual | different))


def device(**different: Any) -> RdmaDevice:
    """mlx5_3, the ConnectX-7 under `port()`."""
    usual: dict[str, Any] = {
        "name": "mlx5_3",
        "bdf": BDF,
        "parent": None,
        "node_type": "1: CA",
        "node_guid": "5054:00ff:fe12:3456",
        "system_guid": "5054:00ff:fe12:3456",
        "firmware": "28.41.1000",
        "hca_type": "MT4129",
        "board": "MT_0000000838",
        "id": "15b3:1021",
        "virtual_function": False,
        "traffic_class": None,
    }
    return RdmaDevice(**(usual | different))


def nic(**different: Any) -> PciDevice:
    """The PCI function under `device()`, on a bare-metal node."""
    usual: dict[str, Any] = {
        "address": BDF,
        "id": "15b3:1021",
        "pci_class": "020000",
        "driver": "mlx5_core",
        "driver_override": None,
        "modalias": "pci:v000015B3d00001021sv000015B3sd00000041bc02sc00i00",
        "answers": True,
        "power": "D0",
        "speed": 32.0,
        "width": 16,
        "max_speed": 32.0,
        "max_width": 16,
        "numa": 0,
        "virtual_function": False,
        "iommu": "identity",
        "aer": None,
        "bridges": (),
        "auxiliaries": (),
        "rdma": ("mlx5_3",),
        "netdevs": ("eth2",),
    }
    return PciDevice(**(usual | different))


def link(**different: Any) -> Link:
    """eth2, the netdev of `port()`."""
    usual: dict[str, Any] = {
        "name": "eth2",
        "index": 4,
        "mac": "00:16:3e:aa:bb:02",
        "permanent_mac": "00:16:3e:aa:bb:02",
        "bdf": BDF,
        "up": True,
        "operstate": "up",
        "carrier": True,
        "mtu": 9000,
        "master": None,
        "kind": None,
        "physical": True,
        "downs": 0,
    }
    return Link(**(usual | different))


def rdma(*ports: Port, devices: tuple[RdmaDevice, ...] = ()) -> Rdma:
    return Rdma(0.0, devices, ports)


def pci(*devices: PciDevice, **different: Any) -> Pci:
    usual: dict[str, Any] = {"at": 0.0, "devices": devices, "bridges": (), "drivers_shown": True}
    return Pci(**(usual | different))


def links(*found: Link, **different: Any) -> Links:
    usual: dict[str, Any] = {"at": 0.0, "links": found, "addresses": ()}
    return Links(**(usual | different))


NOTHING_EXPECTED = Expected(
    profile="test",
    firm={},
    devices={},
    counted={},
    counted_rate=None,
    counted_layer=None,
    counted_firm=True,
    counting=frozenset(),
    rails={},
    best_rates={},
    missing_devices=(),
    missing_ports=(),
    shortage=None,
    modules=(),
    verbs=None,
    wants_rdma=False,
)


def expected(**different: Any) -> Expected:
    """Only the given things are wanted; `firm={"0000:5c:00.0/1": PortWant(...)}` wants a port."""
    return replace(NOTHING_EXPECTED, **different)


def wanted(port: Port, by: str | None) -> Expected:
    """Somebody wants this port up, or nobody."""
    return expected(rails={port.subject.key: by} if by else {})


def beside(**different: Any) -> Port:
    """mlx5_4/1, the port of the second function of the card under `port()`."""
    return port(**({"device": "mlx5_4", "bdf": "0000:5c:00.1", "netdev": "eth3"} | different))


def by_kind(*facts: object, layer: str | None = None, suggested: bool = True) -> Expected:
    """What nothing but the kinds of these facts wants, under a profile that asks for one port of this link layer."""
    known: dict[type, Any] = {type(fact): fact for fact in facts}
    profile = Profile("test", expect=Expectation(at_least=AtLeast(1, layer, suggested=suggested)))
    return inventory.derive(profile, known.get(Pci), known.get(Rdma), known.get(Links), known.get(RdmaNetlink))


def changed(thing: Any, **different: Any) -> Any:
    """A copy of a fact or value with other fields. A field may be an Unreadable."""
    assert isinstance(thing, Shown)
    return type(thing)(**(raw(thing) | different))


def verdicts(
    check: Check, *facts: object, want: object = None, before: tuple[object, ...] | None = None, seconds: float = 10.0
) -> list[Verdict]:
    """The verdicts of a check on these facts. `before` are the facts of a look `seconds` earlier."""
    said = _judged(check, facts, want, before, seconds)
    failing = frozenset((one.subject.place, one.subject.port) for one in said if one.status is Status.FAIL)
    ASKED.append(Asked(check, facts, want, before, seconds, failing))
    for verdict in said:
        GIVEN.add((check.id, verdict.reason, verdict.status))
        advice = check.advice(verdict.reason, verdict.status)
        assert placeholders(advice) <= values_of(verdict).keys(), f"{short(verdict)}: cannot fill {advice!r}"
    return said


def _judged(
    check: Check, facts: tuple[object, ...], want: object, before: tuple[object, ...] | None, seconds: float
) -> list[Verdict]:
    own: dict[type, object] = {check.want: want or check.want(), WantedBy: stated(want)} if check.want else {}
    values: dict[type, object] = {type(fact): fact for fact in facts}
    earlier = None if before is None else Seen({type(fact): fact for fact in before} | own)
    return list(check_round.run_check(check, Seen(values | own, earlier, seconds if before is not None else 0.0)))


def stated(want: Any) -> WantedBy:
    """`profile site` states the numbers that are no defaults."""
    usual = asdict(type(want)()) if want is not None else {}
    given = asdict(want) if want is not None else {}
    return WantedBy({name.replace("_", "-"): "profile site" for name in given if given[name] != usual[name]})


def placeholders(fix: str) -> set[str]:
    """The words in braces of a fix. Raises ValueError if it is not a template."""
    return {name for _, name, _, _ in Formatter().parse(fix) if name is not None}


def say(check: Check, *facts: object, **look: Any) -> str:
    """All verdicts in short: "fail AdministrativelyDown link_up(interface=eth2)", separated by "; "."""
    return "; ".join(short(verdict) for verdict in verdicts(check, *facts, **look))


def short(verdict: Verdict) -> str:
    remedy = verdict.remedy
    args = ", ".join(f"{key}={value}" for key, value in remedy.args.items()) if remedy else ""
    return f"{verdict.status} {verdict.reason}" + (f" {remedy.playbook}({args})" if remedy else "")
