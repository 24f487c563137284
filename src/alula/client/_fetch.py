"""Sending with the browser's fetch function, a function of the user, or the standard library."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from alula.client._codec import Request, Response
from alula.client._per_process import PerProcess
from alula.client._transport import (
    AsyncTransport,
    BlockingTransport,
    SendOptions,
    aborted_error,
    connection_failed,
    too_large,
)

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from alula.client._pool import ConnectionPool

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


class FetchTransport(AsyncTransport[Request, Response]):
    """Sends with an async function of the shape of ``pyodide.http.pyfetch``.

    Args:
        function: Called with the URL and ``method``, ``headers``, ``body``; its response has
            ``status``, ``headers`` and ``await bytes()``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def exchange(self, request: Request, options: SendOptions) -> Response:
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
            body = await response.bytes()
        # It is an OSError, but not one of the connection.
        except TimeoutError:
            raise
        except OSError as error:
            failure = connection_failed(request, error)
            raise failure from failure.__cause__
        if len(body) > options.max_size:
            raise too_large(request, options.max_size)
        headers = {name.lower(): value for name, value in dict(response.headers).items()}
        return Response(response.status, headers, bytes(body))


class BrowserTransport(FetchTransport):
    """Sends with the browser's own fetch function; cancelling a call aborts the request."""

    def __init__(self) -> None:
        from js import AbortController  # type: ignore[import-not-found]  # noqa: PLC0415  # only browsers have it
        from pyodide.http import (  # type: ignore[import-not-found]  # noqa: PLC0415  # only Pyodide has it
            pyfetch,  # pyright: ignore[reportUnknownVariableType]  # only Pyodide has its type
        )

        super().__init__(cast("Any", pyfetch))  # only Pyodide has its type
        self._new_controller: Callable[[], Any] = AbortController.new  # pyright: ignore[reportUnknownMemberType]  # only browsers have its type

    async def exchange(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the response."""
        # A cancelled coroutine alone would leave the request running in the browser.
        controller = self._new_controller()
        more = {**options.extra, "signal": controller.signal}
        try:
            return await super().exchange(request, replace(options, extra=more))
        except asyncio.CancelledError:
            controller.abort()
            raise


class ThreadTransport(AsyncTransport[Request, Response]):
    """Sends with the standard library, in threads; cancelling a call closes its connection."""

    def __init__(self) -> None:
        self._open: tuple[ConnectionPool, ThreadPoolExecutor] | None = None

    async def exchange(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the response."""
        from alula.client._pool import Exchange  # noqa: PLC0415  # slow to load

        _refuse_more(options.extra)
        pool, threads = self._opened()
        exchange = Exchange(pool, request, options.timeout, options.max_size)
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, exchange.run)
        except asyncio.CancelledError:
            exchange.abort()
            raise

    async def stream(
        self, request: Request, options: SendOptions, take: Callable[[bytes], object]
    ) -> Response:
        """Send a request, and pass the parts of its response on as they arrive."""
        from alula.client._pool import Exchange  # noqa: PLC0415  # slow to load

        _refuse_more(options.extra)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Response] = loop.create_future()

        def tell(call: Callable[..., object], value: object) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lambda: None if ended.done() else call(value))

        def pass_on(part: bytes) -> None:
            try:
                take(part)
            except Exception as error:  # noqa: BLE001  # it is raised where it is awaited
                ended.set_exception(error)

        def run() -> None:
            try:
                response = exchange.run()
            except Exception as error:  # noqa: BLE001  # it is raised where it is awaited
                tell(ended.set_exception, error)
            else:
                tell(ended.set_result, response)

        pool = self._opened()[0]
        exchange = Exchange(pool, request, None, options.max_size, partial(tell, pass_on))
        # A thread of its own, and a daemon: a stream lasts, and must not keep a script alive.
        threading.Thread(target=run, name="alula-stream", daemon=True).start()
        try:
            return await ended
        except BaseException:
            exchange.abort()
            raise

    def _opened(self) -> tuple[ConnectionPool, ThreadPoolExecutor]:
        if self._open is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # slow to load

            # A browser has no sockets.
            from alula.client._pool import ConnectionPool  # noqa: PLC0415  # see above

            self._open = ConnectionPool(), ThreadPoolExecutor(_MAX_THREADS, "alula-fetch")
        return self._open

    async def close(self) -> None:
        """Close the idle connections and end the threads."""
        if self._open is not None:
            (pool, threads), self._open = self._open, None
            # A thread may still connect for a cancelled call; the event loop must not wait for it.
            threads.shutdown(wait=False)
            pool.close()


class SocketTransport(BlockingTransport[Request, Response]):
    """Sends with the standard library, in the thread that calls.

    A `Portal` would hand each call to its event loop, which would hand it to a thread: twice the
    processor time of a call (`make bench only=client`, "fetch, blocking").
    """

    def __init__(self) -> None:
        self._pool: PerProcess[ConnectionPool] = PerProcess(_new_pool)

    async def send(self, request: Request, options: SendOptions) -> Response:
        """Send a request and return the response; a signal closes its connection."""
        from alula.client._pool import Exchange  # noqa: PLC0415  # slow to load

        _refuse_more(options.extra)
        exchange = Exchange(self._pool.get(), request, options.timeout, options.max_size)
        if options.signal is None:
            return exchange.run()
        if options.signal.aborted:
            raise aborted_error(request)
        forget = options.signal.listen(exchange.abort)
        try:
            return exchange.run()
        finally:
            forget()

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
