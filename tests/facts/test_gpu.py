"""What drivers of GPUs show; samples from drivers of both kinds, and the files of NVIDIA's README."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.machine import gpu
from nodeprep.facts.machine.gpu import AmdGpu, FabricManager, GpuDriver, GpuInformation
from nodeprep.model import Unreadable, Why, raw
from tests.rigs.trees import Tree, write
from tests.values import changed

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: x"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\nGCC version: x"
AT = "0000:1b:00.0"
UUID = "GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7"
UNKNOWN = "GPU-????????-????-????-????-????????????"
VERSION = "proc/driver/nvidia/version"
INFORMATION = f"proc/driver/nvidia/gpus/{AT}/information"
CONFIG = "usr/share/nvidia/nvswitch/fabricmanager.cfg"
# fs/proc: tcp4_seq_show, tcp6_seq_show. 1A0A is 6666, 2328 is 9000.
TCP_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def tcp(port: str, state: str = "0A", address: str = "0100007F", number: int = 0) -> str:
    remote = "0" * len(address)
    return (
        f"{number:4}: {address}:{port} {remote}:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 1\n"
    )


def information(uuid: str = UUID, minor: str = "0", excluded: str = "GPU Excluded:\t No") -> str:
    return (
        f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 312\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.89.00.01\n"
        f"Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t {AT}\n"
        f"Device Minor: \t {minor}\n{excluded}"
    )


def look(root: Path, files: Tree, live: bool = False) -> GpuDriver:
    write(files, root)
    return gpu.observe(Host(str(root), live=live))


@pytest.mark.parametrize(("text", "is_open"), [(OPEN, True), (CLOSED, False), (None, False)])
def test_driver(tmp_path: Path, text: str | None, is_open: bool) -> None:
    seen = look(tmp_path, {VERSION: text} if text else {})
    assert seen.version == text
    assert seen.is_open is is_open


def test_a_version_that_cannot_be_read(tmp_path: Path) -> None:
    assert isinstance(raw(look(tmp_path, {VERSION: None}))["version"], Unreadable)


def test_without_a_driver_nothing_else_is_read(tmp_path: Path) -> None:
    files: Tree = {INFORMATION: information(), "dev/nvidia0": "", "proc/net/tcp": TCP_HEAD + tcp("1A0A")}
    assert changed(look(tmp_path, files), at=0.0) == GpuDriver(0.0, None)


GPU_ROWS = [
    (information(), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, 0, False)),
    (information(UNKNOWN), GpuInformation(AT, "NVIDIA H100 80GB HBM3", None, 0, False)),
    (information(minor="12"), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, 12, False)),
    (information(minor="N/A"), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, None, False)),
    (information(excluded="GPU Excluded:\t Yes"), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, 0, True)),
    (information(excluded="GPU Blacklisted:\t Yes"), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, 0, True)),
    (information(excluded=""), GpuInformation(AT, "NVIDIA H100 80GB HBM3", UUID, 0, False)),
]


@pytest.mark.parametrize(("text", "seen"), GPU_ROWS)
def test_what_the_driver_lists(tmp_path: Path, text: str, seen: GpuInformation) -> None:
    found = look(tmp_path, {VERSION: OPEN, INFORMATION: text, "proc/driver/nvidia/gpus/README": ""})
    assert found.gpus == (seen,)
    assert found.information(AT) == seen
    assert found.information("0000:1c:00.0") is None


@pytest.mark.parametrize(("text", "why"), [("Model: x", Why.MALFORMED), ("", Why.MALFORMED), (b"\xff", Why.MALFORMED)])
def test_a_list_that_is_damaged(tmp_path: Path, text: str | bytes, why: Why) -> None:
    (one,) = look(tmp_path, {VERSION: OPEN, INFORMATION: text}).gpus or ()
    shown = raw(one)["uuid"]
    assert isinstance(shown, Unreadable)
    assert shown.kind is why


def test_a_list_that_is_not_shown_is_not_an_empty_one(tmp_path: Path) -> None:
    assert look(tmp_path / "a", {VERSION: OPEN}).gpus is None
    assert look(tmp_path / "b", {VERSION: OPEN, "proc/driver/nvidia/gpus": None}).gpus == ()


NODE_ROWS: list[tuple[Tree, bool, tuple[str, ...] | None]] = [
    ({"dev/nvidia0": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/nvidia-caps": None}, True,
     ("nvidia-uvm", "nvidia0", "nvidiactl")),
    ({"dev/nvidia0": "", "dev/null": ""}, False, ("nvidia0",)),
    ({"dev/null": ""}, True, ()),
    ({"dev/null": ""}, False, None),  # a copy keeps no devices
    ({}, True, None),
    ({"run/nvidia/driver/dev/nvidia1": "", "dev/null": ""}, True, ("nvidia1",)),
    ({"dev/nvidia-modeset": "", "dev/nvidia-nvswitch3": "", "dev/nvidia-nvswitchctl": ""}, True,
     ("nvidia-nvswitch3", "nvidia-nvswitchctl")),
]  # fmt: skip


@pytest.mark.parametrize(("files", "live", "nodes"), NODE_ROWS)
def test_nodes(tmp_path: Path, files: Tree, live: bool, nodes: tuple[str, ...] | None) -> None:
    assert look(tmp_path, {VERSION: OPEN, **files}, live).nodes == nodes


USER_ROWS = [("0", (), 0), ("9", ("nvidia_uvm", "nvidia_modeset"), 7), ("1", ("nvidia_uvm", "nvidia_drm"), 0)]


@pytest.mark.parametrize(("count", "holders", "users"), USER_ROWS)
def test_who_has_it_open_is_counted_without_modules(
    tmp_path: Path, count: str, holders: tuple[str, ...], users: int
) -> None:
    files: Tree = {f"sys/module/nvidia/holders/{name}": None for name in holders}
    found = look(
        tmp_path, {VERSION: OPEN, "sys/module/nvidia/refcnt": count, "sys/module/nvidia/holders": None, **files}
    )
    assert found.users == users


def test_who_has_it_open_is_not_shown_in_a_copy_without_it(tmp_path: Path) -> None:
    assert look(tmp_path, {VERSION: OPEN}).users is None


LISTENS: list[tuple[Tree, FabricManager]] = [
    ({}, FabricManager(6666, None)),
    ({"proc/net/tcp": TCP_HEAD}, FabricManager(6666, False)),
    ({"proc/net/tcp": TCP_HEAD + tcp("1A0A")}, FabricManager(6666, True)),
    ({"proc/net/tcp": TCP_HEAD + tcp("0016") + tcp("1A0A", address="00000000", number=1)}, FabricManager(6666, True)),
    ({"proc/net/tcp": TCP_HEAD, "proc/net/tcp6": TCP_HEAD + tcp("1A0A", address="0" * 32)}, FabricManager(6666, True)),
    ({"proc/net/tcp": TCP_HEAD + tcp("1A0A", "01")}, FabricManager(6666, False)),  # a connection to another host's
    ({"proc/net/tcp": TCP_HEAD + tcp("2328"), CONFIG: "FM_CMD_PORT_NUMBER=9000"}, FabricManager(9000, True)),
    ({"proc/net/tcp": TCP_HEAD + tcp("1A0A"), CONFIG: "FM_CMD_PORT_NUMBER=9000"}, FabricManager(9000, False)),
    ({"proc/net/tcp": TCP_HEAD, CONFIG: "# x\nFM_CMD_UNIX_SOCKET_PATH=/run/fm.sock\n"}, FabricManager(None, None)),
    ({"proc/net/tcp": TCP_HEAD, CONFIG: "FM_CMD_UNIX_SOCKET_PATH=\n"}, FabricManager(6666, False)),
    ({"proc/net/tcp": TCP_HEAD + tcp("2328"), f"run/nvidia/driver/{CONFIG}": "FM_CMD_PORT_NUMBER=9000"},
     FabricManager(9000, True)),
]  # fmt: skip


@pytest.mark.parametrize(("files", "seen"), LISTENS)
def test_whether_somebody_listens_where_the_fabric_manager_should(
    tmp_path: Path, files: Tree, seen: FabricManager
) -> None:
    assert look(tmp_path, {VERSION: OPEN, **files}).fabric_manager == seen


def test_a_table_of_ten_thousand_connections_is_not_read_to_its_end(tmp_path: Path) -> None:
    table = TCP_HEAD + tcp("1A0A") + "".join(tcp("0016", "01", number=number) for number in range(10_000))
    assert look(tmp_path, {VERSION: OPEN, "proc/net/tcp": table}).fabric_manager == FabricManager(6666, True)


@pytest.mark.parametrize("path", ["run/nvidia-persistenced/socket", "var/run/nvidia-persistenced/socket"])
def test_the_persistence_daemon_is_seen_by_its_socket(tmp_path: Path, path: str) -> None:
    assert look(tmp_path / "a", {VERSION: OPEN, path: ""}).persistence is True
    assert look(tmp_path / "b", {VERSION: OPEN}).persistence is False


def test_a_driver_container_is_seen_by_its_root(tmp_path: Path) -> None:
    assert look(tmp_path / "a", {"run/nvidia/driver/usr/bin": None}).container is True
    assert look(tmp_path / "b", {"run/nvidia/driver": None}).container is False


def test_amd(tmp_path: Path) -> None:
    drm = "sys/bus/pci/drivers/amdgpu/0000:05:00.0/drm"
    files: Tree = {f"{drm}/renderD128": None, f"{drm}/card1": None, "sys/bus/pci/drivers/amdgpu/module": None}
    found = look(tmp_path / "a", {**files, "dev/kfd": "", "dev/null": ""}, live=True)
    assert (found.version, found.amd, found.kfd) == (None, (AmdGpu("0000:05:00.0", ("renderD128",)),), True)
    assert look(tmp_path / "b", {**files, "dev/null": ""}, live=True).kfd is False
    assert look(tmp_path / "c", {**files, "dev/null": ""}).kfd is None
