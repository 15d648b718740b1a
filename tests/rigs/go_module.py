"""Programs of Go modules that others publish. Each is built inside its unpacked module, so with its own go.mod.

`go install MODULE@VERSION` would refuse some of them: for the replacements in a go.mod, or for want of a list of
versions.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import cache, cluster_build
from tests.rigs.cluster_build import CannotStart

OUTSIDE = Path("/")


@dataclass(frozen=True)
class Module:
    """A module at a version, with the sum that go.sum would have of it."""

    path: str
    version: str
    sum: str

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"

    def fetched(self, go: str) -> Path:
        """Where it lies unpacked, in Go's own cache. Raises CannotStart."""
        told = json.loads(output(go, "mod", "download", "-json", str(self)))
        if told.get("Sum") != self.sum:
            raise CannotStart(f"{self} has the sum {told.get('Sum')}, not {self.sum}")
        return Path(told["Dir"])

    def build(self, go: str, package: str, target: Path) -> None:
        """Builds its program of that package. Raises CannotStart."""
        words = ("-C", str(self.fetched(go)), "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")
        output(go, "build", *words, "-o", str(target), package)

    def made_from(self, go: str, *more: str) -> bytes:
        """What a thing that is built of it depends on, for `cache.built`."""
        sources = (Path(__file__).read_text(), repr(self), repr(cluster_build.version(go)))
        return "\n".join((*sources, *more)).encode()


def compiler() -> str:
    """The `go` that builds the rig's Kubernetes. Raises CannotStart."""
    with cache.locked("controlplane") as directory:  # a process that fetches Go holds this lock
        return cluster_build.compiler(directory)


def output(*command: str, cwd: Path = OUTSIDE) -> str:
    """The output of a program, by default run outside of any module.

    Raises:
        CannotStart: it failed; with the last line that it wrote.
    """
    environment = {**os.environ, "LC_ALL": "C", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotStart(f"{' '.join(command[:4])} failed: {said[-1] if said else done.returncode}")
    return done.stdout
