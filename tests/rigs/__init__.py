"""Rigs: the real things that tests run against, each also a program (`python tests/rigs/NAME.py run -- COMMAND`)."""
