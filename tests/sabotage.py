"""Proves that the tests of each check can fail: if a FAIL or WARN is replaced by OK, its own test file must fail.

    python tests/sabotage.py [CHECK ...]

One replacement at a time, each in a fork, so that pytest and the libraries are imported once. Exits 1 and names every
sabotage that no test noticed.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from nodeprep.values import replace

REPOSITORY = Path(__file__).resolve().parent.parent
CHECKS = Path("agent/nodeprep/checks")
BAD = re.compile(r"\bStatus\.(FAIL|WARN)\b")
PASSED, FAILED = 0, 1  # pytest's exit codes; any other proves nothing
# Imports of the tests of checks besides nodeprep. A module of nodeprep here would escape the sabotage.
LIBRARIES = ("hypothesis", "typer", "yaml", "xdist", "pytest_timeout")


@dataclass(frozen=True, slots=True)
class Sabotaged(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another source than its file's, and lets the checks of its family say OK for any reason.

    Otherwise the runner would refuse the undeclared OK. Then the runner would notice the sabotage, and not the test.
    """

    name: str
    file: Path
    source: str

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        file = self.file.with_name(f"{name.rpartition('.')[2]}.py")
        if name.rpartition(".")[0] != self.name.rpartition(".")[0] or not file.is_file():
            return None
        return importlib.util.spec_from_file_location(name, file, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        file = Path(module.__file__ or "")
        source = self.source if module.__name__ == self.name else file.read_text()
        exec(compile(source, file, "exec"), module.__dict__)
        check = vars(module).get("CHECK")
        if check is not None:
            fine = (replace(one, status=type(one.status).OK) for one in check.reasons)
            vars(module)["CHECK"] = replace(check, reasons=(*check.reasons, *fine))


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

    def finder(self) -> Sabotaged:
        source = (REPOSITORY / self.check).read_text()
        name = ".".join(self.check.with_suffix("").parts[1:])
        return Sabotaged(name, REPOSITORY / self.check, f"{source[: self.start]}Status.OK{source[self.end :]}")


def sabotages(wanted: list[str]) -> Iterator[Sabotage]:
    for path in sorted((REPOSITORY / CHECKS).glob("*/*.py")):
        check = f"{path.parent.name}.{path.stem.replace('_', '-')}"
        if path.name == "__init__.py" or (wanted and check not in wanted):
            continue
        source = path.read_text()
        judging, declared, _ = source.partition("\nCHECK = Check(")  # tests/test_reasons.py covers the declarations
        for match in BAD.finditer(judging if declared else source):
            line = source.count("\n", 0, match.start()) + 1
            yield Sabotage(path.relative_to(REPOSITORY), match.start(), match.end(), line)


def tested(tests: Sequence[Path], sabotage: Sabotage | None, log: Path) -> int:
    """Forks a process that runs tests, with or without a sabotage, and exits as pytest. Returns its process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 70  # os.EX_SOFTWARE: pytest did not come to an end
    try:
        said = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        if sabotage is not None:
            sys.meta_path.insert(0, sabotage.finder())
        # The default import mode of asserts needs plugins that are not imported yet.
        options = ("-q", "-x", "-p", "no:cacheprovider", "--assert=plain")
        code = pytest.main([*options, *(str(REPOSITORY / test) for test in tests)])
    except BaseException:  # noqa: BLE001 - it must not go on as its parent would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def survivors(every: Sequence[Sabotage], logs: Path) -> Iterator[Sabotage]:
    """The sabotages that the check's own tests do not notice. As many run at a time as there are processors."""
    waiting, running = list(every), dict[int, Sabotage]()
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            one = waiting.pop(0)
            running[tested([one.test], one, log(logs, one))] = one
        child, status = os.wait()
        one = running.pop(child)
        code = os.waitstatus_to_exitcode(status)
        if code not in (PASSED, FAILED):
            text = log(logs, one).read_text(errors="replace")
            raise RuntimeError(f"{one.check}:{one.line}: {one.test}: pytest ended with {code}\n{text}")
        if code == PASSED:
            yield one


def log(logs: Path, one: Sabotage) -> Path:
    return logs / f"{one.check.parent.name}-{one.check.stem}-{one.start}"


def failing(every: Sequence[Sabotage], logs: Path) -> str:
    """The output of pytest if the tests fail without a sabotage: such tests notice nothing."""
    _, status = os.waitpid(tested(sorted({one.test for one in every}), None, logs / "none"), 0)
    return (logs / "none").read_text(errors="replace") if status else ""


def main(wanted: list[str]) -> int:
    every = list(sabotages(wanted))
    os.chdir(REPOSITORY)
    for library in LIBRARIES:
        importlib.import_module(library)
    with tempfile.TemporaryDirectory(prefix="nodeprep-sabotage-") as logs:
        if every and (said := failing(every, Path(logs))):
            print(f"{said}the tests fail before anything is sabotaged")
            return 1
        unnoticed = list(survivors(every, Path(logs)))
    for one in unnoticed:
        print(f"UNNOTICED: {one.check}:{one.line}: OK in place of a bad verdict fails no test of {one.test}")
    checks = len({one.check for one in every})
    print(f"{len(every)} sabotages in {checks} checks, {len(every) - len(unnoticed)} noticed")
    return 1 if unnoticed or not every else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
