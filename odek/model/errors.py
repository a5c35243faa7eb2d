"""What can go wrong between odek and a model, sorted by whose fault it is.

Whether another attempt makes sense is decided where the error is made, and carried with it; only
`http.HttpModel` acts on it.
"""

from __future__ import annotations

from odek.errors import OdekError
from odek.model.sense import is_loading, is_overflow, may_be_overflow


class ModelError(OdekError):
    """The model gave no reply."""

    source = code = "model"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        detail: str = "",
        status: int = 0,
        retryable: bool = False,
        retry_after_s: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.said = said or detail
        """all that the server said, for decisions; `detail` is what of it is shown"""
        self.status = status
        """HTTP status; 0 when there was none"""
        self.retryable = retryable
        """whether the same request may succeed a little later"""
        self.retry_after_s = retry_after_s
        """the wait that the server asked for, already within bounds"""

    @property
    def context_overflow(self) -> bool:
        """whether the server says that the conversation is too long for the model"""
        return is_overflow(self.status, self.said)

    @property
    def maybe_context_overflow(self) -> bool:
        """whether that may be what it says, in words that are not understood"""
        return may_be_overflow(self.status, self.said)

    @property
    def loading(self) -> bool:
        """whether the server says that it is still loading its model"""
        return is_loading(self.status, self.said)

    def with_attempts(self, count: int) -> ModelError:
        """Return this error, saying how often it was tried."""
        return type(self)(
            f"{self.message} ({count} attempts)",
            hint=self.hint,
            detail=self.detail,
            status=self.status,
            retryable=self.retryable,
            said=self.said,
        )


class ModelUnreachable(ModelError):
    """No connection, no answer in time, or a server that is out of order."""

    code = "model_unreachable"


class ModelRejected(ModelError):
    """The server understood and said no: key, quota, unknown model, too long a conversation."""

    code = "model_rejected"


class ModelProtocolError(ModelError):
    """What came back is not a complete response."""

    code = "model_protocol"


class EmptyResponse(ModelProtocolError):
    """A server that said yes sent nothing at all.

    llama-cpp-python does so when it finds a request wrong only after it has promised a stream.
    """


class WrongAddress(ModelProtocolError):
    """What answered is not the API: a web page, or a server without such a path."""
