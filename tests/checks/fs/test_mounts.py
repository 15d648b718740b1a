"""fs.mounts by its rows."""

from __future__ import annotations

import pytest

from nodeprep.checks.fs.mounts import CHECK, Want
from nodeprep.facts.machine.mounts import Mount, Mounts
from nodeprep.model import Unreadable, Why
from tests.values import say, verdicts

HUNG = "statvfs gave no answer in 2 s"
DENIED = Unreadable(Why.DENIED, "/data", 13)


def mount(
    point: str = "/data", kind: str = "nfs4", answer: object = "", device: str = "0:60", source: str = "nas:/x"
) -> Mount:
    remote = kind not in ("ext4", "autofs")
    return Mount(point, kind, source, device, "/", remote, answer)  # type: ignore[arg-type]


def mounts(*found: Mount) -> Mounts:
    return Mounts(0.0, found)


ROOT = mount("/", "ext4", device="8:1", source="/dev/sda1")
ROWS = [
    # mounted                              listed       says
    ((ROOT,), (), "absent Nothing"),
    ((ROOT,), ("/data",), "fail NotMounted"),
    ((ROOT, mount()), ("/data",), "ok Mounted"),
    ((ROOT, mount()), ("/data/",), "ok Mounted"),
    ((ROOT,), ("/",), "ok Mounted"),
    ((ROOT, mount(answer=HUNG)), ("/data",), "fail NoAnswer"),
    ((ROOT, mount(answer=DENIED)), ("/data",), "unknown CannotLook"),
    ((ROOT, mount(kind="autofs", source="systemd-1")), ("/data",), "ok AutomountWaits"),
    ((ROOT, mount("/data2")), ("/data",), "fail NotMounted; ok Answers"),
    ((ROOT, mount()), (), "ok Answers"),
    ((ROOT, mount(answer=HUNG)), (), "warn RemoteNoAnswer"),
    ((ROOT, mount(answer=DENIED)), (), "absent Nothing"),
    ((ROOT, mount(answer=DENIED), mount("/other")), (), "ok Answers"),
    ((ROOT, mount(answer=HUNG), mount(answer="")), ("/data",), "ok Mounted"),  # another was mounted over it
    ((ROOT, mount(answer=""), mount(answer=HUNG)), ("/data",), "fail NoAnswer"),
    ((ROOT, mount()), ("/data", "/data/"), "ok Mounted"),
]


@pytest.mark.parametrize(("found", "listed", "says"), ROWS)
def test_says(found: tuple[Mount, ...], listed: tuple[str, ...], says: str) -> None:
    assert say(CHECK, mounts(*found), want=Want(mounts=listed)) == says


def test_a_dead_server_under_many_pods_is_one_finding() -> None:
    pods = [mount(f"/pods/{number}", answer=HUNG if number == 7 else "") for number in range(60)]
    other = mount("/models", device="0:61", source="nas:/models")
    found = verdicts(CHECK, mounts(ROOT, *pods, other))
    assert [(one.subject.key, one.reason) for one in found] == [("/pods/0", "RemoteNoAnswer"), ("/models", "Answers")]
    assert found[1].message == "nfs4 from nas:/models at /models"
    two = verdicts(CHECK, mounts(ROOT, *pods[:2]))
    assert two[0].message == "nfs4 from nas:/x at /pods/0 (2 mounts)"
    assert found[0].message.startswith("nfs4 from nas:/x at /pods/0 (60 mounts) does not answer (statvfs gave")


def test_each_listed_point_is_judged_by_itself() -> None:
    found = verdicts(CHECK, mounts(ROOT, mount(answer=DENIED)), want=Want(mounts=("/data", "/models")))
    assert [(one.subject.key, one.reason) for one in found] == [("/data", "CannotLook"), ("/models", "NotMounted")]


def test_messages_say_what_is_mounted_and_what_to_run() -> None:
    (missing,) = verdicts(CHECK, mounts(ROOT), want=Want(mounts=("/data",)))
    assert missing.message.startswith("nothing is mounted at /data, wanted by profile site (mounts); try: mount /data;")
    (hung,) = verdicts(CHECK, mounts(mount(answer=HUNG)), want=Want(mounts=("/data",)))
    assert hung.message.startswith(
        f"/data is nfs4 from nas:/x, wanted by profile site (mounts), and does not answer ({HUNG}); see its server"
    )
