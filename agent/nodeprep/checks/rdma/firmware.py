"""Does every RDMA device run the firmware that it should?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from nodeprep.facts.expected import kinds
from nodeprep.facts.expected.inventory import Expected
from nodeprep.facts.rdma.rdma import Rdma, RdmaDevice
from nodeprep.model import Check, Confirmation, Reason, Seen, Severity, Stage, Status, Verdict, grouped
from nodeprep.shown import field_of
from nodeprep.values import Value

CHOOSE_ONE = (
    "Choose one of {expected} for all devices of board {board}, and keep it in the profile: "
    "`want: {{rdma.firmware: {{allowed: [{board} VERSION]}}}}`. Then flash those that run another, and reset them or "
    "reboot while no job runs."
)


class Want(Value):
    """Which firmware is right, whatever a capture or the likes of a device run."""

    allowed: Annotated[
        tuple[str, ...],
        '"BOARD VERSION" each, both may be patterns, such as "MT_0000000838 28.4[12].*". '
        "A board that one of them names must run a version that it allows.",
    ] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a rule that is not two words."""
        for rule in self.allowed:
            if len(rule.split()) != 2:
                raise ValueError(f'allowed: found {rule!r}, wanted "BOARD VERSION"')


class Allowed(Value):
    """The operator's rules, and who states them."""

    rules: tuple[str, ...]
    by: str


def judge(seen: Seen) -> Iterator[Verdict]:
    devices, expected = seen[Rdma].devices, seen[Expected]
    allowed = Allowed(seen[Want].allowed, seen.wanted_by("allowed").removeprefix("by "))
    boards = {board: camps(likes) for board, likes in grouped(devices, board_of).items()}
    yield from seen.each(devices, lambda device: verdict(device, boards[board_of(device)], expected, allowed))


def verdict(
    device: RdmaDevice, of_board: Mapping[str, list[str]], expected: Expected, allowed: Allowed
) -> Verdict | None:
    board, version = device.board, device.firmware
    if not board or not version:
        return None  # software has no firmware, and cloud drivers that show no board invent a version
    shows = f"{device.where} (board {board}) runs firmware {version}"
    wanted, by = wish(device, board, expected, allowed)
    sizes = {other: len(names) for other, names in of_board.items()} if wanted is None else {}
    if len(sizes) > 1 and sizes[version] <= max(size for other, size in sizes.items() if other != version):
        told = "; ".join(f"{other}: {kinds.listed(names)}" for other, names in sorted(of_board.items()))
        message = f"{shows}; devices with this board differ, {told}; which one is right nothing here says"
        versions = " or ".join(sorted(sizes))
        return Verdict(
            device.subject, Status.WARN, "MixedFirmware", message, None, version, versions, args={"board": board}
        )
    if wanted is None:
        return Verdict(
            device.subject, Status.OK, "NothingWanted", f"{shows}; nothing to hold it against", None, version
        )
    if any(fnmatchcase(version, pattern) for pattern in wanted):
        return Verdict(device.subject, Status.OK, "AsWanted", f"{shows}, as {by} wants", None, version, version)
    versions = " or ".join(wanted)
    message = f"{shows}; {versions} is wanted by {by}"
    return Verdict(device.subject, Status.WARN, "OtherFirmware", message, None, version, versions)


def board_of(device: RdmaDevice) -> object:
    return field_of(device, "board")


def camps(likes: tuple[RdmaDevice, ...]) -> dict[str, list[str]]:
    """The names of devices with one board by the firmware that they run. No version is the best: a mixture is told."""
    found: dict[str, list[str]] = {}
    for one in likes:
        version = field_of(one, "firmware")
        if isinstance(version, str) and version:
            found.setdefault(version, []).append(one.name)
    return found


def wish(device: RdmaDevice, board: str, expected: Expected, allowed: Allowed) -> tuple[tuple[str, ...] | None, str]:
    """The versions that are right, as patterns, and who says so; None if nobody does."""
    rules = [rule.split() for rule in allowed.rules]
    versions = tuple(version for pattern, version in rules if fnmatchcase(board, pattern))
    if versions:
        return versions, allowed.by
    firm = expected.device(device, lambda want: want.firmware)
    if firm is not None:
        return (firm.value,), firm.by
    return None, ""


CHECK = Check(
    id="rdma.firmware",
    question="Does every RDMA device run the firmware that it should?",
    why="One NIC on other firmware has other defaults and other bugs: unequal congestion control slows every rank.",
    fix="Flash {expected} and reset the device or reboot while no job runs; then capture the profile again.",
    reasons=(
        Reason("NothingWanted", Status.OK),
        Reason("AsWanted", Status.OK),
        Reason("OtherFirmware", Status.WARN, against_likes=True),
        Reason("MixedFirmware", Status.WARN, CHOOSE_ONE, against_likes=True),
    ),
    source="facebookresearch/gcm check_iblink (a mismatch is a warning there too)",
    severity=Severity.WARN,
    stage=Stage.DEVICE,
    confirmation=Confirmation.SLOW,
    needs=(Rdma, Expected),
    want=Want,
    judge=judge,
)
