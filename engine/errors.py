"""What can go wrong in the engine; `handlers.errors` maps each class to a response once."""

from __future__ import annotations


class EngineError(Exception):
    """Base class; the message is one sentence that may be shown to a client."""


class NotReady(EngineError):
    """The model is loading, or its worker is starting again; retry after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Stopping(NotReady):
    """The server takes no more requests."""

    def __init__(self) -> None:
        super().__init__("The server is stopping; send the request to another one.")


class QueueFull(EngineError):
    """Too many requests wait; `tenant_limit` tells the tenant's limit from the whole queue's."""

    def __init__(self, message: str, retry_after: int, tenant_limit: bool) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.tenant_limit = tenant_limit


class PromptRefused(EngineError):
    """The prompt cannot be answered; `field` is the field of the client's body to blame."""

    field = "messages"


class ContextOverflow(PromptRefused):
    """The prompt has `tokens` tokens and the context takes `maximum`."""

    def __init__(self, tokens: int, maximum: int) -> None:
        super().__init__(f"prompt is too long: {tokens} tokens > {maximum} maximum")
        self.tokens = tokens
        self.maximum = maximum


class BadPrompt(PromptRefused):
    """The prompt is empty, or the chat template refused the conversation."""


class WorkerFailed(EngineError):
    """The worker died or failed while it ran this request."""


class ServerStopped(EngineError):
    """The server stopped before the answer was complete."""


class ModelError(EngineError):
    """The model named on the command line cannot be found, fetched or loaded."""


class ConnectionCut(Exception):
    """A script ends the client's connection; no failure, so nothing is answered in its place."""
