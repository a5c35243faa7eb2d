"""Conversations kept on disk: what a session file holds, and the folder of them (R-2, R-85)."""
