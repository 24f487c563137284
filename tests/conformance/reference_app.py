"""The application that the recorded exchanges were recorded from, built with Alula.

``python -m tests.conformance.reference_app --port N [--mongodb URL]`` serves the main app on N and
the second app on N+1, until SIGINT or SIGTERM. The services are in ``services``.
"""

from __future__ import annotations

import argparse
import asyncio
import json as standard_json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from tests.conformance import services
from tests.conformance.services import accounts, realtime
from tests.conformance.services.answers import Conflicting
from tests.conformance.services.database import refill
from tests.conformance.services.echo import Echo
from tests.conformance.services.javascript import as_list, in_property_order, text_of
from tests.conformance.services.realtime.transport import main_transport, second_transport

from alula import App
from alula.adapters._options import read_multi, read_pagination
from alula.adapters.memory import MemoryService
from alula.errors import Forbidden
from alula.express import (
    api,
    cors,
    error_handler,
    express,
    json,
    not_found,
    rest,
    urlencoded,
)
from alula.query import parse

SEED = standard_json.loads((Path(__file__).parent / "seed.json").read_text(encoding="utf-8"))

ITEMS = [{"a": "one", "b": 1}, {"a": "two", "b": 2}]


def make_apps(database: Any = None, *, by_api: bool = False) -> tuple[Any, Any]:
    """Return the main app and the second app; what is kept in memory has its seed data.

    Args:
        database: Of MongoDB, for the services that need it.
        by_api: Make the apps by `api`, and register first what runs last.
    """
    main, second = make_app(by_api=by_api), second_app(by_api=by_api)

    def add_last_parts() -> None:
        main.use(not_found(verbose=True, hints=False))  # the original gives none in debug mode
        main.use(error_handler(logger=False))

    if by_api:
        add_last_parts()
    control(main, second, database)
    main.use(json(limit="100kb"))
    main.use(urlencoded(limit="100kb"))
    main.configure(rest())
    main.configure(main_transport())
    for register in (*services.GROUPS, *realtime.GROUPS):
        register(main)
    second.configure(second_transport())
    for register in realtime.SECOND_GROUPS:
        register(second)
    for register in services.DATABASE_GROUPS if database is not None else ():
        register(main, database)
    routes(main)
    if not by_api:
        add_last_parts()
    reset(main, second)
    return main, second


def make_app(*, by_api: bool) -> Any:
    """Return an application in debug mode, by `api` or by `express`."""
    return api(App(debug=True)) if by_api else express(App(debug=True))


def control(main: Any, second: Any, database: Any) -> None:
    """Add the endpoints by which tests set the apps back and change options."""

    changed = [True]

    async def reset_all(_, res):
        reset(main, second)
        await main.service("control").service.reset()
        await main.service("authentication").service.throttle.reset()
        for app in (main, second):
            for connection in list(app.channel_registry.connections.values()):
                await connection.close()
        main.service("log").service.entries.clear()
        if database is not None and any(changed):
            await refill(database, SEED)
            changed[:] = []
        res.status(204).end()

    def note(req, _, next):
        changed.append(req.method not in {"GET", "HEAD", "OPTIONS"})
        return next()

    @main.on("connection")
    def may_change(_):
        changed.append(True)

    main.post("/__reset", reset_all)
    main.post("/__options", json(), options_endpoint(main))
    main.use(note)  # most cases only read: then there is nothing to fill anew


def options_endpoint(app: Any) -> Any:
    """Return the endpoint by which tests change options of a service."""

    async def set_options(req, res):
        service = app.service(req.body["path"]).service
        if "multi" in req.body:
            service.options = replace(service.options, multi=read_multi(req.body["multi"]))
        if "paginate" in req.body:
            pagination = read_pagination(req.body["paginate"], service.paginate_options)
            service.options = replace(service.options, pagination=pagination)
        res.status(204).end()

    return set_options


def reset(main: Any, second: Any) -> None:
    """Put every service back to its seed data."""
    for path, seed in services.SEEDS.items():
        service = main.service(path).service
        service.reset(in_property_order(SEED[seed], service.id) if seed else None)
    for path, records in realtime.RECORDS.items():
        main.service(path).service.reset(records)
    for path in {"at-memory", "at-mongo"} & main.services.keys():
        service = main.service(path).service
        service.options = replace(service.options, pagination=None, multi=frozenset())
    second.service("items").service.reset(ITEMS)


def routes(app: Any) -> None:
    """Add the routes that are no services."""

    def boom(_, res):
        raise RuntimeError("middleware failed")

    def forbidden(_, __, next):
        return next(Forbidden("no entry", {"why": "because"}))

    accounts.routes(app)
    app.get("/mw/plain", lambda _, res: res.type("text/plain").send("hello"))
    app.get("/mw/boom", boom)
    app.get("/mw/forbidden", forbidden)


def second_app(*, by_api: bool = False) -> Any:
    """Return the app with a formatter, CORS and parsers of its own."""
    app = make_app(by_api=by_api)
    last_parts = not_found(hints=False), short_errors, error_handler(logger=False, html=False)
    if by_api:
        app.use(*last_parts)
    app.set("query parser", partial(parse, array_limit=100, depth=10))
    app.use(cors())
    app.use(json(strict=False, limit="200b"))
    app.configure(rest(wrapped))
    app.use("items", MemoryService(start_id=1))
    app.use("echo", Echo())
    app.use("conflict", Conflicting())
    if not by_api:
        app.use(*last_parts)
    return app


def wrapped(_, res):
    """Format a result by what the client accepts."""
    return res.format(
        {
            "application/json": lambda: res.json({"wrapped": res.data}),
            "text/plain": lambda: res.end(f"Message: {compact(res.data)}"),
            "text/csv": lambda: res.end("\n".join(map(csv_row, as_list(res.data)))),
        }
    )


def short_errors(error, _, res, next):
    """Answer two statuses in a form of their own."""
    code = getattr(error, "code", 500)
    if code == 404:
        return res.status(404).json({"oops": error.message, "code": 404})
    if code == 409:
        return res.status(409).json({"conflict": True})
    return next(error)


def csv_row(row: Any) -> str:
    """Return the values of a record, joined by commas."""
    return text_of(list(row.values()) if isinstance(row, dict) else row)


compact = partial(standard_json.dumps, ensure_ascii=False, separators=(",", ":"))


async def serve(port: int, url: str | None, *, by_api: bool = False) -> None:
    """Serve both apps until a signal comes."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(seeded(url, port)) if url else None
        main, second = make_apps(database, by_api=by_api)
        servers = [await main.listen(port), await second.listen(port + 1)]
        stop = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        print(f"reference app on {servers[0].url} and {servers[1].url}", flush=True)
        await stop.wait()
        await asyncio.gather(*(server.close() for server in servers))


@asynccontextmanager
async def seeded(url: str, port: int) -> AsyncIterator[Any]:
    """Yield a database of its own with the seed data, and drop it afterwards."""
    async with AsyncMongoClient(url) as client:
        database = client.get_database(f"alula_conformance_{port}")
        await refill(database, SEED)
        yield database
        await client.drop_database(database)


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The app of the recorded exchanges.")
    parser.add_argument("--port", type=int, required=True, help="the second app has the next one")
    parser.add_argument("--mongodb", metavar="URL", help="a MongoDB for the services that need it")
    parser.add_argument("--api", action="store_true", help="make the apps by api()")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.mongodb, by_api=given.api))


if __name__ == "__main__":
    main()
