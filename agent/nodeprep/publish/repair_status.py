"""What the agent's repairs are about, as one value: metrics, pages and the log are made from it."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.decide.repair_refusal import Suppression
from nodeprep.values import Value, field


class RepairStatus(Value):
    """Which remedy is on its way, and why each other that is due does not run.

    `remedy` is for `check`, and `step` is where it stands: a word of ApproachStep before anything acts, of AttemptStep
    from the ledger on. All three are "" for none. `is_retry`: it was held back before, and its first steps are the same
    again. `suppressions` are the remedies that are due now and do not run. `suppressed` counts since the start how
    often one came to be held back, by reason. `tries_left` are the tries that are left today for convictions with a
    remedy, by check and remedy.
    """

    remedy: str = ""
    check: str = ""
    step: str = ""
    is_retry: bool = False
    suppressions: tuple[Suppression, ...] = ()
    suppressed: Mapping[str, int] = field(default_factory=dict)
    tries_left: Mapping[tuple[str, str], int] = field(default_factory=dict)


NO_REPAIR = RepairStatus()
