"""Which sockets and locks a container reaches, measured inside it, and what one may do who reaches the kubelet's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from tests.kubernetes.shipped import DAEMONSET, Object
from tests.rigs.cluster import Cluster
from tests.rigs.images import REPOSITORY

PODS = "/api/v1/namespaces/default/pods"
PLUGINS = "/var/lib/kubelet/device-plugins"
OWN = "/var/lib/nodeprep"  # of the node's directories, the one that the agent may write
# Every socket below every mount of the container that runs this, and those in the abstract namespace of its network;
# each with what connect(2) said. procfs and sysfs hold none.
WALK = r"""
import errno, json, os, re, socket, stat, sys
TYPES = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM)
def answer(address):
    for kind in TYPES:
        with socket.socket(socket.AF_UNIX, kind) as one:
            one.settimeout(5)
            try:
                one.connect(address)
                return "connected"
            except OSError as error:
                said = errno.errorcode.get(error.errno, str(error))
                if error.errno != errno.EPROTOTYPE:
                    return said
    return said
def by_path(path):
    head, _, name = path.rpartition("/")
    directory = os.open(head or "/", os.O_PATH | os.O_DIRECTORY)
    try:
        return answer(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)
def walk(top, device, seen):
    try:
        at = os.lstat(top)
        if stat.S_ISSOCK(at.st_mode):
            yield top
        if not stat.S_ISDIR(at.st_mode) or at.st_dev != device or (at.st_dev, at.st_ino) in seen:
            return
        seen.add((at.st_dev, at.st_ino))
        entries = list(os.scandir(top))
    except OSError:
        return
    for one in entries:
        if one.is_dir(follow_symlinks=False):
            yield from walk(one.path, device, seen)
        elif stat.S_ISSOCK(one.stat(follow_symlinks=False).st_mode) if not one.is_symlink() else False:
            yield one.path
def mounts():
    for line in open("/proc/self/mountinfo"):
        fields, _, rest = line.partition(" - ")
        if rest.split()[0] not in ("proc", "sysfs", "cgroup", "cgroup2", "mqueue", "devpts"):
            yield re.sub(r"\\(\d{3})", lambda one: chr(int(one[1], 8)), fields.split()[4])
found, seen = {}, set()
for top in sorted(set(mounts()), key=len, reverse=True):
    try:
        device = os.lstat(top).st_dev
    except OSError:
        continue
    for path in walk(top, device, seen):
        found[path] = by_path(path)
for line in open("/proc/net/unix"):
    fields = line.split()
    if len(fields) > 7 and fields[7].startswith("@") and fields[3] == "00010000":
        found[fields[7]] = answer("\0" + fields[7][1:])
print(json.dumps(found))
"""
# Takes flock(2) on every file and directory below a directory, as it may through a read-only mount, and keeps what it
# got for as long as its container runs. What another holds it waits for, and so has it when that one ends.
GRAB = r"""
import fcntl, json, os, signal, sys
told = {}
for at, _, names in os.walk(sys.argv[1]):
    for path in (at, *(f"{at}/{name}" for name in names)):
        try:
            fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX | fcntl.LOCK_NB)
            told[path] = "locked"
        except OSError as error:
            told[path] = error.strerror
print(json.dumps(told), flush=True)
if not os.fork():
    os.setsid()
    for end in range(3):
        os.dup2(os.open("/dev/null", os.O_RDWR), end)
    for path in told:
        if told[path] != "locked":
            fcntl.flock(os.open(path, os.O_RDONLY | os.O_NONBLOCK), fcntl.LOCK_EX)
    signal.pause()
"""
# Registers a device plugin with the kubelet, in gRPC by hand: HTTP/2, HPACK without compression, protobuf. It serves
# one device on a socket where the agent may write, says when the kubelet has taken it, and goes on until it is killed.
REGISTER = r"""
import json, os, socket, struct, sys, threading
kubelet, own, endpoint, resource = sys.argv[1:]
def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload
def text(words):
    return bytes((len(words),)) + words.encode()
def field(number, value):
    return bytes((number << 3 | 2, len(value))) + value
def headers(fields):
    return b"".join(b"\0" + text(name) + text(value) for name, value in fields.items())
def message(body):
    return b"\0" + struct.pack(">I", len(body)) + body
