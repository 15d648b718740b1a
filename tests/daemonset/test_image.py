"""The image: the same bytes from every checkout, valid for every reader, and a nodeprep in it that judges."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from daemonset.image import build, debian, oci, wheels
from daemonset.image.debian import CannotBuild
from tests.rigs import bare_debian, images, trees
from tests.rigs.absent import cannot_start

HERE = build.CHECKOUT / "daemonset/image"
BUILD = "daemonset/image/build.py"
NODE = "h100-ib"


def built(checkout: Path, out: Path, **settings: Any) -> str:
    """The digest that the program in `checkout` prints for the image that it wrote to `out`."""
    command = (sys.executable, BUILD, str(out), "--name", "nodeprep.test/nodeprep:dev")
    done: subprocess.CompletedProcess[str]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        cannot_start(done.stderr.strip())
    return done.stdout.strip()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, for others may write to the working tree meanwhile."""
    copy = tmp_path_factory.mktemp("checkout") / "nodeprep"
    try:
        bare_debian.copy_checkout(copy)
    except bare_debian.CannotStart as reason:
        cannot_start(reason)
    return copy


@pytest.fixture(scope="module")
def archive(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("image") / "nodeprep.tar"
    (out.parent / "digest").write_text(built(checkout, out))
    return out


@pytest.fixture(scope="module")
def root(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's files, as a reader of the specification lays its layers over each other."""
    if os.geteuid() != 0:
        cannot_start("image: chroot needs root; run the tests with sudo")
    return unpacked(archive, tmp_path_factory.mktemp("root"))


def blobs(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        members = [member for member in opened if member.isfile()]
        return {member.name: content(opened, member) for member in members}


def content(opened: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = opened.extractfile(member)
    assert stream
    return stream.read()


def blob(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    found = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert len(found) == descriptor["size"]
    return found


def parts(files: Mapping[str, bytes]) -> tuple[Any, Any]:
    """The manifest and the configuration to which the index leads."""
    (pointer,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, pointer))
    return manifest, json.loads(blob(files, manifest["config"]))


def unpacked(archive: Path, target: Path) -> Path:
    files = blobs(archive)
    for layer in parts(files)[0]["layers"]:
        with tarfile.open(fileobj=io.BytesIO(blob(files, layer)), mode="r:gz") as opened:
            opened.extraction_filter = lambda member, _: member  # an argument for it is newer than Debian 12's Python
            opened.extractall(target)
    return target


def inside(root: Path, *command: str, read_only: bool = False) -> subprocess.CompletedProcess[str]:
    """A command in the image's root, with no more in its environment than a pod has."""
    started: tuple[str, ...] = ("chroot", str(root), *command)
    if read_only:
        script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec chroot "$0" "$@"'
        started = ("unshare", "--mount", "sh", "-c", script, str(root), *command)
    environment = {"PATH": oci.PATH}
    return subprocess.run(started, env=environment, capture_output=True, text=True, timeout=60, check=False)


def statuses(printed: str) -> dict[tuple[str, str], str]:
    findings = json.loads(printed)["findings"]
    return {(finding["check"], json.dumps(finding["subject"])): finding["status"] for finding in findings}


@pytest.fixture
def tree(root: Path) -> Iterator[str]:
    """A node's tree in the image's root, by its path there."""
    trees.build(NODE, root / "tmp" / NODE)
    yield f"/tmp/{NODE}"
    shutil.rmtree(root / "tmp" / NODE)


# The image as such.


def test_two_checkouts_build_one_digest(archive: Path, checkout: Path, tmp_path: Path) -> None:
    """Another directory, another user's cache, another umask, other times, nothing cached."""
    other = tmp_path / "some" / "other place"
    shutil.copytree(checkout, other, symlinks=True, copy_function=shutil.copy)
    settings = {"env": {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}, "umask": 0o077}
    assert built(other, tmp_path / "other.tar", **settings) == (archive.parent / "digest").read_text()
    assert (tmp_path / "other.tar").read_bytes() == archive.read_bytes()


def test_digests_name_what_is_stored(archive: Path) -> None:
    files = blobs(archive)
    manifest, config = parts(files)
    assert {name for name in files if name.startswith("blobs/")} == {
        "blobs/sha256/" + hashlib.sha256(data).hexdigest() for name, data in files.items() if name.startswith("blobs/")
    }
    layers = [gzip.decompress(blob(files, layer)) for layer in manifest["layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    (pointer,) = json.loads(files["index.json"])["manifests"]
    assert pointer["digest"] == (archive.parent / "digest").read_text()
    assert pointer["annotations"]["io.containerd.image.name"] == "nodeprep.test/nodeprep:dev"
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def test_it_starts_nodeprep(archive: Path) -> None:
    config = parts(blobs(archive))[1]
    assert config["config"]["Entrypoint"] == ["nodeprep"]
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == build.version()
    assert "User" not in config["config"]  # root-owned 0600 files of the host are what it reads


def test_the_containerfile_says_the_same(archive: Path) -> None:
    config = parts(blobs(archive))[1]["config"]
    lines = (HERE / "Containerfile").read_text().splitlines()
    said = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines[lines.index("FROM scratch") :] if line}
    assert json.loads(said["ENTRYPOINT"]) == config["Entrypoint"]
    assert [said["ENV"]] == config["Env"]
    labels = dict(label.split("=") for label in said["LABEL"].split())
    assert labels == {key: config["Labels"][key] for key in labels}
    sources = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert all((build.CHECKOUT / source).exists() for source in sources if source not in ("--from=build", "/image"))


def test_it_knows_no_place_of_this_machine(root: Path, checkout: Path) -> None:
    index = subprocess.run((sys.executable, "-m", "pip", "config", "list"), capture_output=True, text=True, check=True)
    hosts = {urlsplit(url).netloc for url in re.findall(r"https?://[^\s']+", index.stdout)}
    places = {str(checkout), str(build.CHECKOUT), str(Path.home() / ".cache"), "nodeprep-image-", ".partial/"}
    wanted = [word.encode() for word in places | hosts]
    for path in (path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
        if path.match("*.dist-info/METADATA"):
            continue  # its author's words, which may name an index
        found = [word.decode() for word in wanted if word in path.read_bytes()]
        assert not found, path
    noted = {"direct_url.json", "INSTALLER", "REQUESTED"}
    assert not [path for path in root.rglob("*") if path.name in noted]


def test_every_package_keeps_its_terms_and_is_known_to_scanners(root: Path) -> None:
    for name in debian.names():
        assert f"Package: {name}\n" in (root / "var/lib/dpkg/status.d" / name).read_text()
        # A package may share another's papers by a link.
        assert (root / "usr/share/doc" / name).resolve().name in {"copyright", name, *debian.names()}
    assert "ID=debian" in (root / "etc/os-release").read_text()
    assert (root / "usr/share/doc/libc6/copyright").is_file()


# What runs in it.


def test_the_list_of_packages_is_closed(root: Path) -> None:
    """Every shared object finds the libraries that it names."""
    objects = [path for path in root.rglob("*.so*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(objects) > 50
    loader = "/" + str(next(root.glob("lib/*/ld-linux-*.so.*")).relative_to(root))
    for path in (*objects, root / debian.PYTHON):
        done = inside(root, loader, "--list", f"/{path.relative_to(root)}")
        assert (done.returncode, done.stderr) == (0, ""), path.name


def test_every_module_of_ours_can_be_imported(root: Path) -> None:
    """All but the one that runs Ansible, which is of the extra `repair` and not in the image."""
    script = (
        "import importlib, pkgutil, nodeprep, sys\n"
        "for module in pkgutil.walk_packages(nodeprep.__path__, 'nodeprep.'):\n"
        "    if not module.name.endswith(('__main__', '.repair.ansible')): importlib.import_module(module.name)\n"
        "import kubernetes.config, ssl\n"
        "assert ssl.create_default_context().cert_store_stats()['x509_ca'] > 100\n"
    )
    done = inside(root, "python3", "-I", "-c", script)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_tells_its_version(root: Path) -> None:
    done = inside(root, "nodeprep", "version")
    assert (done.returncode, done.stdout.split()) == (0, ["nodeprep", build.version()])


def test_it_judges_a_tree_as_the_checkout_does(root: Path, tree: str, checkout: Path) -> None:
    judged = inside(root, "nodeprep", "check", "--root", tree, "-o", "json")
    here = (sys.executable, "-m", "nodeprep", "check", "--root", str(root) + tree, "-o", "json")
    environment = {**os.environ, "PYTHONPATH": str(checkout / "agent")}
    wanted = subprocess.run(here, env=environment, capture_output=True, text=True, check=False)
    assert judged.returncode == wanted.returncode
    assert statuses(judged.stdout) == statuses(wanted.stdout)
    assert "port.state" in {check for check, _ in statuses(judged.stdout)}


def test_nothing_is_compiled_at_start_on_a_read_only_root(root: Path) -> None:
    script = (
        "import sys; sys.argv[1:] = ['explain', 'port.state']; from nodeprep.__main__ import main; sys.exit(main())"
    )
    done = inside(root, "python3", "-I", "-v", "-c", script, read_only=True)
    assert done.returncode == 0
    loaded = re.findall(r"^# code object from '?([^'\n]+?)'?$", done.stderr, re.MULTILINE)
    assert len(loaded) > 50
    assert [path for path in loaded if not path.endswith(".pyc")] == []


def test_the_read_only_root_is_one(root: Path) -> None:
    done = inside(root, "python3", "-I", "-c", "open('/usr/written', 'w')", read_only=True)
    assert "Read-only file system" in done.stderr


def test_who_may_write_is_root(root: Path) -> None:
    loose = [path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6022]
    assert sorted(str(path.relative_to(root)) for path in loose) == ["tmp", "var/tmp"]
    assert {path.lstat().st_uid for path in root.rglob("*")} == {0}


# Bad releases for the tests of rollouts.


@pytest.mark.parametrize("kind", ["failing", "crashing"])
def test_a_bad_release_is_bad_in_one_way(kind: str, root: Path, tree: str, tmp_path: Path) -> None:
    images.write(kind, tmp_path / "bad.tar")
    bad = unpacked(tmp_path / "bad.tar", tmp_path / "root")
    if kind == "crashing":
        assert inside(bad, "nodeprep", "agent").returncode == 1
        return
    trees.build(NODE, Path(str(bad) + tree))
    assert inside(bad, "nodeprep", "version").stdout.split() == ["nodeprep", f"{build.version()}+failing"]
    good, failing = (
        statuses(inside(place, "nodeprep", "check", "--root", tree, "-o", "json").stdout) for place in (root, bad)
    )
    ports = {key for key in good if key[0] == "port.state"}
    assert {good[key] for key in ports} == {"ok", "warn"}, "a front-end port without a cable warns (docs/adr/0030)"
    assert {failing[key] for key in ports} == {"fail"}
    assert {key for key in good if good[key] != failing[key]} == ports


def test_a_good_release_differs_by_its_version_alone() -> None:
    ((path, text),) = images.changed("next").items()
    assert path == f"{wheels.SITE}/nodeprep/__init__.py"
    assert f'__version__ = "{build.version()}+next"' in text


# The writer.


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer with a program, a link to it of each kind, and a directory that only root may enter."""
    made = tmp_path / "layer"
    (made / "bin").mkdir(parents=True)
    (made / "bin/tool").write_bytes(b"tool" * 1000)
    (made / "bin/tool").chmod(0o4755)
    (made / "bin/again").hardlink_to(made / "bin/tool")
    (made / "bin/link").symlink_to("/bin/tool")
    (made / "private").mkdir(mode=0o700)
    return made


def written(layers: list[Path], out: Path, **options: Any) -> str:
    return oci.write(layers, out, name="example.test:5000/tool:dev", entrypoint=["tool"], **options)


def test_links_and_modes_are_kept(layer: Path, tmp_path: Path) -> None:
    written([layer], tmp_path / "out.tar")
    files = blobs(tmp_path / "out.tar")
    (stored,) = parts(files)[0]["layers"]
    with tarfile.open(fileobj=io.BytesIO(blob(files, stored)), mode="r:gz") as opened:
        members = {member.name: member for member in opened}
    assert list(members) == ["bin", "bin/again", "bin/link", "bin/tool", "private"]
    assert (members["bin/tool"].linkname, members["bin/tool"].type) == ("bin/again", tarfile.LNKTYPE)
    assert (members["bin/link"].linkname, members["bin/link"].type) == ("/bin/tool", tarfile.SYMTYPE)
    assert (members["bin/again"].mode, members["private"].mode) == (0o4755, 0o700)
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members.values()} == {(0, 0, "", 0)}


def test_times_and_owners_do_not_count(layer: Path, tmp_path: Path) -> None:
    before = written([layer], tmp_path / "before.tar")
    os.utime(layer / "bin/tool", (1, 1))
    if os.geteuid() == 0:
        os.chown(layer / "private", 65534, 65534)
    assert written([layer], tmp_path / "after.tar") == before
    assert (tmp_path / "after.tar").read_bytes() == (tmp_path / "before.tar").read_bytes()


def test_a_packed_layer_is_the_layer(layer: Path, tmp_path: Path) -> None:
    oci.pack(layer, tmp_path / "packed")
    digest = written([layer, layer], tmp_path / "plain.tar")
    assert written([tmp_path / "packed", layer], tmp_path / "packed.tar") == digest
    assert (tmp_path / "packed.tar").read_bytes() == (tmp_path / "plain.tar").read_bytes()


def test_a_date_can_be_set(layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    written([layer], tmp_path / "out.tar")
    assert parts(blobs(tmp_path / "out.tar"))[1]["created"] == "1970-01-02T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        written([layer], tmp_path / "out.tar")


def test_a_layout_is_a_directory_of_the_same(layer: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"environment": {"A": "b"}, "user": "65534", "labels": {"c": "d"}}
    digest = written([layer], tmp_path / "out.tar", **options)
    for _ in range(2):  # the second takes the place of the first
        assert written([layer], tmp_path / "out", **options) == digest
    found = {str(path.relative_to(tmp_path / "out")): path for path in (tmp_path / "out").rglob("*") if path.is_file()}
    files = blobs(tmp_path / "out.tar")
    assert {name: path.read_bytes() for name, path in found.items()} == files
    config = parts(files)[1]["config"]
    assert (config["Env"], config["User"], config["Labels"]) == (["A=b", f"PATH={oci.PATH}"], "65534", {"c": "d"})
    (pointer,) = json.loads(files["index.json"])["manifests"]
    assert pointer["annotations"]["org.opencontainers.image.ref.name"] == "dev"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_a_layer_cannot_hold_is_named(layer: Path, tmp_path: Path) -> None:
    os.mkfifo(layer / "bin/pipe")
    with pytest.raises(ValueError, match="bin/pipe is a device, a pipe or a socket"):
        written([layer], tmp_path / "out.tar")
    with pytest.raises(ValueError, match="is no directory"):
        written([layer / "bin/tool"], tmp_path / "out.tar")
    assert not (tmp_path / "out.tar").exists()


def test_a_directory_that_is_no_image_is_left_alone(layer: Path) -> None:
    with pytest.raises(ValueError, match="is no image layout"):
        written([layer], layer / "bin")
    assert (layer / "bin/tool").exists()


def test_layers_are_not_held_in_memory(layer: Path, tmp_path: Path) -> None:
    with (layer / "large").open("wb") as stream:
        stream.truncate(64 << 20)
    tracemalloc.start()
    try:
        written([layer], tmp_path / "out.tar")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# What goes wrong.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("/tmp/out.tar",), "there is no apt-get here"),
        (("--root", str(HERE)), "is not empty"),
        ((), "either OUT or --root"),
        (("/tmp/out.tar", "--root", "/tmp/root"), "either OUT or --root"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    command = (sys.executable, BUILD, *arguments)
    done = subprocess.run(
        command, cwd=build.CHECKOUT, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_wheel_that_wants_to_be_installed_is_refused(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "tool-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tool-1.data/scripts/tool", "#!python\n")
    with pytest.raises(CannotBuild, match=r"tool-1-py3-none-any.whl holds tool-1.data/scripts/tool"):
        wheels._unpack(tmp_path, tmp_path / "layer")
