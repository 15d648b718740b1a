"""Tells the world: gate files, metrics, pages for probes."""
