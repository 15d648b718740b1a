"""Files under a root: held against the kernel's own resolution of paths (openat2 with RESOLVE_IN_ROOT)."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeprep.doors.files.file_root import DEPTH, LINKS
from nodeprep.doors.files.reader import LIMIT, DeviceNode, FileEntry, Files
from nodeprep.model import Unreadable, Why
from tests.rigs.absent import cannot_start

SECRET = "not of this root"
NOBODY = 65534
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty root, beside a file and a directory that nothing below it may reach."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def put(root: Path, path: str, content: str | bytes = "value\n") -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode() if isinstance(content, str) else content)
    return target


def turn(link: Path, target: str) -> None:
    """Let a link lead elsewhere."""
    link.unlink()
    link.symlink_to(target)


def unreadable(value: object) -> Unreadable:
    assert isinstance(value, Unreadable)
    return value


# What a file holds


def test_text_is_without_the_white_space_around_it(root: Path) -> None:
    put(root, "/sys/state", "4: ACTIVE\n")
    assert Files(str(root)).text("/sys/state") == "4: ACTIVE"


def test_what_is_not_there_is_none(root: Path) -> None:
    put(root, "/sys/file")
    files = Files(str(root))
    for path in ("/sys/nothing", "/nothing/at/all", "/sys/file/below"):
        assert files.text(path) is None
        assert files.number(path) is None
        assert files.names(path) is None
        assert files.node(path) is None
        assert files.link(path) is None
        assert not files.exists(path)


def test_need_says_that_it_is_missing(root: Path) -> None:
    put(root, "/sys/file")
    files = Files(str(root))
    assert files.need("/sys/file") == "value"
    assert files.need("/sys/nothing") == Unreadable(Why.MISSING, "/sys/nothing")


@pytest.mark.parametrize(
    ("content", "number"),
    [
        ("0\n", 0),
        ("-1\n", -1),
        ("18446744073709551615\n", (1 << 64) - 1),
        ("-9223372036854775808\n", -(1 << 63)),
    ],
)
def test_number(root: Path, content: str, number: int) -> None:
    put(root, "/number", content)
    assert Files(str(root)).number("/number") == number


@pytest.mark.parametrize(
    "content",
    [
        "",
        "-",
        "--1",
        "1.5",
        "0x10",
        "1 2",
        "1_000",
        "٣",
        "18446744073709551616",
        "-9223372036854775809",
        "9" * 5000,
    ],
)
def test_no_number(root: Path, content: str) -> None:
    put(root, "/number", content)
    blind = unreadable(Files(str(root)).number("/number"))
    assert (blind.kind, blind.path) == (Why.MALFORMED, "/number")
    assert len(blind.detail) < 80


def test_garbage_without_end_is_cut_off(root: Path) -> None:
    put(root, "/garbage", os.urandom(2 << 20))
    blind = unreadable(Files(str(root)).text("/garbage"))
    assert (blind.kind, blind.detail) == (Why.MALFORMED, f"longer than {LIMIT} bytes")


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 70_000, LIMIT])
def test_every_byte_up_to_the_limit(root: Path, size: int) -> None:
    content = os.urandom(size)
    put(root, "/data", content)
    files = Files(str(root))
    assert files.data("/data") == content
    if size:
        assert unreadable(files.data("/data", size - 1)).kind is Why.MALFORMED


def test_the_head_of_a_file_and_not_a_byte_more(root: Path) -> None:
    """Configuration space is read up to byte 64: reading what lies beyond can upset a device."""
    put(root, "/config", bytes(range(256)))
    files = Files(str(root))
    assert files.data("/config", 64, head=True) == bytes(range(64))
    assert files.data("/config", 400, head=True) == bytes(range(256))
    idle = bytes_read(lambda: None)
    assert bytes_read(lambda: files.data("/config", 64, head=True)) - idle == 64


def bytes_read(action: Callable[[], object]) -> int:
    """How many bytes this thread read meanwhile, by the kernel's count (proc_pid_io(5))."""
    counts = Path("/proc/thread-self/io")
    if not counts.exists():
        pytest.skip("this kernel does not count what a thread reads")
    before = int(counts.read_text().split()[1])
    action()
    return int(counts.read_text().split()[1]) - before


@pytest.mark.parametrize(
    ("content", "detail"), [(b"4: ACT\xff\xfeIVE\n", "not UTF-8"), (b"4: ACT\0IVE\n", "holds NUL bytes")]
)
def test_damaged_text_is_no_text(root: Path, content: bytes, detail: str) -> None:
    put(root, "/state", content)
    files = Files(str(root))
    assert files.text("/state") == Unreadable(Why.MALFORMED, "/state", detail=detail)
    assert files.data("/state") == content


