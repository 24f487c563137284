"""The application on SQL that exchanges were recorded from, built with Alula.

``python -m tests.conformance.reference_sql --port N --url URL`` serves it until SIGINT or SIGTERM.
URL is ``sqlite://``, ``sqlite:///FILE`` or ``postgresql://...``; the tables of the application are
dropped in that database, and made anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json as standard_json
import signal
from pathlib import Path
from typing import Any

from tests.conformance.reference_app import options_endpoint
from tests.conformance.services import tables

from alula import App
from alula.adapters.sql import Database
from alula.express import error_handler, express, json, not_found, rest, urlencoded

SEED = standard_json.loads((Path(__file__).parent / "seed-sql.json").read_text(encoding="utf-8"))


def make_app(database: Database) -> Any:
    """Return the application; its tables are there after `make_tables`."""
    app = express(App(debug=True))
    changed = [True]

    async def reset(_, res):
        app.service("at-sql").service.options = options
        if any(changed):
            await refill(app, database)
            changed[:] = []
        res.status(204).end()

    def note(req, _, next):
        changed.append(req.method not in {"GET", "HEAD", "OPTIONS"})
        return next()

    app.post("/__reset", reset)
    app.post("/__options", json(), options_endpoint(app))
    app.use(note)  # most cases only read: then there is nothing to fill anew
    app.use(json(limit="100kb"))
    app.use(urlencoded(limit="100kb"))
    app.configure(rest())
    tables.register(app, database)
    options = app.service("at-sql").service.options
    app.use(not_found(verbose=True, hints=False))
    app.use(error_handler(logger=False))
    return app


async def make_tables(database: Database, app: Any) -> None:
    """Make all tables anew."""
    for table in reversed(tables.metadata.sorted_tables):
        await database.execute(f'drop table if exists "{table.name}"')
    await database.create(*(app.service(path).service for path in [*tables.SERVICES, "at-sql"]))


async def refill(app: Any, database: Database) -> None:
    """Put every table back to its seed data."""
    names = [table.name for table in reversed(tables.metadata.sorted_tables)]
    if database.dialect == "postgresql":
        await database.execute(f"truncate {', '.join(names)} restart identity cascade")
    else:
        for name in [*names, "sqlite_sequence"]:
            await database.execute(f"delete from {name}")
    for path in tables.SERVICES:
        records = SEED[path]
        if path == "typed":  # JSON of JavaScript has large integers as text
            records = [{**each, "big": each.get("big") and int(each["big"])} for each in records]
        await app.service(path).create(records, {"adapter": {"multi": True}})


async def serve(port: int, url: str) -> None:
    """Serve the application until a signal comes."""
    database = Database(url)
    await database.open()
    app = make_app(database)
    await make_tables(database, app)
    server = await app.listen(port)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    print(f"reference app on {server.url}", flush=True)
    await stop.wait()
    await server.close()
    await database.close()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="The app of the recorded exchanges on SQL.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--url", required=True, help="sqlite:///FILE or postgresql://...")
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.url))


if __name__ == "__main__":
    main()
