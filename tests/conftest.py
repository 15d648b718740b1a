"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# How long an example takes is the machine's matter; pytest's own timeout ends one that hangs.
settings.register_profile("nodeprep", deadline=None)
settings.load_profile("nodeprep")

# A script that starts us with `&` has SIGINT ignored, and so would all that we start: then Ctrl-C ends nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