def test_a_read_that_fails_half_way_says_why() -> None:
    """Nothing is mapped at address 0 of this process."""
    assert Files().data("/proc/self/mem") == Unreadable(
        Why.IO_ERROR, "/proc/self/mem", errno.EIO, os.strerror(errno.EIO)
    )


# What is no file


def test_a_directory_in_place_of_a_file_and_the_other_way_round(root: Path) -> None:
    put(root, "/dir/inner")
    files = Files(str(root))
    assert files.text("/dir") == Unreadable(Why.IO_ERROR, "/dir", errno.EISDIR, "a directory")
    assert files.names("/dir/inner") == Unreadable(Why.IO_ERROR, "/dir/inner", errno.ENOTDIR, "a file, not a directory")


@pytest.mark.timeout(120)
def test_a_fifo_and_a_socket_are_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "fifo")
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(root)  # a socket's path is at most 107 bytes
    listening.bind("socket")
    files = Files(str(root))
    with listening:
        assert unreadable(files.text("/fifo")).detail == "a FIFO"
        assert unreadable(files.text("/socket")).detail == "a socket"
        assert unreadable(files.node("/fifo")).detail == "a FIFO, not a device node"


def test_devices_are_looked_at_and_not_opened(root: Path) -> None:
    (root / "dev").mkdir()
    try:
        os.mknod(root / "dev/uverbs0", stat.S_IFCHR | 0o666, os.makedev(231, 192))
        os.mknod(root / "dev/disk", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    except PermissionError:
        cannot_start("device nodes can only be made with CAP_MKNOD")
    (root / "dev/uverbs0").chmod(0o640)
    put(root, "/dev/placeholder", "")
    files = Files(str(root))
    assert files.node("/dev/uverbs0") == DeviceNode("c", 231, 192, 0o640)
    assert files.node("/dev/disk") == DeviceNode("b", 7, 200, 0o600)
    assert files.node("/dev/nothing") is None
    assert files.node("/dev/placeholder") == Unreadable(
        Why.MALFORMED, "/dev/placeholder", detail="a file, not a device node"
    )
    # Nothing drives 231:192 here: opening it would have said ENXIO.
    assert unreadable(files.text("/dev/uverbs0")).detail == "a character device"
    assert unreadable(files.text("/dev/disk")).detail == "a block device"


def test_what_stands_at_a_path(root: Path) -> None:
    files = Files(str(root))
    (root / "plain").write_text("abc")
    (root / "plain").chmod(0o640)
    (root / "program").touch()
    (root / "program").chmod(0o755)
    (root / "directory").mkdir(mode=0o700)
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("/program")
    (root / "gone").symlink_to("/nowhere")
    assert files.entry("/plain") == FileEntry("a file", 3, 0o640)
    assert files.entry("/link") == files.entry("/program") == FileEntry("a file", 0, 0o755)
    found = {name: files.entry(f"/{name}") for name in ("plain", "program", "directory", "fifo")}
    assert all(isinstance(entry, FileEntry) for entry in found.values())
    assert [name for name, entry in found.items() if isinstance(entry, FileEntry) and entry.is_file] == [
        "plain",
        "program",
    ]
    assert [name for name, entry in found.items() if isinstance(entry, FileEntry) and entry.is_executable] == [
        "program"
    ]
    assert [name for name, entry in found.items() if isinstance(entry, FileEntry) and entry.is_directory] == [
        "directory"
    ]
    assert files.entry("/gone") is None
    assert files.entry("/plain/below") is None


def test_this_machines_own_null_device() -> None:
    assert Files().node("/dev/null") == DeviceNode("c", 1, 3, 0o666)


def test_a_name_with_a_nul_or_too_deep_or_too_long(root: Path) -> None:
    put(root, "/x")
    for files in (Files(str(root)), Files()):
        assert unreadable(files.text("/a\0b")).kind is Why.MALFORMED
        assert unreadable(files.names("/a\0b/c")).kind is Why.MALFORMED
        assert unreadable(files.node("/a\0b")).kind is Why.MALFORMED
        assert unreadable(files.text("/" + "x" * 256)).errno == errno.ENAMETOOLONG
        assert unreadable(files.text("/x" * 5000)).errno == errno.ENAMETOOLONG
        assert not files.exists("/a\0b")
        assert files.link("/a\0b") is None
        assert files.place("/a\0b") == "/a\0b"
    assert unreadable(Files(str(root)).text("/." * DEPTH + "/x")).errno == errno.ENAMETOOLONG
    assert Files(str(root)).text("/." * (DEPTH - 1) + "/x") == "value"


def test_no_name_is_passed_over(root: Path) -> None:
    names = ("mlx5_0", "a\nb", "tab\there", os.fsdecode(b"\xff\xfe"), "\x1b[31m", "mlx5_1 (copy)")
    for name in names:
        put(root, f"/class/{name}")
    assert Files(str(root)).names("/class") == tuple(sorted(names))


def test_names_are_sorted(root: Path) -> None:
    for name in ("b", "a", "10", "9"):
        put(root, f"/class/{name}")
    assert Files(str(root)).names("/class") == ("10", "9", "a", "b")


# Permissions


def as_nobody(question: Callable[[], object]) -> object:
    """What another user is told: the file system's user id belongs to a thread (setfsuid(2))."""
    if os.geteuid() != 0:
        cannot_start("only root can become another user")
    answers: list[object] = []

    def ask() -> None:
        LIBC.setfsgid(NOBODY)
        LIBC.setfsuid(NOBODY)
        answers.append(question())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    (answer,) = answers
    return answer


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A root that every user can reach; pytest's own directories are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_what_is_denied_is_said_to_be(open_root: Path) -> None:
    put(open_root, "/shut").chmod(0)
    put(open_root, "/closed/inner")
    (open_root / "closed/link").symlink_to("inner")
    (open_root / "closed").chmod(0o700)
    for files in (Files(str(open_root)), Files()):
        above = "" if files.root else str(open_root)
        shut, closed, inner, link = (f"{above}/{path}" for path in ("shut", "closed", "closed/inner", "closed/link"))
        questions: tuple[tuple[str, Callable[[str], object]], ...] = (
            (shut, files.text),
            (inner, files.text),
            (link, files.text),
            (closed, files.names),
            (inner, files.node),
            (f"{closed}/../shut", files.text),
        )
        for path, ask in questions:
            denied = Unreadable(Why.DENIED, path, errno.EACCES, "Permission denied")
            assert as_nobody(partial(ask, path)) == denied
        assert as_nobody(partial(files.exists, inner)) is False
        assert as_nobody(partial(files.link, link)) is None
        assert files.text(shut) == "value"  # to root


# Links


@pytest.mark.parametrize(
    "target",
    [
        "/secret",
        "/outside/secret",
        "../secret",
        "../../../../../../../../secret",
        "/../secret",
        "../outside/secret",
        "/proc/self/root/secret",
        "//secret",
        "./../secret",
    ],
)
def test_no_link_leads_out(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "dir").symlink_to(target.rpartition("/")[0] or "/")
    files = Files(str(root))
    assert files.text("/link") is None
    assert files.text("/dir/secret") is None
    assert files.text("/dir/../../secret") is None
    assert files.node("/link") is None
    assert not files.exists("/link")


def test_a_link_to_the_real_path_of_what_is_outside(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    (root / "dir").symlink_to(root.parent / "outside")
    files = Files(str(root))
    assert files.text("/link") is None
    assert files.text("/dir/secret") is None
    assert files.names("/dir") is None
    assert files.text("/../secret") is None
    assert files.place("/dir") == str(root.parent / "outside")  # a place inside the root, where nothing is


def test_absolute_and_relative_links_inside(root: Path) -> None:
    put(root, "/run/state")
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "var/up").symlink_to("../run/state")
    files = Files(str(root))
    assert files.text("/var/run/state") == "value"
    assert files.text("/var/up") == "value"
    assert files.names("/var/run") == ("state",)
    assert files.place("/var/run/state") == "/run/state"
    assert files.place("/var/../..") == "/"
    assert files.link("/var/run") == "/run"
    assert files.link("/var/run/state") is None


def test_a_link_of_sysfs_whose_end_is_gone(root: Path) -> None:
    (root / "class").mkdir()
    (root / "class/mlx5_0").symlink_to("../../devices/pci0000:5b/0000:5c:00.0/infiniband/mlx5_0")
    files = Files(str(root))
    assert files.text("/class/mlx5_0/fw_ver") is None
    assert files.link("/class/mlx5_0") == "../../devices/pci0000:5b/0000:5c:00.0/infiniband/mlx5_0"
    assert files.place("/class/mlx5_0") == "/devices/pci0000:5b/0000:5c:00.0/infiniband/mlx5_0"


def test_a_link_whose_end_vanishes_between_two_reads(root: Path) -> None:
    held = put(root, "/devices/mlx5_0/state")
    (root / "class").symlink_to("devices/mlx5_0")
    files = Files(str(root))
    assert files.text("/class/state") == "value"
    held.unlink()
    assert files.text("/class/state") is None
    held.parent.rmdir()
    assert files.names("/class") is None


def test_a_directory_that_becomes_a_link_outwards_after_it_was_resolved(root: Path) -> None:
    """The resolution is kept for a look; what it leads to must stay inside all the same."""
    held = put(root, "/class/mlx5_0/state")
    files = Files(str(root))
    assert files.text("/class/mlx5_0/state") == "value"
    held.unlink()
    held.symlink_to(root.parent / "secret")
    assert files.text("/class/mlx5_0/state") is None


def test_forget_sees_links_that_lead_elsewhere_now(root: Path) -> None:
    put(root, "/old/state", "old")
    put(root, "/new/state", "new")
    (root / "dir").symlink_to("old")
    files = Files(str(root))
    assert files.text("/dir/state") == "old"
    turn(root / "dir", "new")
    files.forget()
    assert files.text("/dir/state") == "new"


def pulled(root: Path) -> None:
    """A device with its directory goes, and its class link."""
    shutil.rmtree(root / "sys/devices/0000:5c:00.0")
    (root / "sys/class/mlx5_0").unlink()


def led_to_the_other(root: Path) -> None:
    turn(root / "sys/class/mlx5_0", "../devices/0000:9a:00.0/mlx5_0")
    turn(root / "sys/devices/0000:9a:00.0/mlx5_0/device", "../../0000:9a:00.0")


def moved(root: Path) -> None:
    """The same name in another slot."""
    shutil.rmtree(root / "sys/devices/0000:9a:00.0/mlx5_1")
    (root / HERE.lstrip("/")).rename(root / "sys/devices/0000:9a:00.0/mlx5_0")
    led_to_the_other(root)
    put(root, "/sys/devices/0000:9a:00.0/mlx5_0/state", "moved")


def replaced(root: Path) -> None:
    """The attribute lies elsewhere, behind a link."""
    put(root, "/sys/devices/elsewhere", "elsewhere")
    turn(root / "sys/devices/0000:5c:00.0/mlx5_0/state", "../../elsewhere")


def led_out(root: Path) -> None:
    turn(root / "sys/devices/0000:5c:00.0/mlx5_0/state", "../../../../../secret")


def rebound(root: Path) -> None:
    """Both drivers stay; only the link between them and the device turns."""
    put(root, "/sys/drivers/vfio-pci/module/version", "vfio")
    turn(root / "sys/devices/0000:5c:00.0/driver", "../../drivers/vfio-pci")


def swapped(root: Path) -> None:
    """Two devices change names, and both stay."""
    first, second = root / HERE.lstrip("/"), root / "sys/devices/0000:9a:00.0/mlx5_1"
    first.rename(first.with_name("mlx5_1"))
    second.rename(second.with_name("mlx5_0"))
    led_to_the_other(root)
    put(root, "/sys/devices/0000:9a:00.0/mlx5_0/state", "swapped")


def changed(root: Path) -> None:
    put(root, "/sys/devices/0000:5c:00.0/mlx5_0/state", "changed")


HERE = "/sys/devices/0000:5c:00.0/mlx5_0"
# The state, where the device is, its driver's version, whether its directory can be listed, its card's vendor.
LATER_ROWS = [
    (pulled, (None, None, None, False, None)),
    (moved, ("moved", "/sys/devices/0000:9a:00.0/mlx5_0", "inbox", True, "0x9a")),
    (replaced, ("elsewhere", HERE, "inbox", True, "0x5c")),
    (led_out, (None, HERE, "inbox", True, "0x5c")),
    (rebound, ("ACTIVE", HERE, "vfio", True, "0x5c")),
    (changed, ("changed", HERE, "inbox", True, "0x5c")),
    (swapped, ("swapped", "/sys/devices/0000:9a:00.0/mlx5_0", "inbox", True, "0x9a")),
]


@pytest.mark.parametrize(("deed", "expected"), LATER_ROWS)
def test_the_next_look_sees_what_is_there_then(
    root: Path, deed: Callable[[Path], None], expected: tuple[object, ...]
) -> None:
    for slot, name in (("5c", "mlx5_0"), ("9a", "mlx5_1")):
        put(root, f"/sys/devices/0000:{slot}:00.0/vendor", f"0x{slot}")
        put(root, f"/sys/devices/0000:{slot}:00.0/{name}/state", "ACTIVE")
        (root / f"sys/devices/0000:{slot}:00.0/{name}/device").symlink_to(f"../../0000:{slot}:00.0")
    put(root, "/sys/drivers/mlx5_core/module/version", "inbox")
    (root / "sys/class").mkdir()
    (root / "sys/class/mlx5_0").symlink_to("../devices/0000:5c:00.0/mlx5_0")
    (root / "sys/devices/0000:5c:00.0/driver").symlink_to("../../drivers/mlx5_core")
    files = Files(str(root))

    def look() -> tuple[object, ...]:
        here = "/sys/class/mlx5_0"
        at = files.place(here) if files.exists(here) else None
        version = files.text("/sys/devices/0000:5c:00.0/driver/module/version")
        vendor = files.text(f"{here}/device/vendor")
        return files.text(f"{here}/state"), at, version, files.names(here) is not None, vendor

    assert look() == ("ACTIVE", HERE, "inbox", True, "0x5c")
    files.look_again()
    assert look() == ("ACTIVE", HERE, "inbox", True, "0x5c")
    deed(root)
    files.look_again()
    assert look() == expected


def test_what_is_kept_is_where_a_link_led_whose_ends_both_stay(root: Path) -> None:
    """No link of sysfs that is kept does so; `forget` sees even that."""
    put(root, "/sys/devices/a/state", "a")
    put(root, "/sys/devices/b/state", "b")
    (root / "sys/class").symlink_to("devices/a")
    files = Files(str(root))
    assert files.text("/sys/class/state") == "a"
    turn(root / "sys/class", "devices/b")
    files.look_again()
    assert files.text("/sys/class/state") == "a"
    files.forget()
    assert files.text("/sys/class/state") == "b"


def test_an_rdma_device_takes_its_ports_with_it(root: Path) -> None:
    """Its ports' directories are not asked for while it stands. Once it is gone, they are not there."""
    counters = "/sys/class/infiniband/mlx5_0/ports/1/counters"
    at = "sys/devices/0000:5c:00.0/infiniband/mlx5_0"
    put(root, f"/{at}/ports/1/counters/link_downed", "3")
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "sys/class/infiniband/mlx5_0").symlink_to(f"../../../{at}")
    files = Files(str(root))

    def look() -> tuple[object, ...]:
        files.look_again()
        return files.names(counters), files.number(f"{counters}/link_downed")

    assert look() == look() == look() == (("link_downed",), 3)
    (root / at).rename(root / "away")
    assert look() == (None, None)
    (root / at).mkdir()
    assert look()[1] is None, "another one, whose ports the kernel has yet to make"
    (root / at).rmdir()
    (root / "away").rename(root / at)
    put(root, f"/{at}/ports/1/counters/link_downed", "4")
    assert look() == (("link_downed",), 4)


