"""Why the kernel refuses a packet: the rule, the route or the setting behind its errno."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from nodeprep.door_values import RoutingRule
from nodeprep.facts.network.routes import MAIN, Route, RouteAnswer, Routes
from nodeprep.facts.network.sysctls import Sysctls
from nodeprep.values import Value

# What net/ipv4/fib_rules.c and fib_semantics.c (fib_props) answer to a rule and to a route of a kind.
RULES: Mapping[int, str] = {errno.EACCES: "prohibit", errno.ENETUNREACH: "unreachable", errno.EINVAL: "blackhole"}
ROUTES: Mapping[int, str] = {errno.EACCES: "prohibit", errno.EHOSTUNREACH: "unreachable", errno.EINVAL: "blackhole"}
REASONS = {"prohibit": "Prohibited", "unreachable": "Unreachable", "blackhole": "Blackholed"}
# A strict filter is EXDEV in kernels before 6.14, which answer EINVAL (net/ipv4/fib_frontend.c, drop reasons).
REVERSE_PATH_ERRNOS = (errno.EXDEV, errno.EINVAL)
STRICT_RP_FILTER = 1


class Refusal(Value):
    """`reason` is CamelCase, `words` say what refuses and how to see it; `key` is the sysctl to change, "" for none."""

    reason: str
    words: str
    key: str = ""


def refusal(answer: RouteAnswer, routes: Routes, sysctls: Sysctls | None) -> Refusal:
    """The cause of an answer's errno. Without sysctls, all possible causes are named."""
    code = answer.errno or 0
    rule = next((one for one in routes.rules if one.action == RULES.get(code) and applies(one, answer)), None)
    if rule is not None:
        return Refusal(REASONS[rule.action], f"rule {rule} refuses it ({name(code)}); see ip rule")
    # The kernel checks forwarding only where it found no route, and then answers this in any case.
    if code == errno.EHOSTUNREACH and sysctls is not None and is_closed(answer, sysctls):
        return closed(answer, sysctls)
    route = refusing_route(answer, routes, ROUTES.get(code))
    if route is not None:
        words = f"route {route} in table {route.table} refuses it ({name(code)}); see ip route show table all"
        return Refusal(REASONS[route.kind], words)
    if code in REVERSE_PATH_ERRNOS and (code == errno.EXDEV or sysctls is None or is_strict(answer, sysctls)):
        return strict(answer, code, sysctls)
    if code == errno.EHOSTUNREACH:
        return closed(answer, sysctls)
    if code == errno.ENETUNREACH:
        return Refusal("NoRoute", f"no route leads there ({name(code)}); see ip rule, ip route show table all")
    return Refusal("Refused", f"the kernel answers {name(code)}; see ip rule, ip route show table all")


def refusing_route(answer: RouteAnswer, routes: Routes, kind: str | None) -> Route | None:
    """A default route of this kind in a table that the packet gets to."""
    named = {rule.table for rule in routes.rules if rule.action == "lookup" and applies(rule, answer)} | {MAIN}
    found = (one for one in routes.routes if one.kind == kind and one.destination == "default")
    return next((one for one in found if one.family == "inet" and one.table in named), None)


def is_closed(answer: RouteAnswer, sysctls: Sysctls) -> bool:
    return 0 in (sysctls.live.get("net.ipv4.ip_forward"), sysctls.live.get(f"net.ipv4.conf.{answer.iif}.forwarding"))


def is_strict(answer: RouteAnswer, sysctls: Sysctls) -> bool:
    """Whether the settings that could be read make the filter strict."""
    own, every = (sysctls.live.get(f"net.ipv4.conf.{name}.rp_filter", 0) for name in (answer.iif, "all"))
    return max(own, every) == STRICT_RP_FILTER


def strict(answer: RouteAnswer, code: int, sysctls: Sysctls | None) -> Refusal:
    own, every = f"net.ipv4.conf.{answer.iif}.rp_filter", "net.ipv4.conf.all.rp_filter"
    key = every if sysctls is None or sysctls.live.get(every) == STRICT_RP_FILTER else own
    words = f"the strict reverse-path filter ({key}=1) drops what comes in by {answer.iif} ({name(code)})"
    return Refusal("StrictFilter", words, key)


def closed(answer: RouteAnswer, sysctls: Sysctls | None) -> Refusal:
    own, every = f"net.ipv4.conf.{answer.iif}.forwarding", "net.ipv4.ip_forward"
    key = own if sysctls is not None and sysctls.live.get(every) == 1 else every
    return Refusal("ForwardingOff", f"{answer.iif} does not forward ({key}=0, {name(errno.EHOSTUNREACH)})", key)


def applies(rule: RoutingRule, answer: RouteAnswer) -> bool:
    """Whether a rule is about a packet. A rule with a mark is not: the packet has none."""
    if rule.family != "inet" or rule.mark or rule.oif or rule.iif not in ("", answer.iif):
        return False
    matches = within(answer.source, rule.source) and within(answer.destination, rule.destination)
    return matches is not rule.inverted


def within(address: str, prefix: str) -> bool:
    return not prefix or IPv4Address(address) in IPv4Network(prefix, strict=False)


def name(code: int) -> str:
    return errno.errorcode.get(code, f"errno {code}")
