"""Writes OCI images without a container tool. The same directories give the same bytes and the same digest.

    from daemonset.image import oci
    oci.write([base, program], Path("out.tar"), name="example.test/tool:dev", entrypoint=["tool"])

Owners are root and times are SOURCE_DATE_EPOCH, else 0. The unpacked form of a layer depends only on its files. The
compressed form also depends on zlib, so two machines get the same digest if they have the same zlib.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

TYPE = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # names of Go, which the specification uses
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LEVEL = 6  # of gzip: level 9 takes three times as long and saves a hundredth of the size
PIECE = 1 << 20
DESCRIPTION = "packed-layer.json"


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored file: its digest, its size in bytes, and the digest of its unpacked form."""

    digest: str
    size: int
    unpacked: str

    def descriptor(self, kind: str) -> dict[str, Any]:
        return {"mediaType": f"{TYPE}.{kind}", "digest": f"sha256:{self.digest}", "size": self.size}

    @property
    def path(self) -> str:
        return f"blobs/sha256/{self.digest}"


def write(
    layers: Sequence[Path],
    out: Path,
    *,
    name: str,
    entrypoint: Sequence[str],
    environment: Mapping[str, str] | None = None,
    user: str = "",
    labels: Mapping[str, str] | None = None,
) -> str:
    """Writes the image of `layers`, lowest first, and returns the digest of its manifest, "sha256:...".

    A layer is a directory with its files, or a directory that `pack` wrote.

    An `out` that ends in .tar is an archive for `ctr -n k8s.io images import`, `podman load` and `docker load`. Any
    other `out` is a directory, an OCI image layout. It replaces one that exists. Modes, symbolic links and hard links
    are kept. `name` is the full name that pods use, with its tag. PATH is set unless `environment` has it.

    Raises:
        ValueError: a layer holds a socket or a device, or is not a directory; `out` is a directory that is not a
            layout; SOURCE_DATE_EPOCH is not a number.
        OSError: a file could not be read or written.
    """
    if out.suffix != ".tar" and out.is_dir() and any(out.iterdir()) and not (out / "oci-layout").is_file():
        raise ValueError(f"{out} is there and is no image layout: it would be lost; name another directory, or a .tar")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
        layout = Path(scratch) / "layout"
        (layout / "blobs/sha256").mkdir(parents=True)
        config: dict[str, Any] = {
            "Entrypoint": list(entrypoint),
            "Env": sorted(f"{key}={value}" for key, value in ({"PATH": PATH} | dict(environment or {})).items()),
            "WorkingDir": "/",
        }
        config |= {"User": user} if user else {}
        config |= {"Labels": dict(labels)} if labels else {}
        manifest = _image(layout, [_layer(layout, directory) for directory in layers], config, name)
        if out.suffix == ".tar":
            for path in _sorted(layout):  # the umask of this process must not change the archive
                path.chmod(0o755 if path.is_dir() else 0o644)
            whole = Path(scratch) / "archive"
            with whole.open("wb") as stream:
                _pack(layout, stream)
            whole.replace(out)
        else:
            shutil.rmtree(out, ignore_errors=True)
            layout.replace(out)
    return f"sha256:{manifest.digest}"


def pack(directory: Path, out: Path) -> None:
    """Writes a compressed layer for `write`. To compress one takes seconds, and many images may share it.

    Raises:
        ValueError, OSError: as `write`.
    """
    out.mkdir()
    (out / "blobs/sha256").mkdir(parents=True)
    (out / DESCRIPTION).write_text(json.dumps(asdict(_layer(out, directory))))


def _image(layout: Path, layers: Sequence[Blob], config: Mapping[str, Any], name: str) -> Blob:
    """Makes an image of layers: its configuration, its manifest, and the indices by which tools find it."""
    settings = {
        "created": datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        # These are digests of unpacked layers. The manifest has those of stored layers.
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.unpacked}" for layer in layers]},
    }
    stored = _json(layout, settings)
    parts = {
        "config": stored.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip") for layer in layers],
    }
    manifest = _json(layout, {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json", **parts})
    tag = name.rpartition("/")[2].partition(":")[2] or "latest"
    # containerd and Docker use the first name of the image, Podman and the specification the second.
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
    pointer = manifest.descriptor("manifest.v1+json") | {"annotations": names}
    index = {"schemaVersion": 2, "mediaType": f"{TYPE}.index.v1+json", "manifests": [pointer]}
    (layout / "index.json").write_bytes(_encoded(index))
    (layout / "oci-layout").write_bytes(_encoded({"imageLayoutVersion": "1.0.0"}))
    # For Docker before 25, which cannot read an OCI layout.
    legacy = [{"Config": stored.path, "RepoTags": [name], "Layers": [layer.path for layer in layers]}]
    (layout / "manifest.json").write_bytes(_encoded(legacy))
    return manifest


def _json(layout: Path, value: Mapping[str, Any]) -> Blob:
    return _stored(layout, lambda stream: stream.write(_encoded(value)))


def _encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _layer(layout: Path, directory: Path) -> Blob:
    if (directory / DESCRIPTION).is_file():
        packed = Blob(**json.loads((directory / DESCRIPTION).read_text()))
        shutil.copyfile(directory / packed.path, layout / packed.path)
        return packed
    unpacked = hashlib.sha256()

    def compress(stream: BinaryIO) -> None:
        nonlocal unpacked
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=LEVEL, mtime=0) as packer:
            twice = _Hashing(packer)
            _pack(directory, twice)
            unpacked = twice.hash

    blob = _stored(layout, compress)
    return Blob(blob.digest, blob.size, unpacked.hexdigest())


class _Hashing:
    """A stream that hashes what is written. tarfile needs nothing but write()."""

    def __init__(self, stream: Any) -> None:
        self.hash = hashlib.sha256()
        self._stream = stream

    def write(self, piece: bytes) -> int:
        self.hash.update(piece)
        self._stream.write(piece)
        return len(piece)


def _stored(layout: Path, produce: Callable[[BinaryIO], object]) -> Blob:
    """Lets `produce` write a file into the blobs, and names it by its digest."""
    partial = layout / "blobs/sha256/partial"
    with partial.open("wb") as stream:
        produce(stream)
    with partial.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    size = partial.stat().st_size
    partial.rename(layout / "blobs/sha256" / digest)
    return Blob(digest, size, digest)


def _pack(directory: Path, stream: Any) -> None:
    """A tar of the files in `directory`. Its order, owners and times do not depend on this machine."""
    if not directory.is_dir():
        raise ValueError(f"{directory} is no directory: a layer is one")
    seconds = epoch()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=PIECE) as archive:
        for path in _sorted(directory):
            if not (path.is_symlink() or path.is_dir() or path.is_file()):
                raise ValueError(f"{path} is a device, a pipe or a socket: a layer holds files, directories and links")
            member = archive.gettarinfo(path, path.relative_to(directory).as_posix())
            member.uid = member.gid = 0
            member.uname = member.gname = ""  # only the numbers count; an image need not know the names
            member.mtime = seconds
            if not member.isreg():
                archive.addfile(member)
                continue
            with path.open("rb") as content:
                archive.addfile(member, content)


def _sorted(directory: Path) -> Iterator[Path]:
    """Everything below `directory`, each directory before its contents. Links are not followed."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _sorted(path)


def epoch() -> int:
    """The time of all files of an image, in seconds since 1970: SOURCE_DATE_EPOCH, else 0.

    Raises:
        ValueError: it is not a number.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    if not given.isdecimal():
        raise ValueError(f"SOURCE_DATE_EPOCH is {given!r}: seconds since 1970 are wanted")
    return int(given)
