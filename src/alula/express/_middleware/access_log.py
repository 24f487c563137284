"""The access log: a line for every request, with its status and duration."""

from __future__ import annotations

import logging
import os
import threading
from functools import lru_cache
from time import perf_counter, time
from typing import Any, Final

from alula.express._chain import Middleware, goes_on, singleton
from alula.express._request import Request, without_id
from alula.express._response import Response
from alula.outgoing._text import one_line, short_line
from alula.types import is_mapping

__all__ = ["access_log"]

_log: Final = logging.getLogger("alula.access")
_TEXT: Final = "%s %s %s, %s bytes in %s ms"


def access_log(*, user: str | None = None, ip: bool = False) -> Middleware:
    """Return middleware that logs every request to ``alula.access`` once its response is sent.

    The record has ``http_method``, ``path``, ``status``, ``bytes`` and ``duration_ms``, for calls
    of a service ``service`` and ``service_method``, for those of agents ``provider``, and
    ``aborted`` if the response was not sent completely. Query strings, headers and bodies are left
    out, since they may hold tokens. So are ids of services with ``secret_ids = True``, such as the
    authentication service. Health probes that went well are logged at the level DEBUG, all others
    at INFO. Register it behind `request_id` and before everything that may respond.

    Examples:
        >>> from alula.express import access_log, express, request_id
        >>> web = express().use(request_id(), access_log(user="id"))

    Args:
        user: Name of the property of users to log as ``user``, such as ``"id"``; None for none.
        ip: Whether to log the address of the client.
    """

    @goes_on
    def middleware(req: Request, res: Response) -> None:
        if _log.isEnabledFor(logging.INFO):
            res.on_end(_Entry(req, res, user, ip=ip).write)

    return singleton("access_log", middleware)


class _Entry:
    """What is known of one request, until it is logged."""

    def __init__(self, req: Request, res: Response, user: str | None, *, ip: bool) -> None:
        self._start = perf_counter()
        self._req, self._res = req, res
        self._user, self._ip = user, req.ip if ip else None
        # Now, because below a mount it changes before the response is sent.
        self._path = req.base_url + req.path

    def write(self, _: object) -> None:
        """Log the request; it has ended, whatever has ended it."""
        res, method = self._res, one_line(self._req.method)
        status, size, call = res.sent_status, res.sent_bytes, res.hook
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
            if (provider := call.params.get("provider")) not in {None, "rest"}:
                extra["provider"] = provider
        if self._user is not None:
            user: Any = self._req.user or (call.params.get("user") if call is not None else None)
            name = self._user
            value = user.get(name) if is_mapping(user) else getattr(user, name, None)
            extra["user"] = None if value is None else one_line(str(value))
        if self._ip is not None:
            extra["ip"] = self._ip
        if not res.is_sent:
            extra["aborted"] = True
        # Load balancers probe every few seconds, which would fill the log.
        level = logging.DEBUG if res.is_probe and status == 200 else logging.INFO
        if _log.isEnabledFor(level):
            record = _new_record(level, (method, path, status, size, duration))
            record.__dict__.update(extra)
            _log.handle(record)


_LINE: Final = _Entry.write.__code__.co_firstlineno


class _AccessRecord(logging.LogRecord):
    """A record of the access log.

    `logging` finds out for each record which line has made it, and the names of process and thread.
    That takes longer than all else in a request that a service answers from memory. Here these are
    looked up once for each thread.
    """

    def __init__(self, level: int, args: tuple[object, ...]) -> None:
        # `super().__init__()` is not called: it takes most of the time of a log line.
        attributes = self.__dict__
        attributes.update(_surroundings(os.getpid(), threading.get_ident()))
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.args = args
        self.created = created = time()
        self.msecs = int(created % 1 * 1000) + 0.0
        self.relativeCreated += created * 1000


def _new_record(level: int, args: tuple[object, ...]) -> logging.LogRecord:
    factory = logging.getLogRecordFactory()
    if factory is logging.LogRecord:
        return _AccessRecord(level, args)
    # The application makes records of its own, such as with trace ids.
    return factory(_log.name, level, __file__, _LINE, _TEXT, args, None, "write")


@lru_cache(maxsize=64)
def _surroundings(_process: int, _thread: int) -> dict[str, Any]:
    """Return the attributes that all records of a thread share."""
    record = logging.LogRecord(_log.name, logging.INFO, __file__, _LINE, _TEXT, (), None, "write")
    attributes = {**record.__dict__, "taskName": None}
    attributes["relativeCreated"] = record.relativeCreated - record.created * 1000
    return attributes