def test_what_the_kernel_keeps_of_a_device_is_read_again_after_an_event(root: Path) -> None:
    device = "/sys/devices/0000:5c:00.0"
    put(root, f"{device}/vendor", "0x15b3")
    put(root, f"{device}/state", "ACTIVE")
    files = Files(str(root))

    def look() -> tuple[object, ...]:
        return files.text(f"{device}/vendor"), files.text(f"{device}/state")

    for _ in range(3):
        files.look_again()
        assert look() == ("0x15b3", "ACTIVE")
    put(root, f"{device}/vendor", "0x1dd8")
    put(root, f"{device}/state", "DOWN")
    files.look_again()
    assert look() == ("0x15b3", "DOWN")
    files.forget()
    assert look() == ("0x1dd8", "DOWN")


def test_a_look_may_begin_while_a_late_one_goes_on(root: Path) -> None:
    for number in range(3000):
        put(root, f"/sys/devices/{number}/state", "1")
    files = Files(str(root))
    end = threading.Event()
    seen: list[object] = []

    def late() -> None:
        while not end.is_set():
            seen.extend(files.text(f"/sys/devices/{number}/state") for number in range(3000))

    thread = threading.Thread(target=late)
    thread.start()
    for _ in range(300):
        files.look_again()
    end.set()
    thread.join()
    assert set(seen) == {"1"}


