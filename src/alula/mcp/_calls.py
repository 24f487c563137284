"""One call of a tool: the arguments of an agent -> a call of a service -> text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from anyio.streams.memory import MemoryObjectSendStream
from mcp.types import CallToolResult, TextContent, Tool

from alula._context import HookContext, Params, RequestParams
from alula._item_stream import ItemStream, close_all, is_stream
from alula._json_encoding import dumps
from alula._public_error import error_json, public_error
from alula.errors import FrameworkError, NotAuthenticated, PayloadTooLarge, Timeout
from alula.express import ExpressApplication, Request, Response
from alula.express._middleware.error_handler import reporter
from alula.mcp._items import CollectedItems, Progress
from alula.mcp._tools import ServiceTool, Toolbox
from alula.outgoing import public_result
from alula.outgoing._text import short_line

__all__ = ["Exchange", "Report"]

Report: TypeAlias = Callable[[Progress], Awaitable[None]]
"""Sends the progress of a call to the agent."""

_MAX_CHARACTERS: Final = 100_000
_SHOWN: Final = ("code", "message", "data", "errors", "hint")
_report: Final = reporter(None)
_log: Final = logging.getLogger("alula.express")


class Exchange:
    """One HTTP request with a message of an agent, and its response.

    Args:
        app: The application.
        req: The request.
        res: The response.
        timeout: How many seconds a call may last.

    Attributes:
        failure: The error that HTTP has to report, None for most messages. The SDK would show its
            text to clients.
        reports: Takes the events of progress. None if the client cannot get them.
    """

    def __init__(
        self, app: ExpressApplication, req: Request, res: Response, timeout: float
    ) -> None:
        self._app = app
        self._req = req
        self._res = res
        self._timeout = timeout
        self.failure: Exception | None = None
        self.reports: MemoryObjectSendStream[bytes] | None = None

    def list_tools(self, tools: Toolbox) -> list[Tool]:
        """Return the descriptions of all tools."""
        try:
            return [tool.description for tool in tools.tools().values()]
        except Exception as error:  # noqa: BLE001  # the endpoint raises it
            self.failure = error
            return []

    async def call(
        self,
        tools: Toolbox,
        name: str,
        arguments: Mapping[str, Any] | None,
        report: Report | None = None,
    ) -> CallToolResult:
        """Call a tool, and return its result. An error is one, too: models see no others.

        Args:
            tools: All tools.
            name: The name of this one.
            arguments: What the agent has sent.
            report: Gets the progress that each item of a stream means. None if nobody wants it.
        """
        try:
            return _result(await self._run(tools.find(name), arguments or {}, report))
        except Exception as error:  # noqa: BLE001  # it is logged, and the agent gets it
            shown = public_error(error, debug=self._app.debug)
            if isinstance(shown, NotAuthenticated):  # only the status makes clients sign in
                self.failure = shown
            else:
                _report(error, shown.code, self._req)
            return _failure(shown)

    def close(self) -> None:
        """End the streams of the call, because nobody reads them any more."""
        if self._res.hook is not None:
            for stream in self._res.hook.streams:
                stream.close()

    def log_failure(self) -> None:
        """Write the failure to the log, if HTTP cannot report it any more."""
        if self.failure is not None:
            _report(self.failure, public_error(self.failure, debug=False).code, self._req)

    async def _run(self, tool: ServiceTool, sent: Mapping[str, Any], report: Report | None) -> str:
        arguments = tool.read(sent)
        handle = tool.handle
        params = self._params(arguments.query, arguments.route)
        context = HookContext(handle.app, handle, tool.method, params, arguments.id, arguments.data)
        self._res.hook = context  # for the access log
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                await self._app.turns.take(self._req.ip, handle.run(context))
                result = public_result(context)
                if is_stream(result):
                    return await _collect(result, report)
        except TimeoutError:
            if not limit.expired():
                raise
            raise Timeout(f"The call took longer than {self._timeout:g} seconds") from None
        finally:
            await close_all(context.streams)
        return dumps(result).decode()

    def _params(self, query: dict[str, Any], route: dict[str, str]) -> Params:
        """Return the params of a call, with what middleware has set, as over REST."""
        params: Params = RequestParams(query, "mcp", self._req.headers, route, self._req.ip)
        params.__dict__.update(self._req.framework.__dict__)
        params.provider = "mcp"
        return Params(params)


async def _collect(stream: ItemStream, report: Report | None) -> str:
    """Return all items of a stream as one text.

    Raises:
        PayloadTooLarge: The items are too many, or too long together.
        Exception: What the stream raises.
    """
    items = CollectedItems(_MAX_CHARACTERS)
    async for item in stream:
        progress = items.add(item)
        if report is not None:
            await report(progress)
    return items.text()


def _result(text: str) -> CallToolResult:
    """Return the result of a call.

    Raises:
        PayloadTooLarge: The result is too long for a model.
    """
    if len(text) > _MAX_CHARACTERS:
        raise PayloadTooLarge(
            f"The result has {len(text)} characters; the limit is {_MAX_CHARACTERS}. Ask for less:"
            " $limit takes fewer records, $select takes fewer properties"
        )
    return CallToolResult(content=[TextContent(type="text", text=text)])


def _failure(error: FrameworkError) -> CallToolResult:
    described = error_json(error)
    shown = {name: described[name] for name in _SHOWN if name in described}
    brief = {"code": error.code, "message": short_line(error.message)}
    try:
        text = dumps(shown).decode()
    # Values may fail in any way while they are turned into JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        text = dumps(brief).decode()
    if len(text) > _MAX_CHARACTERS:  # such as what is wrong with each of many values
        text = dumps(brief).decode()
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
