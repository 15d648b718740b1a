"""Tests mirror the package. tests/trees holds cases as data, tests/rigs the real things that tests use."""
