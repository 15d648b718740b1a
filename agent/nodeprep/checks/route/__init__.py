"""Rules, routes, and what the kernel says that it would do with packets of pods."""
