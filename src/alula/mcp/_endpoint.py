"""The endpoint of the protocol: requests of agents -> the server of the SDK -> responses.

The SDK implements all revisions of the protocol side by side. There are no sessions, so any worker
can handle any request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams
from starlette.types import Message

from alula.errors import NotAuthenticated
from alula.express import ExpressApplication, Request, Response
from alula.mcp._calls import Exchange
from alula.mcp._tools import Toolbox

__all__ = ["Endpoint"]

_EXCHANGE: Final = "alula.mcp"
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
            Exception: The failure of the message, if HTTP has to report it.
        """
        if self._manager is None:
            raise RuntimeError("mcp() takes requests after the setup: await app.setup()")
        exchange = Exchange(self._app, req, res, self._timeout)
        # Space around a value is not part of it, and the SDK compares values with the body.
        headers = [(name, value.strip(b" \t")) for name, value in req.scope["headers"]]
        state = {**req.scope.get("state", {}), _EXCHANGE: exchange}
        scope = {**req.scope, "headers": headers, "state": state}
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._manager.handle_request(scope, req.receive, collect)
        if exchange.failure is not None:
            if isinstance(exchange.failure, NotAuthenticated):
                exchange.failure.headers = {"WWW-Authenticate": self._challenge}
            raise exchange.failure
        head, *parts = messages
        for name, value in head["headers"]:
            if name != b"content-length":
                res.set(name.decode("latin-1"), value.decode("latin-1"))
        res.status(head["status"]).end(b"".join(part.get("body", b"") for part in parts))

    async def _list_tools(self, context: Any, _: PaginatedRequestParams | None) -> ListToolsResult:
        exchange: Exchange = context.request.scope["state"][_EXCHANGE]
        tools = exchange.list_tools(self._tools)
        return ListToolsResult(tools=tools, ttl_ms=_TTL, cache_scope="public")

    async def _call_tool(self, context: Any, params: CallToolRequestParams) -> CallToolResult:
        exchange: Exchange = context.request.scope["state"][_EXCHANGE]
        return await exchange.call(self._tools, params.name, params.arguments)


def _headers_of(_: str) -> None:
    """Return the schema of the headers of a tool, which has none."""
