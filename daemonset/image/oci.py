"""Writes OCI images without a container tool: the same directories give the same bytes, and so the same digest.

    from daemonset.image import oci
    oci.write([base, program], Path("out.tar"), name="example.test/tool:dev", entrypoint=["tool"])

Owners are root and times are SOURCE_DATE_EPOCH, else 0. What a layer is when unpacked depends on its files alone; its
compressed form also on the zlib that packs it, so two machines agree on a digest where their zlib is the same.
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
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names, which the specification takes
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LEVEL = 6  # of gzip: 9 takes three times as long for a hundredth of the size
PIECE = 1 << 20
DESCRIPTION = "packed-layer.json"


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored file: its digest, its size in bytes, and the digest of what it is when unpacked."""

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
    """Writes the image of `layers`, lowest first, and returns its manifest's digest, "sha256:...".

    A layer is a directory of what is in it, or one that `pack` wrote.

    An `out` that ends in .tar is an archive that `ctr -n k8s.io images import`, `podman load` and `docker load` take;
    any other is a directory, an OCI image layout, which takes the place of one that was there. Modes, symbolic and hard
    links are kept. `name` is the whole name that pods use, its tag included. PATH is set unless `environment` does it.

    Raises:
        ValueError: a layer holds a socket or a device, or is no directory; `out` is a directory that is no layout;
            SOURCE_DATE_EPOCH is no number.
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
            for path in _sorted(layout):  # this process's umask is no part of the archive
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
    """Writes a layer as images have it, for `write`: to compress one takes seconds, and many images may share it.

    Raises:
        ValueError, OSError: as of `write`.
    """
    out.mkdir()
    (out / "blobs/sha256").mkdir(parents=True)
    (out / DESCRIPTION).write_text(json.dumps(asdict(_layer(out, directory))))


def _image(layout: Path, layers: Sequence[Blob], config: Mapping[str, Any], name: str) -> Blob:
    """What makes layers an image: configuration, manifest, and the indices by which the tools find it."""
    settings = {
        "created": datetime.fromtimestamp(epoch(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": config,
        # These name a layer as it is unpacked, the manifest's as it is stored.
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.unpacked}" for layer in layers]},
    }
    stored = _json(layout, settings)
    parts = {
        "config": stored.descriptor("config.v1+json"),
        "layers": [layer.descriptor("layer.v1.tar+gzip") for layer in layers],
    }
    manifest = _json(layout, {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json", **parts})
    tag = name.rpartition("/")[2].partition(":")[2] or "latest"
    # The first is what containerd and Docker call the image, the second what Podman and the specification do.
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
    pointer = manifest.descriptor("manifest.v1+json") | {"annotations": names}
    index = {"schemaVersion": 2, "mediaType": f"{TYPE}.index.v1+json", "manifests": [pointer]}
    (layout / "index.json").write_bytes(_encoded(index))
    (layout / "oci-layout").write_bytes(_encoded({"imageLayoutVersion": "1.0.0"}))
    # For a Docker before 25, which reads no OCI layout.
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
    """A stream that hashes what passes through; all that tarfile asks of one is write()."""

    def __init__(self, stream: Any) -> None:
        self.hash = hashlib.sha256()
        self._stream = stream

    def write(self, piece: bytes) -> int:
        self.hash.update(piece)
        self._stream.write(piece)
        return len(piece)


def _stored(layout: Path, produce: Callable[[BinaryIO], object]) -> Blob:
    """Lets `produce` write a file among the blobs, and names it by its digest."""
    partial = layout / "blobs/sha256/partial"
    with partial.open("wb") as stream:
        produce(stream)
    with partial.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    size = partial.stat().st_size
    partial.rename(layout / "blobs/sha256" / digest)
    return Blob(digest, size, digest)


def _pack(directory: Path, stream: Any) -> None:
    """A tar of what lies in `directory`, in an order and with owners and times that do not depend on this machine."""
    if not directory.is_dir():
        raise ValueError(f"{directory} is no directory: a layer is one")
    seconds = epoch()
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, bufsize=PIECE) as archive:
        for path in _sorted(directory):
            if not (path.is_symlink() or path.is_dir() or path.is_file()):
                raise ValueError(f"{path} is a device, a pipe or a socket: a layer holds files, directories and links")
            member = archive.gettarinfo(path, path.relative_to(directory).as_posix())
            member.uid = member.gid = 0
            member.uname = member.gname = ""  # the numbers count; an image need not know any name
            member.mtime = seconds
            if not member.isreg():
                archive.addfile(member)
                continue
            with path.open("rb") as content:
                archive.addfile(member, content)


def _sorted(directory: Path) -> Iterator[Path]:
    """All below `directory`, each directory before what lies in it; links are not followed."""
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _sorted(path)


def epoch() -> int:
    """The time of all that an image holds, in seconds since 1970: SOURCE_DATE_EPOCH, else 0.

    Raises:
        ValueError: it is no number.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH") or "0"
    if not given.isdecimal():
        raise ValueError(f"SOURCE_DATE_EPOCH is {given!r}: seconds since 1970 are wanted")
    return int(given)
