"""The store: whatever happens to its files, a text comes back whole or not at all, and one agent keeps it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeprep.doors.files import atomic, state_store
from nodeprep.doors.files.state_store import LEAP, LIMIT, NAME, LockHolder, Store
from tests.rigs.ending import ending
from tests.rigs.mounted import seen_with

AGENT = Path(__file__).parents[2] / "agent"
OLD, NEW = "the old memory\n", "the new memory, which is longer\n"


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "lib", tmp_path / "run"


def store_in(places: tuple[Path, Path]) -> Store:
    return Store(str(places[0]), str(places[1]))


def texts(store: Store) -> list[str]:
    return [kept.text for kept in store.load().kept]


def test_nothing_kept_is_nothing_found(places: tuple[Path, Path]) -> None:
    loaded = store_in(places).load()
    assert (loaded.kept, loaded.damaged) == ((), ())


@pytest.mark.parametrize("text", ["", OLD, "\0\n\ud800 é 網", "x" * LIMIT])
def test_what_is_saved_is_loaded_by_the_next(places: tuple[Path, Path], text: str) -> None:
    assert store_in(places).save(text) == ""
    assert texts(store_in(places)) == [text]
    assert (places[0] / NAME).stat().st_mode & 0o777 == 0o600
    assert not places[1].exists()


def test_serials_grow_across_restarts(places: tuple[Path, Path]) -> None:
    for serial in range(1, 6):
        store = store_in(places)
        assert store.serial == serial - 1
        store.save(f"{serial}")
        assert store.load().kept[0].serial == store.serial == serial


def test_what_is_too_long_is_refused_and_the_former_stays(places: tuple[Path, Path]) -> None:
    store = store_in(places)
    store.save(OLD)
    assert store.save("x" * (LIMIT + 1)) == (
        f"{places[0]}/{NAME}: the memory has {LIMIT + 1} bytes, wanted at most {LIMIT}; not kept"
    )
    assert texts(store) == [OLD]


def files_of(places: tuple[Path, Path]) -> tuple[bytes, bytes]:
    """The file of the old text and that of the new one, which is in its place."""
    store = store_in(places)
    store.save(OLD)
    old = (places[0] / NAME).read_bytes()
    store.save(NEW)
    return old, (places[0] / NAME).read_bytes()


def test_a_writer_killed_at_any_byte_leaves_the_old_text(places: tuple[Path, Path]) -> None:
    old, new = files_of(places)
    file, fresh = places[0] / NAME, places[0] / atomic.fresh(NAME)
    file.write_bytes(old)
    for length in range(len(new) + 1):
        fresh.write_bytes(new[:length])
        loaded = store_in(places).load()
        assert [kept.text for kept in loaded.kept] == [OLD]
        assert loaded.damaged == ()
    fresh.replace(file)
    assert texts(store_in(places)) == [NEW]


def test_a_file_torn_at_any_byte_is_never_taken_for_a_text(places: tuple[Path, Path]) -> None:
    old, new = files_of(places)
    file = places[0] / NAME
    torn = [new[:length] for length in range(len(new))]
    torn += [new[:length].ljust(len(new), b"\0") for length in range(len(new))]
    torn += [new[:length] + old[length:] for length in range(1, min(len(old), len(new)))]
    torn += [new + b"\n"]
    for content in set(torn) - {old, new}:
        file.write_bytes(content)
        loaded = store_in(places).load()
        assert loaded.kept == ()
        assert [one.path for one in loaded.damaged] == [str(file)]


def test_a_bit_that_rots_is_noticed_wherever_it_is(places: tuple[Path, Path]) -> None:
    _, new = files_of(places)
    file = places[0] / NAME
    for position in range(len(new)):
        for bit in range(8):
            file.write_bytes(new[:position] + bytes((new[position] ^ 1 << bit,)) + new[position + 1 :])
            assert store_in(places).load().kept == (), (position, bit)


# Forks from a process without threads; each child saves as fast as it can until it is killed.
KILLED = """
import os, random, signal, sys, time
from nodeprep.doors.files import atomic
from nodeprep.doors.files.state_store import NAME, Store
directory, spare, most, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def text(number):
    return f"{number} " * (1 + number * 7919 % 40000)

