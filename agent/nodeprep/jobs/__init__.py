"""Jobs: what a manifest asks of a cluster, which nodes can take it now, and every obstacle on the others. Pure."""
