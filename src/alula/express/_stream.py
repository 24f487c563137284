"""A stream as the body of a response: it is sent part by part, and ends with its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, suppress
from typing import Final, TypeAlias

from starlette.types import Receive, Scope, Send

__all__ = ["Stream", "StreamCutError", "send_stream"]

Stream: TypeAlias = AsyncIterable[bytes | str]

_PARTS_WITHOUT_PAUSE: Final = 16


class StreamCutError(Exception):
    """Raised by a stream whose response cannot become whole, after it has reported why.

    A server closes the connection then, without the last chunk. So the client sees that something
    is missing. Alula's own server logs nothing more.
    """


async def send_stream(
    body: Stream,
    head: tuple[int, list[tuple[bytes, bytes]]],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Send a response, until the stream ends or the client leaves; close the stream in any case.

    Args:
        body: The stream.
        head: The status, and the headers as they are sent.
        scope: The ASGI scope of the request.
        receive: Returns the next message, such as ``http.disconnect``.
        send: Sends a message. Since ASGI 2.4 it raises an OSError once the client has left; with
            older versions, only ``receive`` tells.

    Raises:
        RuntimeError: The stream failed with an OSError, which is its cause.
        Exception: What else the stream raises.
    """

    async def send_parts() -> None:
        status, headers = head
        async with aclosing(_parts_of(body)) as parts:
            with suppress(OSError):  # there is no client left to be told
                await send({"type": "http.response.start", "status": status, "headers": headers})
                async for part in parts:
                    content = part.encode() if isinstance(part, str) else part
                    await send({"type": "http.response.body", "body": content, "more_body": True})
                await send({"type": "http.response.body", "body": b""})

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    version: str = scope.get("asgi", {}).get("spec_version", "2.0")
    if tuple(map(int, version.split("."))) >= (2, 4):
        await send_parts()
        return
    tasks = asyncio.create_task(send_parts()), asyncio.create_task(wait_for_disconnect())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _parts_of(body: Stream) -> AsyncGenerator[bytes | str, None]:
    """Yield the parts of a stream, and close it when no more of them are wanted."""
    count = 0
    try:
        async for part in body:
            yield part
            count += 1
            if count % _PARTS_WITHOUT_PAUSE == 0:
                # Once the client has gone, sending does not wait. A stream that does not wait
                # either would block the event loop, and its cancellation would never arrive.
                await asyncio.sleep(0)
    except OSError as error:
        # Unchanged, it would look like the error of a client that has left.
        raise RuntimeError("the stream of a response failed") from error
    finally:
        if isinstance(body, AsyncGenerator):
            await body.aclose()
