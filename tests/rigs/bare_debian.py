"""A bare Debian 12 with only python3, make and git: the two commands of the README must be enough on it.

    python tests/rigs/bare_debian.py run -- COMMAND   copies this checkout in, runs COMMAND in it as root
    python tests/rigs/bare_debian.py packages         the Debian packages that it needs

debootstrap makes the system, and the user's cache keeps it. Each run works on a layer of memory over it, and can write
to nothing of this machine. The run has this machine's settings of pip, apt and proxies.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PACKAGES = {"debootstrap": "debootstrap", "mount": "mount", "util-linux": "unshare", "git": "git"}
SUITE = "bookworm"
INCLUDED = ("python3", "make", "git")
CHECKOUT = Path(__file__).resolve().parents[2]
INSIDE = "/srv/nodeprep"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SETTINGS = ("PIP_", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODEPREP_CI")
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
# Authorities twice: the bundle for now, and its sources. Debian rewrites the bundle from them when it installs its own.
SYSTEM_FILES = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
)
# makedev(3) numbers of Documentation/admin-guide/devices.txt.
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}


class CannotStart(Exception):
    """This machine lacks something that the rig needs; the text says what, in one line."""


def run(command: Sequence[str], *, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a command in a bare Debian, which is removed afterwards; with `capture`, its output is in stdout, in order.

    Raises:
        CannotStart: no root, no mount namespace, a package is missing, or debootstrap failed.
    """
    if os.geteuid() != 0:
        raise CannotStart("bare_debian: it mounts and changes root, which needs root; run it with sudo")
    missing = [package for package, program in PACKAGES.items() if not shutil.which(program, path=PATH)]
    if missing:
        raise CannotStart(f"bare_debian: not installed: {' '.join(missing)}; run: apt-get install {' '.join(missing)}")
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    refused = subprocess.run((*namespaces, "true"), capture_output=True, text=True, check=False)
    if refused.returncode:
        raise CannotStart(f"bare_debian: no namespaces of its own here: {refused.stderr.strip()}")
    with held() as base:
        inside = (sys.executable, __file__, "inside", str(base), "--", *command)
        out, error = (subprocess.PIPE, subprocess.STDOUT) if capture else (None, None)
        return subprocess.run((*namespaces, *inside), stdout=out, stderr=error, text=True, check=False)


@contextmanager
def held() -> Iterator[Path]:
    """The system for today's inputs, built if needed; nobody removes it meanwhile."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodeprep"
    cache.mkdir(parents=True, exist_ok=True)
    wanted = debootstrap_command(INCLUDED)
    base = cache / f"bare-debian-{hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]}"
    with (cache / "bare-debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not base.is_dir():
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not base.is_dir():
                build(base, wanted)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield base


def debootstrap_command(included: Sequence[str]) -> tuple[str, ...]:
    """Of a minimal system with these packages, without its target directory.

    The mirror is the one this machine has for the suite, else debootstrap's own.
    """
    own = (source,) if (source := mirror(SUITE)) else ()
    return ("debootstrap", "--variant=minbase", f"--include={','.join(included)}", SUITE, *own)


def mirror(suite: str = "") -> str:
    """The URI of apt's first source of Debian's section main, of this suite if one is named; "" without such a source.

    Raises:
        CannotStart: apt cannot tell its sources.
    """
    form = "$(LABEL) $(CODENAME) $(COMPONENT) $(REPO_URI)"
    targets = map(str.split, output("apt-get", "indextargets", "--format", form, "Created-By: Packages").splitlines())
    for label, codename, component, uri in (words for words in targets if len(words) == 4):
        if (label, component) == ("Debian", "main") and suite in {"", codename}:
            return uri
    return ""


def build(base: Path, command: tuple[str, ...]) -> None:
    """Replaces the system of earlier inputs; another name until it is whole. The caller holds the cache's lock."""
    print(f"bare_debian: building {base} with debootstrap", file=sys.stderr, flush=True)
    for old in base.parent.glob("bare-debian-*/"):
        shutil.rmtree(old)
    partial = base.with_name(base.name + ".partial")
    debootstrap(partial, command)
    partial.rename(base)


def debootstrap(target: Path, command: tuple[str, ...]) -> None:
    """Makes the system of a `debootstrap_command`, as new as an installer leaves it: no package lists, no archives.

    Raises:
        CannotStart: debootstrap failed.
    """
    position = command.index(SUITE) + 1
    # In a mount namespace: a debootstrap that is killed leaves no /proc mounted in its target.
    output("unshare", "--mount", *command[:position], str(target), *command[position:])
    shutil.rmtree(target / "var/lib/apt/lists")
    shutil.rmtree(target / "var/cache/apt/archives")


def inside(base: Path, command: Sequence[str]) -> int:
    """In namespaces of its own: mounts the layers, brings the settings and the checkout, changes root, runs."""
    layers = base.with_name("bare-debian.layers")
    layers.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", layers)
    upper, work, root = layers / "upper", layers / "work", layers / "root"
    for directory in (upper, work, root):
        directory.mkdir()
    mount("-t", "overlay", "-o", f"lowerdir={base},upperdir={upper},workdir={work}", "overlay", root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", root / "sys")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for name, (major, minor) in DEVICES.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        (root / "dev" / name).chmod(0o666)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    settings = machine_settings(root)
    copy_checkout(root / INSIDE.lstrip("/"))
    os.chroot(root)
    os.chdir(INSIDE)
    environment = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **settings}
    return subprocess.run(command, env=environment, check=False).returncode


def machine_settings(root: Path) -> dict[str, str]:
    """Copies this machine's settings of pip, apt and the resolver into `root`; returns those of the environment."""
    files = [*SYSTEM_FILES, *map(str, (Path.home() / ".pip/pip.conf", Path.home() / ".config/pip/pip.conf"))]
    settings = {
        name: value for name, value in os.environ.items() if name.startswith(SETTINGS) or name.lower() in PROXIES
    }
    # A setting that names a file or a directory needs it.
    for name in [*files, *(value for value in settings.values() if value.startswith("/"))]:
        copy(Path(name), root)
    acquire = [
        line
        for line in output("apt-config", "dump").splitlines()
        if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets")
    ]
    (root / "etc/apt/apt.conf.d/90this-machine").write_text("\n".join(acquire) + "\n")
    return settings


def copy(source: Path, root: Path) -> None:
    target = root / str(source).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)


def copy_checkout(target: Path) -> None:
    """The files that git tracks or would add, as in the working tree, and no build output."""
    listed = output("git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        source = CHECKOUT / name
        if source.is_symlink() or source.is_file():  # false for a deleted file that git still tracks
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def mount(*arguments: str | Path) -> None:
    output("mount", *map(str, arguments))


def output(*command: str) -> str:
    """What a program prints.

    Raises:
        CannotStart: it failed; with the last line that it wrote.
    """
    environment = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:{PATH}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise CannotStart(f"bare_debian: {' '.join(command[:2])} failed: {said[-1] if said else done.returncode}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="bare_debian.py", description="A bare Debian 12 with python3, make and git.")
    actions = parser.add_subparsers(dest="action", required=True)
    runner = actions.add_parser("run", help="run COMMAND in a copy of this checkout there")
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    actions.add_parser("packages", help="print the Debian packages that the rig needs")
    namespaced = actions.add_parser("inside", help="the rig's own second half")
    namespaced.add_argument("base", type=Path)
    namespaced.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    if arguments.action == "packages":
        print(" ".join(PACKAGES))
        return 0
    try:
        if arguments.action == "run":
            return run(arguments.command).returncode
        return inside(arguments.base, arguments.command)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
