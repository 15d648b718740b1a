"""Counters of RDMA ports: which are read, which refused, which have stopped counting, and how they grew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.doors.node_host import Host
from nodeprep.facts.rdma import counters
from nodeprep.facts.rdma.counters import Counters, PortCounters
from nodeprep.model import Unreadable, Why
from tests.rigs.absent import cannot_start
from tests.rigs.trees import Content, write
from tests.values import port

HERE = "sys/class/infiniband/mlx5_3/ports/1"
AGENT = Path(counters.__file__).parents[3]


def look(root: Path, **files: Content) -> PortCounters:
    """The counters of mlx5_3/1; `hw_link_downed` is link_downed in hw_counters/, any other name is in counters/."""
    places = {name: name.replace("hw_", "hw_counters/") if name[:3] == "hw_" else f"counters/{name}" for name in files}
    return observed(Host(str(root), live=False), {f"{HERE}/{places[name]}": text for name, text in files.items()})


def observed(host: Host, files: dict[str, Content]) -> PortCounters:
    write(files, Path(host.root))
    seen = counters.observe(host)
    assert isinstance(seen, Counters)
    (found,) = seen.ports
    return found


def test_reads_what_some_check_judges_and_nothing_else(tmp_path: Path) -> None:
    seen = look(tmp_path, symbol_error="7", port_xmit_wait="9", hw_rnr_nak_retry_err="1", hw_np_cnp_sent="4")
    assert seen.values == (("rnr_nak_retry_err", 1), ("symbol_error", 7))
    assert (seen.get("symbol_error"), seen.get("port_xmit_wait")) == (7, None)
    assert seen.unread == ()


def test_a_port_without_counters_has_none(tmp_path: Path) -> None:
    seen = observed(Host(str(tmp_path), live=False), {f"{HERE}/state": "4: ACTIVE"})
    assert (seen.values, seen.unread, seen.subject.key) == ((), (), "mlx5_3/1")


SATURATED = [
    ("symbol_error", "65535", True),
    ("symbol_error", "65534", False),
    ("symbol_error", "65536", False),  # it was wider than the attribute says
    ("link_error_recovery", "255", True),
    ("port_rcv_errors", "65535", True),
    ("port_xmit_discards", "65535", True),
    ("local_link_integrity_errors", "15", True),
    ("excessive_buffer_overrun_errors", "15", True),
    ("port_xmit_packets", "4294967295", True),
    ("link_downed", "255", True),
    ("hw_link_downed", "255", False),
    ("port_rcv_packets", "4294967295", True),
    ("port_rcv_packets", "4294967296", False),
]


@pytest.mark.parametrize(("name", "value", "stopped"), SATURATED)
def test_one_that_reached_its_maximum_is_saturated(tmp_path: Path, name: str, value: str, stopped: bool) -> None:
    seen = look(tmp_path, **{name: value})
    assert seen.saturated == ((name.removeprefix("hw_"),) if stopped else ())


def test_no_pma_means_not_offered_and_is_not_asked_again(tmp_path: Path) -> None:
    host = Host(str(tmp_path), live=False)
    seen = observed(host, {f"{HERE}/counters/symbol_error": "N/A (no PMA)"})
    assert (seen.values, seen.unread) == ((), ())
    assert host.refused == {f"/{HERE}/counters/symbol_error"}
    (tmp_path / HERE / "counters/symbol_error").write_text("7\n")
    assert observed(host, {}).values == ()


EINVAL = f"""
import sys
sys.path.insert(0, {str(AGENT)!r})
from nodeprep.doors.node_host import Host
from nodeprep.facts import counters
host = Host(sys.argv[1], live=False)
(port,) = counters.observe(host).ports
print(port.values, port.unread, sorted(host.refused))
"""


def test_einval_means_not_offered(tmp_path: Path) -> None:
    """The loopback's speed answers EINVAL on every kernel: mounted over a counter, it is a restricted function's."""
    look(tmp_path, symbol_error="7", port_rcv_errors="0")
    mount = 'mount --bind /sys/class/net/lo/speed "$0"/sys/class/infiniband/mlx5_3/ports/1/counters/symbol_error'
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f'{mount}; exec "$1" -c "$2" "$0"']
    done = subprocess.run([*argv, str(tmp_path), sys.executable, EINVAL], capture_output=True, text=True, check=False)
    if done.stderr.startswith("unshare:"):
        cannot_start(f"no user namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"(('port_rcv_errors', 0),) () ['/{HERE}/counters/symbol_error']\n", done.stderr


@pytest.mark.parametrize(("content", "why"), [("12x", Why.MALFORMED), (None, Why.IO_ERROR), (b"\xff", Why.MALFORMED)])
def test_damage_is_told_and_spoils_no_neighbour(tmp_path: Path, content: Content, why: Why) -> None:
    seen = look(tmp_path, symbol_error=content, port_rcv_errors="3")
    assert seen.values == (("port_rcv_errors", 3),)
    assert [(blind.kind, blind.path) for blind in seen.unread] == [(why, f"/{HERE}/counters/symbol_error")]


def test_a_directory_that_does_not_list_is_told(tmp_path: Path) -> None:
    seen = observed(Host(str(tmp_path), live=False), {f"{HERE}/counters": "a file"})
    assert [blind.path for blind in seen.unread] == [f"/{HERE}/counters"]


def test_a_class_directory_that_does_not_list_is_unreadable(tmp_path: Path) -> None:
    write({"sys/class/infiniband": "a file"}, tmp_path)
    assert isinstance(counters.observe(Host(str(tmp_path), live=False)), Unreadable)


def counted(name: str = "mlx5_3", saturated: tuple[str, ...] = (), **values: int) -> PortCounters:
    return PortCounters(name, 1, "0000:5c:00.0", tuple(sorted(values.items())), (), saturated)


def test_growth_leaves_out_what_was_reset_or_is_new_or_stood_at_its_maximum() -> None:
    then = counted(symbol_error=5, port_rcv_errors=9, link_downed=255, rx_drops=1, saturated=("link_downed",))
    now = counted(symbol_error=8, port_rcv_errors=2, link_downed=255, retrans_pkts=4, rx_drops=1)
    assert now.since(then) == {"symbol_error": 3, "rx_drops": 0}


def test_a_port_is_found_again_by_address_whatever_it_is_called() -> None:
    look = Counters(0.0, (counted("rocep92s0"),))
    assert look.of(port(device="mlx5_3")) is look.ports[0]
    assert look.of(port(bdf="0000:5d:00.0")) is None
    assert look.of(counted("mlx5_9")) is look.ports[0]


def test_where_ports_lie_is_found_once_between_events(tmp_path: Path) -> None:
    """A device that came or went is seen at once. Another function behind a device is a device of another life."""
    host = Host(str(tmp_path), live=False)
    state, uevent = {f"{HERE}/counters/link_downed": "1"}, "sys/class/infiniband/mlx5_3/device/uevent"
    assert observed(host, {**state, uevent: "PCI_SLOT_NAME=0000:5c:00.0"}).bdf == "0000:5c:00.0"
    host.files.look_again()
    assert observed(host, {uevent: "PCI_SLOT_NAME=0000:5d:00.0", f"{HERE}/counters/link_downed": "2"}).values == (
        ("link_downed", 2),
    )
    host.files.look_again()
    write({"sys/class/infiniband/mlx5_4/ports/1/state": "4: ACTIVE"}, tmp_path)
    seen = counters.observe(host)
    assert isinstance(seen, Counters)
    assert [one.name for one in seen.ports] == ["mlx5_3/1", "mlx5_4/1"]
    shutil.rmtree(tmp_path / "sys/class/infiniband/mlx5_4")
    host.files.look_again()
    assert observed(host, {}).bdf == "0000:5c:00.0"
    host.files.forget()
    assert observed(host, {}).bdf == "0000:5d:00.0"


def test_an_address_that_was_not_shown_is_asked_for_again(tmp_path: Path) -> None:
    host = Host(str(tmp_path), live=False)
    assert observed(host, {f"{HERE}/counters/link_downed": "1"}).bdf == ""
    host.files.look_again()
    uevent = "sys/class/infiniband/mlx5_3/device/uevent"
    assert observed(host, {uevent: "PCI_SLOT_NAME=0000:5c:00.0"}).bdf == "0000:5c:00.0"
