"""Damages a node's tree in thousands of ways: no damage may end in a traceback, a hang or a false READY.

    python tests/fuzz.py [--trees N] [--seed S]

The node's text and links are real. A profile captured before the damage requires every port of it. Runs as an ordinary
user, so that removed permissions have an effect. Prints what it did and found. Exits 1 on the first violation.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from nodeprep import check_round, checks, facts
from nodeprep.doors.node_host import Host
from nodeprep.facts.expected import profile_capture
from nodeprep.facts.machine.modules import Modules
from nodeprep.facts.machine.pci import Pci
from nodeprep.facts.network.links import Links
from nodeprep.facts.rdma.devnodes import DevNodes
from nodeprep.facts.rdma.rdma import Rdma
from nodeprep.job_profile import Profile
from nodeprep.look import Look
from nodeprep.model import Severity, Status
from nodeprep.observer import Observer
from tests.rigs import trees

# Imported while we are root: this checkout may lie below a home that only root reads.
EVERY_CHECK = tuple(checks.CHECKS.values())

NOBODY = 65534
SLOW = 20.0  # seconds, twice in a row; a look at this tree takes milliseconds, and a hang does not end
VITAL = ("state", "phys_state", "rate", "link_layer")
EMPTY_GID = re.compile(r"/gids/([5-9]|\d\d)$")  # the rest of the table would only cost time
NUMBER = "99999999999999999999999999"


class Violation(Exception):
    """Something happened that must never happen."""


@dataclass(slots=True)
class Damage:
    """One change to one path, and how to take it back."""

    kind: str
    path: Path
    undo: Callable[[], None]


def node() -> dict[str, object]:
    """Two InfiniBand rails and a RoCE one, all ACTIVE, and a GPU: small enough to look at thousands of times."""
    given = trees.described("h100-ib")
    rails, front = given["nics"]
    rails = {key: value[:2] if isinstance(value, list) else value for key, value in rails.items()}
    front = {key: value[:1] if isinstance(value, list) else value for key, value in front.items()}
    return given | {"nics": [rails, front], "gpus": given["gpus"][:1]}


def look(root: Path) -> Look:
    return Observer(Host(str(root), live=False)).look(facts.ALL)


def profile_of(root: Path) -> Profile:
    seen = look(root)
    rdma = seen.get(Rdma)
    assert rdma is not None
    captured = profile_capture.capture(
        "fuzz",
        rdma,
        pci=seen.get(Pci),
        links=seen.get(Links),
        devnodes=seen.get(DevNodes),
        modules=seen.get(Modules),
    )
    assert captured is not None
    return captured


def judged(root: Path, profile: Profile) -> tuple[int, list[str]]:
    """The exit code of `check`, and the reasons of its findings."""
    findings = check_round.judge(EVERY_CHECK, look(root), None, profile, {}).findings
    reasons = [finding.verdict.reason for finding in findings]
    if any(finding.status is Status.FAIL for finding in findings):
        return 1, reasons
    blind = any(finding.status is Status.UNKNOWN and finding.severity is Severity.GATE for finding in findings)
    return (3 if blind else 0), reasons


def timed(root: Path, profile: Profile) -> tuple[int, list[str], float]:
    """The result of `judged`, and its seconds."""
    began = time.perf_counter()
    code, reasons = judged(root, profile)
    return code, reasons, time.perf_counter() - began


def paths(root: Path) -> list[Path]:
    found = []
    for directory, names, files in os.walk(root):
        found += [Path(directory, name) for name in (*names, *files)]
    return sorted(found)


def damage(path: Path, chance: random.Random, root: Path) -> Damage | None:
    """Damage one path in a way of disks, drivers or people."""
    kinds = ["delete", "directory", "fifo", "loop", "outside", "forbid"]
    plain = path.is_file() and not path.is_symlink()
    if plain:
        kinds += ["truncate", "garble", "empty", "overflow", "binary", "huge", "swap-case", "duplicate", "insert"] * 2
    kind = chance.choice(kinds)
    if kind == "forbid":
        if path.is_symlink():
            return None
        mode = path.stat().st_mode
        path.chmod(0)
        return Damage(kind, path, lambda: path.chmod(mode))
    kept = path.with_name(f".{path.name}.kept")
    path.rename(kept)

    def undo() -> None:
        if path.is_symlink() or path.is_file() or path.is_fifo():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        kept.rename(path)

    if plain and kind not in ("delete", "directory", "fifo", "loop", "outside"):
        path.write_bytes(garbage(kind, kept.read_bytes(), chance))
    else:
        replace(kind, path, root)
    # A listing must not find the kept copy beside it, because readers skip nothing by name. So move it away.
    kept = kept.rename(root.parent / "kept")
    return Damage(kind, path, undo)


def replace(kind: str, path: Path, root: Path) -> None:
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "outside":
            path.symlink_to(root.parent / "outside" / "secret")


def garbage(kind: str, data: bytes, chance: random.Random) -> bytes:
    match kind:
        case "truncate":
            return data[: chance.randrange(max(1, len(data.rstrip())))]
        case "garble":
            return bytes(chance.randrange(256) if chance.random() < 0.3 else byte for byte in data)
        case "empty":
            return b""
        case "overflow":
            return "".join(NUMBER if char.isdigit() else char for char in data.decode(errors="replace")).encode()
        case "binary":
            return bytes(chance.randrange(256) for _ in range(chance.randrange(1, 200)))
        case "huge":
            return data * (1 + (1 << 20) // max(1, len(data)))
        case "insert":
            at = chance.randrange(len(data.rstrip()) + 1)
            return data[:at] + bytes([chance.choice(b"0123456789 aZ")]) + data[at:]
        case "swap-case":
            return data.swapcase()
        case _:
            return data + data


def vital(done: Damage, before: bytes | None) -> bool:
    """Whether a file that decides about a required port has changed."""
    if done.path.name not in VITAL or before is None:
        return False
    try:
        return not done.path.is_file() or done.path.read_bytes().strip() != before.strip()
    except OSError:
        return True


def content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and not path.is_symlink() else None


def rounds(root: Path, profile: Profile, count: int, chance: random.Random) -> Iterator[tuple[str, int, float]]:
    every = paths(root)
    decisive = [path for path in every if path.name in VITAL]
    for _ in range(count):
        pool = decisive if chance.random() < 0.3 else every
        path = chance.choice(pool)
        before = content(path)
        done = damage(path, chance, root)
        if done is None:
            continue
        try:
            code, reasons, took = timed(root, profile)
            if took > SLOW:  # once may be the machine; a cost of the damage comes again
                _, _, took = timed(root, profile)
            assess(done, code, reasons, took, vital(done, before))
        finally:
            done.undo()
        yield done.kind, code, took


def assess(done: Damage, code: int, reasons: list[str], took: float, is_vital: bool) -> None:
    what = f"{done.kind} of {done.path}"
    if "CheckBroke" in reasons:
        raise Violation(f"{what}: a check broke")
    if took > SLOW:
        raise Violation(f"{what}: took {took:.1f} s")
    if is_vital and code == 0:
        raise Violation(f"{what}: exit 0 although a required port's file is damaged")


def whole(code: int, reasons: list[str]) -> None:
    if code != 0:
        raise Violation(f"the undamaged tree gives exit {code}: {sorted(set(reasons))}")


def hung(_signal: int, _frame: object) -> NoReturn:
    raise Violation("no end after 30 s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=20261121)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nodeprep-fuzz-") as scratch:
        return run(Path(scratch), options.trees, random.Random(options.seed))


def run(scratch: Path, count: int, chance: random.Random) -> int:
    root = scratch / "root"
    for directory in (root, scratch / "outside"):
        directory.mkdir()
    (scratch / "outside" / "secret").write_text("4: ACTIVE\n")
    files = trees.tree(node())
    trees.write({path: content for path, content in files.items() if not EMPTY_GID.search(path)}, root)
    if os.geteuid() == 0:
        for path in (scratch, *paths(scratch)):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        os.seteuid(NOBODY)
    signal.signal(signal.SIGALRM, hung)
    kinds, codes, slowest = Counter[str](), Counter[int](), 0.0
    try:
        profile = profile_of(root)
        whole(*judged(root, profile))
        for kind, code, took in rounds(root, profile, count, chance):
            signal.alarm(30)
            kinds[kind] += 1
            codes[code] += 1
            slowest = max(slowest, took)
    except Violation as violation:
        print(f"VIOLATION after {sum(kinds.values())} trees: {violation}", file=sys.stderr)
        return 1
    finally:
        signal.alarm(0)
        os.seteuid(os.getuid())
    print(f"{sum(kinds.values())} damaged trees: 0 tracebacks, 0 hangs, 0 false READY; slowest {slowest * 1e3:.0f} ms")
    print("exit codes: " + ", ".join(f"{code}: {times}" for code, times in sorted(codes.items())))
    print("damage: " + ", ".join(f"{kind} {times}" for kind, times in kinds.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
