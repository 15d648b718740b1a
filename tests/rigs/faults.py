"""Changes a built tree as a fault changes a node: the changes of case files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Keys of a case file: what is changed, and what is said of it; and those of each thing that is said.
KEYS = frozenset({"about", "node", "pull", "unbind", "move", "swap", "rename", "change", "says"})
SAYS = frozenset({"profile", "exit", "roots"})


class UnknownKeyError(ValueError):
    """A key of a case that nobody reads: what it was to change was not changed."""


def checked(case: dict[str, Any]) -> dict[str, Any]:
    """The case. Raises UnknownKeyError for a key that is none."""
    unknown = case.keys() - KEYS | {key for says in case.get("says", []) for key in says.keys() - SAYS}
    if unknown:
        raise UnknownKeyError(f"{', '.join(sorted(map(str, unknown)))}: wanted {', '.join(sorted(KEYS))}")
    return case


def apply(case: dict[str, Any], root: Path) -> None:
    """Apply every change of a case file, in the order of the kernel: functions first, then single files."""
    checked(case)
    for address in case.get("pull", []):
        pull(root, address)
    for address in case.get("unbind", []):
        unbind(root, address)
    for address, bridges in case.get("move", {}).items():
        move(root, address, bridges)
    for one, other in case.get("swap", []):
        swap(root, one, other)
    if case.get("rename"):
        rename(root)
    for path, content in case.get("change", {}).items():
        change(root / path, content)


def change(path: Path, content: Any) -> None:
    """New text; null removes; `directory` or `fifo` puts one in its place; `link: X` a link; `hex: ..` bytes."""
    if path.is_symlink() or path.exists():
        _remove(path)
    match content:
        case None:
            return
        case {"directory": True}:
            path.mkdir(parents=True)
        case {"fifo": True}:
            os.mkfifo(path)
        case {"link": target}:
            path.symlink_to(target)
        case {"hex": digits}:
            path.write_bytes(bytes.fromhex(digits))
        case _:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")


def pull(root: Path, address: str) -> None:
    """The function left the bus: its directory and every link to it are gone."""
    home = (root / "sys/bus/pci/devices" / address).resolve()
    _unlist(root, home)
    (root / "sys/bus/pci/devices" / address).unlink()
    shutil.rmtree(home)


def unbind(root: Path, address: str) -> None:
    """The function lost its driver and everything that the driver had made."""
    home = (root / "sys/bus/pci/devices" / address).resolve()
    _unlist(root, home)
    (home / "driver").unlink()
    for child in home.iterdir():
        if child.is_dir() and child.name.startswith(("infiniband", "net", "mlx5_core.")):
            shutil.rmtree(child)


def move(root: Path, address: str, bridges: str) -> None:
    """The function sits below as many other bridges, "0000:9a:01.0/0000:9b:00.0"; its address is what it was."""
    home = (root / "sys/bus/pci/devices" / address).resolve()
    new = root / f"sys/devices/pci{bridges.rpartition('/')[0].partition('/')[0].rpartition(':')[0]}" / bridges / address
    links = [root / "sys/bus/pci/devices" / address, *(root / "sys/class").glob("*/*")]
    inside = {link: link.resolve() for link in links if link.is_symlink() and link.resolve().is_relative_to(home)}
    new.parent.mkdir(parents=True, exist_ok=True)
    home.rename(new)
    for link, target in inside.items():
        link.unlink()
        link.symlink_to(os.path.relpath(new / target.relative_to(home), link.parent))


def swap(root: Path, one: str, other: str) -> None:
    """Two RDMA devices exchange their names, as after a change of probe order."""
    names = root / "sys/class/infiniband"
    homes = {name: (names / name).resolve() for name in (one, other)}
    spare = {name: home.rename(home.with_name("swapped")) for name, home in homes.items()}
    for name, new in ((one, other), (other, one)):
        home = spare[name].rename(spare[name].with_name(new))
        (names / new).unlink()
        (names / new).symlink_to(os.path.relpath(home, names))


def rename(root: Path) -> None:
    """Every RDMA device and netdev gets a meaningless name, in another order than before."""
    for directory, prefix in (("infiniband", "rdma_x"), ("net", "if_x")):
        names = root / "sys/class" / directory
        links = sorted(names.iterdir() if names.is_dir() else (), reverse=True)
        _retell(root, {link.name: _renamed(link, f"{prefix}{index}") for index, link in enumerate(links)})


def _renamed(link: Path, new: str) -> str:
    home = link.resolve()
    home.rename(home.with_name(new))
    if link.is_symlink():
        link.unlink()
        link.with_name(new).symlink_to(os.path.relpath(home.with_name(new), link.parent))
    return new


def _retell(root: Path, renamed: Mapping[str, str]) -> None:
    """Files and links of other devices that tell an old name tell the new one."""
    for at, directories, files in os.walk(root / "sys/devices"):
        for told in (Path(at, name) for name in files if name in ("ibdev", "parent") or Path(at).name == "ndevs"):
            if told.is_file() and (new := renamed.get(told.read_text().strip())) is not None:
                told.write_text(f"{new}\n")
        if "master" in directories + files:
            master = Path(at, "master")
            target = master.readlink()
            if (new := renamed.get(target.name)) is not None:
                master.unlink()
                master.symlink_to(target.with_name(new))


def _unlist(root: Path, home: Path) -> None:
    for link in (root / "sys/class").glob("*/*"):
        if link.is_symlink() and link.resolve().is_relative_to(home):
            for node in (root / "dev/infiniband").glob(link.name):
                node.unlink()
            link.unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
