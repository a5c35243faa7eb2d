"""Existing Docker networks: which are meant, whether they may be attached, and what the user must know."""
