"""Builds nodeprep's images without a container tool, from Debian's packages, the locked wheels and this checkout.

    python daemonset/image/build.py OUT [--name NAME]   OUT.tar is an archive, any other OUT an OCI image layout
    python daemonset/image/build.py --root DIR          the file system only, which the Containerfile takes

With --repair it is the image of the remediator, which has a shell and Ansible besides. The agent's has neither.

It needs a Debian 12 with apt's lists and the .venv of this checkout (make image provides both), and no root. The same
inputs give the same digest. The two lower layers are kept in the user's cache, under the hash of their inputs.
"""

# ruff: noqa: T201 - a program prints

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from daemonset.image import debian, oci, wheels
from daemonset.image.debian import CannotBuild

CHECKOUT = Path(__file__).resolve().parents[2]
MODES = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700}
CACHED = 2  # the number of layers in the cache, from the lowest
KEPT = 2  # versions of each cached layer, 40 MB each: of this checkout and of another


@dataclass(frozen=True)
class Flavour:
    """One of the two images: its title, the lists of Debian packages, the lock of its wheels."""

    title: str
    lists: tuple[Path, ...]
    lock: Path


AGENT = Flavour("nodeprep", (debian.LIST,), CHECKOUT / "requirements.lock")
REPAIR = Flavour("nodeprep-repair", (debian.LIST, debian.REPAIR), CHECKOUT / "requirements-repair.lock")


def image(out: Path, *, name: str = "", above: Path | None = None, flavour: Flavour = AGENT) -> str:
    """Writes the image to `out` and returns its digest. `name` is TITLE:VERSION by default.

    `above` is a directory that becomes the highest layer. Its Python is compiled like the rest.

    Raises:
        CannotBuild: this machine lacks something, or cannot reach its package sources.
        ValueError: `out` or `above` is invalid; see oci.write.
    """
    with layers(above, flavour) as found:
        labels = {"org.opencontainers.image.title": flavour.title, "org.opencontainers.image.version": version()}
        labels["org.opencontainers.image.licenses"] = "Apache-2.0"
        return oci.write(
            [*map(packed, found[:CACHED]), *found[CACHED:]],
            out,
            name=name or f"{flavour.title}:{version()}",
            entrypoint=("nodeprep",),
            labels=labels,
        )


def packed(layer: Path) -> Path:
    """A packed layer of the cache. It is kept beside the unpacked one. The caller holds the lock of the cache."""
    writer = Path(oci.__file__).read_bytes() + str(oci.epoch()).encode()
    wanted = layer.with_name(f"{layer.name}.{hashlib.sha256(writer).hexdigest()[:12]}.packed")
    if not wanted.is_dir():
        partial = layer.with_name("image.partial")
        shutil.rmtree(partial, ignore_errors=True)
        oci.pack(layer, partial)
        partial.rename(wanted)
    return wanted


@contextmanager
def layers(above: Path | None = None, flavour: Flavour = AGENT) -> Iterator[tuple[Path, ...]]:
    """The layers of the image as directories, lowest first: Debian, dependencies of nodeprep, nodeprep, and `above`.

    Only read them, and only within the context: another build may remove them afterwards.

    Raises:
        CannotBuild: as image().
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodeprep"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "image.lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="nodeprep-image-") as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source = b"".join(Path(module.__file__ or "").read_bytes() for module in (debian, wheels))
        source += Path(__file__).read_bytes() + b"".join(one.read_bytes() for one in flavour.lists)
        suffix = "" if flavour is AGENT else f"-{flavour.title}"

        def make_root(layer: Path, archives: Path) -> None:
            debian.unpack(layer, archives, *flavour.lists)
            wheels.compile_all(layer, layer)

        root = kept(cache, f"image-root{suffix}", (*debian.versions(*flavour.lists), source), make_root)

        def make_site(layer: Path, archives: Path) -> None:
            wheels.dependencies(flavour.lock, layer, root, archives)
            wheels.compile_all(layer, root)

        site = kept(cache, f"image-site{suffix}", (root.name, flavour.lock.read_bytes()), make_site)
        top = Path(scratch) / "top"
        (Path(scratch) / "wheel").mkdir()
        wheels.project(CHECKOUT, top, Path(scratch) / "wheel")
        found = [root, site, finished(top, root)]
        if above:
            shutil.copytree(above, Path(scratch) / "above", symlinks=True)
            found.append(finished(Path(scratch) / "above", root))
        yield tuple(found)


def version() -> str:
    """The version of this checkout, from the same place as that of the wheel."""
    found = re.search(r'^__version__ = "(.+)"$', (CHECKOUT / "agent/nodeprep/__init__.py").read_text(), re.MULTILINE)
    if not found:
        raise CannotBuild("image: agent/nodeprep/__init__.py names no version")
    return found[1]


def kept(cache: Path, kind: str, inputs: Sequence[bytes | str], make: Callable[[Path, Path], None]) -> Path:
    """The layer of these inputs. It has another name until it is complete. The caller holds the lock of the cache."""
    wanted = cache / f"{kind}-{hashlib.sha256(repr(inputs).encode()).hexdigest()[:12]}"
    if wanted.is_dir():
        wanted.touch()
        return wanted
    print(f"image: making {wanted}", file=sys.stderr, flush=True)
    partial = wanted.with_name(f"{kind}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="nodeprep-image-") as archives:
        make(partial, Path(archives))
    normalized(partial)
    partial.rename(wanted)
    wanted.touch()
    layers = [path for path in cache.glob(f"{kind}-*/") if path.suffix != ".packed"]
    for old in sorted(layers, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        for path in (old, *cache.glob(f"{old.name}.*.packed")):
            shutil.rmtree(path)
    return wanted


def finished(layer: Path, root: Path) -> Path:
    wheels.compile_all(layer, root)
    normalized(layer)
    return layer


def normalized(layer: Path) -> None:
    """Set modes that do not depend on the umask: root may write, everybody may read and run."""
    layer.chmod(0o755)
    for path in layer.rglob("*"):
        if not path.is_symlink():
            plain = 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
            path.chmod(MODES.get(path.relative_to(layer).as_posix(), plain))


def file_system(directory: Path, flavour: Flavour = AGENT) -> None:
    """The files of the image as a container sees them, in an empty `directory`.

    Raises:
        CannotBuild: as image(), or `directory` is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise CannotBuild(f"image: {directory} is not empty; name a new directory")
    with layers(flavour=flavour) as found:
        for layer in found:
            shutil.copytree(layer, directory, symlinks=True, dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="build.py", description="Builds nodeprep's image without a container tool.")
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT", help="an archive if it ends in .tar, else a layout")
    parser.add_argument("--name", default="", help=f"the image's whole name (default TITLE:{version()})")
    parser.add_argument("--repair", action="store_true", help="the remediator's image, with a shell and Ansible")
    parser.add_argument("--root", type=Path, metavar="DIR", help="write the file system to DIR instead")
    arguments = parser.parse_args()
    flavour = REPAIR if arguments.repair else AGENT
    if (arguments.out is None) == (arguments.root is None):
        parser.error("either OUT or --root DIR is wanted")
    try:
        if arguments.root:
            file_system(arguments.root, flavour)
            return 0
        print(image(arguments.out, name=arguments.name, flavour=flavour))
    except (CannotBuild, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
