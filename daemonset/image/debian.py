"""The Debian part of the image: packages that apt fetches. They are unpacked and not installed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

LIST = Path(__file__).with_name("packages")  # of the agent's image
REPAIR = Path(__file__).with_name("packages-repair")  # what the remediator's image has besides
PYTHON = "usr/bin/python3.11"
MERGED = ("bin", "sbin", "lib", "lib64")  # links into usr, as the installer of Debian makes them

# Files that nothing in the image reads: manuals, converters of encodings (Python has its own), tests of Python.
LEFT_OUT = (
    "usr/share/man",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/binfmts",
    "usr/lib/*/gconv",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/test",
    "usr/lib/python3.11/lib-dynload/_*test*.so",
    "usr/lib/python3.11/lib-dynload/xxlimited*.so",
)
# Modules of Python whose libraries are not in the list of packages.
WITHOUT_LIBRARY = ("_curses", "_curses_panel", "_dbm", "_sqlite3", "nis", "readline")

# The scripts of packages make these at an installation.
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


class CannotBuild(Exception):
    """This machine lacks something that the image needs. The text says what, in one line."""


def names(*lists: Path) -> tuple[str, ...]:
    """The packages of the lists; by default, of the agent's image."""
    lines = (line.partition("#")[0].strip() for one in lists or (LIST,) for line in one.read_text().splitlines())
    return tuple(line for line in lines if line)


@functools.cache
def versions(*lists: Path) -> tuple[str, ...]:
    """The file, size and hash of each package that apt would fetch now. They determine the root.

    Raises:
        CannotBuild: there is no apt, or it knows no such package.
    """
    packages = names(*lists)
    printed = _apt("download", "--print-uris", *packages)
    # 'address' file size hash. The mirror in the address does not matter.
    found = tuple(sorted(line.partition("' ")[2] for line in printed.splitlines() if line.startswith("'")))
    if len(found) != len(packages):
        raise CannotBuild(f"image: apt has addresses for {len(found)} of {len(packages)} packages; run: apt-get update")
    return found


def unpack(root: Path, scratch: Path, *lists: Path) -> None:
    """Makes the root at `root`, which does not exist yet. Archives are put into `scratch`.

    Raises:
        CannotBuild: a package could not be fetched or unpacked.
    """
    _apt("download", *names(*lists), cwd=scratch)
    for directory in MERGED:
        (root / "usr" / directory).mkdir(parents=True)
        (root / directory).symlink_to(f"usr/{directory}")
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for archive in sorted(scratch.glob("*.deb")):
        _extract(archive, root)
        # Scanners for known vulnerabilities look here in an image without dpkg.
        (status / archive.name.partition("_")[0]).write_bytes(_output("dpkg-deb", "--field", str(archive)))
    _leave_out(root)
    _complete(root)


def interpreter(root: Path) -> tuple[str, ...]:
    """The command that starts the image's own Python on this machine. It needs no chroot."""
    loader = next(root.glob("usr/lib/*/ld-linux-*.so.*"))
    return (str(loader), "--library-path", str(loader.parent), str(root / PYTHON))


def _extract(archive: Path, root: Path) -> None:
    # dpkg -x would replace a link by a directory.
    command = ("tar", "-x", "-p", "--no-same-owner", "--keep-directory-symlink", "-C", str(root))
    with subprocess.Popen(("dpkg-deb", "--fsys-tarfile", str(archive)), stdout=subprocess.PIPE) as packed:
        done = subprocess.run(command, stdin=packed.stdout, capture_output=True, text=True, check=False)
    if done.returncode or packed.returncode:
        said = done.stderr.strip().splitlines() or [f"dpkg-deb ended with {packed.returncode}"]
        raise CannotBuild(f"image: {archive.name} cannot be unpacked: {said[-1]}")


def _leave_out(root: Path) -> None:
    modules = (f"usr/lib/python3.11/lib-dynload/{name}.*.so" for name in WITHOUT_LIBRARY)
    _remove(path for pattern in (*LEFT_OUT, *modules) for path in root.glob(pattern))
    # The licences of the packages stay.
    papers = [path for path in (root / "usr/share/doc").rglob("*") if path.is_symlink() or path.is_file()]
    _remove(path for path in papers if path.name != "copyright")


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _complete(root: Path) -> None:
    for path, content in FILES.items():
        (root / path).write_text(content)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / AUTHORITIES).write_text("".join(path.read_text() for path in certificates))
    (root / "usr/lib/ssl").mkdir(exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to(f"/{AUTHORITIES}")  # where OpenSSL looks
    (root / "usr/bin/python3").symlink_to("python3.11")
    for path in ("host", "etc/nodeprep", "var/lib/nodeprep"):  # what pods mount
        (root / path).mkdir()


def _apt(*arguments: str, cwd: Path | None = None) -> str:
    """apt-get as any user. As root it would otherwise need a directory that its own user may write to."""
    return _output("apt-get", "-qq", "-o", "APT::Sandbox::User=root", *arguments, cwd=cwd).decode()


def _output(*command: str, cwd: Path | None = None) -> bytes:
    if not shutil.which(command[0]):
        raise CannotBuild(f"image: there is no {command[0]} here: it is built of Debian 12's packages, on a Debian 12")
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotBuild(f"image: {command[0]} failed: {said[-1]}; the packages are Debian 12's; try: apt-get update")
    return done.stdout
