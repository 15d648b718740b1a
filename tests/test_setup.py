"""The two commands of the README do all set-up, also on a bare Debian. Locks pin what they should, without URLs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rigs import bare_debian
from tests.rigs.absent import cannot_start

ROOT = Path(__file__).resolve().parents[1]
CI = ROOT / ".ci"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPAIR = PROJECT["project"]["optional-dependencies"]["repair"]
LOCKS = ("requirements.lock", "requirements-repair.lock", "requirements-build.lock", "requirements-dev.lock")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def group(name: str) -> list[str]:
    """The requirements of a dependency group and of the groups that it includes."""
    entries = PROJECT["dependency-groups"][name]
    return [
        requirement
        for entry in entries
        for requirement in ([entry] if isinstance(entry, str) else group(entry["include-group"]))
    ]


def pins(lock: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes by package name."""
    text = re.sub(r"\\\n", "", (ROOT / lock).read_text())
    entries = [line.partition("--hash=") for line in text.splitlines() if not line.startswith("#")]
    locked = [(Requirement(pin), frozenset(f"--hash={rest}".split())) for pin, _, rest in entries]
    assert locked
    assert all(len(pin.specifier) == 1 and next(iter(pin.specifier)).operator == "==" for pin, _ in locked)
    return {canonicalize_name(pin.name): (next(iter(pin.specifier)).version, hashes) for pin, hashes in locked}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_hashes_and_no_address(lock: str) -> None:
    for name, (_, hashes) in pins(lock).items():
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", value) for value in hashes), name
    text = (ROOT / lock).read_text()
    assert "/" not in text
    assert "--index" not in text


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-repair.lock", [*REPAIR, *PROJECT["project"]["dependencies"]]),
        ("requirements-build.lock", [*group("build"), *PROJECT["build-system"]["requires"]]),
        ("requirements-dev.lock", [*group("dev"), *REPAIR, *PROJECT["project"]["dependencies"]]),
    ],
)
def test_a_lock_is_no_older_than_what_it_locks(lock: str, wanted: list[str]) -> None:
    locked = pins(lock)
    for requirement in map(Requirement, wanted):
        version, _ = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement}: {lock} has {version}; run make lock"


def test_the_development_lock_holds_the_others_pin_by_pin() -> None:
    """But for what only Python 3.10 needs: the development tools need 3.11."""
    everything = pins("requirements-dev.lock")
    for lock in ("requirements.lock", "requirements-repair.lock", "requirements-build.lock"):
        older = set(re.findall(r"(?m)^(\S+)==\S+ ; python_full_version < '3\.11'", (ROOT / lock).read_text()))
        newer = set(re.findall(r"(?m)^(\S+)==\S+ ; python_full_version >= '3\.11'", (ROOT / lock).read_text()))
        own = {name: pin for name, pin in pins(lock).items() if name not in older - newer}
        assert own.items() <= everything.items()


def test_only_the_extra_brings_ansible() -> None:
    base, repair = (pins(lock) for lock in ("requirements.lock", "requirements-repair.lock"))
    assert base.items() < repair.items()
    assert {name for name in repair if "ansible" in name} == {"ansible-core", "ansible-runner"}
    assert not [name for name in base if "ansible" in name]


def test_every_library_of_the_package_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for requirement in (*PROJECT["project"]["dependencies"], *REPAIR):
        before = text[: text.index(f'"{requirement}"')].splitlines()[-2]
        assert before.strip().startswith("#"), requirement


