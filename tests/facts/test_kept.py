"""What facts keep from look to look: nothing that can change without an event, and nothing that could not be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeprep.doors.files.reader import Files
from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import pci
from nodeprep.facts.rdma import devnodes, rdma
from nodeprep.model import raw
from tests.rigs import trees

pytestmark = pytest.mark.slow

DEVICE, FUNCTION = "/sys/class/infiniband/mlx5_0", "/sys/bus/pci/devices/0000:19:00.0"
UVERBS = "/sys/class/infiniband_verbs/uverbs0"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(str(trees.build("h100-roce", tmp_path)))


def device(host: Host) -> Any:
    seen = rdma.observe(host)
    assert isinstance(seen, rdma.Rdma)
    return next((one for one in seen.devices if one.name == "mlx5_0"), None)


def function(host: Host) -> Any:
    seen = pci.observe(host)
    assert isinstance(seen, pci.Pci)
    return seen.at_address("0000:19:00.0")


def entry(host: Host) -> Any:
    return next((one for one in devnodes.observe(host).verbs or () if one.name == "uverbs0"), None)


def put(host: Host, path: str, text: str) -> None:
    place = Path(f"{host.root}{path}")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


Row = tuple[Callable[[Host], Any], str, str, str, object]
LIVES: list[Row] = [
    (device, f"{DEVICE}/tc/1/traffic_class", "Global tclass=106\n", "traffic_class", "Global tclass=106"),
    (function, f"{FUNCTION}/current_link_width", "8\n", "width", 8),
    (function, f"{FUNCTION}/power_state", "D3hot\n", "power", "D3hot"),
    (function, f"{FUNCTION}/iommu_group/type", "identity\n", "iommu", "identity"),
]


@pytest.mark.parametrize("row", LIVES, ids=[row[3] for row in LIVES])
def test_what_may_change_is_read_at_each_look(host: Host, row: Row) -> None:
    seen, path, text, field, shows = row
    seen(host)
    put(host, path, text)
    host.files.look_again()
    assert getattr(seen(host), field) == shows


STAYS: list[Row] = [
    (device, f"{DEVICE}/fw_ver", "28.99.1000\n", "firmware", "28.99.1000"),
    (function, f"{FUNCTION}/max_link_width", "8\n", "max_width", 8),
]


@pytest.mark.parametrize("row", STAYS, ids=[row[3] for row in STAYS])
def test_what_stays_is_read_again_after_an_event(host: Host, row: Row) -> None:
    seen, path, text, field, shows = row
    before = getattr(seen(host), field)
    put(host, path, text)
    host.files.look_again()
    assert getattr(seen(host), field) == before != shows
    host.files.forget()
    assert getattr(seen(host), field) == shows


DAMAGED = [
    (device, f"{DEVICE}/node_guid", "node_guid"),
    (function, f"{FUNCTION}/max_link_speed", "max_speed"),
    (entry, f"{UVERBS}/dev", "number"),
]


@pytest.mark.parametrize(("seen", "path", "field"), DAMAGED, ids=[row[2] for row in DAMAGED])
def test_what_could_not_be_read_is_read_at_the_next_look(
    host: Host, seen: Callable[[Host], Any], path: str, field: str
) -> None:
    whole = Path(f"{host.root}{path}").read_text()
    put(host, path, "garbage\n")
    blind = raw(seen(host))[field]
    put(host, path, whole)
    host.files.look_again()
    assert getattr(seen(host), field) not in (blind, None)


GONE = [(device, DEVICE), (function, FUNCTION), (entry, UVERBS)]


@pytest.mark.parametrize(("seen", "path"), GONE, ids=["device", "function", "entry"])
def test_what_has_gone_is_not_shown(host: Host, seen: Callable[[Host], Any], path: str) -> None:
    assert seen(host) is not None
    place = Path(f"{host.root}{path}")
    if place.is_symlink():
        shutil.rmtree(place.resolve())
        place.unlink()
    else:
        shutil.rmtree(place)
    host.files.look_again()
    assert seen(host) is None


def test_only_the_last_state_is_kept() -> None:
    """Links change without an event where their event source is gone: no state before the last may stay in memory."""
    files, made = Files(), list[int]()

    def kept(state: int) -> list[int]:
        def make() -> list[int]:
            made.append(state)
            return [state]

        return files.kept("links", state, make)

    assert [kept(state) for state in (1, 1, 2, 2, 1)] == [[1], [1], [2], [2], [1]]
    assert made == [1, 2, 1]
