"""Does the network configuration that sorts first belong to this node's network plugin?"""

from __future__ import annotations

from collections.abc import Iterator

from nodeprep.facts.alibaba import terway as terway_facts
from nodeprep.facts.alibaba.terway import CONFLIST, OLD, TYPE, Terway
from nodeprep.facts.network.cni import MULTUS, NAMES, Cni, CniFile, CniNetwork
from nodeprep.model import (
    NODE,
    Check,
    Confirmation,
    Reason,
    Seen,
    Severity,
    Stage,
    Status,
    Unreadable,
    Verdict,
    Why,
    raw,
)


def judge(seen: Seen) -> Iterator[Verdict]:
    cni, terway = seen[Cni], seen.get(Terway)
    first = cni.first
    if first is None or not terway_facts.is_of_kubernetes(cni, terway):
        return
    if first.name in (CONFLIST, OLD) and terway and terway.present:
        yield Verdict(NODE, Status.OK, "TerwayFirst", f"{first.name} sorts first", None, first.name, CONFLIST)
    elif not is_malformed(first):  # what is wrong with it is cni.parse's to say
        yield before_terway(cni, first) if terway and terway.present else alone(cni, first)


def is_malformed(file: CniFile) -> bool:
    network = raw(file)["network"]
    return isinstance(network, Unreadable) and network.kind in (Why.MALFORMED, Why.MISSING)


def before_terway(cni: Cni, first: CniFile) -> Verdict:
    shows = f"{first.name[:60]} sorts first in {cni.directory}"
    shown, about = (None, first.name, CONFLIST), {"directory": cni.directory}
    if TYPE in cni.chain(first) and first.network.plugins[0].type in MULTUS:
        message = (
            f"{shows}: Multus, which calls Terway; {CONFLIST} is wanted by Terway. Where Multus is meant to be here, "
            "waive this"
        )
        return Verdict(NODE, Status.WARN, "MultusBeforeTerway", message, *shown, args=about)
    message = (
        f"{shows} ({called(first.network)}), so the runtime passes {CONFLIST} by and no new pod gets its ENI; Terway "
        f"is this node's network plugin; if nobody needs it: mv {cni.directory}/{first.name[:60]} /var/tmp/"
    )
    return Verdict(NODE, Status.FAIL, "TerwayBypassed", message, *shown, args=about)


def alone(cni: Cni, first: CniFile) -> Verdict:
    wins = called(first.network)
    shows = f"{first.name[:60]} ({wins}) sorts first in {cni.directory}"
    ours = set(cni.chain(first)) | {first.network.plugins[0].type}
    others = [
        (file.name, called(network))
        for file in (cni.files or ())[1:]
        if isinstance(network := raw(file)["network"], CniNetwork) and named(network) and not ours & set(named(network))
    ]
    if not others:
        return Verdict(NODE, Status.OK, "First", shows, None, first.name)
    name, loses = others[0]
    about = {"directory": cni.directory}
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    message = (
        f"{shows} and wins over {name[:60]} ({loses}){more}: pods get the network of {wins}; remove the files of the "
        "plugin that this cluster does not use"
    )
    return Verdict(NODE, Status.WARN, "SeveralPlugins", message, None, first.name, "one network plugin", args=about)


def named(network: CniNetwork) -> tuple[str, ...]:
    """Those types of its chain that tell whose it is."""
    return tuple(plugin.type for plugin in network.plugins if plugin.type in NAMES)


def called(network: CniNetwork) -> str:
    """Whose chain it is, for people: such as "Terway + Cilium"; else the types themselves."""
    names = dict.fromkeys(NAMES[one] for one in named(network))
    return " + ".join(names) or " + ".join(plugin.type for plugin in network.plugins[:3])


CHECK = Check(
    id="cni.first",
    question="Does the network configuration that sorts first belong to this node's network plugin?",
    why="The runtime uses the first file by name and no other: a stray one takes every new pod off its network.",
    fix="ls the directory that the message names: the file that sorts first wins.",
    reasons=(
        Reason("TerwayFirst", Status.OK),
        Reason(
            "MultusBeforeTerway",
            Status.WARN,
            "Waive this where Multus is meant to be here; else mv {directory}/{observed} /var/tmp/; where Terway left "
            "this node: rm -r /var/run/eni /etc/cni/net.d/10-terway.conflist.",
        ),
        Reason(
            "TerwayBypassed",
            Status.FAIL,
            "mv {directory}/{observed} /var/tmp/, if nobody needs it; where Terway left this node: rm -r /var/run/eni "
            "/etc/cni/net.d/10-terway.conflist.",
        ),
        Reason("First", Status.OK),
        Reason(
            "SeveralPlugins",
            Status.WARN,
            "Move the files of the plugin that this cluster does not use out of {directory}.",
        ),
    ),
    source="containerd/go-cni opts.go, loadFromConfDir (sort.Strings); config max_conf_num = 1",
    severity=Severity.GATE,
    stage=Stage.DEVICE,
    confirmation=Confirmation.FAST,
    needs=(Cni,),
    uses=(Terway,),
    judge=judge,
)