def test_help_lists_every_target() -> None:
    targets = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = subprocess.run(("make", "help"), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^make (\S+) +\S", listed, re.MULTILINE) == targets


def program(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def ran(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(("words", "least"), [((), "3.11"), (("10",), "3.10")])
def test_a_python_that_is_too_old_is_named_in_one_line(tmp_path: Path, words: tuple[str, ...], least: str) -> None:
    old = program(tmp_path / "python3", "echo 3.9; exit 1")
    done = ran(CI / "python", *words, PYTHON=str(old))
    assert done.returncode == 2
    assert f"needs Python {least} or newer" in done.stderr
    assert f"{old} is 3.9" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_newer_python_of_another_name_is_found(tmp_path: Path) -> None:
    program(tmp_path / "python3", "echo 3.9; exit 1")
    program(tmp_path / "python3.13", "echo 3.13")
    path = f"{tmp_path}:{os.environ['PATH']}"
    newer_than_any = "99"
    assert ran(CI / "python", newer_than_any, PATH=path).stdout == "3.13\n"


def test_the_systems_python_comes_before_another_one(tmp_path: Path) -> None:
    program(tmp_path / "python3", "echo of the PATH")
    able = "import ensurepip, venv, sys; assert sys.version_info >= (3, 11); print(sys._base_executable)"
    system = ran("/usr/bin/python3", "-c", able)
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert ran(CI / "python", PATH=path).stdout == (system.stdout if system.returncode == 0 else "of the PATH\n")


@pytest.mark.parametrize(
    ("does", "ends"),
    [
        ("echo READY", 0),
        ("exit 1", 0),
        ("exit 3", 0),
        ("exit 2", 2),
        ("exit 127", 127),
        ("echo 'Traceback (most recent call last):' >&2; exit 1", 70),
        ("kill -SEGV $$", 139),
    ],
)
def test_check_node_ends_well_with_a_verdict_only(tmp_path: Path, does: str, ends: int) -> None:
    shutil.copytree(CI, tmp_path / ".ci")
    program(tmp_path / ".venv/bin/nodeprep", does)
    assert ran(tmp_path / ".ci/check-node").returncode == ends


def test_a_step_ends_as_its_command_does_and_is_in_the_ledger(tmp_path: Path) -> None:
    began = time.time()
    done = ran(CI / "step", "breaks", "sh", "-c", "echo said; exit 5", NODEPREP_STEPS=str(tmp_path))
    took = time.time() - began
    assert done.returncode == 5
    assert done.stdout.startswith("--- breaks\n--- what breaks printed\nsaid\n--- breaks: failed (5), ")
    told = re.fullmatch(r" +0:(\d\d) +0:\d\d  breaks +failed \(5\)\n", (tmp_path / "ledger").read_text())
    assert told
    assert int(told[1]) < took + 1, "it counts how often a second began"
    assert ran(CI / "step", "works", "true", NODEPREP_STEPS=str(tmp_path)).returncode == 0
    shown = ran(CI / "ledger", str(int(began) - 60), NODEPREP_STEPS=str(tmp_path)).stdout.splitlines()
    assert [line.split()[2] for line in shown[1:3]] in (["breaks", "works"], ["works", "breaks"])
    assert re.fullmatch(r" +1:\d\d +in all", shown[3])


def test_what_a_step_keeps_in_memory_goes_with_it() -> None:
    says = ("sh", "-c", 'echo "files in <${TMPDIR:-}>"; exit 3')
    (usual,) = re.findall("files in <(.*)>", ran(CI / "step", "lint", *says, NODEPREP_STEPS="").stdout)
    (fuzz,) = re.findall("files in <(.*)>", ran(CI / "step", "fuzz", *says, NODEPREP_STEPS="").stdout)
    memory = Path("/dev/shm")
    roomy = os.path.ismount(memory) and shutil.disk_usage(memory).free >= 9 << 30
    assert fuzz != usual if roomy else fuzz == usual or fuzz.startswith(f"{memory}/np-")
    assert fuzz == usual or not Path(fuzz).exists()


def test_steps_that_run_beside_each_other_print_one_after_the_other(tmp_path: Path) -> None:
    steps = (f"{CI}/step {name} sh -c 'for i in 1 2 3; do echo {name} $i; sleep 0.1; done' &" for name in "abc")
    done = ran("sh", "-c", f"{' '.join(steps)} wait", NODEPREP_STEPS=str(tmp_path))
    for name in "abc":
        assert f"--- what {name} printed\n{name} 1\n{name} 2\n{name} 3\n--- {name}: ok, " in done.stdout


def test_what_was_touched(tmp_path: Path) -> None:
    """Tests of rigs that changed since the upstream branch, committed or not, and the rooms of other changed files."""
    shutil.copytree(CI, tmp_path / "ours/.ci")
    git = ("git", "-C", str(tmp_path / "ours"), "-c", "user.name=a", "-c", "user.email=a@example.com")
    files = [f"tests/{name}" for name in ("lab/test_a.py", "netns/test_b.py", "cluster/test_c.py", "checks/test_d.py")]
    for file in files:
        (tmp_path / "ours" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ours" / file).touch()
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        assert ran(*git, *words).returncode == 0
    assert ran(*git, "checkout", "-q", "-b", "mine", "--track", "main").returncode == 0
    touched = tmp_path / "ours/.ci/touched"
    for what in ("rigs", "rooms"):
        assert (ran(touched, what).stdout, ran(touched, what).returncode) == ("", 0)
    (tmp_path / "ours" / files[0]).write_text("committed")
    assert ran(*git, "commit", "-qam", "second").returncode == 0
    (tmp_path / "ours" / files[1]).write_text("not committed")
    (tmp_path / "ours" / files[2]).unlink()
    (tmp_path / "ours" / files[3]).write_text("no rig")
    (tmp_path / "ours/tests/lab/test_new.py").touch()
    assert ran(touched, "rigs").stdout.splitlines() == [files[0], "tests/lab/test_new.py", files[1]]
    assert ran(touched, "rooms").stdout == "", "the tests of values run anyway"
    for file in ("agent/nodeprep/cli/nodes/a.py", "playbooks/b.yml", "agent/nodeprep/decide/c.py", "tests/doors/d.py"):
        (tmp_path / "ours" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ours" / file).touch()
    assert ran(touched, "rooms").stdout.splitlines() == ["tests/cli", "tests/doors", "tests/playbooks"]


def test_every_room_of_tests_runs_in_a_quick_run_where_it_is_touched() -> None:
    """Else `make quick` is green whatever happens there."""
    makefile = (ROOT / "Makefile").read_text()
    always = re.findall(r"[a-z]+", re.findall(r"^quick := \$\(addprefix tests/,([^)]*)\)", makefile, re.MULTILINE)[0])
    touched = set(
        re.findall(r"[a-z]+", " ".join(re.findall(r"\(((?:[a-z]+\|)+[a-z]+)\)", (CI / "touched").read_text())))
    )
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert len(rooms) > 15
    assert rooms - touched - set(always) == set()


def test_a_proof_is_kept_with_its_commit_and_its_end(tmp_path: Path) -> None:
    shutil.copytree(CI, tmp_path / ".ci")
    assert ran("git", "init", "-q", str(tmp_path)).returncode == 0
    done = ran(tmp_path / ".ci/prove", "it", "sh", "-c", "echo in $(pwd)/here; exit 3")
    kept = (tmp_path / "proofs/it.txt").read_text()
    assert done.returncode == 1
    assert done.stdout.endswith(kept)
    assert re.fullmatch(r"# \d{4}-\d\d-\d\d, commit .*, \d+ processors\nin here\n# failed with 3\n# \d+ s\n", kept)


BARE = f"""
exec 2>&1
section() {{ echo "== $1"; shift; rc=0; "$@" || rc=$?; echo "rc $rc"; }}
cut_short() {{
    setsid make check-node &
    until [ -e .venv/lib/python3*/site-packages/typer ]; do sleep 0.1; done
    kill -KILL -$!
    wait
    ls .venv/.stamp-run
}}
compiled() {{ find $1 -name '*.py' | wc -l; find $1 -name '*.pyc' | wc -l; }}

chown -R 65534:65534 .
section nobody {" ".join(NOBODY)} make check-node
chown -R 0:0 .
section interrupted cut_short
section first make check-node
section report .venv/bin/nodeprep check -o json
section compiled compiled agent/nodeprep
section libraries compiled .venv/lib/python3*/site-packages/yaml
section home find /root /home -type f -newer Makefile
section again make check-node
echo '# changed' >>requirements.lock
section changed make check-node
"""
SETTING_UP = "setting up .venv (run) with Python 3.11"


@pytest.fixture(scope="module")
def bare() -> dict[str, str]:
    """The output of each section, its exit code last. One run for all: most of its time is the download of packages."""
    try:
        done = bare_debian.run(("sh", "-c", BARE), capture=True)
    except bare_debian.CannotStart as reason:
        cannot_start(reason)
    print(done.stdout)
    parts = re.split(r"^== (\w+)\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.bare
@pytest.mark.timeout(600)
class TestBareDebian:
    def test_who_may_not_install_gets_one_line_that_says_what_to_run(self, bare: dict[str, str]) -> None:
        assert bare["nobody"].splitlines()[:-2] == [
            "missing Debian packages: python3.11-venv: run as root: apt-get install python3.11-venv"
        ]
        assert bare["nobody"].endswith("rc 2\n")

    def test_a_set_up_that_was_cut_short_is_done_again(self, bare: dict[str, str]) -> None:
        assert SETTING_UP in bare["interrupted"]
        assert bare["interrupted"].endswith("rc 2\n")  # ls: no stamp
        assert SETTING_UP in bare["first"]

    def test_it_ends_with_a_verdict(self, bare: dict[str, str]) -> None:
        _, verdict, *_ = bare["first"].splitlines()
        assert re.match(r"(READY|NOT READY|UNKNOWN|NOTHING TO JUDGE)\b", verdict)
        assert bare["first"].endswith("rc 0\n")
        report, _, code = bare["report"].rpartition("rc ")
        assert json.loads(report)["exitCode"] == int(code)

    def test_what_is_installed_is_compiled(self, bare: dict[str, str]) -> None:
        for name in ("compiled", "libraries"):
            sources, compiled, _ = bare[name].splitlines()
            assert sources == compiled

    def test_it_leaves_nothing_elsewhere(self, bare: dict[str, str]) -> None:
        assert bare["home"] == "rc 0\n"

    def test_a_second_time_it_only_judges(self, bare: dict[str, str]) -> None:
        assert SETTING_UP not in bare["again"]
        assert "installing" not in bare["again"]
        assert bare["again"].endswith("rc 0\n")

    def test_a_lock_that_changed_is_installed(self, bare: dict[str, str]) -> None:
        assert SETTING_UP in bare["changed"]
        assert bare["changed"].endswith("rc 0\n")
