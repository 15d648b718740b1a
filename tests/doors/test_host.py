"""Whether what is mounted at a live host's root is the machine that we run on, and what says that it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeprep.doors.host import Host

BOOT_ID = "proc/sys/kernel/random/boot_id"
OURS = Path("/", BOOT_ID).read_text()
NOT_MOUNTED = "the host's root is not mounted here: "
ROWS: list[tuple[dict[str, str], str]] = [
    # files, what is wrong
    ({}, f"no {{root}}/proc/1/stat and no {{root}}/{BOOT_ID}"),
    ({"proc/1/stat": "1 (init) S"}, f"no {{root}}/{BOOT_ID}"),
    ({BOOT_ID: OURS}, "no {root}/proc/1/stat"),
    ({"proc/1/stat": "1 (init) S", BOOT_ID: "another\n"}, f"{{root}}/{BOOT_ID} is not that of this boot"),
]


@pytest.mark.parametrize(("files", "wrong"), ROWS)
def test_a_root_that_is_not_mounted_says_what_is_missing(tmp_path: Path, files: dict[str, str], wrong: str) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    told = Host(f"{tmp_path}/").unmounted()
    assert told is not None
    assert told.detail == NOT_MOUNTED + wrong.format(root=tmp_path)


def test_one_that_is_mounted_or_dead_lacks_nothing(tmp_path: Path) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    assert Host("/").unmounted() is None
    assert Host(str(tmp_path), live=False).unmounted() is None
