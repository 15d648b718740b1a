"""Who else may configure the network interfaces of this node: cloud-init, networkd, NetworkManager, eni.service, udev.

Read from files alone, line by line: what is asked is whether a secondary interface, such as eth1, would be taken.
Of YAML only the keys in question are found, in block or flow style and outside comments; anchors and merge keys are not
followed. Of networkd's [Match] only Name, Type and MACAddress are held against the interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from nodeprep.model import CannotLook, Fact, Shown, Topic, Unreadable, not_recorded, shown
from nodeprep.pattern import Pattern

if TYPE_CHECKING:
    from nodeprep.doors.files.reader import Files
    from nodeprep.doors.node_host import Host

SECONDARY = "eth1"  # Terway wants eth0 for the primary, so the second ENI is called so
WANTS = "/etc/systemd/system/multi-user.target.wants"
CLOUD = "/etc/cloud"
DATASOURCE = "/var/lib/cloud/instance/datasource"
# networkd.conf(5), systemd.network(5), NetworkManager.conf(5): of one name, the file in the first directory counts.
SYSTEMD = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
NETWORK_MANAGER = ("/etc/NetworkManager", "/run/NetworkManager", "/usr/lib/NetworkManager")
# What terway's init container deletes at every start (terway hack/init.sh).
UDEV = (
    "/etc/udev/rules.d/75-persistent-net-generator.rules",
    "/lib/udev/rules.d/60-net.rules",
    "/lib/udev/rules.d/61-eni.rules",
    "/lib/udev/write_net_rules",
)
FULL_IMDS_CONFIG = Pattern(r"\bapply_full_imds_network_config[\"']?\s*:\s*[\"']?(\w+)")
NETWORK_DISABLED = Pattern(r"^network\s*:\s*(?:\{\s*|\n[ \t]+)config\s*:\s*[\"']?disabled\b", re.MULTILINE)
ALIYUN = Pattern(r"\bAliYun\b")
FALSE_WORDS = ("false", "no", "off", "n", "0")
TRUE_WORDS = ("true", "yes", "on", "y", "1")


@shown
class InterfaceClaim(Shown):
    """A configuration by which a program of the system takes hold of secondary interfaces: `file`, and what it says."""

    program: str
    file: str
    says: str


@shown
class OsNetwork(Shown):
    """`claims` are those that nothing takes back."""

    at: float
    claims: tuple[InterfaceClaim, ...]


def observe(host: Host) -> OsNetwork | Unreadable:
    files = host.files
    if not host.live and not any(files.exists(here) for here in (CLOUD, SYSTEMD[0], NETWORK_MANAGER[0])):
        return not_recorded("/etc")
    found = (*_cloud_init(files), *_networkd(files), *_network_manager(files), *_others(files))
    return OsNetwork(host.now(), found)


def _cloud_init(files: Files) -> Iterator[InterfaceClaim]:
    """DataSourceAliYun sets up DHCP on each NIC of the metadata, at every boot, unless it is told not to."""
    runs = files.exists("/run/cloud-init") or files.exists("/var/lib/cloud/instance")
    source = _text(files, DATASOURCE)
    if not runs or files.exists(f"{CLOUD}/cloud-init.disabled") or (source and "AliYun" not in source):
        return
    full, where = "not set, which is true", f"{CLOUD}/cloud.cfg"
    for path in (f"{CLOUD}/cloud.cfg", *_under(files, (CLOUD,), "cloud.cfg.d", ".cfg")):
        text = "\n".join(line.split(" #")[0] for line in _lines(files, path))
        if NETWORK_DISABLED.search(text):
            return
        said = FULL_IMDS_CONFIG.search(text, at.end()) if (at := ALIYUN.search(text)) else None
        full, where = (said[1][:40], path) if said else (full, where)
    if full.lower() not in FALSE_WORDS:
        yield InterfaceClaim("cloud-init", where, f"apply_full_imds_network_config: {full}: DHCP on every NIC")


def _networkd(files: Files) -> Iterator[InterfaceClaim]:
    """Systemd-networkd takes away rules that are not its own (v249 can be told not to), and may set up each NIC."""
    if not (files.exists("/run/systemd/netif/links") or _is_enabled(files, "systemd-networkd.service")):
        return
    main = f"{SYSTEMD[0]}/networkd.conf"
    foreign, where = "yes", main
    for path in (main, *_under(files, SYSTEMD, "networkd.conf.d", ".conf")):
        for section, key, value in _settings(files, path):
            if (section, key) == ("Network", "ManageForeignRoutingPolicyRules"):
                foreign, where = value, path
    if foreign.lower() not in FALSE_WORDS:
        yield InterfaceClaim(
            "systemd-networkd", where, f"ManageForeignRoutingPolicyRules={foreign}: it removes Terway's rules"
        )
    for path in _under(files, SYSTEMD, "network", ".network"):
        settings = tuple(_settings(files, path))
        if _matches(settings):
            taken = _takes(settings)
            if taken:
                yield InterfaceClaim("systemd-networkd", path, taken)
            return  # the first file that matches is the one that counts


def _matches(settings: tuple[tuple[str, str, str], ...]) -> bool:
    wants = {key: value for section, key, value in settings if section == "Match"}
    if not wants or wants.keys() & {"MACAddress", "PermanentMACAddress", "Kind"}:
        return False  # of one interface, or of those that software made
    names, kinds = wants.get("Name", "*").split(), wants.get("Type", "ether").split()
    return "ether" in kinds and any(fnmatchcase(SECONDARY, name) for name in names)


def _takes(settings: tuple[tuple[str, str, str], ...]) -> str:
    """What would give the interface an address; "" where it is left alone."""
    if any((section, key) == ("Link", "Unmanaged") and value.lower() in TRUE_WORDS for section, key, value in settings):
        return ""
    addressed = (
        f"{key}={value}"
        for section, key, value in settings
        if (section == "Network" and key == "DHCP" and value.lower() not in FALSE_WORDS)
        or (section in ("Network", "Address") and key == "Address" and value)
    )
    return next(addressed, "")


def _network_manager(files: Files) -> Iterator[InterfaceClaim]:
    """NetworkManager makes a connection with DHCP for each NIC that has none, unless it is told not to."""
    if not (files.exists("/run/NetworkManager") or _is_enabled(files, "NetworkManager.service")):
        return
    main = f"{NETWORK_MANAGER[0]}/NetworkManager.conf"
    parts = tuple(_under(files, NETWORK_MANAGER, "conf.d", ".conf"))
    own = tuple(path for path in parts if path.startswith(NETWORK_MANAGER[0]))
    said: dict[str, str] = {}
    for path in (*(path for path in parts if path not in own), main, *own):
        for _, key, value in _settings(files, path):
            more = key.endswith("+")
            said[key.rstrip("+")] = f"{said.get(key[:-1], '')};{value}" if more else value
    unmanaged = said.get("unmanaged-devices", "")
    if not (_names(unmanaged) or _names(said.get("no-auto-default", ""))):
        yield InterfaceClaim("NetworkManager", main, f"unmanaged-devices={unmanaged[:80]}")


def _names(value: str) -> bool:
    """Whether a list of device specs of NetworkManager.conf(5) holds the secondary interface."""
    specs = [one.strip() for one in re.split(r"[,;]", value) if one.strip()]
    kept = [one.removeprefix("except:") for one in specs if one.startswith("except:")]
    held = [one for one in specs if not one.startswith("except:")]
    return any(map(_is_spec, held)) and not any(map(_is_spec, kept))


def _is_spec(spec: str) -> bool:
    return spec == "type:ethernet" or fnmatchcase(SECONDARY, spec.removeprefix("interface-name:").lstrip("=~"))


def _others(files: Files) -> Iterator[InterfaceClaim]:
    if _is_enabled(files, "eni.service"):
        yield InterfaceClaim("eni.service", f"{WANTS}/eni.service", "enabled: it sets up each ENI at boot")
    for path in UDEV:
        if files.exists(path):
            yield InterfaceClaim("udev", path, "sets up or renames interfaces as they appear")


def _is_enabled(files: Files, unit: str) -> bool:
    return files.link(f"{WANTS}/{unit}") is not None or files.exists(f"{WANTS}/{unit}")


def _under(files: Files, roots: tuple[str, ...], directory: str, ending: str) -> Iterator[str]:
    """Configuration files of several roots in the order of their names, each name once."""
    found: dict[str, str] = {}
    for root in roots:
        names = files.names(f"{root}/{directory}")
        if isinstance(names, Unreadable):
            raise CannotLook(names)
        for name in names or ():
            if name.endswith(ending):
                found.setdefault(name, f"{root}/{directory}/{name}")
    return (found[name] for name in sorted(found))


def _settings(files: Files, path: str) -> Iterator[tuple[str, str, str]]:
    """Section, key and value of each line of an INI file."""
    section = ""
    for line in _lines(files, path):
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            section = text[1:-1]
        key, equals, value = text.partition("=")
        if equals:
            yield section, key.rstrip(), value.strip()


def _lines(files: Files, path: str) -> list[str]:
    return [line for line in (_text(files, path) or "").splitlines() if not line.lstrip().startswith(("#", ";"))]


def _text(files: Files, path: str) -> str | None:
    text = files.text(path)
    if isinstance(text, Unreadable):
        raise CannotLook(text)
    return text


FACT = Fact(OsNetwork, observe, woken_by=frozenset({Topic.CONFIG}), every=60.0)
