"""Work for a client that ends when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.types import Receive

from alula.errors import BadRequest
from alula.express._request import Request

__all__ = ["run_while_connected"]

T = TypeVar("T")


async def run_while_connected(work: Awaitable[T], req: Request) -> T:
    """Wait for some work and return its result; cancel it when the client goes away.

    Args:
        work: What is to be done.
        req: The request of the client, whose whole body was read.

    Raises:
        BadRequest: The client has gone away, and the work has ended by that.
    """
    task: Any = asyncio.current_task()
    is_running = True

    async def wait_for_disconnect(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    def cancel(disconnect: asyncio.Task[None]) -> None:
        if is_running and not disconnect.cancelled():
            task.cancel()

    disconnect = asyncio.create_task(wait_for_disconnect(req.receive))
    disconnect.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError:
        # `uncancel` counts down to 0 if only the disconnect has cancelled the request.
        if not disconnect.done() or task.uncancel():
            raise
        raise BadRequest("The client closed the connection; its call was cancelled") from None
    finally:
        is_running = False
        disconnect.cancel()
