"""The remediator as a process with its socket: whatever is sent, nothing runs that may not, and it still serves."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nodeprep
from nodeprep.decide.remediator_protocol import LINE_BYTES
from nodeprep.doors import clock
from nodeprep.repair import remediator_socket
from tests.rigs import remediator_process
from tests.rigs.absent import needs_root
from tests.rigs.remediator_process import AGENT, HELLO, ID, PLENTY, Remediator
from tests.rigs.waiting import until

pytestmark = needs_root("the remediator is root's")


def memory(pid: int, what: str) -> int:
    """KiB of a process by /proc/PID/status, such as VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def started_by(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_hello_and_what_may_not_run(tmp_path: Path) -> None:
    remediator = Remediator(tmp_path, "--remedy", "link_up", "--max-class", "S1")
    with remediator.serving():
        other = {"hello": {"version": "9.9"}}
        hello, equal, refused = remediator.ask(
            other, HELLO, remediator_process.run_request(remedy="mtu", interface="eth1", mtu="9000")
        )
        assert hello == {"hello": {"version": nodeprep.__version__, "runs": False}}
        assert equal["hello"]["runs"] is True
        assert refused["refused"]["reason"] == "remedy"
        (refused,) = remediator.ask(remediator_process.run_request(interface="eth1"))
        assert refused["refused"]["reason"] == "version"
        _, refused = remediator.ask(other, remediator_process.run_request(interface="eth1"))
        assert refused["refused"]["reason"] == "version"
        assert remediator.ask({"status": {"attempt": ID}}, {"cancel": {"attempt": ID}}) == [
            {"status": "unknown"},
            {"error": f"cancel: attempt {ID} does not run"},
        ]
    assert remediator.records() == []
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o700


INTERFACES = ("../../x", "{{ lookup('pipe', 'id') }}", "e;id", "a\nb", "$(id)")
MANY = {f"a{number}": "x" for number in range(40)}
HOSTILE_KEYS: list[tuple[str, Any]] = [
    *(("remedy", value) for value in ("rm", "../../bin/sh", "link_up\x00", "{{ 1 }}", "acts/plugin_restart", 7)),
    *(("args", {"interface": value}) for value in INTERFACES),
    ("args", [[]]),
    ("args", MANY),
    ("args", {"on_host": "sh"}),
    ("args", "eth0"),
    *((key, True) for key in ("approved", "class", "on_host", "host_root")),
    *(("attempt", value) for value in ("", "x" * 32, ID.upper(), ID * 2, 7)),
    *(("deadline", value) for value in (-1, 0, 1e9, "1", True, None, 3601)),
]


def hostile(draw: random.Random) -> bytes:
    """A message that is no request, or one that must be refused."""
    key, value = draw.choice(HOSTILE_KEYS)
    body = {"attempt": ID, "remedy": "link_up", "args": {"interface": "eth7"}, "check": False, "deadline": 10}
    wrong = json.dumps({"run": {**body, key: value}}).encode()
    return draw.choice(
        (
            wrong,
            wrong,
            wrong[: draw.randrange(1, 60)],
            draw.randbytes(draw.randrange(1, 400)).replace(b"\n", b""),
            b'{"run":' + b"[" * draw.randrange(1, 60_000),
            json.dumps({draw.choice(["exec", "shell", "hello ", ""]): body}).encode(),
            b'{"run": {"attempt": "' + ID.encode() + b'", "attempt": "' + ID.encode() + b'"}}',
        )
    )


def test_ten_thousand_hostile_messages(tmp_path: Path) -> None:
    """Of a caller that said hello, as a taken-over agent would."""
    draw, refused = random.Random(17), 0
    remediator = Remediator(tmp_path)
    with remediator.serving() as process:
        for _ in range(100):
            with remediator.connected() as peer, peer.makefile("rwb") as lines:
                lines.write(json.dumps(HELLO).encode() + b"\n")
                lines.flush()
                lines.readline()
                for _ in range(100):
                    lines.write(hostile(draw) + b"\n")
                    lines.flush()
                    told = json.loads(lines.readline())
                    assert set(told) <= {"error", "refused"}, told
                    refused += 1
        assert refused == 10_000
        assert started_by(process.pid) == ""
        assert memory(process.pid, "VmHWM") < 64 << 10
        assert remediator.ask(HELLO)[0]["hello"]["runs"] is True
    assert remediator.records() == []
    assert len(remediator.log()) < 10_000, "a flood does not fill a disk"


def test_a_line_without_end_a_caller_that_does_not_read_and_a_thousand_connections(tmp_path: Path) -> None:
    remediator = Remediator(tmp_path)
    with remediator.serving() as process:
        before = descriptors(process.pid)
        with remediator.connected() as peer:
            sent, part = 0, b"x" * (1 << 20)
            with suppress(BrokenPipeError, ConnectionResetError):
                while sent < 1 << 30:
                    sent += peer.send(part)
            assert sent < 1 << 24, "it hangs up soon"
        with remediator.connected() as deaf:  # it asks and never reads
            deaf.setblocking(False)
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                for _ in range(200_000):
                    deaf.send(b"{}\n" * 100)
            assert remediator.ask(HELLO)[0]["hello"]["runs"] is True
        many = [remediator.connected() for _ in range(1000)]
        assert remediator.ask(HELLO)[0]["hello"]["runs"] is True
        assert descriptors(process.pid) < before + 12
        for one in many:
            one.close()
        assert memory(process.pid, "VmHWM") < 64 << 10
        assert remediator.ask(HELLO)[0]["hello"]["runs"] is True
    assert remediator.records() == []


def test_who_is_hung_up_on_with_a_line_on_its_way(tmp_path: Path) -> None:
    """One look tells of a ninth caller first, and then of the one that has to go for it."""
    remediator = Remediator(tmp_path)
    with remediator.serving() as process:
        peers = [remediator.connected() for _ in range(remediator_socket.CONNECTIONS)]
        for peer in peers:  # each is known
            peer.sendall(b"{}\n")
            assert peer.recv(LINE_BYTES)
        process.send_signal(signal.SIGSTOP)
        until(lambda: state(process.pid) == "T", "the process is stopped")
        ninth = remediator.connected()
        peers[0].sendall(b"{}\n")
        process.send_signal(signal.SIGCONT)
        with suppress(ConnectionResetError):
            assert peers[0].recv(LINE_BYTES) == b"", "it was silent for longest"
        assert remediator.ask(HELLO)[0]["hello"]["runs"] is True
        assert process.poll() is None, remediator.log()
        for peer in (*peers, ninth):
            peer.close()


def state(pid: int) -> str:
    """Of a process, as proc(5) has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


HOLD = """
import sys, time
from nodeprep.repair.repair_lock import RepairLock
with RepairLock(sys.argv[1], "nodeprep repair"):
    print("held", flush=True)
    time.sleep(900)
"""
# A node of its own: a network namespace, with its /sys and an interface that is down.
SET_UP = "mount -t sysfs sysfs /sys && ip link add eth7 type veth peer name eth8 && ip link set eth8 up"
NODE = ("unshare", "--net", "--mount", "sh", "-c", f'{SET_UP} && exec "$@"', "sh")


def is_up(process: subprocess.Popen[bytes]) -> bool:
    told = subprocess.run(
        ("nsenter", f"--net=/proc/{process.pid}/ns/net", "ip", "-j", "link", "show", "eth7"),
        capture_output=True,
        check=True,
    )
    return "UP" in json.loads(told.stdout)[0]["flags"]


def test_a_remedy_runs_once(tmp_path: Path) -> None:
    remediator = Remediator(tmp_path, "--runs-a-day-each", "2", before=NODE)
    with remediator.serving() as process:
        _, began, busy = remediator.ask(
            HELLO,
            remediator_process.run_request(interface="eth7", check=True),
            remediator_process.run_request("f" * 32, interface="eth7"),
        )
        assert began == {"status": "running"}
        assert busy["refused"]["reason"] == "busy"
        checked = remediator_process.ended(remediator)
        assert (checked["rc"], checked["changed"], checked["end"]) == (0, 1, "checked"), checked
        assert not is_up(process)
        _, seen, began = remediator.ask(
            HELLO,
            remediator_process.run_request(interface="eth7"),
            remediator_process.run_request("1" * 32, interface="eth7"),
        )
        assert seen["refused"]["reason"] == "seen"
        assert began == {"status": "running"}
        done = remediator_process.ended(remediator, "1" * 32)
        assert (done["rc"], done["changed"], done["refused"], done["end"]) == (0, 1, None, "done")
        assert is_up(process)
        remediator.ask(HELLO, remediator_process.run_request("2" * 32, interface="eth7"))
        assert remediator_process.ended(remediator, "2" * 32)["changed"] == 0
        _, spent = remediator.ask(HELLO, remediator_process.run_request("3" * 32, interface="eth7"))
        assert spent["refused"]["reason"] == "day"
    assert [record["state"] for record in remediator.records()] == [
        "began",
        "checked",
        "began",
        "done",
        "began",
        "done",
    ]


def test_what_is_read_too_late_never_begins(tmp_path: Path) -> None:
    """The process was frozen with the question in its socket: what was proved for it is old by now."""
    remediator = Remediator(tmp_path, before=NODE)
    request = remediator_process.run_request(interface="eth7")
    with remediator.serving() as process:
        assert (
            remediator.ask(HELLO, request | {"run": {**request["run"], "begin_by": 1}})[1]["refused"]["reason"]
            == "late"
        )
        with remediator.connected() as peer, peer.makefile("rwb") as lines:
            lines.write(json.dumps(HELLO).encode() + b"\n")
            lines.flush()
            lines.readline()
            process.send_signal(signal.SIGSTOP)
            body = {"run": {**request["run"], "begin_by": clock.now() + 0.3}}
            lines.write(json.dumps(body).encode() + b"\n")
            lines.flush()
            time.sleep(0.6)
            process.send_signal(signal.SIGCONT)
            told = json.loads(lines.readline())
        assert told["refused"]["reason"] == "late", told
        assert "after it was to begin at the latest" in told["refused"]["why"]
        assert remediator.ask({"status": {"attempt": ID}}) == [{"status": "unknown"}]
    assert not remediator.ledger.exists() or remediator.records() == []


def test_it_asks_by_itself_who_uses_it(tmp_path: Path) -> None:
    """The leg of a bridge: even a remedy that is safe while jobs run leaves it alone."""
    remediator = Remediator(tmp_path, before=NODE)
    with remediator.serving() as process:
        for words in ("link add br9 type bridge", "link set eth7 master br9"):
            subprocess.run(("nsenter", f"--net=/proc/{process.pid}/ns/net", "ip", *words.split()), check=True)
        remediator.ask(HELLO, remediator_process.run_request(interface="eth7"))
        told = remediator_process.ended(remediator)
        assert (told["rc"], told["refused"]) == (None, "in-use"), told
        assert "br9" in told["why"]
        assert not is_up(process)


def test_the_machine_refuses_too(tmp_path: Path) -> None:
    """An argument that no machine has, a device that somebody uses, a repair by hand: each by its word."""
    remediator = Remediator(tmp_path, before=NODE)
    with remediator.serving():
        remediator.ask(HELLO, remediator_process.run_request(interface="eth99"))
        told = remediator_process.ended(remediator)
        assert (told["rc"], told["refused"]) == (None, "argument"), told
        assert "eth99" in told["why"]
        holding = subprocess.Popen(
            (sys.executable, "-c", HOLD, str(tmp_path / "lock")),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(AGENT)},
        )
        try:
            assert holding.stdout is not None
            assert holding.stdout.readline() == b"held\n"
            remediator.ask(HELLO, remediator_process.run_request("1" * 32, interface="eth7"))
            told = remediator_process.ended(remediator, "1" * 32)
            assert (told["refused"], told["why"].partition(" (")[0]) == ("busy", "nodeprep repair")
        finally:
            holding.kill()
            holding.communicate()


MANY_SOCKETS = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
kept = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4000)]
for one in kept:
    one.bind(("192.0.2.7", 0))
print("bound", flush=True)
time.sleep(900)
"""


def test_a_long_reason_fills_neither_the_ledger_nor_the_log(tmp_path: Path) -> None:
    """Who has the node's network opens sockets on an interface, and asks for what they forbid."""
    remediator = Remediator(tmp_path, "--attempts-a-day", "2", before=NODE)
    with remediator.serving() as process:
        node = ("nsenter", f"--net=/proc/{process.pid}/ns/net")
        subprocess.run((*node, "ip", "address", "add", "192.0.2.7/24", "dev", "eth8"), check=True)
        with subprocess.Popen((*node, sys.executable, "-c", MANY_SOCKETS), stdout=subprocess.PIPE) as holding:
            assert holding.stdout is not None
            assert holding.stdout.readline() == b"bound\n"
            try:
                for attempt in (ID, "1" * 32):
                    asked = remediator_process.run_request(attempt, "mtu", interface="eth8", mtu="1400")
                    remediator.ask(HELLO, asked)
                    told = remediator_process.ended(remediator, attempt)
                    assert told["refused"] == "in-use", told
                    assert 400 < len(told["why"]) <= 600
            finally:
                holding.kill()
        for check in (False, True):
            request = remediator_process.run_request("2" * 32, check=check, interface="eth7")
            assert remediator.ask(HELLO, request)[1]["refused"]["reason"] == "attempts", (
                "a refusal costs the node something"
            )
    assert remediator.ledger.stat().st_size < 4096
    assert (tmp_path / "log").stat().st_size < 8192


def test_what_the_kubelet_tells_a_pod_is_told_to_the_idle_proof(tmp_path: Path) -> None:
    """There is an API server then, and nothing else here says by which interface."""
    remediator = Remediator(tmp_path, before=("env", "KUBERNETES_SERVICE_HOST=192.0.2.9", *NODE))
    with remediator.serving():
        remediator.ask(HELLO, remediator_process.run_request(interface="eth7"))
        told = remediator_process.ended(remediator)
        assert told["refused"] == "doubt", told
        assert "api-route could not be asked: way to the API server" in told["why"]


def test_a_flood_does_not_hide_what_runs(tmp_path: Path) -> None:
    remediator = Remediator(tmp_path, before=NODE)
    with remediator.serving():
        with remediator.connected() as peer, peer.makefile("rwb") as lines:
            for _ in range(200):
                lines.write(b"{}\n")
                lines.flush()
                lines.readline()
        remediator.ask(HELLO, remediator_process.run_request(interface="eth7"))
        remediator_process.ended(remediator)
    events = [line["event"] for line in remediator.log()]
    assert events.count("invalid-request") < 200
    assert [one for one in events if one in ("run-began", "run-ended")] == ["run-began", "run-ended"]


def test_a_lost_ledger_runs_nothing(tmp_path: Path) -> None:
    remediator = Remediator(tmp_path, before=NODE)
    with remediator.serving() as process:
        for broken in (remediator.ledger.unlink, lambda: remediator.ledger.write_text("{}\n")):
            broken()
            _, refused = remediator.ask(HELLO, remediator_process.run_request(interface="eth7"))
            assert refused["refused"]["reason"] == "ledger"
            assert str(remediator.ledger) in refused["refused"]["why"]
        assert not is_up(process)
        assert started_by(process.pid) == ""


# On the remediator's node, `ip link set` writes down that it was called, and takes its time.
COUNTS = """
real=$(readlink -f "$(command -v ip)")
cp "$real" {place}/ip
printf '#!/bin/sh\\ncase "$*" in *"eth7 up"*) echo called >>{place}/calls; sleep 1;; esac\\n' >{place}/counts
printf 'exec {place}/ip "$@"\\n' >>{place}/counts
chmod 755 {place}/counts
mount --bind {place}/counts "$real"
exec "$@"
"""


def slept(seconds: float, *_: object) -> bool:
    time.sleep(seconds)
    return True


# When the remediator is killed, by what can be seen of it then.
KILLED: dict[str, Callable[[Remediator, subprocess.Popen[bytes], Path], object]] = {
    "it was sent": lambda *_: True,
    "it is written": lambda remediator, *_: remediator.records(),
    "its process runs": lambda _, process, __: started_by(process.pid),
    "its task runs": lambda _, __, calls: calls.exists(),
    "it is done": lambda remediator, *_: remediator.ask({"status": {"attempt": ID}})[0]["status"] == "done",
    **{f"{seconds:g} s are over": partial(slept, seconds) for seconds in (0.3, 0.6, 0.9, 1.5)},
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("when", KILLED)
def test_kill_9_never_runs_an_attempt_twice_nor_loses_one(tmp_path: Path, when: str) -> None:
    """After the kill the caller asks for the same id again, as an agent does that has no answer."""
    calls = tmp_path / "calls"
    before = (*NODE[:-2], f"{SET_UP} && {COUNTS.format(place=tmp_path).strip()}", "sh")
    remediator = Remediator(tmp_path, before=before)
    request = remediator_process.run_request(interface="eth7")
    with remediator.serving() as process, remediator.connected() as peer:
        peer.sendall("".join(json.dumps(one) + "\n" for one in (HELLO, request)).encode())
        until(lambda: KILLED[when](remediator, process, calls), when)
        process.kill()
        process.wait(PLENTY)
    was_known, had_run = bool(remediator.records()), calls.exists()
    with remediator.serving():
        _, again = remediator.ask(HELLO, request)
        told = remediator_process.ended(remediator)
    if was_known:
        assert again["refused"]["reason"] == "seen", again
        assert told["end"] in ("interrupted", "done")
    else:
        assert (again, told["end"], had_run) == ({"status": "running"}, "done", False)
    assert [one["state"] for one in remediator.records()] == ["began", told["end"]]
    ran = calls.read_text().count("called") if calls.exists() else 0
    assert ran == 1 if had_run or not was_known else ran <= 1, "what it began ends a moment after it"
    assert ran == 1 or told["end"] != "done"
    assert when not in ("its task runs", "it is done") or ran == 1


def test_an_attempt_whose_process_cannot_start_is_refused(tmp_path: Path) -> None:
    """It has descriptors left for a caller and for the ledger, and none for the pipes of one process more."""
    remediator = Remediator(tmp_path, before=NODE)
    with remediator.serving() as process:
        most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (descriptors(process.pid) + 5, most[1]))
        _, began = remediator.ask(HELLO, remediator_process.run_request(interface="eth7"))
        assert began["refused"]["reason"] == "missing-tool"
        told = remediator_process.ended(remediator)
        assert (told["rc"], told["end"], told["refused"]) == (None, "refused", "missing-tool")
        assert "Too many open files" in told["why"]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, most)
        _, began = remediator.ask(HELLO, remediator_process.run_request("1" * 32, interface="eth7"))
        assert began == {"status": "running"}
        assert remediator_process.ended(remediator, "1" * 32)["end"] == "done"


