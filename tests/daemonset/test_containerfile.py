"""The Containerfile's first stage, run as it stands in a bare Debian: no container engine is wanted for that."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from daemonset.image import build
from daemonset.image.debian import CannotBuild
from tests.rigs import bare_debian
from tests.rigs.absent import cannot_start

CONTAINERFILE = build.CHECKOUT / "daemonset/image/Containerfile"
# Every file of a root by its path: type and mode, and its content's hash or where it leads.
LISTING = """
import hashlib, json, os, pathlib, sys
top, found = pathlib.Path(sys.argv[1]), {}
for path in top.rglob("*"):
    link = os.readlink(path) if path.is_symlink() else ""
    content = path.read_bytes() if path.is_file() and not link else b""
    found[str(path.relative_to(top))] = [oct(path.lstat().st_mode), link or hashlib.sha256(content).hexdigest()]
print("listing", json.dumps(found))
"""


def test_it_builds_the_same_root(tmp_path: Path) -> None:
    """With no file of the checkout but what it copies, and no package but what it installs and git and make."""
    try:
        build.file_system(tmp_path / "root")
        script = f"exec 2>&1\n{same_packages()}{first_stage()}exec python3 -c {shlex.quote(LISTING)} /image"
        done = bare_debian.run(("sh", "-c", script), capture=True)
    except (CannotBuild, bare_debian.CannotStart) as reason:
        cannot_start(reason)
    assert done.returncode == 0, done.stdout[-3000:]
    here = subprocess.run(
        (sys.executable, "-c", LISTING, tmp_path / "root"), capture_output=True, text=True, check=True
    )
    ours, theirs = listed(here.stdout), listed(done.stdout)
    assert len(ours) > 1000
    assert sorted(theirs.keys() ^ ours.keys()) == []
    assert [path for path in ours if ours[path] != theirs[path]] == []


def listed(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed.rpartition("listing ")[2])
    return found


def same_packages() -> str:
    """The image has the packages that apt knows: there it shall know those that it knows here."""
    form = "$(ORIGIN) $(REPO_URI) $(CODENAME) $(COMPONENT)"
    lines = bare_debian.output("apt-get", "indextargets", "--format", form, "Created-By: Packages").splitlines()
    sources = [line.partition(" ")[2] for line in lines if line.startswith("Debian ")]
    return f"printf 'deb %s\\n' {shlex.join(sources)} >/etc/apt/sources.list\n"


def first_stage() -> str:
    """Its lines in shell; the checkout that they copy from is bare_debian's."""
    script = ""
    for line in CONTAINERFILE.read_text().partition("\nFROM scratch\n")[0].splitlines():
        word, _, rest = line.partition(" ")
        if word == "WORKDIR":
            script += f"mkdir -p {rest} && cd {rest} || exit\n"
        elif word == "RUN":
            script += f"( {rest} ) || exit\n"
        elif word == "COPY":
            script += copied(*rest.split())
        else:
            assert word in ("#", "ARG", "FROM"), line
    return script


def copied(*words: str) -> str:
    """COPY takes of a directory what is in it."""
    *sources, target = words
    found = [f"{bare_debian.INSIDE}/{one}{'/.' if (build.CHECKOUT / one).is_dir() else ''}" for one in sources]
    return f"mkdir -p {target} && cp -a {' '.join(found)} {target} || exit\n"
