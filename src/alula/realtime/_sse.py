"""Server-sent events: the plugin `sse`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from alula._channels import EventServer
from alula._identity import add_tickets
from alula._live import live_lists_of
from alula.realtime._bus import Bus, connect_bus
from alula.realtime._engine import check_number
from alula.realtime._event_ids import event_ids_of
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
    feathers6: str | None = None,
    bus: Bus | None = None,
) -> Callable[[Any], None]:
    """Return the plugin for server-sent events: ``app.configure(sse())``, after `rest`.

    Configure it before ``app.use(not_found())``, which would otherwise respond to ``/events``.

    Clients can get a stream of every service: in a browser, ``new EventSource("/messages?room=a")``
    is enough. The stream has the events that publishers send to its channels, if their record
    matches the query. ``/events?services=messages,users`` is one stream of several services, where
    events are called ``messages created``.

    The hooks of ``find`` run before the stream starts, so `authenticate` and `validate_query`
    refuse a stream like a call. A client that comes back gets the events that it has missed. If it
    was away for too long, it gets the event ``reset``, and should fetch its records again. Browsers
    come back by themselves with the header ``Last-Event-ID``; ``?lastEventId=`` does the same.

    Clients sign in with the ``Authorization`` header, with a cookie that middleware reads, or with
    ``?ticket=``: ``POST /authentication/tickets`` returns a ticket for a single use. When the token
    expires, the stream ends with the event ``expired``.

    Args:
        events_path: The path of streams of several services.
        keep: How many events are kept for clients that come back.
        keep_seconds: How long they are kept.
        keep_bytes: About how much memory their records may take.
        heartbeat: Seconds of silence after which a comment is sent, so that proxies keep the
            connection.
        max_streams: How many streams this process has at once, None for any number. Another client
            gets a 503.
        max_streams_of_address: How many streams one IP address may have, None for any number. For
            another one it gets a 429. Only without a proxy in front, or with its addresses trusted.
        feathers6: The path of a stream for pages with FeathersJS 6, None for no such stream. The
            client names the same path in its option ``sse``. As with socket.io, the stream has all
            events that publishers send to the connection; hooks of ``find`` do not run.
            Experimental, because FeathersJS 6 is a pre-release.
        bus: Shares events with other processes and machines, such as ``RedisBus(url)``. None is
            enough for the workers of `alula serve`, and with the bus of `socketio`.

    Raises:
        ValueError: A number is not positive, or two streams have one path.
        TypeError: ``events_path`` or ``feathers6`` is not a text. The plugin also raises it if the
            application was not made by ``express(App())``.
        RuntimeError: Raised by the plugin: the application has no `rest`, or has streams already.

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
    _check_paths(events_path, feathers6)
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
        _check_application(app)
        app.transports.append("sse")
        path = "/" + events_path.strip("/")
        app.channel_registry.servers.append(EventServer("sse", path))
        ids = event_ids_of(app)
        # When a client leaves, its id may be as old as the last heartbeat.
        log = EventLog(keep, keep_seconds + heartbeat, keep_bytes, ids)
        app.channel_registry.log = log
        lists = live_lists_of(app)
        streams = Streams(app, log, lists, heartbeat, max_streams, max_streams_of_address)
        log.on_gap = streams.reset
        app.channel_registry.on_gap(streams.reset)
        app.channel_registry.on_gap(log.lose)
        app.add_representation(MEDIA_TYPE, streams.of_service)
        add_tickets(app)
        connect_bus(app, bus)
        app.endpoints.add_closing(streams.close)
        app.get(path, streams.of_several)
        if feathers6 is not None:
            name = feathers6.strip("/")
            respond = partial(streams.of_everything, name)
            app.all(f"/{name}", respond).all(f"/{name}/:id", respond)

    return configure


def _check_paths(events_path: object, feathers6: object) -> None:
    """Check the paths of streams.

    Raises:
        TypeError: One is not a text.
        ValueError: Both are the same.
    """
    if not isinstance(events_path, str):
        raise TypeError(
            f"events_path is {events_path!r}; write app.configure(sse()), with brackets"
        )
    if feathers6 is not None and (not isinstance(feathers6, str) or not feathers6.strip("/")):
        raise TypeError(f"feathers6 is {feathers6!r}; name a path, such as 'sse'")
    if feathers6 is not None and feathers6.strip("/") == events_path.strip("/"):
        raise ValueError(f"{feathers6!r} is the path of events_path, too; name another one")


def _check_application(app: Any) -> None:
    """Check that an application can have streams.

    Raises:
        TypeError: It is no web application.
        RuntimeError: It has no `rest`, or has streams already.
    """
    if not hasattr(app, "add_representation"):
        raise TypeError(
            f"sse() configures a web application, not {app!r}: write app = express(App()),"
            " with `from alula.express import express`"
        )
    if "rest" not in app.transports:
        raise RuntimeError("streams are read over HTTP: app.configure(rest()) before sse()")
    if "sse" in app.transports:
        raise RuntimeError("sse() is configured already")
