"""Sending with the browser's fetch function, a function of the user, or the standard library."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, cast

from alula.client._codec import Request, Response
from alula.client._failures import aborted_error, connection_failed, too_large
from alula.client._per_process import PerProcess
from alula.client._response_stream import (
    AsyncResponseStream,
    Received,
    ResponseStream,
    is_event_stream,
)
from alula.client._send_options import SendOptions
from alula.client._transport import AsyncTransport, BlockingTransport

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from alula.client._pool import ConnectionPool, Exchange

__all__ = [
    "BrowserTransport",
    "FetchTransport",
    "SocketTransport",
    "ThreadTransport",
    "in_browser",
]

_MAX_THREADS: Final = 64  # each sends one request


def in_browser() -> bool:
    """Return whether this is Python in a browser."""
    return sys.platform == "emscripten"


class FetchTransport(AsyncTransport[Request, Received]):
    """Sends with an async function of the shape of ``pyodide.http.pyfetch``.

    Args:
        function: Called with the URL and ``method``, ``headers``, ``body``; its response has
            ``status``, ``headers`` and ``await bytes()``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def exchange(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response."""
        arguments: dict[str, Any] = {
            "method": request.method,
            "headers": request.headers,
            **options.extra,
        }
        if request.body is not None:
            arguments["body"] = request.body.decode()
        try:
            response = await self._function(request.url, **arguments)
            headers = {name.lower(): value for name, value in dict(response.headers).items()}
            if is_event_stream(response.status, headers):
                return self.stream(request, options, response, headers)
            body = await response.bytes()
        # It is an OSError, but not one of the connection.
        except TimeoutError:
            raise
        except OSError as error:
            failure = connection_failed(request, error)
            raise failure from failure.__cause__
        if len(body) > options.max_size:
            raise too_large(request, options.max_size)
        return Response(response.status, headers, bytes(body))

    def stream(
        self,
        request: Request,
        options: SendOptions,  # noqa: ARG002  # of the interface
        response: Any,  # noqa: ARG002  # of the interface
        headers: Mapping[str, str],  # noqa: ARG002  # of the interface
    ) -> AsyncResponseStream:
        """Return a response that is read part by part.

        Raises:
            TypeError: The function returns whole responses alone.
        """
        raise TypeError(
            f"{request.method} {request.url.partition('?')[0]}: this connection returns whole"
            " responses alone, so it reads no streams and no live lists; use rest(url) with"
            " httpx(), aiohttp() or fetch() without a function"
        )


class BrowserTransport(FetchTransport):
    """Sends with the browser's own fetch function; cancelling a call aborts the request."""

    def __init__(self) -> None:
        from js import AbortController  # type: ignore[import-not-found]  # noqa: PLC0415  # only browsers have it
        from pyodide.http import (  # type: ignore[import-not-found]  # noqa: PLC0415  # only Pyodide has it
            pyfetch,  # pyright: ignore[reportUnknownVariableType]  # only Pyodide has its type
        )

        super().__init__(cast("Any", pyfetch))  # only Pyodide has its type
        self._new_controller: Callable[[], Any] = AbortController.new  # pyright: ignore[reportUnknownMemberType]  # only browsers have its type

    async def exchange(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response."""
        # A cancelled coroutine alone would leave the request running in the browser.
        controller = self._new_controller()
        more = {**options.extra, "signal": controller.signal}
        try:
            return await super().exchange(request, replace(options, extra=more))
        except asyncio.CancelledError:
            controller.abort()
            raise

    def stream(
        self, request: Request, options: SendOptions, response: Any, headers: Mapping[str, str]
    ) -> AsyncResponseStream:
        """Return a response that is read part by part."""
        reader = response.js_response.body.getReader()

        async def read() -> bytes:
            try:
                part = await reader.read()
            except Exception as error:  # noqa: BLE001  # only Pyodide has the class of JavaScript's errors
                failure = connection_failed(request, error)
                raise failure from failure.__cause__
            return b"" if part.done else bytes(part.value.to_bytes())

        return self.watch(
            AsyncResponseStream(request, response.status, headers, options, read, reader.cancel)
        )

    async def close(self) -> None:
        """End the streams."""
        await self.end_streams()


class ThreadTransport(AsyncTransport[Request, Received]):
    """Sends with the standard library, in threads; cancelling a call closes its connection."""

    def __init__(self) -> None:
        self._open: tuple[ConnectionPool, ThreadPoolExecutor] | None = None

    async def exchange(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response."""
        from alula.client._pool import Exchange  # noqa: PLC0415  # slow to load

        _refuse_more(options.extra)
        pool, threads = self._opened()
        exchange = Exchange(pool, request, options)
        running = threads.submit(exchange.run)
        try:
            response = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            exchange.abort()
            running.add_done_callback(lambda _: exchange.close())  # a stream that nobody reads
            raise
        if not isinstance(response, ResponseStream):
            return response
        thread = _StreamThread(exchange)
        status, headers = response.status, response.headers
        return self.watch(
            AsyncResponseStream(request, status, headers, options, thread.read, thread.close)
        )

    def _opened(self) -> tuple[ConnectionPool, ThreadPoolExecutor]:
        if self._open is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # slow to load

            # A browser has no sockets.
            from alula.client._pool import ConnectionPool  # noqa: PLC0415  # see above

            self._open = ConnectionPool(), ThreadPoolExecutor(_MAX_THREADS, "alula-fetch")
        return self._open

    async def close(self) -> None:
        """Close the idle connections and end the threads."""
        await self.end_streams()
        if self._open is not None:
            (pool, threads), self._open = self._open, None
            # A thread may still connect for a cancelled call; the event loop must not wait for it.
            threads.shutdown(wait=False)
            pool.close()


class _StreamThread:
    """Reads a stream in a thread of its own, when its parts are asked for.

    A daemon, and none of the threads that send: a stream lasts, and must not keep a script alive.

    Args:
        exchange: Its request.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._asked: SimpleQueue[asyncio.Future[bytes] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="alula-stream", daemon=True).start()

    async def read(self) -> bytes:
        """Return the next part, an empty one at the end."""
        part: asyncio.Future[bytes] = self._loop.create_future()
        self._asked.put(part)
        return await part

    async def close(self) -> None:
        """End the request and the thread; does not wait for it."""
        self._exchange.abort_stream()
        self._asked.put(None)

    def _run(self) -> None:
        while (part := self._asked.get()) is not None:
            try:
                data = self._exchange.read_part()
                if not data:
                    # Before the end is told, so that the next call finds the connection idle.
                    self._exchange.close()
                tell = partial(part.set_result, data)
            except Exception as error:  # noqa: BLE001  # it is raised where it is awaited
                tell = partial(part.set_exception, error)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_tell, tell)
        self._exchange.close()


def _tell(tell: Callable[[], object]) -> None:
    with suppress(asyncio.InvalidStateError):  # nobody waits for it any more
        tell()


class SocketTransport(BlockingTransport[Request, Received]):
    """Sends with the standard library, in the thread that calls.

    A `Portal` would hand each call to its event loop, which would hand it to a thread: twice the
    processor time of a call (`make bench only=client`, "fetch, blocking").
    """

    def __init__(self) -> None:
        self._pool: PerProcess[ConnectionPool] = PerProcess(_new_pool)

    async def send(self, request: Request, options: SendOptions) -> Received:
        """Send a request and return the response; a signal closes its connection."""
        from alula.client._pool import Exchange  # noqa: PLC0415  # slow to load

        _refuse_more(options.extra)
        exchange = Exchange(self._pool.get(), request, options)
        if options.signal is None:
            return exchange.run()
        if options.signal.aborted:
            raise aborted_error(request)
        forget = options.signal.listen(exchange.abort)
        try:
            response = exchange.run()
        except BaseException:
            forget()
            raise
        if isinstance(response, ResponseStream):
            response.on_close.append(forget)
        else:
            forget()
        return response

    async def close(self) -> None:
        """Close the idle connections."""
        pool = self._pool.pop()
        if pool is not None:
            pool.close()


def _new_pool() -> ConnectionPool:
    from alula.client._pool import ConnectionPool  # noqa: PLC0415  # slow to load

    return ConnectionPool()


def _refuse_more(more: Mapping[str, Any]) -> None:
    if more:
        raise TypeError(
            f"params.connection has {', '.join(more)}; the options of the built-in fetch function"
            " are headers, timeout and signal"
        )
