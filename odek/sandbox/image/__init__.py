"""Which image a sandbox runs: the reference, the full ID, the volumes it declares."""