@pytest.mark.parametrize("turned", ["/sys", "/sys/devices", "/sys/devices/0000:5c:00.0", "/sys/devices/0000:5c:00.0/m"])
def test_a_directory_that_becomes_a_link_outwards_between_two_looks(root: Path, turned: str) -> None:
    path = "/sys/devices/0000:5c:00.0/m"
    files = Files(str(root))
    put(root, f"{path}/state", "ACTIVE")
    assert files.text(f"{path}/state") == "ACTIVE"
    put(root.parent, f"/outside/{path.removeprefix(turned)}/state", SECRET)
    shutil.rmtree(root / turned.lstrip("/"))
    (root / turned.lstrip("/")).symlink_to("../" * turned.count("/") + "outside")
    assert (root / turned.lstrip("/")).is_dir()
    files.look_again()
    assert files.text(f"{path}/state") is None
    assert files.names(path) is None
    assert files.entry(f"{path}/state") is None


@pytest.mark.parametrize("links", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "/b/x", "b": "/a"}, {"a": "a/../a"}])
@pytest.mark.parametrize("path", ["/a", "/a/x"])
def test_a_loop_ends(root: Path, links: dict[str, str], path: str) -> None:
    for name, target in links.items():
        (root / name).symlink_to(target)
    files = Files(str(root))
    assert unreadable(files.text(path)).errno == errno.ELOOP
    assert unreadable(files.names(path)).errno == errno.ELOOP
    assert not files.exists(path)
    assert files.place(path) == path


