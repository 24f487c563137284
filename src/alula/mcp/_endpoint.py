"""The endpoint of the protocol: requests of agents -> the server of the SDK -> responses.

The SDK implements all revisions of the protocol side by side. There are no sessions, so any worker
can handle any request.

The response to a message is one JSON text. Only a tool whose method streams may report progress;
then it is an event stream that ends with this text. It begins with the first progress, so that the
status of a refused call is an ordinary one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from anyio import (
    BrokenResourceError,
    ClosedResourceError,
    EndOfStream,
    create_memory_object_stream,
)
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    JSONRPCNotification,
    ListToolsResult,
    PaginatedRequestParams,
    ProgressToken,
)
from starlette.types import Message

from alula._json_encoding import dumps
from alula.errors import BadRequest, NotAuthenticated, UnsupportedMediaType
from alula.express import ExpressApplication, Request, Response
from alula.express._connected import run_while_connected
from alula.express._headers import best_match
from alula.mcp._calls import Exchange, Report
from alula.mcp._items import Progress
from alula.mcp._tools import Toolbox
from alula.types import UNSET

__all__ = ["Endpoint"]

_EXCHANGE: Final = "alula.mcp"
_EVENTS: Final = "text/event-stream"
_COMMENT: Final = b":\r\n\r\n"
_WITHOUT_CASE: Final = frozenset({b"host", b"origin"})
_MAX_TOKEN: Final = 1000  # characters
_HEARTBEAT: Final = 15.0  # seconds of silence after which proxies may close a connection
_TTL: Final = 60_000  # milliseconds; the list is the same for everybody


class Endpoint:
    """The endpoint of one application.

    Args:
        app: The application.
        tools: Its tools.
        name: The name of the server.
        version: Its version.
        instructions: What agents should know about the application, None for nothing.
        timeout: How many seconds a call may last.
    """

    def __init__(
        self,
        app: ExpressApplication,
        tools: Toolbox,
        *,
        name: str,
        version: str,
        instructions: str | None,
        timeout: float,
    ) -> None:
        self._app = app
        self._tools = tools
        self._timeout = timeout
        self._server: Server[Any] = Server(
            name,
            version=version,
            instructions=instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        # Otherwise the SDK lists all tools for each call (20 % of its time, with nine tools).
        self._server.get_tool_input_schema = _headers_of
        self._challenge = "Bearer"
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    async def start(
        self, hosts: Sequence[str], origins: Sequence[str], metadata: str | None
    ) -> None:
        """Accept requests from now on.

        Args:
            hosts: The accepted values of the header ``Host``.
            origins: The same for ``Origin``. Requests without this header are accepted, too.
            metadata: The URL of the metadata that name the issuer of tokens, None without one.
        """
        await self.stop()  # a setup that failed behind this one has left it running
        if metadata is not None:
            self._challenge = f'Bearer resource_metadata="{metadata}"'
        manager = StreamableHTTPSessionManager(
            self._server,
            stateless=True,
            json_response=True,
            max_request_body_size=sys.maxsize,  # `json` has limited it
            security_settings=TransportSecuritySettings(
                allowed_hosts=list(hosts), allowed_origins=list(origins)
            ),
        )
        self._stop, started = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with manager.run():
                self._manager = manager
                started.set()
                await self._stop.wait()
                self._manager = None

        # In a task of its own, which enters and leaves it: the teardown may be in another task.
        self._running = asyncio.create_task(run())
        await started.wait()

    async def stop(self) -> None:
        """Accept no more requests."""
        running, self._running = self._running, None
        if running is not None:
            self._stop.set()
            await running

    async def respond(self, req: Request, res: Response) -> None:
        """Respond to a request.

        Raises:
            RuntimeError: The application is not set up.
            UnsupportedMediaType: The body is not JSON.
            BadRequest: A header that decides who may call tools is ambiguous.
            Exception: The failure of the message, if HTTP has to report it.
        """
        if self._manager is None:
            raise RuntimeError("mcp() takes requests after the setup: await app.setup()")
        if req.body is UNSET:  # the SDK would read it, within other limits than those of `json`
            raise UnsupportedMediaType("Send a message as application/json")
        for name in _WITHOUT_CASE:
            if sum(sent == name for sent, _ in req.scope["headers"]) > 1:
                raise BadRequest(f"The header {name.decode()} is there twice")
        exchange = Exchange(self._app, req, res, self._timeout)
        if self._tools.streams(_called_tool(req.body)):
            await self._respond_to_reader(exchange, req, res)
        else:
            self._send(await self._answer(exchange, req), exchange, res)

    async def _respond_to_reader(self, exchange: Exchange, req: Request, res: Response) -> None:
        """Respond to a call of a method that streams. The call ends when its client leaves.

        Raises:
            BadRequest: The client has left.
            Exception: As `respond`.
        """
        reports, events = create_memory_object_stream[bytes](0)
        if best_match(req.headers.get("accept"), [_EVENTS]):
            exchange.reports = reports

        async def answer() -> list[Message]:
            async with reports:
                return await self._answer(exchange, req)

        answering = asyncio.create_task(answer())

        def end(_: object) -> None:
            exchange.close()
            answering.cancel()
            reports.close()
            events.close()

        res.on_end(end)  # whatever becomes of the response
        try:
            first = await run_while_connected(events.receive(), req)
        except EndOfStream:
            self._send(await answering, exchange, res)
            return
        res.set("content-type", _EVENTS).set("cache-control", "no-cache, no-transform")
        res.set("x-accel-buffering", "no")  # otherwise nginx keeps events back
        res.send(_events(first, events, answering, exchange))

    async def _answer(self, exchange: Exchange, req: Request) -> list[Message]:
        """Return what the SDK sends: a head, and the parts of a body."""
        assert self._manager is not None  # noqa: S101  # for type checkers; `respond` checks it
        headers = [
            _as_compared(name, value)
            for name, value in req.scope["headers"]
            if name != b"content-length"
        ]
        state = {**req.scope.get("state", {}), _EXCHANGE: exchange}
        scope = {**req.scope, "headers": headers, "state": state}
        # Written anew, so that there is one reading of a message, and packed ones can be read.
        bodies = [dumps(req.body)]
        messages: list[Message] = []

        async def receive() -> Message:
            if bodies:
                return {"type": "http.request", "body": bodies.pop()}
            return await req.receive()  # until the client leaves

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._manager.handle_request(scope, receive, collect)
        return messages

    def _send(self, messages: list[Message], exchange: Exchange, res: Response) -> None:
        """Send what the SDK has sent.

        Raises:
            Exception: The failure of the message, if HTTP has to report it.
        """
        failure = exchange.failure
        if failure is not None:
            if isinstance(failure, NotAuthenticated):
                failure.headers = {"WWW-Authenticate": self._challenge}
            raise failure
        head, *parts = messages
        for name, value in head["headers"]:
            if name != b"content-length":
                res.set(name.decode("latin-1"), value.decode("latin-1"))
        res.status(head["status"]).end(_body_of(parts))

    async def _list_tools(self, context: Any, _: PaginatedRequestParams | None) -> ListToolsResult:
        exchange: Exchange = context.request.scope["state"][_EXCHANGE]
        tools = exchange.list_tools(self._tools)
        return ListToolsResult(tools=tools, ttl_ms=_TTL, cache_scope="public")

    async def _call_tool(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        exchange: Exchange = context.request.scope["state"][_EXCHANGE]
        meta: dict[str, Any] = context.meta or {}
        token: ProgressToken | None = meta.get("progress_token")
        report: Report | None = None
        # Every notification repeats the token, so a long one would be sent many times.
        if token is not None and len(str(token)) <= _MAX_TOKEN and exchange.reports is not None:
            report = partial(_send_progress, exchange.reports, token)
        return await exchange.call(self._tools, params.name, params.arguments, report)


def _headers_of(_: str) -> None:
    """Return the schema of the headers of a tool, which has none."""


def _as_compared(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return a header in the form in which the SDK compares it with the body, or with the hosts."""
    stripped = value.strip(b" \t")  # space around a value is not part of it
    return name, stripped.lower() if name in _WITHOUT_CASE else stripped


