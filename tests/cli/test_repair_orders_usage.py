"""Wrong use of `repair pause`, `resume`, `approve` and `history`: one line, exit code 2, and no cluster is asked."""

from __future__ import annotations

import pytest

from tests.cli.program import nodeprep

WRONG = [
    # what was typed, what is said
    (("pause", "--reason", "x"), "repair pause: found neither, wanted Nodes (by name or --selector) or --all"),
    (("pause", "--all", "n1", "--reason", "x"), "repair pause: found both, wanted Nodes"),
    (("pause", "--all"), "nodeprep repair pause: missing option '--reason'"),
    (("pause", "--all", "--reason", " "), "--reason: found nothing, wanted why, in a few words"),
    (("pause", "--all", "--reason", "a;until=b"), "--reason: found ';until=' in it"),
    (("pause", "--all", "--reason", "a\nb"), "--reason: found characters that cannot be printed"),
    (("pause", "--all", "--reason", "x" * 257), "--reason: found 257 characters, wanted at most 256"),
    (
        ("pause", "n1", "--reason", "x", "--for", "soon"),
        "--for: found 'soon', wanted seconds, or a number with s, m or h",
    ),
    (("pause", "n1", "--reason", "x", "--for", "0"), "--for: found '0', wanted more than 0 seconds"),
    (("pause", "N 1", "--reason", "x"), "'N 1' is not a name of a Node"),
    (("pause", "n1", "-l", "a=b", "--reason", "x"), "--selector 'a=b' and names of Nodes exclude each other"),
    (("pause", "n1", "--reason", "x", "-n", "A"), "--namespace: found 'A', wanted the name of a namespace"),
    (("resume",), "repair resume: found none, wanted one of: --all, Nodes (by name or --selector), --remedy"),
    (("resume", "--all", "n1"), "repair resume: found --all and Nodes, wanted one of"),
    (("resume", "n1", "--remedy", "link_up"), "repair resume: found Nodes and --remedy, wanted one of"),
    (("approve", "link_up"), "missing argument 'NODE...'"),
    (("approve",), "missing argument 'REMEDY'"),
    (("approve", "link_up", "n1"), "link_up is of class S1 and needs no approval; one of class S3 does: there is none"),
    (("approve", "memlock", "n1"), "memlock is of class S2 and needs no approval"),
    (("approve", "erdma_install", "n1"), "repair approve: erdma_install is not built: it needs a mirror"),
    (("approve", "reboot_all", "n1"), "repair approve: found 'reboot_all', wanted a remedy of class S3"),
    (("history", "--fleet", "n1"), "repair history: found both --fleet and Nodes, wanted one of them"),
    (("history", "--fleet", "-l", "a=b"), "repair history: found both --fleet and Nodes"),
    (("history", "--context", "x"), "repair history: found --context, wanted --fleet or Nodes with it"),
    (("history", "--fleet", "-o", "xml"), "'xml' is not one of"),
    (("pause", "--all", "--reason", "x"), "no access to a cluster: found no KUBECONFIG"),
]


@pytest.mark.parametrize(("words", "says"), WRONG, ids=lambda one: " ".join(one)[:50] if isinstance(one, tuple) else "")
def test_wrong_use_is_one_line(words: tuple[str, ...], says: str) -> None:
    done = nodeprep("repair", *words, HOME="/nonexistent", KUBECONFIG="", KUBERNETES_SERVICE_HOST="")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_node_the_history_is_that_of_this_host() -> None:
    done = nodeprep("repair", "history", HOME="/nonexistent", NODEPREP_REPAIR_DIR="/nonexistent/repairs")
    assert (done.returncode, done.stdout) == (0, "nothing was repaired here by nodeprep\n")
