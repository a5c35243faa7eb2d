"""What a provider's finish reason says of a reply. Pure."""

from __future__ import annotations

# Parts of the words in which providers say that a filter of theirs stopped the reply: content_filter, refusal,
# SAFETY, RECITATION, PROHIBITED_CONTENT, BLOCKLIST, SPII, guardrail_intervened, ERROR_TOXIC, sensitive, …
_FILTERED = (
    *("filter", "refus", "safety", "recitation", "prohibit", "block", "guardrail", "toxic", "sensitive"),
    *("moderat", "spii", "policy", "violat", "censor", "harm"),
)


def is_filtered(stop: str) -> bool:
    """Return whether a reply that ended with `stop` was ended by a filter or refused, so that it is not whole."""
    reason = stop.lower()
    return any(part in reason for part in _FILTERED)
