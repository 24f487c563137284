"""The responses of methods that stream: server-sent events or JSON lines, one for each item."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

from alula._context import HookContext
from alula._item_stream import ItemStream, close_all
from alula._json_encoding import dumps
from alula._public_error import error_json, public_error
from alula._stream_limits import StreamLimits, items_in_time
from alula.errors import FrameworkError
from alula.express._headers import best_match, quality_of
from alula.express._middleware.error_handler import reporter, status_of
from alula.express._request import Request
from alula.express._response import Response
from alula.express._stream import StreamCutError

__all__ = ["ItemSender", "items_sender"]

EVENTS: Final = "text/event-stream"
LINES: Final = ("application/jsonl", "application/x-ndjson")

ItemSender: TypeAlias = Callable[[Request, Response], Awaitable[None]]
"""``(req, res)``: sends ``res.data``, which is a stream."""

_log: Final = logging.getLogger("alula.express")


def items_sender(limits: StreamLimits) -> ItemSender:
    """Return a function that sends the items of a stream.

    Raises:
        Exception: Raised by the function: what the stream raises before its first item. The
            response is an ordinary error then.
    """
    report = reporter(None)

    async def send(req: Request, res: Response) -> None:
        stream, context = res.data, res.hook
        assert context is not None  # noqa: S101  # for type checkers; a stream comes of a call
        if not isinstance(stream, ItemStream):  # middleware has wrapped it
            stream = ItemStream(stream, f"`{context.method}` of {context.service!r}")
            context.streams = (*context.streams, stream)
        accept = req.headers.get("accept")
        kind = best_match(accept, (EVENTS, *LINES)) or EVENTS
        is_events = kind == EVENTS
        # Here, so that a first item without a JSON form is an ordinary error.
        await stream.change(_event if is_events else _line)
        # A client that does not ask for events takes each of them for an item, an error as well.
        tells_errors = is_events and accept is not None and quality_of(accept, (EVENTS,)) > 0

        def fail(error: Exception) -> bytes | None:
            """Report an error, and return what to send, None to cut the connection."""
            error.add_note(f"raised behind the first item of {stream.name}")
            shown = public_error(error, debug=req.app.debug)
            report(error, status_of(shown), req)
            return _error_event(shown) if tells_errors else None

        res.vary("Accept").set("content-type", kind)
        if res.get("cache-control") is None:
            # Compression would hold lines back; it leaves event streams alone.
            res.set("cache-control", "no-cache" if is_events else "no-cache, no-transform")
        res.set("x-accel-buffering", "no")  # otherwise nginx keeps items back
        comment = b":\n\n" if is_events else None
        res.send(_parts(stream, context, limits, comment, fail))

    return send


async def _parts(
    stream: ItemStream,
    context: HookContext,
    limits: StreamLimits,
    comment: bytes | None,
    fail: Callable[[Exception], bytes | None],
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a response.

    Args:
        stream: The items, as they leave the call.
        context: The call.
        limits: The time limits.
        comment: What to send after a silence, None for nothing.
        fail: Gets an error and returns what to send, None to cut the connection.

    Raises:
        StreamCutError: The stream has failed, and the client has to see that the response is not
            whole.
    """
    try:
        async with aclosing(items_in_time(stream, limits, comment)) as parts:
            async for part in parts:
                yield part
    except Exception as error:  # it is reported
        last = fail(error)
        if last is None:
            raise StreamCutError from error
        yield last
    finally:
        await close_all(context.streams)


def _event(item: Any) -> bytes:
    return b"data: %b\n\n" % dumps(item)


def _line(item: Any) -> bytes:
    return dumps(item) + b"\n"


def _error_event(error: FrameworkError) -> bytes:
    body = error_json(error)
    try:
        data = dumps(body)
    # Values of the application may raise anything while they become JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        data = dumps({name: body[name] for name in ("name", "message", "code", "className")})
    return b"event: error\ndata: %b\n\n" % data
