"""An API server for what the manifests hold."""

from __future__ import annotations

from tests.cluster.conftest import cluster

__all__ = ["cluster"]
