"""Many recorded hosts: one table, which host is unlike the others, and in what two differ."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeprep.cli.check import host_traits
from nodeprep.cli.check.host_traits import Oddity
from tests.cli import program

ODD: list[tuple[dict[str, str], list[tuple[str, str, str, int]]]] = [
    # what hosts a, b, c ... show, which of them are odd: host, has, others have, how many
    ({"a": "1", "b": "1", "c": "1"}, []),
    ({"a": "1", "b": "2", "c": "1"}, [("b", "2", "1", 2)]),
    ({"a": "1", "b": "2"}, []),  # of two neither is odd
    ({"a": "1", "b": "2", "c": "3"}, []),
    ({"a": "1", "b": "1", "c": "1", "d": "", "e": "2"}, [("d", "-", "1", 3), ("e", "2", "1", 3)]),
    ({"a": "", "b": "", "c": "2"}, [("c", "2", "-", 2)]),
]


@pytest.mark.parametrize(("values", "odd"), ODD)
def test_who_is_unlike_the_others(values: dict[str, str], odd: list[tuple[str, str, str, int]]) -> None:
    hosts = {host: {"kernel": value} if value else {} for host, value in values.items()}
    assert host_traits.oddities(hosts) == [Oddity(host, "kernel", *more) for host, *more in odd]  # type: ignore[arg-type]


def test_without_a_majority_all_values_are_told() -> None:
    hosts = {host: {"kernel": value} for host, value in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "1"))}
    assert host_traits.split(hosts) == [("kernel", "2 hosts: 1; 2 hosts: 2")]
    assert host_traits.split({host: {"kernel": "1"} for host in "abc"}) == []


def firmware(root: Path) -> None:
    (root / "sys/class/infiniband/mlx5_3/fw_ver").write_text("28.36.1010\n")


def rate(root: Path) -> None:
    (root / "sys/class/infiniband/mlx5_3/ports/1/rate").write_text("200 Gb/sec (4X HDR)\n")


def mtu(root: Path) -> None:
    (next((root / "sys/class/infiniband/mlx5_3").resolve().parents[1].glob("net/*")) / "mtu").write_text("1500\n")


def recording(directory: Path, name: str, change: Callable[[Path], None] | None = None) -> Path:
    """A tree of one of eight alike, recorded under a name of its own."""
    root = program.node("h100-roce", directory / name)
    (root / "proc/sys/kernel/hostname").write_text(f"{name}\n")
    if change is not None:
        change(root)
    file = directory / f"{name}.json"
    done = program.nodeprep("snapshot", "--root", str(root), "-o", str(file))
    assert done.returncode == 0, done.stderr
    return file


CHANGES = [
    (firmware, ": firmware", "28.36.1010"),
    (rate, ": rate", "200 Gb/s"),
    (mtu, ": MTU", "1500"),
]


@pytest.mark.parametrize(("change", "trait", "has"), CHANGES)
def test_a_table_of_hosts_shows_which_is_unlike_the_others(
    tmp_path: Path, change: Callable[[Path], None], trait: str, has: str
) -> None:
    files = [recording(tmp_path, name, change if name == "gpu-2" else None) for name in ("gpu-1", "gpu-2", "gpu-3")]
    told = program.nodeprep("check", "--snapshot", *map(str, files))
    lines = told.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["HOST", "gpu-1", "gpu-2", "gpu-3"]
    (odd,) = (line for line in lines if line.startswith("gpu-2") and trait in line)
    assert has in odd
    assert "(2 of 3)" in odd
    assert not [line for line in lines if line.startswith(("gpu-1", "gpu-3")) and "of 3)" in line]
    both = program.nodeprep("compare", str(files[0]), str(files[1]))
    assert both.returncode == 1
    assert has in both.stdout
    assert trait in both.stdout
    all_of_them = program.nodeprep("compare", *map(str, files)).stdout
    assert odd in all_of_them.split("unlike the others:")[1]
    (named,) = json.loads(program.nodeprep("compare", *map(str, files), "-o", "json").stdout)["unlike"]
    assert (named["host"], named["others"]) == ("gpu-2", 2)
    assert trait in named["trait"]


def test_hosts_that_are_alike(tmp_path: Path) -> None:
    files = [str(recording(tmp_path, name)) for name in ("gpu-1", "gpu-2")]
    alike = program.nodeprep("compare", *files)
    assert (alike.returncode, alike.stderr) == (0, "")
    assert alike.stdout.startswith("gpu-1, gpu-2: alike in ")
    told = program.nodeprep("check", "--snapshot", *files)
    assert "unlike the others" not in told.stdout
    single = program.nodeprep("check", "--snapshot", files[0])
    assert told.returncode == single.returncode
    listed = program.nodeprep("check", "--snapshot", *files, "-o", "line").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["gpu-1", "gpu-2"]
    twice = [str(shutil.copy(files[0], tmp_path / name)) for name in ("before", "after")]
    listed = program.nodeprep("check", "--snapshot", *twice, "-o", "line").stdout.splitlines()
    assert [line.split()[0] for line in listed] == twice
    document = json.loads(program.nodeprep("check", "--snapshot", *files, "-o", "json").stdout)
    assert (document["kind"], document["unlike"], len(document["items"])) == ("ReportList", [], 2)
    same = program.nodeprep("compare", files[0], files[0])
    assert same.returncode == 0


def test_the_worst_host_decides(tmp_path: Path) -> None:
    files = [
        recording(tmp_path, "gpu-1"),
        recording(tmp_path, "gpu-2", lambda root: program.set_down(root, "mlx5_3")),
    ]
    told = program.nodeprep("check", "--snapshot", *map(str, files))
    assert told.returncode == 1
    assert told.stdout.splitlines()[2].split()[:3] == ["gpu-2", "NOT", "READY"]
    failing = program.nodeprep("check", "--snapshot", *map(str, files), "--failing").stdout
    assert "gpu-2" in failing
    assert "gpu-1" not in failing.split("unlike the others")[0]
    lines = program.nodeprep("check", "--snapshot", *map(str, files), "--failing", "-o", "line").stdout
    assert [line.split()[0] for line in lines.splitlines()] == ["gpu-2"]
    fine = program.nodeprep("check", "--snapshot", str(files[0]), "--failing", "-o", "line")
    assert (fine.returncode, fine.stdout) == (0, "")


WRONG = [
    (("check", "file.json"), "check: found 'file.json', wanted no file without --snapshot"),
    (("check", "--snapshot", "none.json", "other.json"), "none.json: no such file"),
    (("compare", "one.json"), "compare: found 1 recording, wanted two or more (nodeprep snapshot)"),
    (("check", "--snapshot", "a", "b", "-o", "junit"), "-o junit is of one host, found 2 recordings"),
    (
        ("check", "--failing", "-o", "junit"),
        "-o junit has a case for each check: it cannot be combined with --failing",
    ),
    (("check", "--snapshot", "a", "b", "-o", "wide"), "-o wide is of one host, found 2 recordings"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_wrong_use_is_one_line(words: tuple[str, ...], says: str) -> None:
    done = program.nodeprep(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{says}\n")


TOTALS = [
    # options of check, and the line below the table
    ((), "2 of 3 without a fault"),
    (("--fail-on", "warn"), "2 of 3 without a fault"),
    (("--strict",), "2 of 3 without a fault, 2 of them not judged in full"),
    (("--failing",), "2 of 3 without a fault"),
]


def test_the_total_below_the_table_is_that_of_its_column(tmp_path: Path) -> None:
    """Whatever makes `check` fail: a host with 0 under FAULTS is one without a fault."""

    def down(root: Path) -> None:
        program.set_down(root, "mlx5_3")

    changes = {"gpu-1": None, "gpu-2": down, "gpu-3": mtu}
    files = [str(recording(tmp_path, name, change)) for name, change in changes.items()]
    for options, total in TOTALS:
        lines = program.nodeprep("check", *options, "--snapshot", *files).stdout.splitlines()
        assert total in lines, lines