def _called_tool(message: object) -> str:
    """Return the name of the tool that a message calls, empty if it calls none."""
    match message:
        case {"method": "tools/call", "params": {"name": str(name)}}:
            return name
        case _:
            return ""


async def _send_progress(
    reports: MemoryObjectSendStream[bytes], token: ProgressToken, progress: Progress
) -> None:
    """Send a progress notification, as soon as the client has room for it."""
    params = {"progressToken": token, **progress.members()}
    note = JSONRPCNotification(
        jsonrpc="2.0", method="notifications/progress", params=params
    ).model_dump_json(by_alias=True, exclude_none=True)
    with suppress(BrokenResourceError, ClosedResourceError):  # the client has just left
        await reports.send(_event(note.encode()))


async def _events(
    first: bytes,
    events: MemoryObjectReceiveStream[bytes],
    answering: asyncio.Task[list[Message]],
    exchange: Exchange,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a response: each progress, and the message of the SDK at the end."""
    yield first
    while True:
        event = _COMMENT
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(_HEARTBEAT):
                    event = await events.receive()
            except EndOfStream:
                break
        yield event
    _, *parts = await answering
    exchange.log_failure()  # too late for a status
    yield _event(_body_of(parts))


def _body_of(parts: Iterable[Message]) -> bytes:
    return b"".join(part.get("body", b"") for part in parts)


def _event(data: bytes) -> bytes:
    return b"event: message\r\ndata: %b\r\n\r\n" % data
