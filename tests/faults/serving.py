"""A running application whose database can be hit, and what is watched meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandListener, ConnectionPoolListener

from alula import App
from alula.adapters.mongodb import MongoDBService, transaction
from alula.express import error_handler, express, json, not_found, rest

DATABASE = "alula_faults"
SECONDS_TO_RECOVER = 45


class Watch(ConnectionPoolListener, CommandListener):
    """Counts the connections in use and the commands sent, and keeps the sessions ever used."""

    def __init__(self) -> None:
        self.in_use = 0
        self.sessions: set[bytes] = set()
        self.commands: Counter[str] = Counter()

    def connection_checked_out(self, event):
        self.in_use += 1

    def connection_checked_in(self, event):
        self.in_use -= 1

    def started(self, event):
        self.commands[event.command_name] += 1
        if "lsid" in event.command:
            self.sessions.add(bytes(event.command["lsid"]["id"]))

    def _ignore(self, event):
        """Nothing is to be known of it."""

    succeeded = failed = _ignore
    pool_created = pool_ready = pool_cleared = pool_closed = _ignore
    connection_created = connection_ready = connection_closed = _ignore
    connection_check_out_started = connection_check_out_failed = _ignore


class Site:
    """The application over HTTP, and the client of its database.

    Attributes:
        app: The application.
        http: A client whose paths are those of the application.
        mongo: The client that the services use.
        watch: What was seen of connections and sessions.
    """

    def __init__(
        self, app: Any, http: httpx2.AsyncClient, mongo: AsyncMongoClient, watch: Watch
    ) -> None:
        self.app, self.http, self.mongo, self.watch = app, http, mongo, watch

    @property
    def records(self) -> Any:
        """The collection of the service ``records``."""
        return self.mongo[DATABASE].records

    async def send(self, method: str, path: str, **given: Any) -> httpx2.Response:
        """Send a request; an answer is a result, or an error that says what it is."""
        answer = await self.http.request(method, path, **given)
        if answer.status_code >= 400:
            error = answer.json()
            assert error["code"] == answer.status_code, error
            for word in ("127.0.0.1", "pymongo", "Traceback", "Topology", "socket"):
                assert word not in answer.text
        return answer

    async def recovered(self, method: str, path: str, **given: Any) -> httpx2.Response:
        """Send a request again and again until the database is found again, and no longer."""
        end = time.monotonic() + SECONDS_TO_RECOVER
        while True:
            answer = await self.send(method, path, **given)
            if answer.status_code not in {408, 503} or time.monotonic() > end:
                return answer
            await asyncio.sleep(0.1)


async def drop(mongo: AsyncMongoClient) -> None:
    """Drop the database, in a set that may be about to elect."""
    end = time.monotonic() + SECONDS_TO_RECOVER
    while True:
        try:
            await mongo.drop_database(DATABASE)
        except PyMongoError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def make_app(database: Any, **settings: Any) -> Any:
    """Return an application with services on a database."""
    app = express(App())
    for name, value in settings.items():
        app.set(name, value)
    app.use(json())
    app.configure(rest())
    app.use("records", MongoDBService(database.records, update_operators=["$push"], multi=True))
    app.use("orders", MongoDBService(database.orders))
    app.service("orders").hooks(around={"create": [transaction(seconds=20)]})
    app.use(not_found(), error_handler(logger=False))
    return app


@asynccontextmanager
async def site_on(
    url: str,
    seconds: float,
    listeners: Sequence[CommandListener] = (),
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Site]:
    """Run the application on a database, and drop that in the end.

    Args:
        url: Of the database.
        seconds: How long a request may take before it counts as one that hangs.
        listeners: What else is to hear of the driver's commands.
        settings: Of the application.
        options: For the driver.
    """
    watch = Watch()
    async with AsyncMongoClient(url, event_listeners=[watch, *listeners], **options) as mongo:
        await drop(mongo)
        app = make_app(mongo[DATABASE], **settings or {})
        server = await app.listen(0)
        headers = {"Accept": "application/json"}
        http = httpx2.AsyncClient(
            base_url=server.url, timeout=seconds, trust_env=False, headers=headers
        )
        async with server, http:
            yield Site(app, http, mongo, watch)
            assert watch.in_use == 0, "connections were not given back"
        await drop(mongo)
