"""The access log: a line for every request, with its status and duration."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula.express._chain import Middleware, NextFunction, ignores_body, singleton
from alula.express._request import Request, without_id
from alula.express._response import Response
from alula.outgoing._text import one_line, short_line
from alula.types import is_mapping

__all__ = ["access_log"]

_log: Final = logging.getLogger("alula.access")


def access_log(*, user: str | None = None, ip: bool = False) -> Middleware:
    """Return middleware that logs every request to ``alula.access`` once its response is sent.

    The record has ``http_method``, ``path``, ``status``, ``bytes`` and ``duration_ms``, for calls
    of a service ``service`` and ``service_method``, and ``aborted`` if the response was not sent
    completely. Query strings, headers and bodies are left out, since they may hold tokens. So are
    ids of services with ``secret_ids = True``, such as the authentication service. Health probes
    that went well are logged at the level DEBUG, all others at INFO. Register it behind
    `request_id` and before everything that may respond.

    Examples:
        >>> from alula.express import access_log, express, request_id
        >>> web = express().use(request_id(), access_log(user="id"))

    Args:
        user: Name of the property of users to log as ``user``, such as ``"id"``; None for none.
        ip: Whether to log the address of the client.
    """

    @ignores_body
    async def middleware(req: Request, res: Response, next: NextFunction) -> None:
        if not _log.isEnabledFor(logging.INFO):
            await next()
            return
        entry = _Entry(req, res, user, ip=ip)
        res.wrap(entry.watch, lambda _: entry.write_whole)
        try:
            await next()
        except asyncio.CancelledError:
            entry.write()
            raise

    return singleton("access_log", middleware)


class _Entry:
    """What is known of one request, until it is logged."""

    def __init__(self, req: Request, res: Response, user: str | None, *, ip: bool) -> None:
        self._status: int | None = None
        self._bytes = 0
        self._is_complete = False
        self._start = perf_counter()
        self._req, self._res = req, res
        self._user, self._ip = user, req.ip if ip else None
        # Now, because below a mount it changes before the response is sent.
        self._path = req.base_url + req.path

    def watch(self, response: ASGIApp) -> ASGIApp:
        """Return a response that is counted while it is sent, and logged at its end."""

        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            has_body = scope["method"] != "HEAD"

            async def count(message: Message) -> None:
                await send(message)
                if message["type"] == "http.response.start":
                    self._status = message["status"]
                else:
                    self._bytes += len(message.get("body", b"")) * has_body
                    self._is_complete = not message.get("more_body", False)

            try:
                await response(scope, receive, count)
            finally:
                self.write()

        return run

    def write_whole(self, is_sent: bool) -> None:
        """Log a response that was sent as a whole, or could not be sent."""
        if is_sent:
            self._status, self._is_complete = self._res.status_code, True
            has_body = self._req.method != "HEAD" and self._status not in {204, 304}
            self._bytes = len(self._res.whole_body) * has_body
        self.write()

    def write(self) -> None:
        method, status, size = one_line(self._req.method), self._status, self._bytes
        call = self._res.hook
        hides_id = call is None or call.service.secret_ids
        # POST /authentication/<token> has an id in its path that the call does not have.
        if call is None or call.id is None:
            hides_id = hides_id and self._req.hides_id
        path = short_line(without_id(self._path) if hides_id else self._path)
        duration = round((perf_counter() - self._start) * 1000, 2)
        extra: dict[str, object] = {
            "http_method": method,
            "path": path,
            "status": status,
            "bytes": size,
            "duration_ms": duration,
        }
        if call is not None:
            extra["service"], extra["service_method"] = call.path, call.method
        if self._user is not None:
            user: Any = self._req.user or (call.params.get("user") if call is not None else None)
            name = self._user
            value = user.get(name) if is_mapping(user) else getattr(user, name, None)
            extra["user"] = None if value is None else one_line(str(value))
        if self._ip is not None:
            extra["ip"] = self._ip
        if not self._is_complete:
            extra["aborted"] = True
        # Load balancers probe every few seconds, which would fill the log.
        level = logging.DEBUG if self._res.is_probe and status == 200 else logging.INFO
        text = "%s %s %s, %s bytes in %s ms"
        _log.log(level, text, method, path, status, size, duration, extra=extra)
