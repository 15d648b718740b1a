"""Takes secrets out of free text: of kernel log lines, messages of others, URLs and sources of mounts.

Facts keep what is judged by name. This is for texts that have no names: what looks like a secret becomes `***`.
"""

from __future__ import annotations

import re

from nodeprep.pattern import Pattern

HIDDEN = "***"
# The word that says that a value is secret, and the value: `password=x`, `"accessKeySecret": "x"`, `rd.luks.key=x`.
_VALUE = r"(?:(?:bearer|basic|digest)\s+)?[^\s\"'\\,;&)}\]]+"
_STRONG = (
    r"(?:passw(?:or)?d|passphrase|secret|token|credential|access[-_ ]?key|api[-_ ]?key|private[-_ ]?key)[\w.-]*"
    r"[\\\"']*\s*(?:=|:(?!/)|\bis\b)\s*[\\\"']*"
)
# Shorter words say other things too, such as "sense key: Medium Error": these need an equals sign or quotes.
_WEAK = (
    r"(?<![a-z0-9])(?:pass|pwd|psk|passcode|key|auth|cookie|sig|signature|sas)s?(?:\s*=|\\*[\"']\s*[:=])\s*[\\\"']*"
    r"|\bauthorization\s*[=:]\s*"
)
_BARE = (
    r"(?<=\bbearer )\S+|(?<=\bbasic )[a-z0-9+/=]{8,}"
    r"|\b(?:ltai|akia|asia|sts\.)[a-z0-9]{12,}"  # access key IDs of Alibaba Cloud and AWS
    r"|\beyj[\w-]{8,}(?:\.[\w-]+){0,2}"  # a JSON web token
    r"|\bgh[opsu]_[a-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bdhhc-1:[0-9a-z]{2}:[a-z0-9+/=]+"  # a secret of NVMe in-band authentication (nvme-cli)
    r"|\baq[a-z0-9+/]{36,}=="  # a key of Ceph
    r"|-----begin [a-z ]*private key-----[\s\S]*"
)
USERINFO = Pattern(r"(?P<scheme>[a-z][a-z0-9+.-]*://|(?<![\w:/])//)[^\s/?#'\"]*@", re.IGNORECASE)
SECRET = Pattern(f"(?P<name>{_STRONG}|{_WEAK}){_VALUE}|{_BARE}", re.IGNORECASE)

# The value is a word of its own: `mount --password x`, and in audit's EXECVE lines `a1="--password" a2="x"`.
NEXT_WORD = Pattern(
    r"(?P<name>--?(?:passw(?:or)?d|passphrase|secret|token|psk)\"?\s+(?:a\d+=)?\"?)[^\s\"]+", re.IGNORECASE
)
ESCAPED = Pattern(r"(?P<name>(?:passw(?:or)?d|secret|token|key)%3d)[^\s&;,]+", re.IGNORECASE)

# lustre.org, "LNet": the servers of a Lustre mount are named by address and network, 10.0.0.1@o2ib,10.0.0.2@tcp1.
LUSTRE_NIDS = Pattern(r"(?:[\w.-]+@(?:tcp|o2ib|kfi|gni|ptlf|lo)\d*[,:]?)+")


def masked(text: str) -> str:
    """The text, with the values of passwords, tokens and keys, and the userinfo of URLs, as `***`."""
    kept = USERINFO.sub(lambda found: f"{found['scheme']}{HIDDEN}@", text)
    for pattern in (NEXT_WORD, ESCAPED, SECRET):
        kept = pattern.sub(_hidden, kept)
    return kept


def without_userinfo(source: str) -> str:
    """What is mounted, without user and password, query and fragment.

    `//user:pass@host/share`, `sftp://user@host/`, `user@host:/path` and `redis://:pass@host/1` lose what is before the
    host. A password may hold slashes that nobody escaped. So of a URL all is dropped up to the last `@`. What looks
    like a secret in the rest is masked: a source of FUSE is what its program makes of it.
    """
    return masked(_without_userinfo(source))


def _without_userinfo(source: str) -> str:
    scheme, double, rest = source.partition("//")
    if double and (not scheme or scheme.endswith(":")):
        return f"{scheme}//{rest.rpartition('@')[2].partition('?')[0].partition('#')[0]}"
    if source.startswith("/"):
        return source  # a device or a directory of this machine
    host, separator, path = source.partition(":/")
    if LUSTRE_NIDS.fullmatch(host):
        return source
    return f"{host.rpartition('@')[2]}{separator}{path}".partition("?")[0].partition("#")[0]


def _hidden(found: re.Match[str]) -> str:
    return f"{found.groupdict().get('name') or ''}{HIDDEN}"
