"""A line in the log for every request: what was asked, what came of it, how long it took."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

from alula.express._chain import ignores_body
from alula.express._request import Request, without_id
from alula.express._response import ASGIApp, Response
from alula.express._routing import singleton
from alula.logs._formatters import one_line, short_line

__all__ = ["access_log"]

_log: Final = logging.getLogger("alula.access")


def access_log(*, user: str | None = None, ip: bool = False) -> Any:
    """Return middleware that logs every request to ``alula.access`` once its answer is sent.

    The record has ``http_method``, ``path``, ``status``, ``bytes`` and ``duration_ms``, for calls
    of a service ``service`` and ``service_method``, and ``aborted`` where the answer did not get
    out whole. Query strings, headers and bodies stay out, since they may hold tokens; so do ids of
    services that say ``secret_ids = True``, as the authentication service does. Health
    probes that went well are of the level DEBUG, all others INFO. Register it behind `request_id`
    and before all that can answer.

    Args:
        user: Name of the property of users to log as ``user``, such as ``"id"``; None for none.
        ip: Whether to log the address that the request came from.
    """

    @ignores_body
    async def middleware(req: Request, res: Response, next: Any) -> None:
        if not _log.isEnabledFor(logging.INFO):
            await next()
            return
        line = _Line(req, res, user, ip=ip)
        res.wrap(partial(_counted, line))
        try:
            await next()
        except asyncio.CancelledError:
            line.write()
            raise

    return singleton("access_log", middleware)


class _Line:
    """What is known of one request, until it is logged."""

    def __init__(self, req: Request, res: Response, user: str | None, *, ip: bool) -> None:
        self.status: int | None = None
        self.bytes = 0
        self.is_whole = False
        self._began = perf_counter()
        self._req, self._res = req, res
        self._user, self._ip = user, req.ip if ip else None
        self._path = req.base_url + req.path  # below a mount it changes meanwhile

    def write(self) -> None:
        method, status, size = one_line(self._req.method), self.status, self.bytes
        call = self._res.hook
        hides_id = call is None or call.service.secret_ids
        if call is None or call.id is None:  # POST /authentication/<token> ends with one, too
            hides_id = hides_id and self._req.hides_id
        path = short_line(without_id(self._path) if hides_id else self._path)
        duration = round((perf_counter() - self._began) * 1000, 2)
        more: dict[str, Any] = {
            "http_method": method,
            "path": path,
            "status": status,
            "bytes": size,
            "duration_ms": duration,
        }
        if call is not None:
            more["service"], more["service_method"] = call.path, call.method
        if self._user is not None:
            more["user"] = _user_of(self._req, call, self._user)
        if self._ip is not None:
            more["ip"] = self._ip
        if not self.is_whole:
            more["aborted"] = True
        level = logging.DEBUG if self._res.is_probe and status == 200 else logging.INFO
        line = "%s %s %s, %s bytes in %s ms"
        _log.log(level, line, method, path, status, size, duration, extra=more)


def _counted(line: _Line, answer: ASGIApp) -> ASGIApp:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        has_body = scope["method"] != "HEAD"

        async def count(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                line.status = message["status"]
            else:
                line.bytes += len(message.get("body", b"")) * has_body
                line.is_whole = not message.get("more_body", False)

        try:
            await answer(scope, receive, count)
        finally:
            line.write()

    return run


def _user_of(req: Request, call: Any, name: str) -> str | None:
    user = req.user or (call.params.get("user") if call is not None else None)
    value = user.get(name) if isinstance(user, Mapping) else getattr(user, name, None)
    return None if value is None else one_line(str(value))
