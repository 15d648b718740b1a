"""Proves that the tests of each check can fail: every FAIL and WARN replaced by OK must turn its own test file red.

    python tests/sabotage.py [CHECK ...]

Works on a copy, one replacement at a time. Exits 1 and names every sabotage that no test noticed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CHECKS = Path("agent/nodeprep/checks")
BAD = re.compile(r"\bStatus\.(FAIL|WARN)\b")


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One FAIL or WARN in a check's source, by its position."""

    check: Path
    start: int
    end: int
    line: int

    @property
    def test(self) -> Path:
        family, name = self.check.parts[-2:]
        return Path("tests/checks") / family / f"test_{name}"


def sabotages(wanted: list[str]) -> Iterator[Sabotage]:
    for path in sorted((REPOSITORY / CHECKS).glob("*/*.py")):
        check = f"{path.parent.name}.{path.stem.replace('_', '-')}"
        if path.name == "__init__.py" or (wanted and check not in wanted):
            continue
        source = path.read_text()
        for match in BAD.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            yield Sabotage(path.relative_to(REPOSITORY), match.start(), match.end(), line)


def failing(every: list[Sabotage]) -> str:
    """What pytest says where the tests fail before anything is sabotaged: such tests notice nothing."""
    tests = sorted({str(one.test) for one in every})
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def survives(sabotage: Sabotage) -> bool:
    """Whether the check's own tests still pass with it."""
    with tempfile.TemporaryDirectory(prefix="nodeprep-sabotage-") as scratch:
        copy = Path(scratch)
        shutil.copytree(REPOSITORY / "agent", copy / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        source = (copy / sabotage.check).read_text()
        (copy / sabotage.check).write_text(source[: sabotage.start] + "Status.OK" + source[sabotage.end :])
        options = ["-q", "-x", "-p", "no:cacheprovider", "-o", "pythonpath="]
        argv = [sys.executable, "-m", "pytest", *options, str(sabotage.test)]
        path = f"{copy / 'agent'}:{REPOSITORY}"
        done = subprocess.run(
            argv, cwd=REPOSITORY, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1):  # 1 is "tests failed"; anything else proves nothing
            raise RuntimeError(f"{sabotage.test}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode == 0


def main(wanted: list[str]) -> int:
    every = list(sabotages(wanted))
    if every and (said := failing(every)):
        print(f"{said}the tests fail before anything is sabotaged")
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        unnoticed = [one for one, lived in zip(every, pool.map(survives, every), strict=True) if lived]
    for one in unnoticed:
        print(f"UNNOTICED: {one.check}:{one.line}: OK in place of a bad verdict fails no test of {one.test}")
    checks = len({one.check for one in every})
    print(f"{len(every)} sabotages in {checks} checks, {len(every) - len(unnoticed)} noticed")
    return 1 if unnoticed or not every else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
