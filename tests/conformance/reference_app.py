"""The application that the recorded exchanges were recorded from, built with Alula.

``python -m tests.conformance.reference_app --port N [--mongodb URL]`` serves the main app on N and
the second app on N+1, until SIGINT or SIGTERM. The services are in ``services``.
"""

from __future__ import annotations

import argparse
import asyncio
import json as standard_json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance import services
from tests.conformance.services.answers import Conflicting
from tests.conformance.services.echo import Echo
from tests.conformance.services.javascript import as_list, in_property_order, text_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.options import read_multi, read_pagination
from alula.errors import Forbidden
from alula.express import cors, error_handler, express, json, not_found, rest, urlencoded
from alula.query import parse

SEED = standard_json.loads((Path(__file__).parent / "seed.json").read_text(encoding="utf-8"))

ITEMS = [{"a": "one", "b": 1}, {"a": "two", "b": 2}]


def make_apps() -> tuple[Any, Any]:
    """Return the main app and the second app, with their seed data."""
    main, second = express(App(debug=True)), second_app()
    control(main, second)
    main.use(json(limit="100kb"))
    main.use(urlencoded(limit="100kb"))
    main.configure(rest())
    for register in services.GROUPS:
        register(main)
    routes(main)
    main.use(not_found(verbose=True))
    main.use(error_handler(logger=False))
    reset(main, second)
    return main, second


def control(main: Any, second: Any) -> None:
    """Add the endpoints by which tests set the apps back and change options."""

    async def reset_all(_, res):
        reset(main, second)
        res.status(204).end()

    async def set_options(req, res):
        service = main.service(req.body["path"]).service
        if "multi" in req.body:
            service.options = service.options._replace(multi=read_multi(req.body["multi"]))
        if "paginate" in req.body:
            pagination = read_pagination(req.body["paginate"], service.paginate_options)
            service.options = service.options._replace(pagination=pagination)
        res.status(204).end()

    main.post("/__reset", reset_all)
    main.post("/__options", json(), set_options)


def reset(main: Any, second: Any) -> None:
    """Put every service back to its seed data."""
    for path, seed in services.SEEDS.items():
        service = main.service(path).service
        service.reset(in_property_order(SEED[seed], service.id) if seed else None)
    at_memory = main.service("at-memory").service
    at_memory.options = at_memory.options._replace(pagination=None, multi=read_multi(False))
    second.service("items").service.reset(ITEMS)


def routes(app: Any) -> None:
    """Add the routes that are no services."""

    def boom(_, res):
        raise RuntimeError("middleware failed")

    def forbidden(_, __, next):
        return next(Forbidden("no entry", {"why": "because"}))

    app.get("/mw/plain", lambda _, res: res.type("text/plain").send("hello"))
    app.get("/mw/boom", boom)
    app.get("/mw/forbidden", forbidden)


def second_app() -> Any:
    """Return the app with a formatter, CORS and parsers of its own."""
    app = express(App(debug=True))
    app.set("query parser", partial(parse, array_limit=100, depth=10))
    app.use(cors())
    app.use(json(strict=False, limit="200b"))
    app.configure(rest(wrapped))
    app.use("items", MemoryService(start_id=1))
    app.use("echo", Echo())
    app.use("conflict", Conflicting())
    app.use(not_found())
    app.use(short_errors)
    app.use(error_handler(logger=False, html=False))
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


async def serve(port: int) -> None:
    """Serve both apps until a signal comes."""
    main, second = make_apps()
    servers = [await main.listen(port), await second.listen(port + 1)]
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    print(f"reference app on {servers[0].url} and {servers[1].url}", flush=True)
    await stop.wait()
    await asyncio.gather(*(server.close() for server in servers))


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The app of the recorded exchanges.")
    parser.add_argument("--port", type=int, required=True, help="the second app has the next one")
    parser.add_argument("--mongodb", metavar="URL", help="a MongoDB for the services that need it")
    given = parser.parse_args()
    if given.mongodb:
        print("There is no MongoDB adapter yet; its services are left out.", file=sys.stderr)
    asyncio.run(serve(given.port))


if __name__ == "__main__":
    main()
