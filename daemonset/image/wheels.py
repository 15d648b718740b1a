"""Python's part of the image: wheels, unpacked rather than installed, and compiled by the image's own interpreter.

Unpacked: no program of pip's with this machine's paths in its first line, and no note of where a wheel came from.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from daemonset.image.debian import CannotBuild, interpreter

SITE = "usr/local/lib/python3.11/dist-packages"  # Debian's Python looks here
PROGRAM = "usr/local/bin/nodeprep"
# -I: no variable of the pod's and no directory of the caller's changes what is imported.
CONTENT = """\
#!/usr/bin/python3.11 -I
import sys

from nodeprep.__main__ import main

sys.exit(main())
"""


def dependencies(lock: Path, layer: Path, root: Path, scratch: Path) -> None:
    """What `lock` names, fetched by pip, which holds each file against its hash; `root` says for which Python.

    Raises:
        CannotBuild: pip failed; with its last words.
    """
    found = find_spec("pip")  # this environment's, run by the image's interpreter
    if found is None or not found.submodule_search_locations:
        raise CannotBuild(f"image: {sys.executable} has no pip; run: make image")
    pip = (*interpreter(root), found.submodule_search_locations[0], "download", "--no-deps", "--only-binary", ":all:")
    _pip((*pip, "--require-hashes", "-d", str(scratch), "-r", str(lock)))
    _unpack(scratch, layer)


def project(checkout: Path, layer: Path, scratch: Path) -> None:
    """The program itself, as a wheel of `checkout`, and the file that starts it.

    Raises:
        CannotBuild: the wheel could not be built.
    """
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    _pip((*build, "-w", str(scratch), str(checkout)))
    _unpack(scratch, layer)
    program = layer / PROGRAM
    program.parent.mkdir(parents=True)
    program.write_text(CONTENT)
    program.chmod(0o755)


def compile_all(layer: Path, root: Path) -> None:
    """Bytecode for every module of the layer, valid whatever times a container's file system shows.

    Raises:
        CannotBuild: a module is none that this Python reads.
    """
    # Paths as they will be: a traceback names no directory of this machine.
    names = ("--invalidation-mode", "unchecked-hash", "-s", str(layer), "-p", "/")
    command = (*interpreter(root), "-s", "-S", "-P", "-m", "compileall", "-q", "-f", *names, str(layer))
    # The order of a set's strings would follow the seed.
    done = subprocess.run(command, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"image: {(done.stdout + done.stderr).strip()[-300:]}")


def _pip(command: Sequence[str]) -> None:
    done = subprocess.run(
        (*command, "-q", "--disable-pip-version-check", "--no-input"), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise CannotBuild(f"image: pip failed: {said[-1]}; is this Python .venv's (make image)?")


def _unpack(wheels: Path, layer: Path) -> None:
    site = layer / SITE
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            strange = next((name for name in archive.namelist() if name.partition("/")[0].endswith(".data")), None)
            if strange:
                raise CannotBuild(f"image: {wheel.name} holds {strange}: only modules can be unpacked; see wheels.py")
            archive.extractall(site)
    # A dependency's own programs and tests are not asked for by anyone.
    for tests in (*site.glob("*/tests"), *site.glob("*/test")):
        shutil.rmtree(tests)
