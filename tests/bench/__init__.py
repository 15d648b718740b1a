"""Benchmarks print figures beside their limits. They end with 1 if a limit is broken, with 2 if they cannot run."""
