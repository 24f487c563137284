"""Server-sent events: the plugin `sse`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from alula._channels import EventServer
from alula._hub import current_worker
from alula._identity import add_tickets, shared_key
from alula.realtime._bus import Bus, connect_bus
from alula.realtime._engine import check_number
from alula.realtime._event_ids import EventIds
from alula.realtime._event_log import EventLog
from alula.realtime._streams import Streams

if TYPE_CHECKING:
    from alula.express import ExpressApplication

__all__ = ["sse"]

MEDIA_TYPE: Final = "text/event-stream"


def sse(
    events_path: str = "events",
    *,
    keep: int = 10_000,
    keep_seconds: float = 120,
    keep_bytes: int = 64 * 1024 * 1024,
    heartbeat: float = 15,
    max_streams: int | None = 10_000,
    max_streams_of_address: int | None = None,
    bus: Bus | None = None,
) -> Callable[[Any], None]:
    """Return the plugin for server-sent events: ``app.configure(sse())``, behind `rest`.

    It stands in front of ``app.use(not_found())``, which otherwise responds to ``/events``.

    Every service is a stream for clients that ask for one: ``new EventSource("/messages?room=a")``
    in a browser, without a library. It gets the events that publishers give to its channels, if
    their record matches the query. ``/events?services=messages,users`` has several services in one
    stream, whose events are called ``messages created``.

    The hooks of ``find`` run before the stream starts, so that `authenticate` and `validate_query`
    refuse it as they refuse a call. A client that comes back gets what it has missed, or the event
    ``reset`` if it was away for too long: then it fetches its records anew. Browsers come back by
    themselves, with the header ``Last-Event-ID``; ``?lastEventId=`` does the same.

    Who listens is known by the ``Authorization`` header, by a cookie that middleware reads, or by
    ``?ticket=``: ``POST /authentication/tickets`` gives one for a single use. A stream ends with
    the event ``expired`` when its token expires.

    Args:
        events_path: Where streams of several services are.
        keep: How many events are kept for clients that come back.
        keep_seconds: How long they are kept.
        keep_bytes: About how much memory their records may take.
        heartbeat: Seconds of silence after which a comment is sent, so that proxies keep the
            connection.
        max_streams: How many streams this process has at once, None for any number. A further
            client gets a 503.
        max_streams_of_address: How many of one IP address, None for any number; a further one
            gets a 429. Only without a proxy in front, or with its addresses trusted.
        bus: Shares events with other processes and machines, such as ``RedisBus(url)``. None is
            enough for the workers of `alula serve`, and with the bus of `socketio`.

    Raises:
        ValueError: A number is not positive.
        TypeError: ``events_path`` is not a text; or, by the plugin, the application is not made by
            ``express(App())``.
        RuntimeError: By the plugin: the application has no `rest`, or has streams already.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express, json, rest
        >>> from alula.realtime import sse
        >>> app = express(App()).use(json()).configure(rest()).configure(sse())
        >>> app = app.use("messages", MemoryService())
        >>> @app.on("connection")
        ... def join(connection):
        ...     app.channel("everyone").join(connection)
        >>> @app.service("messages").publish
        ... def to_everyone(data, context):
        ...     return app.channel("everyone")
    """
    if not isinstance(events_path, str):
        raise TypeError(
            f"events_path is {events_path!r}; write app.configure(sse()), with brackets"
        )
    numbers = {
        "keep": keep,
        "keep_seconds": keep_seconds,
        "keep_bytes": keep_bytes,
        "heartbeat": heartbeat,
        "max_streams": max_streams,
        "max_streams_of_address": max_streams_of_address,
    }
    for name, value in numbers.items():
        check_number("sse", name, value)

    def configure(app: ExpressApplication) -> None:
        if not hasattr(app, "add_representation"):
            raise TypeError(
                f"sse() configures a web application, not {app!r}: write app = express(App()),"
                " with `from alula.express import express`"
            )
        if "rest" not in app.transports:
            raise RuntimeError("streams are read over HTTP: app.configure(rest()) before sse()")
        if "sse" in app.transports:
            raise RuntimeError("sse() is configured already")
        app.transports.append("sse")
        path = "/" + events_path.strip("/")
        app.channel_registry.servers.append(EventServer("sse", path))
        ids = EventIds(partial(_key_of_ids, app))
        # An id is as old as the last heartbeat when the client leaves.
        log = EventLog(keep, keep_seconds + heartbeat, keep_bytes, ids)
        app.channel_registry.log = log
        streams = Streams(app, log, heartbeat, max_streams, max_streams_of_address)
        log.on_gap = streams.reset
        app.channel_registry.on_gap(streams.reset)
        app.channel_registry.on_gap(log.lose)
        app.add_representation(MEDIA_TYPE, streams.of_service)
        add_tickets(app)
        connect_bus(app, bus)
        app.endpoints.add_closing(streams.close)
        app.get(path, streams.of_several)

    return configure


def _key_of_ids(app: ExpressApplication) -> bytes | None:
    """Return the key of event ids that all processes share, None if this one is alone."""
    key = shared_key(app, b"event ids")
    place = current_worker()
    return place.read_secret() if key is None and place is not None else key
