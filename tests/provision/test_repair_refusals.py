"""Who uses an RDMA device keeps a remedy away from it: by the kernel's own RDMA netlink and by real open device nodes.

The remedy is `memlock`. It is of class S2, and wants every RDMA device of the node unused.
"""

from __future__ import annotations

import json

import pytest

from tests.provision.roce_node import one_line, said
from tests.rigs.systemd_guest import RAILS, RDMA_DEVICE, Completed, SystemdGuest

RAIL = RAILS[0]
ADDRESS = RAIL.address.partition("/")[0]
ROCE = f"""
modprobe -a rdma_rxe ib_uverbs rdma_ucm
rdma link add {RDMA_DEVICE} type rxe netdev {RAIL.netdev}
"""
UVERBS = "/dev/infiniband/uverbs0"
OPEN = f"sleep 5000 < {UVERBS} & echo $! > /run/holder"
OPEN_ELSEWHERE = f"unshare --pid --fork --mount-proc sleep 5000 < {UVERBS} & echo $! > /run/holder"
# A verbs client that waits for events of the device: a context and nothing else.
WATCH = f"""
ibv_asyncwatch -d {RDMA_DEVICE} > /run/watch 2>&1 & echo $! > /run/watcher
until [ -s /run/watch ]; do sleep 0.1; done
"""
# A controller of NVMe over RDMA, and the target that it has: both are this kernel.
NVME = f"""
modprobe -a nvmet_rdma nvme_rdma
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/here ports/1
echo 1 > subsystems/here/attr_allow_any_host
echo rdma > ports/1/addr_trtype
echo ipv4 > ports/1/addr_adrfam
echo {ADDRESS} > ports/1/addr_traddr
echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/here ports/1/subsystems/here
echo transport=rdma,traddr={ADDRESS},trsvcid=4420,nqn=here,nr_io_queues=1 > /dev/nvme-fabrics
"""
NO_NVME = """
for one in /sys/class/nvme/*; do echo 1 > $one/delete_controller; done
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/here
rmdir ports/1 subsystems/here
modprobe -r nvme_rdma nvmet_rdma
"""
# What `nodeprep repair` asks at the moment of acting, a line for each holder.
PROVE = """
from nodeprep.config import remedy_files
from nodeprep.doors.node_host import Host
from nodeprep.repair import idle_proof
header, host = remedy_files.headers()["memlock"], Host("/")
target = idle_proof.target_of(host, header, {"unit": "containerd"})
print("\\n".join(idle_proof.prove(host, target, header.safety).words()))
"""


@pytest.fixture(autouse=True)
def _roce(guest: SystemdGuest) -> None:
    guest.shell(ROCE)


def repair(guest: SystemdGuest, *words: str) -> Completed:
    return guest.run(("nodeprep", "repair", "limits.memlock", "--profile", "rdma-roce", "--yes", *words))


def limits(guest: SystemdGuest) -> str:
    """The container runtime's process, and what it may lock."""
    return guest.shell("pidof containerd; grep 'Max locked memory' /proc/$(pidof containerd)/limits")


def holders(guest: SystemdGuest) -> list[str]:
    done = guest.run(("python3", "-c", PROVE))
    assert done.returncode == 0, said(done)
    return done.text.splitlines()


@pytest.mark.parametrize(
    "holds",
    [pytest.param(OPEN, marks=pytest.mark.prove), OPEN_ELSEWHERE],
    ids=["here", "in another PID namespace"],
)
def test_a_process_that_has_uverbs0_open(guest: SystemdGuest, holds: str) -> None:
    before = limits(guest)
    guest.shell(holds)
    pid = guest.shell("pgrep -x sleep | tail -n 1")
    done = repair(guest)
    assert done.returncode == 1, said(done)
    assert f"uverbs0 is in use: process {pid} (sleep) (open-device-nodes; fuser" in one_line(done)
    assert limits(guest) == before, "the runtime was restarted"
    told = json.loads(guest.run(("nodeprep", "repair", "history", "-o", "json")).text)
    assert [(one["remedy"], one["state"]) for one in told] == [("memlock", "refused")]


@pytest.mark.prove  # tests/decide has the rule
def test_a_class_above_the_limit(guest: SystemdGuest) -> None:
    before = limits(guest)
    done = repair(guest, "--max-class", "S1")
    assert done.returncode == 1, said(done)
    assert "memlock for limits.memlock" in one_line(done)
    assert "S2" in done.text
    assert limits(guest) == before


def test_each_who_uses_the_device_is_named_until_he_is_gone(guest: SystemdGuest) -> None:
    """An open context has the process named by RDMA netlink, a storage client its kernel module."""
    assert holders(guest) == []
    guest.shell(WATCH)
    pid = guest.shell("cat /run/watcher")
    more = "(rdma-contexts; rdma resource show ctx)"
    assert f"{RDMA_DEVICE} is in use: process {pid} (ibv_asyncwatch) {more}" in holders(guest)
    guest.shell("kill $(cat /run/watcher)")
    guest.shell(NVME)
    named = {line.partition(" (rdma-kernel-users")[0] for line in holders(guest)}
    assert f"{RDMA_DEVICE} is in use: kernel user nvme_rdma" in named
    assert f"{RDMA_DEVICE} is in use: kernel user nvmet_rdma" in named
    guest.shell(NO_NVME)
    assert holders(guest) == []
