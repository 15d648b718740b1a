"""The Python part of the image: wheels that are unpacked, not installed, and compiled by the image's own interpreter.

An installation by pip would add programs with paths of this machine in their first line, and the origin of each wheel.
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
# -I: no variable of the pod and no directory of the caller changes what is imported.
CONTENT = """\
#!/usr/bin/python3.11 -I
import sys

from nodeprep.__main__ import main

sys.exit(main())
"""


def dependencies(lock: Path, layer: Path, root: Path, scratch: Path) -> None:
    """The packages in `lock`. pip fetches them and verifies their hashes, for the Python of `root`.

    Raises:
        CannotBuild: pip failed; with the last line that it wrote.
    """
    found = find_spec("pip")  # of this environment, run by the interpreter of the image
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
    """Bytecode for every module of the layer. It stays valid if a container's file system shows other times.

    Raises:
        CannotBuild: this Python cannot read a module.
    """
    # Paths as in the image: a traceback must not name a directory of this machine.
    names = ("--invalidation-mode", "unchecked-hash", "-s", str(layer), "-p", "/")
    command = (*interpreter(root), "-s", "-S", "-P", "-m", "compileall", "-q", "-f", *names, str(layer))
    # The order of the strings in a set depends on the seed.
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
    # Nobody needs the tests of a dependency.
    for tests in (*site.glob("*/tests"), *site.glob("*/test")):
        shutil.rmtree(tests)
