"""How much memory the bodies of all requests together may take."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handlers.errors import ApiError

BUDGET_BYTES = 512 * 2**20
# An agent's whole context is smaller: nobody's large bodies keep such a request out.
SMALL_BODY_BYTES = 2**20
_RETRY_AFTER = "5"


class BodyBudget:
    """Refuses large bodies that come while others fill the budget.

    A body counts from the byte that makes it large until its request is over, since what was
    parsed from it lives as long.
    """

    def __init__(self, app: ASGIApp, budget: int = BUDGET_BYTES) -> None:
        self._app = app
        self._left = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; raises ApiError 503 out of `receive`."""
        size = charged = 0

        async def counted() -> Message:
            nonlocal size, charged
            message = await receive()
            size += len(message.get("body", b""))
            if size > SMALL_BODY_BYTES:
                self._take(size - charged)
                charged = size
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._left += charged

    def _take(self, count: int) -> None:
        if count > self._left:
            raise ApiError(
                503,
                "The server is busy with other large requests; retry later.",
                "overloaded_error",
                headers={"Retry-After": _RETRY_AFTER},
                overloaded=True,
            )
        self._left -= count
