"""A fault more never makes the verdict better (issue 13 A.1): drawn faults, one after the other, on described nodes."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import pytest

from nodeprep import check_round, checks, job_profile
from nodeprep.config import profile_files
from nodeprep.facts.expected import profile_capture, suited, unjudged
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.machine.system import System
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import NO_PROFILE, Profile
from nodeprep.look import Look
from nodeprep.model import Finding, Severity, Status, Unreadable, Why
from nodeprep.values import replace
from tests import machines
from tests.machines import (
    BF3,
    ETHERNET,
    GONE,
    INFINIBAND,
    SHAPES,
    SPEEDS,
    STATES,
    Fault,
    Function,
    Machine,
    never_cabled,
    rails,
)
from tests.values import changed, rdma

pytestmark = pytest.mark.slow

FACTS = {Pci, Rdma, Links, System, Expected}
CHECKS = tuple(check for check in checks.CHECKS.values() if set(check.needs) <= FACTS and not check.rates)
AFTER = {check.id: check.after for check in CHECKS}
CAPTURED, COUNTING = 0.3, 0.2  # so often a captured profile decides, and one that counts ports
ORDER = {0: 0, 3: 1, 1: 2}
LONGEST = 12  # faults on one node
DRAWS = 1_000  # faults for each seed
SEEDS, MORE_SEEDS = range(13, 17), range(17, 33)  # of `make test` and of `make prove`
AGAINST_LIKES = ("port.rate", "port.mtu", "pci.link", "port.layer", "rdma.firmware")
# What is not drawn without a captured profile, and why: nothing on the node tells it from a node that was built so.
LEFT_OUT = {
    "left the bus": "only a profile says that a device was there (issue 13 A.1)",
    "rate, MTU, PCIe width or speed on the last good port of a kind": "nothing says what is right (A.1); with "
    "slow ports only it may also be slower than another kind, as a front end is, in whichever order they became so",
    "RDMA switched off on every second leg of bonds": "a RoCE LAG looks so: the first leg carries RDMA for both, and a "
    "FAIL would close every node that has one",
    "the RDMA device of the only port that is faster than the InfiniBand rails": "it looks as a front end that is used "
    "without RDMA; a dead port of RoCE shows the network that the fastest port is for",
    "RDMA switched off on all NICs of a node without GPUs": "it looks as a node that uses no RDMA, and a FAIL would "
    "close every such node whose NIC has no mlx5_ib",
}


@cache
def named(name: str | None) -> Profile:
    """A built-in profile as hardware chooses it."""
    if name is None:
        return NO_PROFILE
    profile = profile_files.effective(name)
    count = profile.expect.at_least
    assert count is not None
    return replace(profile, expect=replace(profile.expect, at_least=replace(count, suggested=True)))


def chosen(look: Look) -> Profile:
    return named(suited.suited(look.get(Pci), look.get(Rdma), look.get(Links)).profile)


@dataclass(frozen=True)
class Judgement:
    """What a node's report comes to. `blamed` are devices that findings are about or that the header counts as down.

    `unlike` are check and device where a device only differs from its likes. `mentioned` are also the likes that a
    message names.
    """

    code: int
    blamed: frozenset[str]
    unlike: frozenset[tuple[str, str]]
    mentioned: frozenset[str]
    findings: tuple[Finding, ...]


def judged(machine: Machine, profile: Profile | None) -> Judgement:
    look = machine.look()
    return judged_look(look, machine, profile or chosen(look))


def judged_look(look: Look, machine: Machine, profile: Profile) -> Judgement:
    expected = check_round.expect(look, profile)
    assert not isinstance(expected, Unreadable)
    said = check_round.unfolded(CHECKS, look, None, profile, {}, expected=expected).findings
    findings = check_round.fold(said, AFTER)
    counted = [one for one in findings if one.counts]
    code = 3 if any(one.status is Status.UNKNOWN and one.severity is Severity.GATE for one in counted) else 0
    code = 1 if any(one.status is Status.FAIL for one in counted) else code
    notes = list(unjudged.told(expected, look.get(Pci), look.get(Links)))
    bad = [one for one in findings if one.status not in (Status.OK, Status.ABSENT)]
    counts = [note.partition("; up: ")[0] for note in notes if " down: " in note]
    blamed = [*(one.subject.place for one in bad if not is_against_likes(one)), *counts]
    unlike = [(one.check, one.subject.place) for one in bad if is_against_likes(one)]
    mentioned = [*(one.verdict.message for one in bad if is_against_likes(one)), *notes]
    convicted, beside = devices_in(blamed, machine), devices_in(mentioned, machine)
    pairs = frozenset((check, address) for check, place in unlike for address in devices_in([place], machine))
    every = convicted | {address for _, address in pairs}
    pairs = frozenset(pair for pair in pairs if pair[1] not in convicted)
    return Judgement(code, every, pairs, every | beside, findings)


def is_against_likes(finding: Finding) -> bool:
    return finding.check in AGAINST_LIKES or finding.verdict.reason == "IpoibDown"


def devices_in(texts: list[str], machine: Machine) -> frozenset[str]:
    """The functions that texts name: by address, by what they are called, by the bond above."""
    words = {word.rstrip(":.") for word in re.findall(r"[\w:.]+", "\n".join(texts))}
    addressed = {one.bond for one in machine.functions if one.live and one.routable}  # one leg's address is enough
    names = (
        (
            one.address,
            {one.address, one.name, f"eth{one.index}", None if one.live and one.bond in addressed else one.bond},
        )
        for one in machine.functions
    )
    return frozenset(address for address, known in names if words & known)


def kin(machine: Machine, position: int) -> list[int]:
    """Functions of the same kind: same chip and rate, same function of a card, live."""
    mine = machine.functions[position]
    return [
        other
        for other, one in enumerate(machine.functions)
        if (one.chip, one.layer, one.address[-1]) == (mine.chip, mine.layer, mine.address[-1])
    ]


def is_like_all(machine: Machine, healthy: Machine, position: int, fault: Fault) -> bool:
    """Whether, with this fault, no live port of its kind is left that shows what the kind can do."""
    after = machine.with_fault(fault, *whole_card(machine, position, fault))
    touched = {other for one in whole_card(machine, position, fault) for other in kin(healthy, one)}
    return not all(any(shows_best(after, healthy, one) for one in kin(healthy, other)) for other in touched)


def shows_best(machine: Machine, healthy: Machine, position: int) -> bool:
    one, best = machine.functions[position], max(healthy.functions[other].rate for other in kin(healthy, position))
    good = healthy.functions[position]
    same = (one.width, one.speed, one.mtu, one.firmware) == (good.width, good.speed, good.mtu, good.firmware)
    return one.live and one.carries and same and one.rate == best


def falls_behind(machine: Machine, healthy: Machine) -> bool:
    """Whether a kind is left with slow ports only, and another kind is faster or on its cards: they look meant so."""
    for position in range(len(machine.functions)):
        likes = kin(healthy, position)
        live = [machine.functions[other].rate for other in likes if is_live(machine.functions[other])]
        best = max(healthy.functions[other].rate for other in likes)
        others = (like for other, like in enumerate(machine.functions) if other not in likes and is_live(like))
        cards = {healthy.functions[other].address[:-2] for other in likes}
        if live and max(live) < best and any(like.rate > max(live) or like.address[:-2] in cards for like in others):
            return True
    return False


def is_live(one: Function) -> bool:
    return one.live and one.carries


def is_built_so(machine: Machine) -> bool:
    """Whether nothing tells the node from a healthy one that is used otherwise."""
    unused = not machine.gpus and all(one.driver and one.rdma == "off" for one in machine.functions)
    return unused or is_like_a_lag(machine)


def is_like_a_lag(machine: Machine) -> bool:
    """Whether RDMA is off on second legs of bonds, and no like leg shows that each has a device of its own."""
    seconds = [one for one in machine.functions if one.bond is not None and one.address[-1] == "1"]
    off = {one.chip for one in seconds if one.driver and one.rdma == "off"}
    return not off <= {one.chip for one in seconds if one.carries}


def whole_card(machine: Machine, position: int, fault: Fault) -> tuple[int, ...]:
    """A slot is a card's: what its lanes do, they do to all its functions."""
    if fault not in (SPEEDS["half width"], SPEEDS["half speed"]):
        return (position,)
    card = machine.functions[position].address[:-2]
    return tuple(other for other, one in enumerate(machine.functions) if one.address[:-2] == card)