def test_it_acts_in_the_hosts_namespaces_and_not_in_its_own(tmp_path: Path) -> None:
    with remediator_process.host() as first:
        process = f"/proc/{first.pid}"
        remediator = Remediator(tmp_path, "--host-process", process, "--lock-dir", "/run/lock-of-repair")
        with remediator.serving():
            remediator.ask(HELLO, remediator_process.run_request(remedy="terway_dirs"))
            told = remediator_process.ended(remediator)
            assert (told["rc"], told["end"]) == (0, "done"), told["why"]
            for place in ("run/eni", "var/lib/cni/terway", "etc/tmpfiles.d/nodeprep-terway.conf", "run/lock-of-repair"):
                assert Path(f"{process}/root/{place}").exists(), place
                assert not Path(f"/{place}").exists(), place


def test_who_repairs_the_host_is_named_by_the_hosts_own_path(tmp_path: Path) -> None:
    with remediator_process.host() as first:
        process, locks = f"/proc/{first.pid}", "/run/lock-of-repair"
        remediator = Remediator(tmp_path, "--host-process", process, "--lock-dir", locks)
        inside = ("nsenter", f"--mount={process}/ns/mnt", sys.executable, "-c", HOLD, locks)
        environment = {**os.environ, "PYTHONPATH": str(AGENT)}
        with remediator.serving(), subprocess.Popen(inside, stdout=subprocess.PIPE, env=environment) as holding:
            try:
                assert holding.stdout is not None
                assert holding.stdout.readline() == b"held\n"
                remediator.ask(HELLO, remediator_process.run_request(remedy="terway_dirs"))
                told = remediator_process.ended(remediator)
            finally:
                holding.kill()
        assert told["refused"] == "busy"
        assert told["why"].endswith(f"repairs this node ({locks}/lock): wait until it has ended")


