"""Questions about the CNI configuration of any network plugin."""