def without_good(machine: Machine, healthy: Machine) -> frozenset[tuple[str, str]]:
    """Check and function where nothing shows any more what is better: of the front end no header names them."""
    found = set[tuple[str, str]]()
    for position, one in enumerate(machine.functions):
        versions = {like.firmware for like in machine.functions if like.carries and like.chip == one.chip}
        if len(versions) < 2:
            found.add(("rdma.firmware", one.address))
        if not any(shows_best(machine, healthy, other) for other in kin(healthy, position)):
            found |= {(check, one.address) for check in AGAINST_LIKES}
        likes = (machine.functions[other] for other in kin(healthy, position))
        if not any(is_live(like) and like.netdev_up for like in likes):
            found.add(("port.netdev", one.address))  # IPoIB interfaces that are all down
    return frozenset(found)


def differ(before: Judgement, after: Judgement, without_good: frozenset[tuple[str, str]] = frozenset()) -> str:
    """What got better, "" if nothing did."""
    if ORDER[after.code] < ORDER[before.code]:
        return f"exit code {before.code} became {after.code}"
    # Nothing says which of two modes or versions is right, nor which value where the good ports of a kind are lost too.
    # Then the finding on the other camp, or the header, names what only differs.
    only = {address for _, address in before.unlike}
    lost = before.blamed - only - after.blamed
    lost |= {address for _, address in before.unlike - without_good} - after.mentioned
    return f"no longer named: {sorted(lost)}" if lost else ""


