"""Images on machines without a registry."""