def test_as_many_links_as_the_kernel_follows(root: Path) -> None:
    put(root, "/0")
    for number in range(1, LINKS + 2):
        (root / str(number)).symlink_to(str(number - 1))
    files = Files(str(root))
    assert files.text(f"/{LINKS}") == "value"
    assert unreadable(files.text(f"/{LINKS + 1}")).errno == errno.ELOOP


def test_long_targets_behind_each_other_do_not_exhaust_anything(root: Path) -> None:
    """Each link stands at the head of a long target of the one before it."""
    put(root, "/x/y")
    for number in range(30):
        (root / f"l{number}").symlink_to(f"/l{number + 1}" + "/." * 2000)
    (root / "l30").symlink_to("x")
    assert Files(str(root)).text("/l0/y") == "value"


# What a listing of this look says


def asked(files: Files, path: str) -> tuple[object, ...]:
    return files.text(path), files.names(path), files.link(path), files.exists(path), files.entry(path)


@pytest.mark.parametrize("rooted", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_a_listing_changes_no_answer(root: Path, *, listed: bool, rooted: bool) -> None:
    """Files, directories, links and what is absent: the same with and without a listing of their directory before."""
    put(root, "/sys/dev/state", "ACTIVE")
    put(root, "/sys/dev/long", "x" * 5000)
    put(root, "/sys/dev/inner/deep", "deep")
    (root / "sys/dev/driver").symlink_to("inner")
    (root / "sys/dev/same").symlink_to("state")
    (root / "sys/dev/gone").symlink_to("nowhere")
    os.mkfifo(root / "sys/dev/fifo")
    plain = {"state": "ACTIVE", "long": "x" * 5000, "inner/deep": "deep", "driver/deep": "deep", "same": "ACTIVE"}
    files = Files(str(root)) if rooted else Files()
    above = "" if rooted else str(root)
    if listed:
        for directory in ("/sys/dev", "/sys/dev/inner", "/sys/dev/driver"):
            assert files.names(above + directory)
    for name, text in plain.items():
        assert (files.text(f"{above}/sys/dev/{name}"), files.exists(f"{above}/sys/dev/{name}")) == (text, True)
    for name in ("nothing", "gone", "nothing/below", "state/below", "inner/nothing", "driver/nothing"):
        target = "nowhere" if name == "gone" else None
        assert asked(files, f"{above}/sys/dev/{name}") == (None, None, target, False, None)
    assert files.text(f"{above}/sys/dev/./state") == files.text(f"{above}/sys/dev/inner/../state") == "ACTIVE"
    assert files.link(f"{above}/sys/dev/driver") == "inner"
    assert files.names(f"{above}/sys/dev/") == files.names(f"{above}/sys/dev/.") == files.names(f"{above}/sys/dev")
    assert files.data(f"{above}/sys/dev/long", 64, head=True) == b"x" * 64
    assert unreadable(files.text(f"{above}/sys/dev/inner")).detail == "a directory"
    assert unreadable(files.text(f"{above}/sys/dev/fifo")).detail == "a FIFO"


def test_a_constant_attribute_that_is_damaged_is_read_whole(root: Path) -> None:
    put(root, "/sys/dev/modalias", "x" * 5000)
    files = Files(str(root))
    for _ in range(4):
        assert files.text("/sys/dev/modalias") == "x" * 5000
        files.look_again()


@pytest.mark.parametrize("name", ["ports", "counters", "hw_counters", "gids"])
def test_a_directory_whose_names_stay_with_its_device_is_listed_once_between_events(name: str, root: Path) -> None:
    directory = f"/sys/devices/dev/{name}"
    put(root, f"{directory}/1", "0")
    files = Files(str(root))
    assert files.names(directory) == ("1",)
    put(root, f"{directory}/2", "0")
    files.look_again()
    assert files.names(directory) == ("1",)
    files.forget()
    assert files.names(directory) == ("1", "2")
    shutil.rmtree(root / directory[1:])
    files.look_again()
    assert (files.names(directory), files.text(f"{directory}/1")) == (None, None)
    put(root, directory, "a file")
    files.look_again()
    assert unreadable(files.names(directory)).detail == "a file, not a directory"


def test_an_empty_gid_is_read_once_between_events(root: Path) -> None:
    """Netdevs and addresses fill a GID table, and tell of it. An entry that is taken may change its value in place."""
    empty, taken, filled = (f"/sys/devices/dev/ports/1/gids/{number}" for number in range(3))
    none, some, other = (":".join([group] * 8) for group in ("0000", "00ff", "00fe"))
    put(root, empty, f"{none}\n")
    put(root, taken, f"{some}\n")
    put(root, filled, f"{none}\n")
    files = Files(str(root))
    assert files.names("/sys/devices/dev/ports/1/gids") == ("0", "1", "2")
    assert [files.text(path) for path in (empty, taken, filled)] == [none, some, none]
    files.look_again()
    put(root, taken, f"{other}\n")
    put(root, filled, f"{some}\n")
    assert [files.text(path) for path in (taken, filled)] == [other, none]
    files.forget()
    assert files.text(filled) == some


def test_a_listing_serves_one_look(root: Path) -> None:
    put(root, "/sys/dev/state", "DOWN")
    files = Files(str(root))
    for again in (files.look_again, files.forget):
        assert files.names("/sys/dev") == ("state",)
        put(root, "/sys/dev/rate", "400")
        assert files.text("/sys/dev/rate") is None  # it came after the listing
        again()
        assert files.text("/sys/dev/rate") == "400"
        (root / "sys/dev/rate").unlink()
        again()


def test_a_file_that_changed_after_its_listing(root: Path) -> None:
    """What was plain is a link outwards, or gone, or shut now."""
    for name in ("led", "gone", "replaced"):
        put(root, f"/sys/dev/{name}", "old")
    files = Files(str(root))
    assert files.names("/sys/dev") == ("gone", "led", "replaced")
    (root / "sys/dev/led").unlink()
    (root / "sys/dev/led").symlink_to(root.parent / "secret")
    (root / "sys/dev/gone").unlink()
    (root / "sys/dev/replaced").unlink()
    (root / "sys/dev/replaced").mkdir()
    assert files.text("/sys/dev/led") is None
    assert files.text("/sys/dev/gone") is None
    assert unreadable(files.text("/sys/dev/replaced")).errno == errno.EISDIR


@pytest.mark.parametrize("rooted", [True, False])
def test_what_is_excluded_is_not_there_after_a_listing_either(root: Path, *, rooted: bool) -> None:
    put(root, "/sys/dev/bad", "bad")
    put(root, "/sys/dev/good", "good")
    above = "" if rooted else str(root)
    files = Files(str(root) if rooted else "/", (f"{above}/sys/dev/bad",))
    assert files.names(f"{above}/sys/dev") == ("bad", "good")
    assert files.text(f"{above}/sys/dev/bad") is None
    assert files.text(f"{above}/sys/dev/good") == "good"


# The root itself


@pytest.mark.parametrize("spelling", ["/", "//", "/.", "/tmp/..", "///"])
def test_every_spelling_of_this_machines_root(spelling: str) -> None:
    files = Files(spelling)
    assert files.root == ""
    assert files.place("/proc/sys") == "/proc/sys"


def test_a_root_with_a_slash_behind_it_or_a_link_to_it(root: Path) -> None:
    put(root, "/state")
    (root / "link").symlink_to("/state")
    (root.parent / "alias").symlink_to("root")
    for spelling in (f"{root}/", f"{root}/.", f"{root}//", str(root.parent / "alias")):
        files = Files(spelling)
        assert files.text("/link") == "value"
        assert files.place("/link") == "/state"
        assert files.names("/") == ("link", "state")


def test_this_machines_own_links_are_followed() -> None:
    assert Files().text("/proc/self/comm") == Path("/proc/self/comm").read_text().strip()
    assert Files().place("/proc/self") == f"/proc/{os.getpid()}"


@pytest.mark.parametrize("rooted", [True, False])
def test_what_is_excluded_is_not_there(root: Path, rooted: bool) -> None:
    put(root, "/class/mlx5_0/hw_counters/bad")
    put(root, "/class/mlx5_0/hw_counters/good")
    os.mkfifo(root / "class/mlx5_0/hang")
    above = "" if rooted else str(root)
    files = Files(str(root) if rooted else "/", (f"{above}/class/*/bad", f"{above}/class/*/hang"))
    assert files.text(f"{above}/class/mlx5_0/hw_counters/good") == "value"
    assert files.text(f"{above}/class/mlx5_0/hw_counters/bad") is None
    assert files.text(f"{above}/class/mlx5_0/hang") is None
    assert not files.exists(f"{above}/class/mlx5_0/hang")
    assert files.names(f"{above}/class/mlx5_0/hang") is None


# Against the kernel

NAMES = ("a", "b", "c")
TARGETS = st.lists(st.sampled_from((*NAMES, "..", ".", "")), min_size=1, max_size=5)
TREE = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join),
    st.one_of(
        st.none(), st.just(""), st.builds(lambda top, way: top + "/".join(way), st.sampled_from(("", "/")), TARGETS)
    ),
    max_size=8,
)
PATHS = st.lists(
    st.lists(st.sampled_from((*NAMES, "..", ".")), min_size=1, max_size=6).map(lambda way: "/" + "/".join(way)),
    min_size=1,
    max_size=6,
)