def sequence(shape: str, draw: random.Random, profile: Profile | None) -> Iterator[tuple[list[str], str]]:
    """Faults one after the other; what got better by each, "" if nothing did."""
    machine, told = SHAPES[shape], list[str]()
    before = judged(machine, profile)
    is_captured = profile is not None and bool(profile.expect.ports)
    families = STATES | SPEEDS | (GONE if is_captured else {})
    for _ in range(LONGEST):
        family = draw.choice(sorted(families))
        position = draw.randrange(len(machine.functions))
        fault = families[family]
        best = family in SPEEDS and family != "other firmware"  # of versions none is the best
        if not is_captured and best and is_like_all(machine, SHAPES[shape], position, fault):
            continue
        broken = machine.with_fault(fault, position)
        if not is_captured and (is_built_so(broken) or falls_behind(broken, SHAPES[shape])):
            continue
        machine = machine.with_fault(fault, *whole_card(machine, position, fault))
        told.append(f"{family} on {machine.functions[position].name}")
        after = judged(machine, profile)
        yield told, differ(before, after, without_good(machine, SHAPES[shape]))
        before = after


@cache
def captured(shape: str) -> Profile:
    """What the healthy node has, over the built-in profile of its network."""
    listing, seen, netdevs = SHAPES[shape].facts()
    profile = profile_capture.capture("good", seen, pci=listing, links=netdevs)
    assert profile is not None
    assert profile.extends is not None
    return job_profile.extend(profile, profile_files.effective(profile.extends))


@cache
def counting(shape: str, count: int, rate: float | None = None) -> Profile:
    """What an operator asks for who counts ports; `rate` is Gb/s that each must run at."""
    profile = named(chosen(SHAPES[shape].look()).name)
    assert profile.expect.at_least is not None
    wants = replace(profile.expect.at_least, count=count, rate=rate, suggested=False)
    return replace(profile, expect=replace(profile.expect, at_least=wants))


def name_of(profile: Profile | None) -> str:
    if profile is None or profile.expect.ports or profile.expect.at_least is None:
        return "no profile" if profile is None else profile.name
    rate = profile.expect.at_least.rate
    return f"at least {profile.expect.at_least.count}" + (f" of {rate:g} Gb/s" if rate else "")


def drawn_profile(shape: str, draw: random.Random) -> Profile | None:
    """A captured one, one that counts, or None: the hardware chooses."""
    kind = draw.random()
    if kind < CAPTURED:
        return captured(shape)
    if kind >= CAPTURED + COUNTING:
        return None
    return counting(shape, draw.choice((1, 2, 4, 8)), draw.choice((None, 100.0)))


