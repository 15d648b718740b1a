"""The event source of directories: real ones, that come, go, move and are linked elsewhere."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeprep.doors.events.directory_events import DirectoryEvents, WatchedDirectory
from nodeprep.doors.files.reader import Files
from nodeprep.model import Topic

NOTHING: frozenset[Topic] = frozenset()
CONFIG, DEVICE = Topic.CONFIG, Topic.DEVICE
NET_D, PLUGINS = "/etc/cni/net.d", "/var/lib/kubelet/device-plugins"


class Listener:
    """The event source and the root whose directories it watches."""

    def __init__(self, root: Path, wanted: dict[str, Topic]) -> None:
        files = Files(str(root))
        self.event_source = DirectoryEvents(WatchedDirectory(files, path, topic) for path, topic in wanted.items())
        self.descriptor = self.event_source.open()
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    def said(self) -> frozenset[Topic]:
        """All that it says of what has happened: inotify tells at once."""
        said = NOTHING
        while self._poll.poll(50):
            said |= self.event_source.drain()
        return said


@contextmanager
def listening(root: Path, wanted: dict[str, Topic] | None = None) -> Iterator[Listener]:
    listener = Listener(root, {NET_D: CONFIG, PLUGINS: DEVICE} if wanted is None else wanted)
    try:
        assert listener.said() == NOTHING
        yield listener
    finally:
        listener.event_source.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's root: the CNI directory with a file, and the device plugins' with a socket's place."""
    for path in (NET_D, PLUGINS, "/opt/other"):
        (tmp_path / path[1:]).mkdir(parents=True)
    (tmp_path / NET_D[1:] / "10-terway.conflist").write_text("{}")
    return tmp_path


def replaced(root: Path) -> None:
    (root / "etc/cni/net.d/.new").write_text("{ }")
    (root / "etc/cni/net.d/.new").rename(root / "etc/cni/net.d/10-terway.conflist")


INSIDE: dict[str, tuple[Callable[[Path], object], frozenset[Topic]]] = {
    "a file comes": (lambda root: (root / "etc/cni/net.d/00-a.conf").touch(), frozenset({CONFIG})),
    "a file is written": (
        lambda root: (root / "etc/cni/net.d/10-terway.conflist").write_text("x"),
        frozenset({CONFIG}),
    ),
    "a file is replaced": (replaced, frozenset({CONFIG})),
    "a file goes": (lambda root: (root / "etc/cni/net.d/10-terway.conflist").unlink(), frozenset({CONFIG})),
    "a file is forbidden": (lambda root: (root / "etc/cni/net.d/10-terway.conflist").chmod(0), frozenset({CONFIG})),
    "a file is moved out": (
        lambda root: (root / "etc/cni/net.d/10-terway.conflist").rename(root / "opt/other/a"),
        frozenset({CONFIG}),
    ),
    "a plugin's socket comes": (
        lambda root: (root / "var/lib/kubelet/device-plugins/a.sock").touch(),
        frozenset({DEVICE}),
    ),
    "a file is read": (lambda root: (root / "etc/cni/net.d/10-terway.conflist").read_text(), NOTHING),
    "a file comes on the way": (lambda root: (root / "etc/cni/other").touch(), NOTHING),
    "a directory beside": (lambda root: (root / "var/lib/kubelet/pods").mkdir(), NOTHING),
}


@pytest.mark.parametrize("change", INSIDE)
def test_a_change(root: Path, change: str) -> None:
    make, topics = INSIDE[change]
    with listening(root) as listener:
        make(root)
        assert listener.said() == topics


def test_a_configmap_changes_by_its_link(tmp_path: Path) -> None:
    mounted = tmp_path / "etc/nodeprep"
    for version in ("..1", "..2"):
        (mounted / version).mkdir(parents=True)
        (mounted / version / "config.yaml").write_text(version)
    (mounted / "..data").symlink_to("..1")
    (mounted / "config.yaml").symlink_to("..data/config.yaml")
    with listening(tmp_path, {"/etc/nodeprep": CONFIG}) as listener:
        (mounted / "..data_tmp").symlink_to("..2")
        listener.said()
        (mounted / "..data_tmp").rename(mounted / "..data")
        assert listener.said() == {CONFIG}
        assert (mounted / "config.yaml").read_text() == "..2"


def test_a_directory_that_is_not_there_yet_is_found_when_it_comes(tmp_path: Path) -> None:
    with listening(tmp_path, {NET_D: CONFIG}) as listener:
        (tmp_path / "etc").mkdir()
        assert listener.said() == NOTHING
        (tmp_path / "etc/cni").mkdir()
        assert listener.said() == NOTHING
        (tmp_path / "etc/cni/net.d").mkdir()
        assert listener.said() == {CONFIG}
        (tmp_path / "etc/cni/net.d/a").touch()
        assert listener.said() == {CONFIG}


def test_a_directory_made_in_one_go_is_found(tmp_path: Path) -> None:
    with listening(tmp_path, {NET_D: CONFIG}) as listener:
        (tmp_path / NET_D[1:]).mkdir(parents=True)
        assert listener.said() == {CONFIG}
        (tmp_path / NET_D[1:] / "a").touch()
        assert listener.said() == {CONFIG}


def gone(root: Path) -> None:
    (root / "etc/cni/net.d/10-terway.conflist").unlink()
    (root / "etc/cni/net.d").rmdir()


LOST: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "the directory deleted": (gone, lambda root: (root / "etc/cni/net.d").mkdir()),
    "the directory moved": (
        lambda root: (root / "etc/cni/net.d").rename(root / "opt/other/net.d"),
        lambda root: (root / "etc/cni/net.d").mkdir(),
    ),
    "its parent moved": (
        lambda root: (root / "etc/cni").rename(root / "opt/other/cni"),
        lambda root: (root / "etc/cni/net.d").mkdir(parents=True),
    ),
    "a parent turned into a link": (
        lambda root: (root / "etc").rename(root / "opt/etc"),
        lambda root: (root / "etc").symlink_to("opt/etc"),
    ),
}


