"""Sub-agents: what a task may ask for, what it gets, when it works, and what comes back (R-220 to R-229)."""
