"""Benchmarks print figures; they pass or fail nothing."""
