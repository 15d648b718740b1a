"""`nodeprep check` as an operator runs it, on trees of whole nodes and on this host: words, exit codes, streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.program import NODEPREP, node, nodeprep, set_down, timeless
from tests.rigs.absent import cannot_start
from tests.rigs.ending import ending

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return node("h100-ib", tmp_path)


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    root = node("h100-ib", tmp_path / "faulty")
    set_down(root, "mlx5_3")
    return root


def report(*arguments: str) -> dict[str, Any]:
    done = nodeprep("check", "-o", "json", *arguments)
    assert done.stderr == ""
    told: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert told["exitCode"] == done.returncode
    return told


def test_a_copy_of_a_healthy_node_shows_no_fault(healthy: Path) -> None:
    done = nodeprep("check", "--root", str(healthy))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("NO FAULT SEEN: 20 of 30 gates of profile rdma-infiniband judged, 10 need a live")
    assert "profile   rdma-infiniband, chosen by hardware: 8 InfiniBand ports" in done.stdout
    assert f"root      {healthy}"[:60] in done.stdout
    assert "need a live node" in done.stdout
    assert "nodeprep profile" in done.stdout


def test_a_fault_is_named_on_its_device_and_exits_with_1(faulty: Path) -> None:
    done = nodeprep("check", "--root", str(faulty))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NOT READY: 1 fault on 1 device, 1 warning\n")
    assert "FAIL      port.state: NoSignal (1 of 12)" in done.stdout
    assert "mlx5_3/1" in done.stdout
    assert "7 of them up" in done.stdout
    assert "nodeprep explain port.state" in done.stdout


def test_a_gate_check_that_could_not_look_exits_with_3(healthy: Path) -> None:
    state = healthy / "sys/class/infiniband/mlx5_3/ports/1/state"
    state.unlink()
    state.mkdir()
    done = nodeprep("check", "--root", str(healthy), "--only", "port.state")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("UNKNOWN: no fault seen, but 1 gate check could not look, 1 warning\n")
    assert "ports/1/state: io-error (EISDIR" in " ".join(done.stdout.split())


def test_nothing_to_judge_is_one_line_and_0(tmp_path: Path) -> None:
    done = nodeprep("check", "--root", str(node("plain-vm", tmp_path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert " ".join(done.stdout.split()).startswith("NOTHING TO JUDGE: no RDMA device in /sys/class/infiniband")
    assert "root" not in done.stdout


def test_json_is_as_the_schema_says_on_every_described_node(tmp_path: Path, healthy: Path, faulty: Path) -> None:
    for root in (healthy, faulty, node("h100-roce", tmp_path), node("h100-flat", tmp_path), node("plain-vm", tmp_path)):
        report("--root", str(root))
    report()


def test_two_runs_give_the_same_bytes(faulty: Path) -> None:
    runs = {timeless(nodeprep("check", "-o", "json", "--root", str(faulty)).stdout) for _ in range(2)}
    assert len(runs) == 1


def test_a_warning_fails_only_where_it_is_asked_to(healthy: Path) -> None:
    rate = healthy / "sys/class/infiniband/mlx5_3/ports/1/rate"
    rate.write_text("200 Gb/sec (4X HDR)\n")
    arguments = ("check", "--root", str(healthy), "--only", "port")
    lenient, strict = nodeprep(*arguments), nodeprep(*arguments, "--fail-on", "warn")
    assert (lenient.returncode, strict.returncode) == (0, 1)
    assert lenient.stdout.startswith("NO FAULT: ")
    assert "2 warnings" in " ".join(lenient.stdout.split("\n\n")[0].split())
    assert strict.stdout.startswith("NOT READY: 2 warnings\n")


def test_only_and_skip_choose_what_runs(faulty: Path) -> None:
    only = report("--root", str(faulty), "--only", "port.rate,port.layer")
    assert {finding["check"] for finding in only["findings"]} == {"port.rate", "port.layer"}
    assert (only["verdict"], only["basis"]["checks"]["selected"]) == ("passed", 2)
    assert {"check": "port.state", "why": "deselected"} in only["skipped"]
    assert report("--root", str(faulty), "--skip", "port")["exitCode"] == 0
    assert report("--root", str(faulty), "--skip", "port.rate")["exitCode"] == 1


COPIES = [
    # node             profile                 first line                                                       exit
    ("terway-shared", "tcp-shared-eni", "NO FAULT SEEN: 12 of 27 gates of profile tcp-shared-eni judged", 3),
    ("terway-shared", "mpijob-exclusive-eni", "NO FAULT SEEN: 11 of 21 gates of profile mpijob-exclusive-eni", 3),
    ("h100-roce", "rdma-roce", "NO FAULT SEEN: 23 of 33 gates of profile rdma-roce judged, 10 need a live node", 0),
    ("h100-flat", "rdma-infiniband", "NO FAULT SEEN: 13 of 30 gates of profile rdma-infiniband judged", 0),
    ("efa", "auto", "NO FAULT SEEN: no profile, ", 0),
]


@pytest.mark.parametrize(("name", "profile", "line", "code"), COPIES)
def test_a_copy_is_never_ready(name: str, profile: str, line: str, code: int, tmp_path: Path) -> None:
    root = str(node(name, tmp_path))
    done, strict = (nodeprep("check", "--root", root, "--profile", profile, *more) for more in ((), ("--strict",)))
    for one in (done, strict):
        assert " ".join(one.stdout.split()).startswith(line)
    assert (done.returncode, strict.returncode) == (code, 0 if profile == "auto" else 3)


NOTHING = [
    # profile     exit  first words
    ("auto", 0, "NOTHING TO JUDGE: "),
    ("base", 3, "NOTHING TO JUDGE: neither a NIC nor an RDMA device was seen"),
    ("tcp-shared-eni", 3, "NOTHING TO JUDGE: neither a NIC nor an RDMA device was seen"),
    ("rdma-roce", 1, "NOT READY: "),
]


@pytest.mark.parametrize(("profile", "code", "words"), NOTHING)
def test_a_copy_without_devices_is_about_nothing(profile: str, code: int, words: str, tmp_path: Path) -> None:
    (tmp_path / "node/proc/sys").mkdir(parents=True)
    done = nodeprep("check", "--root", str(tmp_path / "node"), "--profile", profile)
    assert (done.returncode, done.stdout.startswith(words)) == (code, True), done.stdout


def test_a_node_of_which_nobody_knows_the_profile_is_unknown(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    assign = [{"match": {"pool": "a100"}, "use": ["rdma-roce"]}]
    config.write_text(json.dumps({"apiVersion": "nodeprep.io/v1", "kind": "Config", "mode": "gate", "assign": assign}))
    done = nodeprep("check", "--root", str(node("h100-roce", tmp_path)), "--config", str(config))
    line = " ".join(done.stdout.splitlines()[0].split())
    assert (done.returncode, line[:21]) == (3, "UNKNOWN: no fault see"), done.stdout
    assert "the profile is not known: assign[0] of " in " ".join(done.stdout.split())


SELECTIONS = [
    # options                        exit  first line
    (("--only", "port.rate"), 0, "PASSED: 1 of 1 selected"),
    (("--only", "port.state"), 0, "NO FAULT: 0 of 1 selected passed, 1 warning"),
    (("--only", "klog.nic"), 3, "NOT JUDGED: 0 of 1 selected: 1 check needs a live node"),
    (("--only", "klog.nic,port.rate"), 0, "PASSED: 1 of 2 selected, 1 check needs a live node"),
    (("--only", "klog.nic,port.rate", "--strict"), 3, "UNKNOWN: "),
    (("--only", "eni"), 0, "NOT JUDGED: 0 of 12 selected: 12 checks found nothing here to judge"),
    (("--skip", "port.state"), 0, "PASSED: "),
]


@pytest.mark.parametrize(("options", "code", "line"), SELECTIONS)
def test_a_selection_is_judged_and_not_the_node(healthy: Path, options: tuple[str, ...], code: int, line: str) -> None:
    done = nodeprep("check", "--root", str(healthy), *options)
    assert (done.returncode, done.stdout.startswith(line)) == (code, True), done.stdout


ABSENT = [
    # options                                        exit
    (("--only", "port.state"), 0),
    (("--only", "port.state", "--profile", "auto"), 0),
    (("--only", "port.state", "--profile", "rdma-roce"), 3),
]


@pytest.mark.parametrize(("options", "code"), ABSENT)
def test_a_selection_without_anything_that_a_named_profile_is_about_is_3(
    options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    root = node("plain-vm", tmp_path)
    (root / "sys/class/infiniband").mkdir(exist_ok=True)
    told = report("--root", str(root), *options)
    assert (told["verdict"], told["exitCode"]) == ("not-judged", code)


def test_only_the_facts_that_selected_checks_look_at_are_observed(healthy: Path) -> None:
    trace = healthy.parent / "trace"
    command = ("strace", "-f", "-qq", "-e", "trace=openat", "-o", str(trace))
    try:
        subprocess.run((*command, "true"), check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        cannot_start(f"needs strace and leave to trace: {error}")
    arguments = ("check", "--root", str(healthy), "--profile", "rdma-infiniband", "--only", "fs.mounts")
    done = subprocess.run((*command, NODEPREP, *arguments), check=False, capture_output=True)
    assert done.returncode == 3, done.stderr  # a copy has no mounts, and somebody named the profile
    opened = [line for line in trace.read_text().splitlines() if str(healthy) in line]
    assert any("mountinfo" in line for line in opened)
    assert not any("infiniband" in line for line in opened)


REFUSED = [
    # arguments                                              words on stderr
    (("--only", "port.stat"), "--only 'port.stat' matches no check; nearest: port.state"),
    (("--skip", "nonsense-that-is-none"), "`nodeprep list` names them all"),
    (("--settle", "soon"), "--settle: found 'soon', wanted seconds"),
    (("--settle", "-1"), "--settle: found '-1'"),
    (("--settle", "nan"), "--settle: found 'nan'"),
    (("--wait", "5x"), "--wait: found '5x'"),
    (("--watch", "1", "--wait", "1"), "give one of them"),
    (("--root", "/nowhere-at-all"), "/nowhere-at-all: no such directory"),
    (("--root", "/etc/passwd"), "/etc/passwd: not a directory"),
    (("--root", "/usr"), "--root '/usr' holds none of sys/class"),
    (("--root", "/", "--host-root", "/"), "give one of them"),
    (("--host-root", "/nowhere-at-all"), "/nowhere-at-all: no such directory; --host-root"),
    (("--profile", "rdma-rose"), "there is no profile 'rdma-rose'; nearest: rdma-roce, "),
    (("--profile", "rdma-rose"), "; wanted a file or one of base, rdma, rdma-roce, "),
    (("--profile", "q"), "there is no profile 'q'; wanted a file or one of base, "),
    (("--profile", "/nowhere.yaml"), "/nowhere.yaml: no such file"),
    (("--profile", "missing.yaml"), "missing.yaml: no such file"),
    (("--profile", "missing.json"), "missing.json: no such file"),
    (("--config", "/nowhere.yaml"), "/nowhere.yaml: no such file"),
    (("--kubeconfig", "/nowhere", "--node", "n1"), "/nowhere: no such file"),
    (("--snapshot", "/nowhere.json"), "/nowhere.json: no such file"),
    (("--snapshot", "/dev/null"), "/dev/null: "),
    (("--snapshot", "/usr"), "/usr: "),
    (("--snapshot", "x", "--root", "/"), "cannot be combined with --root"),
    (("--snapshot", "x", "--watch", "1"), "cannot be combined with --watch"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_wrong_use_is_one_line_and_2(arguments: tuple[str, ...], words: str) -> None:
    done = nodeprep("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.startswith(words) or not words.endswith(("no such file", "directory"))
    assert len(done.stderr.splitlines()) == 1


def test_the_environment_says_where_the_host_is(healthy: Path) -> None:
    done = nodeprep("check", NODEPREP_HOST_ROOT="/nowhere-at-all")
    assert done.returncode == 2
    assert "/nowhere-at-all: no such directory" in done.stderr
    # A live host's root that is not this host's: nothing may be concluded from it.
    done = nodeprep("check", "-o", "json", "--host-root", str(healthy))
    assert done.returncode == 3
    assert "the host's root is not mounted here" in done.stdout


def test_a_configuration_sets_profile_numbers_and_waivers(faulty: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    waiver = (
        f"{{check: port.state, device: '*', until: {time.strftime('%Y-%m-%d', time.gmtime())}, reason: cable on order}}"
    )
    config.write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\ndefault: rdma-infiniband\nwaivers: [{waiver}]\n")
    arguments = ("check", "--root", str(faulty), "--config", str(config), "--only", "port.state")
    done = nodeprep(*arguments)
    assert done.returncode == 0
    assert "WAIVED    port.state: NoSignal" in done.stdout
    assert "cable on order" in done.stdout
    assert "0 days left" in done.stdout
    assert f"profile   rdma-infiniband, the default of {config}"[:50] in done.stdout
    assert nodeprep(*arguments, "--profile", "base").stdout.count("chosen with --profile") == 1


PAGE_WIDTH = 80


@pytest.mark.parametrize("width", [None, "200"])
def test_a_pipe_gets_80_columns_without_colour(faulty: Path, width: str | None) -> None:
    done = nodeprep("check", "--root", str(faulty), **({"COLUMNS": width} if width else {}))
    assert max(map(len, done.stdout.splitlines())) <= PAGE_WIDTH
    assert "\x1b" not in done.stdout


def typescript(*arguments: str, columns: int = 80, **environment: str) -> tuple[int, str]:
    """What a terminal of that width gets, and the exit code."""
    leader, follower = os.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    with ending(
        subprocess.Popen((NODEPREP, *arguments), stdout=follower, env=clean | {"TERM": "xterm"} | environment)
    ) as child:
        os.close(follower)
        said = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # EIO: the other end was closed
                break
            said += part
    os.close(leader)
    return child.returncode, said.decode()


def test_a_terminal_gets_colour_unless_it_is_refused(faulty: Path) -> None:
    arguments = ("check", "--root", str(faulty))
    assert "\x1b[1;31mFAIL\x1b[0m" in typescript(*arguments)[1]
    for refused in (
        typescript(*arguments, "--no-color"),
        typescript(*arguments, NO_COLOR="1"),
        typescript(*arguments, TERM="dumb"),
    ):
        assert refused[0] == 1
        assert "\x1b" not in refused[1]


def test_a_narrow_terminal_gets_narrow_lines(faulty: Path) -> None:
    lines = typescript("check", "--root", str(faulty), "--no-color", columns=50)[1].splitlines()
    assert max(map(len, lines)) <= 50


@pytest.mark.parametrize("form", ["table", "wide", "json"])
def test_a_reader_that_goes_away_leaves_the_verdict_as_exit_code(faulty: Path, form: str) -> None:
    script = f"{NODEPREP} check --root {faulty} -o {form} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(("bash", "-c", script), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_closed_streams_and_full_disks_make_no_traceback(faulty: Path) -> None:
    def shell(redirection: str) -> subprocess.CompletedProcess[str]:
        script = f"{NODEPREP} check --root {faulty} {redirection}"
        return subprocess.run(("bash", "-c", script), capture_output=True, text=True, check=False)

    closed = shell(">&-")
    assert (closed.returncode, closed.stderr) == (1, "")
    both = shell(">&- 2>&-")
    assert (both.returncode, both.stderr) == (1, "")
    full = shell("> /dev/full")
    assert (full.returncode, full.stderr) == (2, "cannot write to stdout: No space left on device\n")


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}])
def test_any_locale_and_any_name(faulty: Path, locale: dict[str, str]) -> None:
    (faulty / "proc/sys/kernel/hostname").write_text("nœud\x1b[2J\n")
    done = nodeprep("check", "--root", str(faulty), **locale)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\x1b" not in done.stdout
    assert "ud\\x1b[2J" in done.stdout


def test_waiting_ends_when_the_node_is_ready(faulty: Path) -> None:
    with ending(
        subprocess.Popen(
            (NODEPREP, "check", "--root", str(faulty), "--wait", "30s"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "waiting: NOT READY: 1 fault on 1 device, 1 warning\n"
        port = faulty / "sys/class/infiniband/mlx5_3/ports/1"
        (port / "phys_state").write_text("5: LinkUp\n")
        (port / "state").write_text("4: ACTIVE\n")
        out, err = child.communicate(timeout=240)
    assert child.returncode == 0
    assert out.startswith("NO FAULT SEEN: ")
    assert all(line.startswith("waiting: ") for line in err.splitlines())


def test_waiting_in_vain_ends_with_the_last_verdict(faulty: Path) -> None:
    began = time.monotonic()
    done = nodeprep("check", "--root", str(faulty), "--wait", "8s")  # more than a first look takes on a busy machine
    assert time.monotonic() - began > 8
    assert done.returncode == 1
    assert done.stdout.count("NOT READY") == 1
    assert done.stderr == "waiting: NOT READY: 1 fault on 1 device, 1 warning\n"


def test_watching_ends_with_ctrl_c_and_the_last_verdict(faulty: Path) -> None:
    command = (NODEPREP, "check", "--root", str(faulty), "--watch", "0.2")
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as child:
        assert child.stdout is not None
        for _ in range(2):
            while not child.stdout.readline().startswith("NOT READY"):
                pass
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=240)
    assert (child.returncode, err) == (1, "")


def test_watching_ends_when_nobody_reads(faulty: Path) -> None:
    script = f"{NODEPREP} check --root {faulty} --watch 0.1 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(("bash", "-c", script), capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "NOT READY: 1 fault on 1 device, 1 warning\n"


def test_ctrl_c_while_waiting_is_130_and_no_traceback(faulty: Path) -> None:
    command = (NODEPREP, "check", "--root", str(faulty), "--wait", "1m")
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as child:
        assert child.stderr is not None
        assert child.stderr.readline().startswith("waiting: ")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=240)
    assert (child.returncode, out, err) == (130, "", "")


def test_a_snapshot_says_the_same(faulty: Path, tmp_path: Path) -> None:
    recording = str(tmp_path / "node.json")
    assert nodeprep("snapshot", "--root", str(faulty), "-o", recording).returncode == 0
    told = nodeprep("check", "-o", "json", "--root", str(faulty))
    again = nodeprep("check", "-o", "json", "--snapshot", recording)
    assert timeless(again.stdout) == timeless(told.stdout)
    assert json.loads(again.stdout)["time"] == json.loads(Path(recording).read_text())["content"]["when"]
    assert again.returncode == told.returncode == 1
    other = nodeprep("check", "--snapshot", recording, "--profile", "base", "--only", "port.state")
    assert "profile   base, chosen with --profile" in other.stdout
    assert f"root      {recording} (snapshot of"[:50] in other.stdout
    assert nodeprep("check", "--snapshot", recording, "--profile", "auto").returncode == 1


def test_a_snapshot_keeps_the_waivers_and_what_was_looked_for(faulty: Path, tmp_path: Path) -> None:
    config, recording = tmp_path / "config.yaml", str(tmp_path / "node.json")
    waiver = f"{{check: port.state, until: {time.strftime('%Y-%m-%d', time.gmtime())}, reason: cable on order}}"
    config.write_text(f"apiVersion: nodeprep.io/v1\nkind: Config\nwaivers: [{waiver}]\n")
    for root in (faulty, node("plain-vm", tmp_path)):
        assert (
            nodeprep("snapshot", "--root", str(root), "-o", recording, "--force", "--config", str(config)).returncode
            == 0
        )
        told = nodeprep("check", "-o", "json", "--root", str(root), "--config", str(config))
        assert timeless(nodeprep("check", "-o", "json", "--snapshot", recording).stdout) == timeless(told.stdout)
        assert told.returncode == 0
        assert ("'until'" in str(json.loads(told.stdout)["findings"])) == (root == faulty)


def test_a_profile_captured_from_a_sibling_names_the_port_that_is_down(
    healthy: Path, faulty: Path, tmp_path: Path
) -> None:
    profile = str(tmp_path / "good.yaml")
    assert nodeprep("profile", "capture", "--root", str(healthy), "-o", profile).returncode == 0
    assert nodeprep("check", "--root", str(healthy), "--profile", profile).returncode == 0
    done = nodeprep("check", "--root", str(faulty), "--profile", profile)
    assert done.returncode == 1
    assert "ACTIVE is wanted by profile" in " ".join(done.stdout.split())
    assert "nothing says which devices belong" not in done.stdout
