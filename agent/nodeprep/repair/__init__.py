"""Repair: what changes a node, by playbooks, after proof that nobody uses it."""
