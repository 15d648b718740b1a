"""nodeprep's image, and the bad releases of it that a rollout must survive.

    python tests/rigs/images.py good|next|failing|mistaken|crashing|repair OUT.tar [--name NAME]

The others are the good one with a layer on top, compiled as the shipped ones are. `next` is another good version. In
`failing`, port.state fails every port. In `mistaken`, cni.parse fails every configuration of pods' network. In
`crashing`, the program ends with 1 at once. `repair` is the remediator's image.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from daemonset.image import build, debian, wheels
from daemonset.image.debian import CannotBuild
from tests.rigs import cache

REPOSITORY = "nodeprep.test/nodeprep"
SOURCES = (
    "agent",
    "daemonset/image",
    "playbooks",
    "pyproject.toml",
    "requirements.lock",
    "requirements-repair.lock",
    "README.md",
    "LICENSE",
    "tests/rigs/images.py",
)
NAME = "image.tar"
REPAIR = "repair"
KINDS = ("good", "next", "failing", "mistaken", "crashing", REPAIR)
TAGS = {"good": "dev", REPAIR: "dev"}  # of the others, their kind
ALWAYS = {"failing": "nodeprep/checks/port/state.py", "mistaken": "nodeprep/checks/cni/parse.py"}
CRASH = '#!/usr/bin/python3.11 -I\nimport sys\n\nsys.exit("nodeprep: this image ends at once, as a test wants it")\n'


def archive(kind: str) -> Path:
    """The archive of a kind, made from this checkout as it is and kept in the cache.

    Raises:
        CannotBuild: as write().
        KeyError: there is no such kind.
    """
    with cache.locked(f"archive-{kind}") as directory:
        files = [(str(path.relative_to(build.CHECKOUT)), path.read_bytes()) for path in sources()]
        made_from = repr((debian.versions(*flavour(kind).lists), Path(__file__).read_bytes(), files)).encode()
        return cache.built(directory, f"archive-{kind}", made_from, partial(make, kind)) / NAME


def make(kind: str, directory: Path) -> None:
    directory.mkdir()
    write(kind, directory / NAME)


def sources() -> Iterator[Path]:
    """The files of this checkout that an image is made from."""
    for path in (build.CHECKOUT / one for one in SOURCES):
        yield from sorted(one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
        if path.is_file():
            yield path


def flavour(kind: str) -> build.Flavour:
    return build.REPAIR if kind == REPAIR else build.AGENT


def write(kind: str, out: Path, *, name: str = "") -> str:
    """Writes the image of a kind to `out` and returns its digest.

    `name` is REPOSITORY:KIND, `dev` for the good one, and REPOSITORY-repair:dev for that of the remediator.

    Raises:
        CannotBuild: this machine lacks something that images need.
        KeyError: there is no such kind.
    """
    name = name or f"{REPOSITORY}{'-repair' if kind == REPAIR else ''}:{TAGS.get(kind, kind)}"
    with tempfile.TemporaryDirectory(prefix="nodeprep-variant-") as scratch:
        above = Path(scratch)
        for path, text in changed(kind).items():
            (above / path).parent.mkdir(parents=True, exist_ok=True)
            (above / path).write_text(text)
            (above / path).chmod(0o755 if path == wheels.PROGRAM else 0o644)
        return build.image(out, name=name, above=None if kind in TAGS else above, flavour=flavour(kind))


def changed(kind: str) -> dict[str, str]:
    """The files of a kind that differ from those of the good image, by their path in it."""
    package = f"{wheels.SITE}/nodeprep"
    init = (build.CHECKOUT / "agent/nodeprep/__init__.py").read_text()
    released = f'"{build.version()}"'
    # A release has its own version: by it the agent knows that a verdict changed by an upgrade.
    versions = {f"{package}/__init__.py": init.replace(released, f'"{build.version()}+{kind}"')}
    if kind in ALWAYS:
        check = (build.CHECKOUT / "agent" / ALWAYS[kind]).read_text()
        always = check.replace("Status.OK", "Status.FAIL").replace("Status.WARN", "Status.FAIL")
        return versions | {f"{wheels.SITE}/{ALWAYS[kind]}": always}
    return {"good": {}, REPAIR: {}, "next": versions, "crashing": {wheels.PROGRAM: CRASH}}[kind]


def main() -> int:
    parser = argparse.ArgumentParser(prog="images.py", description="nodeprep's image, and bad releases of it.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path, metavar="OUT.tar")
    parser.add_argument("--name", default="", help=f"the whole name (default {REPOSITORY}:KIND, :dev for good)")
    arguments = parser.parse_args()
    try:
        print(write(arguments.kind, arguments.out, name=arguments.name))
    except (CannotBuild, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