NO_HOST = [
    # words before the remediator, its lock's directory, the refusal, words of why
    (("setpriv", "--bounding-set", "-sys_admin"), "/run/lock-of-repair", "missing-tool", "setns: Operation not"),
    ((), "/proc/lock-of-repair", "ledger", "/proc/lock-of-repair: No such file or directory"),
]


@pytest.mark.parametrize(("before", "locks", "refused", "why"), NO_HOST, ids=["no-right", "no-lock"])
def test_what_could_not_begin_is_refused(
    tmp_path: Path, before: tuple[str, ...], locks: str, refused: str, why: str
) -> None:
    """It is no try of the remedy: three such nodes would have it held in the whole fleet."""
    with remediator_process.host() as first:
        process = f"/proc/{first.pid}"
        remediator = Remediator(tmp_path, "--host-process", process, "--lock-dir", locks, before=before)
        with remediator.serving():
            remediator.ask(HELLO, remediator_process.run_request(remedy="terway_dirs"))
            told = remediator_process.ended(remediator)
        assert (told["end"], told["refused"]) == ("refused", refused), told
        assert why in told["why"]


def test_a_host_process_that_is_none_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        (
            sys.executable,
            "-m",
            "nodeprep",
            "remediator",
            "--host-process",
            str(tmp_path),
            "--ledger-dir",
            str(tmp_path),
        ),
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"--host-process {tmp_path}: root cannot be followed; wanted the host's first process"
    )
    assert done.stderr.count("\n") == 1
