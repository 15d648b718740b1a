"""The waits of repairs, as the hidden option of `agent` shortens them for tests. No file and no environment can."""

from __future__ import annotations

from nodeprep import typed_yaml
from nodeprep.cli.usage import UsageError
from nodeprep.decide.repair_policy import SHIPPED_WAITS, RepairWaits
from nodeprep.pattern import Pattern
from nodeprep.values import field_names, replace

OPTION = "--repair-waits"
LIMIT_SECONDS = 600.0  # the longest wait that a test may ask for
NUMBER = Pattern(r"[0-9]{1,3}(?:\.[0-9]{1,6})?")


def read(text: str | None) -> RepairWaits:
    """The waits of a text such as `settled=1,conviction=2`, in seconds; those that it does not name are as shipped.

    None: all are. Raises UsageError.
    """
    waits: dict[str, float] = {}
    for part in () if text is None else text.split(","):
        name, _, number = part.strip().partition("=")
        if name not in field_names(RepairWaits):
            raise UsageError(
                f"{OPTION}: found {typed_yaml.words(name)}, wanted one of {', '.join(field_names(RepairWaits))}"
            )
        if name in waits:
            raise UsageError(f"{OPTION}: found {name} twice, wanted it once")
        seconds = float(number) if NUMBER.fullmatch(number) else 0.0
        if not 0.0 < seconds <= LIMIT_SECONDS:
            wanted = f"a number of seconds, more than 0 and at most {LIMIT_SECONDS:g}"
            raise UsageError(f"{OPTION}: {name}: found {typed_yaml.words(number)}, wanted {wanted}")
        waits[name] = seconds
    return replace(SHIPPED_WAITS, **waits)