def save_for_ever(told):
    store = Store(directory, spare)
    while True:
        if store.save(text(store.serial + 1)):
            os._exit(1)
        os.write(told, b".")

assert Store(directory, spare).save(text(1)) == ""
halves = rounds = 0
until = time.monotonic() + seconds
while rounds < most and time.monotonic() < until:
    rounds += 1
    before = Store(directory, spare).serial
    read, write = os.pipe()
    child = os.fork()
    if not child:
        save_for_ever(write)
    os.close(write)
    saved = len(os.read(read, 1))
    time.sleep(random.random() * 0.01)
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    saved += len(os.read(read, 65536))
    os.close(read)
    halves += os.path.exists(f"{directory}/{atomic.fresh(NAME)}")
    loaded = Store(directory, spare).load()
    assert loaded.damaged == (), loaded.damaged
    (newest,) = loaded.kept
    assert newest.text == text(newest.serial)
    assert before + saved <= newest.serial <= before + saved + 1, (before, saved, newest.serial)
print(halves, rounds)
"""
ROUNDS, SECONDS = 250, 60  # at most; a disk that flushes slowly gets fewer rounds


def test_kill_9_at_any_moment_leaves_the_text_before_or_after(places: tuple[Path, Path]) -> None:
    command = (sys.executable, "-c", KILLED, *map(str, places), str(ROUNDS), str(SECONDS))
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env=os.environ | {"PYTHONPATH": str(AGENT)}
    )
    assert done.returncode == 0, done.stderr
    halves, rounds = map(int, done.stdout.split())
    assert halves > rounds // 20  # so many were killed while they wrote, or this shows nothing


ODD: list[tuple[str, Callable[[Path], object], str]] = [
    ("a directory", lambda file: file.mkdir(), "a directory"),
    ("a full directory", lambda file: (file / "x").mkdir(parents=True), "a directory"),
    ("a FIFO", os.mkfifo, "a FIFO"),
    ("a link to nothing", lambda file: file.symlink_to("nowhere"), "a link to 'nowhere'"),
    ("a link out", lambda file: file.symlink_to("/etc/passwd"), "a link to '/etc/passwd'"),
    ("a link to itself", lambda file: file.symlink_to(file.name), f"a link to '{NAME}'"),
    ("1 GiB", lambda file: _sized(file, 1 << 30), f"longer than {LIMIT + 128} bytes"),
    ("binary", lambda file: file.write_bytes(bytes(range(256))), "256 bytes that do not begin as a memory does"),
    ("nothing", lambda file: file.write_bytes(b""), "0 bytes that do not begin as a memory does"),
    (
        "a huge serial",
        lambda file: file.write_bytes(b"nodeprep memory 1 " + b"9" * 5000 + b" " + b"0" * 64 + b"\n"),
        "5084 bytes that do not begin as a memory does",
    ),
    (
        "a memory of another layout",
        lambda file: file.write_bytes(b"nodeprep memory 2 1 " + b"0" * 64 + b"\n"),
        "85 bytes that do not begin as a memory does",
    ),
    (
        "a wrong checksum",
        lambda file: file.write_bytes(b"nodeprep memory 1 7 " + b"0" * 64 + b"\n"),
        "torn or rotten: its checksum is of another content",
    ),
]


def _sized(file: Path, size: int) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(size)


@pytest.mark.parametrize(("make", "says"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
@pytest.mark.parametrize("where", [0, 1])
def test_whatever_stands_there_is_words(
    places: tuple[Path, Path], where: int, make: Callable[[Path], object], says: str
) -> None:
    for place in places:
        place.mkdir()
    file = places[where] / NAME
    make(file)
    loaded = store_in(places).load()
    assert loaded.kept == ()
    assert [str(one) for one in loaded.damaged] == [f"{file}: {says}"]
    store = store_in(places)
    trouble = store.save(NEW)
    if where == 0 and file.is_dir():
        assert trouble.startswith(f"{places[0]}: Is a directory; the memory is kept in {places[1]} until the next boot")
    else:
        assert trouble == ""
    assert texts(store_in(places)) == [NEW]


@given(content=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_content_breaks_it(tmp_path: Path, content: bytes) -> None:
    for head in (b"", b"nodeprep memory 1 ", b"nodeprep memory 1 3 " + b"a" * 64 + b"\n"):
        (tmp_path / NAME).write_bytes(head + content)
        loaded = Store(str(tmp_path), str(tmp_path / "run")).load()
        assert (loaded.kept, len(loaded.damaged)) == ((), 1)


def test_a_place_that_is_a_file_is_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(str(tmp_path / "file"), str(tmp_path / "file/below"))
    assert (store.load().kept, store.load().damaged) == ((), ())
    assert store.save(NEW) == (
        f"{tmp_path}/file: File exists; {tmp_path}/file/below: Not a directory; "
        "the memory is lost when the agent ends; see df and findmnt of both"
    )
    assert store.hold() == (
        f"{tmp_path}/file/lock: File exists; {tmp_path}/file/below/lock: Not a directory; "
        "wanted one that can be locked: a second agent would not be noticed"
    )


def saved_alone(place: Path, *texts: str) -> bytes:
    """The file of a place where these were saved one after another."""
    for text in texts:
        assert Store(str(place), str(place)).save(text) == ""
    return (place / NAME).read_bytes()


def test_the_newest_of_both_places_comes_first_and_the_directory_takes_the_next(places: tuple[Path, Path]) -> None:
    saved_alone(places[0], OLD)
    saved_alone(places[1], OLD, NEW)
    for both in (places, places[::-1]):
        kept = store_in(both).load().kept
        assert [(one.text, one.serial, one.path) for one in kept] == [
            (NEW, 2, f"{places[1]}/{NAME}"),
            (OLD, 1, f"{places[0]}/{NAME}"),
        ]
    assert store_in(places).save("newest") == ""
    (newest,) = store_in(places).load().kept
    assert (newest.text, newest.serial, newest.path) == ("newest", 3, f"{places[0]}/{NAME}")


def test_what_could_not_be_read_is_older_than_what_is_saved_next(places: tuple[Path, Path]) -> None:
    whole = saved_alone(places[0], *[OLD] * 5)
    file = places[0] / NAME
    file.unlink()
    file.mkdir()  # as good as a disk that neither reads nor writes for a while
    assert "kept in" in store_in(places).save(NEW)
    file.rmdir()
    file.write_bytes(whole)
    kept = store_in(places).load().kept
    assert [(one.text, one.serial) for one in kept] == [(NEW, LEAP + 1), (OLD, 5)]


@pytest.mark.parametrize("spare", ["here", "./here", "link"])
def test_one_place_may_be_both(tmp_path: Path, spare: str) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("here")
    store = Store(f"{tmp_path}/here", f"{tmp_path}/{spare}")
    assert (store.hold(), store.hold()) == ("", "")
    assert store.save(NEW) == ""
    assert NEW in texts(store)
    store.release()
    assert state_store.holder(f"{tmp_path}/here") is None


FULL = """
import json, os, sys
from nodeprep.doors.files.state_store import NAME, Store
full, spare = sys.argv[1], sys.argv[2]
told = []
def tell(trouble):
    told.append([trouble, [kept.text[:3] for kept in Store(full, spare).load().kept], sorted(os.listdir(full))])
