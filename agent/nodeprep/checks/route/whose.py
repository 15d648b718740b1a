"""What is said where it is not known which ENI has a pod's address."""

from __future__ import annotations

from collections.abc import Mapping

from nodeprep.model import Subject, Unreadable, Verdict, cannot_look


def nobody_says(pods: Mapping[str, Unreadable]) -> Verdict:
    """The verdict for pods, by address, of whose ENI a book may tell that could not be read.

    It is the node's, and so hides every ENI: what failed before stays so until the book is read again.
    """
    first, blind = next(iter(pods.items()))
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return cannot_look(Subject(name=f"ENI of pod {first}{more}"), blind)
