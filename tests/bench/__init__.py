"""Benchmarks print figures beside their limits: they end with 1 where one is broken, with 2 where they cannot run."""
