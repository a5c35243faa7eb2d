"""What can go wrong between odek and a model, sorted by whose fault it is.

Whether another attempt makes sense is decided where the error is made, and carried with it; only
`http.HttpModel` acts on it.
"""

from __future__ import annotations

from odek.errors import OdekError

# How providers say that a conversation no longer fits; none of them gives it a status of its own.
_OVERFLOW_WORDS = (
    "context_length",
    "context length",
    "context window",
    "context limit",
    "context size",
    "maximum context",
    "too many tokens",
    "token limit",
    "input is too long",
    "prompt is too long",
    "prompt too long",
    "input length and",
    "reduce the length of",
    "exceeds the maximum number of tokens",
)
_PAYLOAD_TOO_LARGE = 413
_BAD_REQUEST = (0, 400, 422)  # 0: said inside a 200


class ModelError(OdekError):
    """No answer of the model could be had."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        detail: str = "",
        status: int = 0,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.status = status
        """HTTP status; 0 when there was none"""
        self.retryable = retryable
        """whether the same request may succeed a little later"""
        self.retry_after_s = retry_after_s
        """the wait that the server asked for, already within bounds"""

    @property
    def overflow(self) -> bool:
        """whether the server says that the conversation is too long for the model"""
        words = self.detail.lower()
        return self.status == _PAYLOAD_TOO_LARGE or (
            self.status in _BAD_REQUEST and any(word in words for word in _OVERFLOW_WORDS)
        )

    def with_attempts(self, count: int) -> ModelError:
        """Return this error, saying how often it was tried."""
        return type(self)(
            f"{self.message} ({count} attempts)",
            hint=self.hint,
            detail=self.detail,
            status=self.status,
            retryable=self.retryable,
        )


class ModelUnreachable(ModelError):
    """No connection, no answer in time, or a server that is out of order."""


class ModelRejected(ModelError):
    """The server understood and said no: key, quota, unknown model, too long a conversation."""


class ModelProtocolError(ModelError):
    """Something came back that is no complete answer."""


class EmptyAnswer(ModelProtocolError):
    """A server that said yes sent nothing at all.

    llama-cpp-python does so when it finds a request wrong only after it has promised a stream.
    """
