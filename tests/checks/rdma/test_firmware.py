"""rdma.firmware by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.rdma.firmware import CHECK, Want
from nodeprep.facts.rdma.rdma import Rdma, RdmaDevice
from nodeprep.job_profile import DeviceWant
from nodeprep.model import Unreadable, Why
from tests.values import BDF, device, expected, rdma, say, verdicts

BROKEN = Unreadable(Why.IO_ERROR, "/sys/class/infiniband/mlx5_3/fw_ver", 5)
BOARD = "MT_0000000838"


def node(*versions: object, **different: object) -> Rdma:
    devices = (
        device(name=f"mlx5_{index}", bdf=f"0000:{index:02x}:00.0", firmware=version, **different)
        for index, version in enumerate(versions)
    )
    return rdma(devices=tuple(devices))


LIKES = [
    # versions of boards that are alike   says
    (("28.1", "28.1", "28.1"), "ok NothingWanted; ok NothingWanted; ok NothingWanted"),
    (("28.1", "28.1", "28.2"), "ok NothingWanted; ok NothingWanted; warn MixedFirmware"),
    (("28.1", "28.2"), "warn MixedFirmware; warn MixedFirmware"),
    (("28.1", "28.1", "28.2", "28.2"), "; ".join(["warn MixedFirmware"] * 4)),
    (("28.1", "28.2", "28.2", "28.2"), "; ".join(["warn MixedFirmware", *["ok NothingWanted"] * 3])),
    (("28.1", "28.1", BROKEN), "ok NothingWanted; ok NothingWanted; unknown CannotLook"),
    (("28.1", BROKEN, BROKEN), "ok NothingWanted; unknown CannotLook; unknown CannotLook"),
    (("28.1", "", ""), "ok NothingWanted"),
    (("", "", ""), "absent Nothing"),  # rxe
    ((None, None, None), "absent Nothing"),
]


@pytest.mark.parametrize(("versions", "says"), LIKES)
def test_a_mixture_is_told(versions: tuple[object, ...], says: str) -> None:
    assert say(CHECK, node(*versions), expected()) == says


def test_other_boards_are_no_likes() -> None:
    three = node("28.1", "28.1", "28.1")
    other = device(name="mlx5_9", bdf="0000:09:00.0", board="MT_0000000359", firmware="22.9")
    found = say(CHECK, rdma(devices=(*three.devices, other)), expected())
    assert found == "; ".join(["ok NothingWanted"] * 4)


@pytest.mark.parametrize("board", [None, ""])
def test_drivers_without_boards_make_up_versions(board: str | None) -> None:
    assert say(CHECK, node("1", "1", "2", board=board), expected()) == "absent Nothing"


ONE: tuple[RdmaDevice, ...] = (device(firmware="28.41.1000"),)
WISHES = [
    # profile       allowed                                             says
    ("28.41.1000", (), "ok AsWanted"),
    ("28.39.1002", (), "warn OtherFirmware"),
    (None, (), "ok NothingWanted"),
    (None, (f"{BOARD} 28.41.1000",), "ok AsWanted"),
    (None, (f"{BOARD} 28.4?.*",), "ok AsWanted"),
    (None, (f"{BOARD} 28.39.1002", f"{BOARD} 28.41.1000"), "ok AsWanted"),
    (None, (f"{BOARD} 28.39.1002",), "warn OtherFirmware"),
    (None, ("MT_* 28.39.1002",), "warn OtherFirmware"),
    (None, ("MT_0000000359 22.39.1002",), "ok NothingWanted"),
    ("28.39.1002", (f"{BOARD} 28.41.1000",), "ok AsWanted"),
    ("28.41.1000", (f"{BOARD} 28.39.1002",), "warn OtherFirmware"),
]


@pytest.mark.parametrize(("profile", "allowed", "says"), WISHES)
def test_wishes(profile: str | None, allowed: tuple[str, ...], says: str) -> None:
    wanted = expected(devices={BDF: DeviceWant(firmware=profile)})
    assert say(CHECK, rdma(devices=ONE), wanted, want=Want(allowed=allowed)) == says


@pytest.mark.parametrize("rule", ["", "MT_0000000838", "MT_0000000838 28.41.1000 28.42.1000"])
def test_a_rule_that_is_no_board_and_version(rule: str) -> None:
    with pytest.raises(ValueError, match='wanted "BOARD VERSION"'):
        Want(allowed=(rule,))


def test_message_names_board_both_versions_and_who_wants_it() -> None:
    found = verdicts(CHECK, node("28.1", "28.1", "28.2"), expected())
    assert found[2].message == (
        "mlx5_2 at 0000:02:00.0 (board MT_0000000838) runs firmware 28.2; devices with this board differ, "
        "28.1: mlx5_0, mlx5_1; 28.2: mlx5_2; which one is right nothing here says"
    )
    assert (found[2].observed, found[2].expected) == ("28.2", "28.1 or 28.2")
    wanted = expected(profile="rdma-roce", devices={BDF: DeviceWant(firmware="28.2")})
    (verdict,) = verdicts(CHECK, rdma(devices=ONE), wanted)
    assert verdict.message.endswith("28.2 is wanted by profile rdma-roce")


def test_each_camp_of_a_mixture_is_told_to_choose_once() -> None:
    (fix,) = {CHECK.fix_of(one) for one in verdicts(CHECK, node("28.1", "28.2"), expected())}
    assert fix == (
        "Choose one of 28.1 or 28.2 for all devices of board MT_0000000838, and keep it in the profile: "
        "`want: {rdma.firmware: {allowed: [MT_0000000838 VERSION]}}`. Then flash those that run another, and reset "
        "them or reboot while no job runs."
    )
