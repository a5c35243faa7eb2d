"""Settings from their layers, each value with its source."""