def plant(root: Path, tree: dict[str, str | None]) -> None:
    """A directory for None, a file for "", a link for any other word; what cannot be made is left out."""
    for path in sorted(tree):
        target, here = tree[path], root / path
        try:
            if target is None:
                here.mkdir()
            elif target:
                here.symlink_to(target)
            else:  # its text says where it lies, whatever links led there
                here.write_text(f"{os.path.realpath(here.parent)}/{here.name}")  # Path.resolve() raises for a loop
        except OSError:
            continue


class OpenHow(ctypes.Structure):
    """struct open_how of include/uapi/linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


SYS_openat2, RESOLVE_IN_ROOT = 437, 0x10


def kernel_says(root: Path, path: str) -> str | int:
    """Where the kernel finds `path` with `root` as its root; the errno if nowhere."""
    how = OpenHow(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT)
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        found = LIBC.syscall(SYS_openat2, directory, path.encode(), ctypes.byref(how), ctypes.sizeof(how))
        if found < 0:
            return ctypes.get_errno()
        place = Path(f"/proc/self/fd/{found}").readlink()
        os.close(found)
        return str(place)
    finally:
        os.close(directory)


@given(tree=TREE, paths=PATHS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_kernel_resolves_every_path_the_same(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, str | None], paths: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree").resolve()
    plant(root, tree)
    if kernel_says(root, "/") == errno.ENOSYS:
        pytest.skip("this kernel has no openat2 (before Linux 5.6)")
    files = Files(str(root))
    for path in paths:
        place = kernel_says(root, path)
        if isinstance(place, str):
            assert place == str(root) or place.startswith(f"{root}/")
            assert files.root + files.place(path).rstrip("/") == place
            assert files.exists(path)
            expected = sorted(one.name for one in Path(place).iterdir()) if Path(place).is_dir() else None
            names = files.names(path)
            assert (list(names) if isinstance(names, tuple) else None) == expected
            text = files.text(path)
            assert (text if isinstance(text, str) else None) == (None if expected is not None else place)
        else:
            assert not files.exists(path)
            text = files.text(path)
            assert text is None if place in (errno.ENOENT, errno.ENOTDIR) else unreadable(text).errno == place


@pytest.mark.timeout(120)
def test_many_threads_read_one_root(root: Path) -> None:
    """Facts are observed at the same time, and share what is known of links."""
    for number in range(50):
        put(root, f"/devices/{number}/state", str(number))
        (root / f"class{number}").symlink_to(f"devices/{number}")
    files = Files(str(root))
    wrong: list[object] = []

    def read() -> None:
        for number in range(50):
            said = files.number(f"/class{number}/state")
            if said != number:
                wrong.append((number, said))
            files.forget()

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# A host of whose /proc the root has the mount tables of the first process, and no more


@pytest.fixture
def pod(root: Path) -> Path:
    """What a pod has of its host; its own /proc shows what is global, and processes of its own."""
    put(root, "/proc/1/mountinfo", "table")
    put(root, "/proc/1/mounts", "options")
    return root


@pytest.mark.parametrize(
    "path", ["/proc/version", "/proc/cmdline", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/random/boot_id"]
)
def test_what_every_proc_shows_alike_is_read_in_our_own(pod: Path, path: str) -> None:
    files = Files(str(pod), live=True)
    assert not files.shows_processes
    assert files.data(path) == Path(path).read_bytes()
    assert files.exists(path)
    assert files.entry(path) is not None
    assert files.place(path) == path


def test_directories_that_every_proc_shows_alike_are_read_in_our_own(pod: Path) -> None:
    names = Files(str(pod), live=True).names("/proc/sys/net/ipv4/conf")
    assert isinstance(names, tuple)
    assert {"all", "default", "lo"} <= set(names)
    assert Files(str(pod), live=True).text("/proc/net/dev") is not None


def test_no_process_of_ours_is_taken_for_the_hosts(pod: Path) -> None:
    files = Files(str(pod), live=True)
    assert files.names("/proc") == ("1",)
    assert files.names("/proc/1") == ("mountinfo", "mounts")
    assert files.text("/proc/1/mountinfo") == "table"
    for path in ("/proc/1/stat", f"/proc/{os.getpid()}/stat", "/proc/self/stat", "/proc/thread-self/stat"):
        assert files.text(path) is None
        assert not files.exists(path)


def test_what_is_excluded_is_not_read_in_our_own_either(pod: Path) -> None:
    assert Files(str(pod), ("/proc/sys/*",), live=True).text("/proc/sys/kernel/osrelease") is None


@pytest.mark.parametrize("live", [False, True], ids=["dead", "live"])
def test_a_tree_or_a_whole_proc_is_read_as_it_stands(root: Path, *, live: bool) -> None:
    put(root, "/proc/1/mountinfo", "table")
    if live:
        put(root, "/proc/1/stat", "1 (init) S")
    put(root, "/proc/sys/kernel/osrelease", "6.1.0-other")
    files = Files(str(root), live=live)
    assert files.shows_processes
    assert files.text("/proc/sys/kernel/osrelease") == "6.1.0-other"
    assert files.text("/proc/meminfo") is None


def test_a_live_root_without_anything_of_proc_has_nothing_of_ours(root: Path) -> None:
    assert Files(str(root), live=True).text("/proc/meminfo") is None