def frames(link, stream):
    while len(top := stream.read(9)) == 9:
        kind, flags, number = top[3], top[4], int.from_bytes(top[5:], "big")
        payload = stream.read(int.from_bytes(top[:3], "big"))
        if kind == 4 and not flags & 1:
            link.sendall(frame(4, 1, 0, b""))
        elif kind == 6 and not flags & 1:
            link.sendall(frame(6, 1, 0, payload))
        else:
            yield kind, flags, number
def serve():
    link, _ = listener.accept()
    stream = link.makefile("rb")
    stream.read(24)
    link.sendall(frame(4, 0, 0, b""))
    for kind, flags, number in frames(link, stream):
        if kind == 1:  # the kubelet asks for options (1), then for devices (3), which are told without end
            device = field(1, field(1, b"one") + field(2, b"Healthy"))
            link.sendall(frame(1, 4, number, b"\x88" + headers({"content-type": "application/grpc"})))
            link.sendall(frame(0, 0, number, message(b"" if number == 1 else device)))
        if kind == 1 and number == 1:
            link.sendall(frame(1, 5, number, headers({"grpc-status": "0"})))
link = socket.socket(socket.AF_UNIX)
link.settimeout(30)
try:
    link.connect(kubelet)
except OSError as error:
    print(json.dumps({"connect": error.strerror}))
    sys.exit()
if os.path.exists(own):
    os.unlink(own)
listener = socket.socket(socket.AF_UNIX)
listener.bind(own)
listener.listen()
served = threading.Thread(target=serve)
served.start()
head = {":method": "POST", ":scheme": "http", ":path": "/v1beta1.Registration/Register", ":authority": "localhost",
        "content-type": "application/grpc", "te": "trailers"}
asked = field(1, b"v1beta1") + field(2, endpoint.encode()) + field(3, resource.encode())
link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, headers(head))
             + frame(0, 1, 1, message(asked)))
told = []
for kind, flags, number in frames(link, link.makefile("rb")):
    told += [kind] if number == 1 else []
    if number == 1 and flags & 1:
        break
print(json.dumps({"connect": "connected", "registered": 0 in told}), flush=True)  # an error is headers alone
served.join()
"""


def inside(cluster: Cluster, namespace: str, pod: str, container: str, script: str, *words: str) -> Object:
    """What a script says that runs in a container which runs."""
    command = ("-n", namespace, "exec", pod, "-c", container, "--", "python3", "-I", "-c", script, *words)
    told: Object = json.loads(cluster.kubectl(*command))
    return told


def reached(cluster: Cluster, namespace: str, pod: str, container: str) -> set[str]:
    """The sockets that take a connection from inside a container; the others that it sees are printed."""
    told = inside(cluster, namespace, pod, container, WALK)
    print(f"{pod} {container}: {told}")
    return {path for path, said in told.items() if said == "connected"}


def locked(cluster: Cluster, namespace: str, pod: str, container: str, directory: str) -> set[str]:
    """What a container has locked below one of its directories, and holds from now on until it ends."""
    told = inside(cluster, namespace, pod, container, GRAB, directory)
    print(f"{pod} {container}: {told}")
    return {path for path, said in told.items() if said == "locked"}


@contextmanager
def former_agent(cluster: Cluster, node: str, *words: str) -> Iterator[str]:
    """A pod with the agent's rights and the read-only mount of device-plugins that former manifests gave it.

    It runs REGISTER with these words.
    """
    shipped = yaml.safe_load((DAEMONSET / "base/daemonset.yaml").read_text())["spec"]["template"]["spec"]
    (agent,) = shipped["containers"]
    mounts = [
        {"name": "plugins", "mountPath": f"/host{PLUGINS}", "readOnly": True},
        {"name": "state", "mountPath": f"/host{OWN}"},
    ]
    container = {
        "name": "agent",
        "image": f"{REPOSITORY}:dev",
        "imagePullPolicy": "Never",
        "command": ["python3", "-I", "-c", REGISTER, *words],
        "securityContext": agent["securityContext"],
        "volumeMounts": mounts,
    }
    spec = {
        "nodeName": node,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "securityContext": shipped["securityContext"],
        "containers": [container],
        "volumes": [
            {"name": "plugins", "hostPath": {"path": PLUGINS}},
            {"name": "state", "hostPath": {"path": OWN}},
        ],
    }
    cluster.create(PODS, {"metadata": {"name": "former-agent"}, "spec": spec})
    try:
        cluster.kubectl("wait", "pod/former-agent", "--for=condition=Ready", "--timeout=240s")
        yield "former-agent"
    finally:
        cluster.call("DELETE", f"{PODS}/former-agent")