def fill(directory):
    with open(directory + "/ballast", "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass
tell(Store(full, spare).save("old"))
fill(full)
tell(Store(full, spare).save("new" * 3000))
fill(spare)
tell(Store(full, spare).save("3rd" * 3000))
os.remove(full + "/ballast")
tell(Store(full, spare).save("4th" * 3000))
told.append(os.path.exists(f"{spare}/{NAME}"))
print(json.dumps(told))
"""


def test_a_full_disk_keeps_the_old_text_and_the_spare_takes_the_new_one(places: tuple[Path, Path]) -> None:
    for place in places:
        place.mkdir()
    full, spare = map(str, places)
    mounts = 'mount -t tmpfs -o size=64k none "$1" && mount -t tmpfs -o size=64k none "$2"'
    no_space, see = f"{full}: No space left on device", "see df and findmnt of both"
    assert seen_with(mounts, FULL, full, spare) == [
        ["", ["old"], [NAME]],
        [
            f"{no_space}; the memory is kept in {spare} until the next boot; {see}",
            ["new", "old"],
            ["ballast", NAME],
        ],
        [
            f"{no_space}; {spare}: No space left on device; the memory is lost when the agent ends; {see}",
            ["new", "old"],
            ["ballast", NAME],
        ],
        ["", ["4th"], [NAME]],
        False,
    ]


READ_ONLY = """
import json, os, sys
from nodeprep.doors.files.state_store import LockHolder, Store, holder
closed, spare = sys.argv[1], sys.argv[2]
store = Store(closed, spare)
told = [store.hold(), holder(closed) == os.getpid(), holder(spare) == os.getpid()]
try:
    Store(closed, spare).hold()
except LockHolder as held:
    told.append([held.pid, held.path])
told += [store.save("new"), [kept.text for kept in Store(closed, spare).load().kept]]
print(json.dumps(told))
"""


@pytest.mark.parametrize("locked_before", [False, True])
def test_a_read_only_directory_is_read_and_the_spare_is_written(places: tuple[Path, Path], locked_before: bool) -> None:
    for place in places:
        place.mkdir()
    before = Store(str(places[0]), str(places[0]))
    before.save("old")
    if locked_before:
        before.hold()
        before.release()
    closed, spare = map(str, places)
    said = seen_with('mount --bind -o ro "$1" "$1"', READ_ONLY, closed, spare)
    assert said[:3] == ["", False, True]
    (pid, path), see = said[3], "see df and findmnt of both"
    # Whose lock it is stands where it could be written.
    assert (path, pid) == ((f"{closed}/lock", os.getpid()) if locked_before else (f"{spare}/lock", pid))
    assert said[4:] == [
        f"{closed}: Read-only file system; the memory is kept in {spare} until the next boot; {see}",
        ["new", "old"],
    ]


HOLDS = """
import sys, time
from nodeprep.doors.files.state_store import Store
print(Store(sys.argv[1], sys.argv[2]).hold(), flush=True)
sys.stdin.read()
"""


@contextmanager
def another(places: tuple[Path, Path]) -> Iterator[subprocess.Popen[str]]:
    """Another agent that holds the node until it is killed."""
    with ending(
        subprocess.Popen(
            (sys.executable, "-c", HOLDS, *map(str, places)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(AGENT)},
        )
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            yield process
        finally:
            process.kill()


def test_a_second_agent_is_told_who_the_first_is(places: tuple[Path, Path]) -> None:
    ours = store_in(places)
    with another(places) as process:
        for both in (places, places[::-1]):
            with pytest.raises(LockHolder) as held:
                store_in(both).hold()
            assert (held.value.pid, held.value.path) == (process.pid, f"{both[0]}/lock")
            assert str(held.value) == (
                f"{both[0]}/lock: another nodeprep agent (pid {process.pid}) runs on this node; "
                "wanted one: stop it, or do not start this one"
            )
        assert state_store.holder(str(places[0])) == state_store.holder(*map(str, places)) == process.pid
    assert state_store.holder(*map(str, places)) is None
    assert ours.hold() == ""
    assert (places[0] / "lock").read_text() == f"{os.getpid()}\n"
    ours.release()


@pytest.mark.parametrize("where", [0, 1])
def test_one_of_the_two_places_is_enough_to_be_held(places: tuple[Path, Path], where: int) -> None:
    elsewhere = str(places[0].parent / "elsewhere")
    first = Store(str(places[where]), elsewhere)
    first.hold()
    second = store_in(places)
    with pytest.raises(LockHolder):
        second.hold()
    assert state_store.holder(str(places[1 - where])) is None  # the one that it had got is free again
    first.release()
    assert second.hold() == ""
    second.release()


def test_a_lock_that_says_no_pid_is_a_lock(places: tuple[Path, Path]) -> None:
    store = store_in(places)
    store.hold()
    for content in (b"", b"-5\n", b"9" * 5000):
        (places[0] / "lock").write_bytes(content)
        with pytest.raises(LockHolder, match=r"another nodeprep agent runs") as held:
            store_in(places).hold()
        assert held.value.pid is None
        assert state_store.holder(str(places[0])) == 0
    store.release()


def test_a_pid_longer_than_the_new_one_leaves_nothing_behind(places: tuple[Path, Path]) -> None:
    places[0].mkdir()
    (places[0] / "lock").write_text("4194304000\n")
    store = store_in(places)
    store.hold()
    assert (places[0] / "lock").read_text() == f"{os.getpid()}\n"
    store.release()


def test_a_check_that_asks_who_holds_does_not_keep_the_agent_from_starting(places: tuple[Path, Path]) -> None:
    """The longest that a look takes is a moment, in which its lock is shared."""
    asking = (
        "import fcntl, os, sys, time; lock = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(lock, fcntl.LOCK_SH); "
        "print(flush=True); time.sleep(0.1); os.close(lock)"
    )
    store = store_in(places)
    store.hold()
    store.release()
    with ending(
        subprocess.Popen((sys.executable, "-c", asking, f"{places[0]}/lock"), stdout=subprocess.PIPE)
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert store.hold() == ""
    store.release()


@pytest.mark.parametrize("make", [lambda lock: lock.symlink_to("/dev/null"), os.mkfifo, lambda lock: lock.mkdir()])
def test_a_lock_that_is_no_file_is_words_and_the_other_place_serves(
    places: tuple[Path, Path], make: Callable[[Path], object]
) -> None:
    places[0].mkdir()
    make(places[0] / "lock")
    store = store_in(places)
    assert store.hold() == ""
    assert state_store.holder(*map(str, places)) == os.getpid()
    store.release()


@pytest.mark.parametrize("full", [False, True])
def test_what_a_former_version_kept_elsewhere_is_read_and_goes_when_it_is_saved(
    places: tuple[Path, Path], full: bool
) -> None:
    """An upgrade on a node whose disk is full begins with the memory, and leaves none where pods look."""
    former = places[0].parent / "former"
    saved_alone(former, "1st", "2nd")
    store = Store(str(Path("/dev/null/lib") if full else places[0]), str(places[1]), str(former))
    assert texts(store) == ["2nd"]
    assert (store.save("3rd") == "") is not full
    assert texts(store) == ["3rd"]
    assert list(former.iterdir()) == []
    assert not full or (places[1] / NAME).exists()


def test_a_former_place_that_is_the_spare_keeps_its_memory(places: tuple[Path, Path]) -> None:
    Store("/dev/null/lib", str(places[1]), str(places[1])).save(NEW)
    assert texts(store_in(places)) == [NEW]


def test_nobody_holds_what_is_not_there(tmp_path: Path) -> None:
    assert state_store.holder(str(tmp_path), str(tmp_path / "nowhere"), "/dev/null") is None