def run(draws: int, seed: int) -> tuple[int, list[str]]:
    """So many faults drawn over all shapes, with a captured profile and without; and what got better."""
    draw, drawn, wrong = random.Random(seed), 0, list[str]()
    shapes = sorted(SHAPES)
    while drawn < draws:
        shape = draw.choice(shapes)
        profile = drawn_profile(shape, draw)
        for told, better in sequence(shape, draw, profile):
            drawn += 1
            if better:
                wrong.append(f"{shape}, {name_of(profile)}: {better} by {'; '.join(told)}")
                break
    return drawn, wrong


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.prove) for seed in MORE_SEEDS)])
def test_a_fault_more_never_makes_the_verdict_better(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, wrong = run(DRAWS, seed)
    with capsys.disabled():
        print(f"\n{drawn} faults drawn over {len(SHAPES)} shapes, {len(wrong)} made a verdict better")
    assert wrong == []


# Families that are a fault of a rail by themselves, and of which network.
EACH_FAILS = {
    "port down": (ETHERNET, INFINIBAND),
    "port set down": (ETHERNET, INFINIBAND),
    "ACTIVE without a link": (ETHERNET, INFINIBAND),
    "port in INIT": (ETHERNET, INFINIBAND),
    "driver gone": (ETHERNET, INFINIBAND),
    "RDMA driver gone": (ETHERNET, INFINIBAND),
    "no routable GID": (ETHERNET,),
    "netdev down": (ETHERNET,),
    "no subnet manager": (INFINIBAND,),
    "dead in the other mode": (ETHERNET, INFINIBAND),
}
SINGLE_PORT = [
    name
    for name, shape in SHAPES.items()
    if shape.functions[0].bond is None
    and not any(one.address == f"{shape.functions[0].address[:-1]}1" for one in shape.functions)
]


@pytest.mark.parametrize("family", sorted(STATES | SPEEDS))
def test_k_of_n_of_a_kind(family: str) -> None:
    """For every k: of rate, MTU, PCIe and firmware one good port is left."""
    fault = (STATES | SPEEDS)[family]
    for shape, healthy in SHAPES.items():
        rails = kin(healthy, 0)
        most = len(rails) if family in STATES else len(rails) - 1
        before = judged(healthy, None)
        for k in range(1, most + 1):
            bad = rails[-k:]
            if is_built_so(healthy.with_fault(fault, *bad)):
                continue
            after = judged(healthy.with_fault(fault, *bad), None)
            assert differ(before, after) == "", (shape, k)
            layer = healthy.functions[0].layer
            if shape in SINGLE_PORT and layer in EACH_FAILS.get(family, ()):
                assert after.code == 1, (shape, k)
            fits = healthy.functions[0].bond is None or family in SPEEDS
            fits = fits and (family != "small MTU" or layer == ETHERNET)
            if fits and (family in SPEEDS or layer in EACH_FAILS.get(family, ())):
                told = {healthy.functions[one].address for one in bad}
                # Most of them may run the other firmware: then the finding on the few names them.
                assert told <= (after.mentioned if family == "other firmware" else after.blamed), (shape, k)
            before = after


STORAGE = "8 x 400 RoCE, an InfiniBand port for storage"


@pytest.mark.parametrize("family", ["no routable GID", "port down", "driver gone"])
def test_k_of_n_where_a_port_for_storage_was_captured_too(family: str) -> None:
    """Its network chose the captured profile: with 8 of 8 rails without an address, the node was READY."""
    healthy, profile = SHAPES[STORAGE], captured(STORAGE)
    told = [judged(healthy.with_fault(STATES[family], *range(k)), profile) for k in range(9)]
    assert [one.code for one in told] == [0, *[1] * 8]
    assert profile.extends == "rdma-roce"


BONDED = "4 bonds of two rails"


@pytest.mark.parametrize("family", ["no routable GID", "port down", "driver gone", "ACTIVE without a link"])
@pytest.mark.parametrize("count", [None, 1, 4])
def test_k_of_n_bonds_of_rails(family: str, count: int | None) -> None:
    """Both legs of a bond lack it: each such bond is a fault, be it one or all of them. One leg alone is none."""
    profile, healthy = (None if count is None else counting(BONDED, count)), SHAPES[BONDED]
    told = [judged(healthy.with_fault(STATES[family], *range(2 * k)), profile) for k in range(5)]
    assert [one.code for one in told] == [0, 1, 1, 1, 1]
    assert [differ(*pair) for pair in pairwise(told)] == ["", "", "", ""]
    assert {one.address for one in healthy.functions} == told[-1].blamed
    if family == "no routable GID":
        assert judged(healthy.with_fault(STATES[family], 0, 2, 4, 6), profile).code == 0
        assert judged(healthy.with_fault(STATES[family], 0, 1), captured(BONDED)).code == 1
        # The leg that has an address has no link, and the other one has no address.
        half = healthy.with_fault(STATES[family], 1).with_fault(STATES["ACTIVE without a link"], 0)
        assert judged(half, profile).code == 1


# Cards of two kinds of ports, and profiles: what the exit codes of k dead first ports and k dead second ports are.
TWO_KINDS: list[tuple[str, str | None, int, tuple[list[int], list[int]]]] = [
    # shape                                 an operator's profile and count      first ports      second ports
    ("4 cards, ports of 400 and 100", None, 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 cards, ports of 400 and 100", "rdma-roce", 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 cards, ports of 400 and 100", "rdma-roce", 4, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 cards, ports of 400 and 100", "rdma-roce", 6, ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1])),
    ("4 cards, ports of 400 and 100", "rdma-roce", 8, ([0, 1, 1, 1, 1], [0, 1, 1, 1, 1])),
    ("4 cards, ports of 400 and 100, 2 x 200 front end", None, 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 cards, ports of 400 and 100, only the second cabled", None, 1, ([0, 0, 0, 0, 0], [0, 1, 1, 1, 1])),
    ("4 VPI cards of one speed", None, 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 VPI cards of one speed", "rdma", 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 VPI cards of one speed", "rdma-infiniband", 1, ([0, 1, 1, 1, 1], [0, 0, 0, 0, 0])),
    ("4 VPI cards of one speed", "rdma-roce", 1, ([0, 0, 0, 0, 0], [0, 1, 1, 1, 1])),
    ("4 VPI cards, Ethernet at 100", None, 1, ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0])),
    ("4 VPI cards, Ethernet at 100", "rdma-infiniband", 1, ([0, 1, 1, 1, 1], [0, 0, 0, 0, 0])),
]
OF_ANY_NETWORK = ("port down", "port set down", "driver gone", "RDMA driver gone", "RDMA switched off")


@pytest.mark.parametrize("family", OF_ANY_NETWORK)
@pytest.mark.parametrize(("shape", "name", "count", "codes"), TWO_KINDS)
def test_k_of_n_first_or_second_ports(
    shape: str, name: str | None, count: int, codes: tuple[list[int], list[int]], family: str
) -> None:
    """A card is up if one of its ports is, whatever that one's kind: the dead one is a spare then, for every k."""
    profile = operators(name, count) if name is not None else None
    for places, wanted in zip(((0, 2, 4, 6), (1, 3, 5, 7)), codes, strict=True):
        told = [judged(SHAPES[shape].with_fault(STATES[family], *places[:k]), profile) for k in range(5)]
        assert [one.code for one in told] == wanted
        assert [differ(*pair) for pair in pairwise(told)] == ["", "", "", ""]
        assert {SHAPES[shape].functions[place].address for place in places} <= told[-1].blamed


@pytest.mark.parametrize("family", [*OF_ANY_NETWORK, "GUID of zeros", "no power", "answers all ones"])
@pytest.mark.parametrize("shape", sorted({shape for shape, *_ in TWO_KINDS}))
def test_both_ports_of_a_card(shape: str, family: str) -> None:
    """No port of it is up: that is a fault, also after all the first ports of the others."""
    fault, healthy = STATES[family], SHAPES[shape]
    assert judged(healthy.with_fault(fault, 0, 1), None).code == 1
    assert judged(healthy.with_fault(fault, 0, 1, 2, 4, 6), None).code == 1


def operators(name: str, count: int) -> Profile:
    """A built-in profile as an operator names it, who wants so many ports."""
    profile = profile_files.effective(name)
    assert profile.expect.at_least is not None
    wants = replace(profile.expect.at_least, count=count)
    assert not wants.suggested
    return replace(profile, expect=replace(profile.expect, at_least=wants))


def test_what_was_never_cabled_in_a_faster_slot_is_told_with_the_ways_out() -> None:
    """Four dead cards of another model look the same, so it is a fault: its message says what to do if it is none."""
    told = judged(SHAPES["8 x 200, two cards never cabled in faster slots"], None)
    assert told.code == 1
    down = [one.verdict.message for one in told.findings if one.status is Status.FAIL]
    assert down
    for message in down:
        assert "none of its kind is up, and it can carry 400 Gb/s" in message
        assert "nodeprep profile capture --accept port.state" in message
        assert "exclude" in message
    usual = judged(SHAPES["8 x 200, two cards never cabled in faster slots"].with_fault(STATES["port down"], 0), None)
    about = [
        one.verdict.message for one in usual.findings if one.check == "port.state" and "mlx5_0/1" in one.verdict.message
    ]
    assert [("capture" in message) for message in about] == [False]


@pytest.mark.parametrize("pattern", ["0000:90:00.0", "mlx5_8", "mlx5_8/1", "0000:90:*"])
def test_a_dead_card_that_is_waived_tells_nothing_about_the_others(pattern: str) -> None:
    """A.3: a waiver of the faster card that was never cabled made the rails a front end, and 7 of 8 down passed."""
    unused = never_cabled((Function(8, "0000:90:00.0", chip=BF3),), 0)
    healthy = Machine((*rails(8, rate=200.0, speed=16.0, max_speed=16.0), *unused))
    for count in range(8):
        machine = healthy.with_fault(STATES["port down"], *range(count))
        profile = chosen(machine.look())
        failing = {one.subject.place for one in judged(machine, profile).findings if one.status is Status.FAIL}
        assert failing == {"0000:90:00.0"}, "not waived, it is the rail"
        told = judged(machine, replace(profile, excused=(pattern,)))
        failing = {one.subject.place for one in told.findings if one.status is Status.FAIL}
        assert failing == {"0000:90:00.0", *(one.address for one in machine.functions[:count])}


@pytest.mark.parametrize("layer", [INFINIBAND, ETHERNET])
def test_k_of_n_live_in_the_other_mode(layer: str) -> None:
    """Each k warns. The camp that has most live ports is taken for right, and of two alike none: both are named."""
    healthy = Machine(machines.rails(8, layer))
    for k in range(1, 8):
        told = judged(healthy.with_fault(live_in_the_other_mode, *range(8 - k, 8)), None)
        odd = {one.subject.place for one in told.findings if one.check == "port.layer" and one.status is Status.WARN}
        few, many = sorted(
            ({f"0000:{0x10 + one:02x}:00.0" for one in part} for part in (range(8 - k), range(8 - k, 8))), key=len
        )
        assert odd == (few | many if k == 4 else few), k
        assert told.code == 0
        assert {one.address for one in healthy.functions} == told.mentioned


def live_in_the_other_mode(one: Function) -> Function:
    return dataclasses.replace(one, odd=True)


def test_which_of_two_dead_cards_is_in_the_wrong_mode_does_not_go_by_their_names() -> None:
    shape = SHAPES["two cards never cabled in different modes"]
    renamed = Machine(tuple(dataclasses.replace(one, index=9 - one.index) for one in shape.functions))
    for machine in (shape, renamed, Machine(renamed.functions[::-1])):
        told = [one for one in judged(machine, None).findings if one.check == "port.layer"]
        assert {(one.subject.place, one.status) for one in told} == {
            ("0000:10:00.0", Status.FAIL),
            ("0000:11:00.0", Status.FAIL),
        }


def test_ports_of_rails_cards_of_which_one_is_cabled_are_not_all_called_spares() -> None:
    told = judged(SHAPES["4 dual-port cards, one second port cabled"], None)
    (message, *_) = [one.verdict.message for one in told.findings if one.verdict.reason == "UnlikeOthers"]
    assert "of 4 ports of rails' cards alike, up: mlx5_7/1; down: mlx5_1/1, mlx5_3/1, mlx5_5/1" in message


def test_a_rail_that_is_dead_in_the_other_mode_fails_where_the_operator_asks_for_its_network() -> None:
    """The other port of its card speaks the other network, so it stands in only for what nobody asks for."""
    wrong = SHAPES["4 VPI cards of one speed"].with_fault(STATES["dead in the other mode"], 2)
    assert judged(wrong, operators("rdma-infiniband", 1)).code == 1
    assert judged(wrong, None).code == 0


def test_a_dead_spare_in_the_other_mode_puts_no_live_port_in_the_wrong() -> None:
    """The second ports are Ethernet, and three of them live: the fourth is dead on InfiniBand, as the rails are."""
    machine = SHAPES["4 VPI cards, Ethernet at 100, 2 x 200 front end"]
    told = judged(machine.with_fault(STATES["dead in the other mode"], 7), None).findings
    assert [one.subject.place for one in told if one.verdict.reason == "OddLayer"] == ["0000:43:00.1"]


# Found by draws of other seeds: each fault in turn must neither lower the exit code nor drop a device.
FOUND = {
    "the leg of a bond that is set down keeps its MTU's warning": (
        "4 bonds of two rails",
        (("small MTU", 0), ("no routable GID", 1), ("netdev down", 0)),
    ),
    "a leg takes no blame for the rail of its card": (
        "2 cards of a rail and a leg of the front end's bond",
        (("port down", 3), ("port down", 2), ("driver gone", 0)),
    ),
    "the mode of a model stays the right one when the last port of it dies": (
        "2 x 200 InfiniBand, a faster RoCE card of their model",
        (("port down", 2), ("port down", 0)),
    ),
    "a live spare still says which mode is right": (
        "2 x 200 InfiniBand, a faster RoCE card of their model",
        (("RDMA switched off", 3), ("port down", 2), ("no power", 2), ("netdev down", 2), ("no power", 0)),
    ),
    "a dead card that loses its RDMA device may be a rail in the other mode": (
        "2 x 200 InfiniBand, a faster RoCE card of their model",
        (
            *(("dead in the other mode", 2), ("no power", 4), ("half speed", 2)),
            *(("dead in the other mode", 0), ("no routable GID", 0), ("RDMA switched off", 2)),
        ),
    ),
    "stand-ins are judged where nothing is sound any more": (
        "4 VPI cards, Ethernet at 100",
        (
            *(("RDMA driver gone", 6), ("netdev down", 5), ("netdev down", 0), ("RDMA driver gone", 1)),
            *(("port in INIT", 2), ("port down", 3), ("GUID of zeros", 0), ("RDMA switched off", 4)),
            *(("RDMA switched off", 2), ("RDMA switched off", 7)),
        ),
    ),
    "a stand-in that is not sound itself goes on being judged": (
        "fast and slow model",
        (
            *(("driver gone", 0), ("answers all ones", 1), ("RDMA driver gone", 2), ("port in INIT", 3)),
            *(("answers all ones", 5), ("netdev down", 4), ("RDMA switched off", 6)),
        ),
    ),
    "the MTU of a bonded rail stays told when the front end's bond dies": (
        "4 bonds of two rails, a bonded front end at 100 in a faster slot",
        (("small MTU", 5), ("port down", 8), ("port set down", 9)),
    ),
    "a spare of the front end tells no mode of rails": (
        "fast and slow model",
        (
            *(("port set down", 7), ("half rate", 2), ("port set down", 4)),
            *(("dead in the other mode", 6), ("RDMA switched off", 6)),
        ),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_draws_have_found(name: str) -> None:
    shape, faults = FOUND[name]
    machine = SHAPES[shape]
    told = [judged(machine, None)]
    for family, place in faults:
        machine = machine.with_fault((STATES | SPEEDS)[family], place)
        told.append(judged(machine, None))
    assert [differ(*pair) for pair in pairwise(told)] == [""] * len(faults)


ONE_SINGLE_RAIL = "2 bonds of two rails at 200, a single rail at 400"


@pytest.mark.parametrize("family", ["RDMA switched off", "driver gone", "port down", "GUID of zeros"])
def test_a_counted_leg_without_a_link_warns_as_one_that_is_gone(family: str) -> None:
    """It runs at 10 Gb/s where 100 are asked for, and its bond carries on with the other leg."""
    profile = counting(ONE_SINGLE_RAIL, 2, 100.0)
    idle = SHAPES[ONE_SINGLE_RAIL].with_fault(STATES["ACTIVE without a link"], 1)
    assert [judged(one, profile).code for one in (idle, idle.with_fault(STATES[family], 1))] == [0, 0]


@pytest.mark.parametrize("family", ["GUID of zeros", "port down", "RDMA switched off"])
def test_a_port_that_carries_a_rails_card_is_judged_by_its_lanes(family: str) -> None:
    """Eight lanes of 16 GT/s carry 126 Gb/s, too little for either leg at 200."""
    machine = machines.TWO_RATES
    for fault in ("half speed", "half width"):
        machine = machine.with_fault(SPEEDS[fault], 0, 1)
    told = [judged(one, None).code for one in (machine, machine.with_fault(STATES[family], 0))]
    assert told == [1, 1]


# Found by reviewers under a profile: what the profile asks for, a shape, and faults; the exit code never falls.
Lanes = tuple[tuple[str, tuple[int, ...]], ...]
UNDER_PROFILES: dict[str, tuple[str, Profile | None, Lanes]] = {
    "a leg with lost lanes whose port goes down": (
        "4 bonds of two rails on two cards each",
        counting("4 bonds of two rails on two cards each", 8, 200.0),
        (("half speed", (1,)), ("port down", (1,))),
    ),
    "a slow leg that goes down": (
        "2 rails, a bonded front end at 100",
        counting("2 rails, a bonded front end at 100", 4, 100.0),
        (("half rate", (2,)), ("port down", (2,))),
    ),
    "a card in one lane whose fast port loses its driver": (
        "4 VPI cards, Ethernet at 100",
        None,
        (("one lane", (0, 1)), ("driver gone", (0,))),
    ),
    "a rail's card in one lane of which the leg dies that carried it": (
        "2 cards of a rail and a leg of the front end's bond",
        None,
        (("port set down", (0,)), ("one lane", (0, 1)), ("RDMA driver gone", (1,))),
    ),
    "a rail's card in one lane while the last rail goes down": (
        "4 VPI cards, Ethernet at 100, 2 x 200 front end",
        None,
        (
            *(("RDMA driver gone", (2,)), ("port set down", (0,)), ("GUID of zeros", (6,))),
            *(("one lane", (6, 7)), ("port down", (4,))),
        ),
    ),
    "a card in one lane whose fast port flips": (
        "4 cards, ports of 400 and 100",
        None,
        (("one lane", (0, 1)), ("dead in the other mode", (0,))),
    ),
}


@pytest.mark.parametrize("name", UNDER_PROFILES)
def test_what_reviewers_have_found(name: str) -> None:
    shape, profile, faults = UNDER_PROFILES[name]
    machine, families = SHAPES[shape], {**STATES, **SPEEDS, "one lane": one_lane}
    codes = [judged(machine, profile).code]
    for family, places in faults:
        machine = machine.with_fault(families[family], *places)
        codes.append(judged(machine, profile).code)
    assert codes == sorted(codes, key=ORDER.__getitem__)


def one_lane(one: Function) -> Function:
    return dataclasses.replace(one, width=1)


FLIPPED = [
    # shape                                  an operator's profile   of how many
    ("8 x 400 RoCE, 2 x 2 x 100 front end", "rdma-roce", 1),
    ("8 x 400 RoCE, 2 x 2 x 100 front end", "rdma-roce", 4),
    ("8 x 400 RoCE, bonded front end", "rdma-roce", 2),
    ("8 InfiniBand, Ethernet front end", "rdma-infiniband", 1),
    ("8 InfiniBand, a front end of their model", "rdma-infiniband", 1),
]


@pytest.mark.parametrize(("shape", "name", "count"), FLIPPED)
def test_all_rails_dead_in_the_other_mode_fail_under_an_operators_profile(shape: str, name: str, count: int) -> None:
    """With the last of them nothing spoke the network any more but the front end, which then passed for the rails."""
    healthy, profile = SHAPES[shape], operators(name, count)
    broken = (healthy.with_fault(STATES["dead in the other mode"], *range(k)) for k in range(9))
    assert [judged(one, profile).code for one in broken] == [0, *[1] * 8]


def test_a_bond_carries_the_cards_of_its_legs() -> None:
    """The second ports were never cabled: with one leg down the bond still stands in for those of its card."""
    healthy = SHAPES["2 dual-port cards, first ports bonded, second never cabled"]
    told = [judged(healthy.with_fault(STATES["port down"], *legs), None).code for legs in ((), (0,), (2,), (0, 2))]
    assert told == [0, 0, 0, 1]


LEGS_IN_FASTER_SLOTS = [
    shape for shape, machine in SHAPES.items() if machine.functions[-1].bond and len(machine.functions) == 10
]
OF_RAILS = ("port down", "no routable GID", "driver gone", "RDMA switched off", "GUID of zeros")
OF_LEGS = ("port down", "driver gone", "RDMA switched off", "no power", "port set down", "dead in the other mode")


@pytest.mark.parametrize("legs", [(8,), (9,), (8, 9)], ids=str)
@pytest.mark.parametrize("shape", LEGS_IN_FASTER_SLOTS)
def test_a_leg_of_the_front_end_in_a_faster_slot_displaces_no_rail(shape: str, legs: tuple[int, ...]) -> None:
    for of_rails, of_legs, count in product(OF_RAILS, OF_LEGS, (0, 1, 2, 4, 7, 8)):
        before = SHAPES[shape].with_fault(STATES[of_rails], *range(count))
        after = before.with_fault(STATES[of_legs], *legs)
        better = differ(judged(before, None), judged(after, None))
        assert not better, (of_rails, of_legs, count)


def test_the_leg_of_a_front_end_chooses_no_network() -> None:
    machine = SHAPES["8 x 200 InfiniBand, a bonded front end at 100 in a faster slot"]
    for fault in OF_LEGS:
        assert chosen(machine.with_fault(STATES[fault], 8).look()).name == "rdma-infiniband", fault


CUT = Unreadable(
    Why.MALFORMED, "/sys/class/infiniband/mlx5_0/ports/1", detail="'garbage' is not what the kernel writes"
)


def with_damage(machine: Machine, device: str, field: str) -> Look:
    """What is seen if this file of the device's port has been damaged."""
    look = machine.look()
    seen = look.facts[Rdma]
    assert isinstance(seen, Rdma)
    ports = (changed(one, **{field: CUT}) if one.device == device else one for one in seen.ports)
    return Look(0.0, live=False, facts={**look.facts, Rdma: rdma(*ports, devices=seen.devices)})


# Shape and file where one damaged file may choose another profile: the model speaks both networks, and that file tells
# which of them is the rails'. Then it is exit code 3.
TELLS_THE_NETWORK = {
    ("8 InfiniBand, a front end of their model", "rate"),
    ("8 InfiniBand, one live in Ethernet mode", "layer"),
    ("2 x 200 InfiniBand, a faster RoCE card of their model", "layer"),
}


@pytest.mark.parametrize("field", ["state", "physical", "rate", "layer"])
def test_one_damaged_file_of_a_port_is_no_fault_of_any(field: str) -> None:
    """A.6: a front end whose rate could not be read was a rail, and a state that could not convicted a spare."""
    for name, machine in SHAPES.items():
        usual = judged(machine, None)
        if usual.code == 1:
            continue
        for one in machine.functions:
            look = with_damage(machine, one.name, field)
            assert judged_look(look, machine, chosen(look)).code != 1, (name, one.name)
            if (name, field) not in TELLS_THE_NETWORK:
                assert chosen(look) == chosen(machine.look()), (name, one.name)