@pytest.mark.parametrize("loss", LOST)
def test_a_directory_that_goes_is_found_when_it_comes_back(root: Path, loss: str) -> None:
    lose, make = LOST[loss]
    with listening(root) as listener:
        for _ in range(2):
            lose(root)
            assert listener.said() == {CONFIG}
            make(root)
            assert listener.said() == {CONFIG}
            (root / "etc/cni/net.d/10-terway.conflist").touch()
            assert listener.said() == {CONFIG}
            if loss == "a parent turned into a link":
                break
            for left in ("net.d", "cni"):
                if (root / "opt/other" / left).exists():
                    (root / "opt/other" / left).rename(root / "opt/other" / f"{left}.{time.monotonic_ns()}")
        for moved in (root / "opt/other").rglob("net.d*"):
            (moved / "a").touch()
        assert listener.said() == NOTHING, "what was moved away is no longer watched"


def test_links_are_followed_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "data/kubelet/device-plugins").mkdir(parents=True)
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/kubelet").symlink_to("/data/kubelet")
    with listening(tmp_path, {PLUGINS: DEVICE}) as listener:
        (tmp_path / "data/kubelet/device-plugins/a.sock").touch()
        assert listener.said() == {DEVICE}
        (tmp_path / "new/device-plugins").mkdir(parents=True)
        (tmp_path / "var/lib/link").symlink_to("/new")
        assert listener.said() == NOTHING
        (tmp_path / "var/lib/link").rename(tmp_path / "var/lib/kubelet")
        assert listener.said() == {DEVICE}
        (tmp_path / "new/device-plugins/a.sock").touch()
        assert listener.said() == {DEVICE}


def test_a_directory_that_moves_behind_a_link_is_gone(tmp_path: Path) -> None:
    """Nobody watches where a link leads to; the directory says itself that it moves."""
    (tmp_path / "data/kubelet/device-plugins").mkdir(parents=True)
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/kubelet").symlink_to("/data/kubelet")
    with listening(tmp_path, {PLUGINS: DEVICE}) as listener:
        (tmp_path / "data/kubelet").rename(tmp_path / "data/old")
        assert listener.said() == {DEVICE}
        (tmp_path / "data/old/device-plugins/a.sock").touch()
        assert listener.said() == NOTHING


def test_what_came_and_went_leaves_no_watch(root: Path) -> None:
    with listening(root) as listener:
        watches = Path(f"/proc/self/fdinfo/{listener.descriptor}")
        before = watches.read_text().count("inotify wd:")
        for number in range(20):
            (root / "etc/cni").rename(root / f"opt/other/{number}")
            (root / "etc/cni/net.d").mkdir(parents=True)
            assert listener.said() == {CONFIG}
        assert watches.read_text().count("inotify wd:") == before


def test_one_directory_may_be_on_the_way_and_wanted(tmp_path: Path) -> None:
    (tmp_path / "etc/nodeprep").mkdir(parents=True)
    with listening(
        tmp_path, {"/etc/nodeprep": CONFIG, "/etc/nodeprep/plugins": DEVICE, "/etc/eni": CONFIG}
    ) as listener:
        (tmp_path / "etc/nodeprep/plugins").mkdir()
        assert listener.said() == {CONFIG, DEVICE}
        (tmp_path / "etc/nodeprep/a").touch()
        assert listener.said() == {CONFIG}
        (tmp_path / "etc/nodeprep/a").write_text("a")
        assert listener.said() == {CONFIG}, "on the way to another, and still listened to as a whole"
        (tmp_path / "etc/nodeprep/plugins/a").touch()
        assert listener.said() == {DEVICE}


def test_a_file_in_the_directorys_place_is_none(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/eni").touch()
    with listening(tmp_path, {"/etc/eni": CONFIG}) as listener:
        (tmp_path / "etc/eni").write_text("a")
        assert listener.said() == NOTHING
        (tmp_path / "etc/eni").unlink()
        (tmp_path / "etc/eni").mkdir()
        assert listener.said() == {CONFIG}


def test_more_events_than_the_kernel_keeps_are_a_ring_of_all(root: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip(f"this machine keeps {limit} events: too many to overrun it")
    with listening(root) as listener:
        names = [root / "etc/cni/net.d" / letter for letter in "ab"]
        for number in range(limit // 2 + 100):
            names[number % 2].touch()
            names[number % 2].unlink()
        deadline = time.monotonic() + 60
        said = NOTHING
        while said != {CONFIG, DEVICE} and time.monotonic() < deadline:
            said |= listener.event_source.drain()
        assert said == {CONFIG, DEVICE}


def test_a_burst_is_read_in_parts(root: Path) -> None:
    with listening(root) as listener:
        for number in range(5000):
            (root / "etc/cni/net.d" / f"a-rather-long-name-{number % 10}").touch()
        began = time.thread_time()
        assert listener.event_source.drain() == {CONFIG}
        assert time.thread_time() - began < 2
        assert listener.event_source.drain() == NOTHING, "no part was left"


def test_closed_it_says_nothing_and_it_can_be_opened_again(root: Path) -> None:
    listener = Listener(root, {NET_D: CONFIG})
    listener.event_source.close()
    listener.event_source.close()
    assert listener.event_source.drain() == NOTHING
    descriptor = listener.event_source.open()
    os.set_blocking(descriptor, False)
    (root / "etc/cni/net.d/a").touch()
    assert listener.event_source.drain() == {CONFIG}
    listener.event_source.close()
