"""`Database`: one database of MongoDB, which the services of an application share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Protocol
from urllib.parse import urlsplit

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from alula._app import App
from alula._local_process import ProgramMissing
from alula.adapters._lifecycle import open_around
from alula.adapters.mongodb._errors import check_connection
from alula.adapters.mongodb._model import Collection

__all__ = ["Database", "LocalServer"]


class LocalServer(Protocol):
    """A server that starts when it is needed, such as `alula.local_mongodb.LocalServer`."""

    @property
    def url(self) -> str:
        """Its URL, once it runs."""
        ...

    async def start(self) -> object:
        """Start it, if it does not run."""
        ...

    async def stop(self) -> None:
        """Stop it."""
        ...


class Database:
    """A database of MongoDB, which the services of an application share.

    With ``app.configure(database)``, an application connects before its services are set up, does
    not start if that fails, and closes the connections after its services.

    Args:
        url: ``"mongodb://user:password@host/database"``. Or `alula.local_mongodb.LocalServer`,
            which starts with `open` and stops with `close`.
        name: The database, if the URL names none.
        options: Options of PyMongo's client, such as ``{"maxPoolSize": 50}``. They override those
            of the URL.
        setting: Where the URL comes from, such as ``"CHAT_MONGODB_URL"``. If the database cannot be
            reached at the start, the error names it.

    Raises:
        ValueError: The URL is not one of MongoDB, or neither it nor ``name`` names a database.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.mongodb import MongoDBService
        >>> database = Database("mongodb://db.example", name="shop")
        >>> app = App().configure(database)
        >>> app.use("orders", MongoDBService(database.model("orders")))
    """

    def __init__(
        self,
        url: str | LocalServer,
        *,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        setting: str | None = None,
    ) -> None:
        if isinstance(url, str) and not url.startswith(("mongodb://", "mongodb+srv://")):
            raise ValueError(
                f"{url.partition(':')[0]!r} is not a URL of MongoDB; use"
                ' "mongodb://user:password@host/database"'
            )
        in_url = urlsplit(url).path.strip("/") if isinstance(url, str) else ""
        if not (in_url or name):
            raise ValueError('no database is named; give its name: Database(url, name="shop")')
        self._url = url
        self._name = in_url or name
        self._options = dict(options or {})
        self._setting = setting
        self._users = 0
        self._opened = AsyncExitStack()
        self._database: AsyncDatabase[dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return f"<Database mongodb {self._name}>"

    def collection(self, name: str) -> Collection:
        """Return a collection.

        Raises:
            RuntimeError: The database is not open.
        """
        if self._database is None:
            raise RuntimeError(
                "the database is not open; `app.configure(database)` opens it with"
                " `await app.setup()`, and `await database.open()` does without an application"
            )
        return self._database[name]

    def model(self, name: str) -> Callable[[], Collection]:
        """Return the model of a service: a function that returns the collection once it is open."""
        return lambda: self.collection(name)

    async def ping(self) -> None:
        """Ask the database for a sign of life, as for `alula.express.health`.

        Raises:
            RuntimeError: The database is not open.
            Exception: An error of PyMongo: it does not respond.
        """
        await self.collection("any").database.command("ping")

    async def open(self) -> None:
        """Connect, and start a `LocalServer`. Does nothing if the database is open.

        Raises:
            Unavailable: The database cannot be reached. A note of the error says why, with the
                host and the setting.
            ProgramMissing: No server is installed that a `LocalServer` could start.
        """
        if self._database is not None:
            return
        async with AsyncExitStack() as stack:
            url = self._url if isinstance(self._url, str) else await self._start(self._url, stack)
            client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url, **self._options)
            await stack.enter_async_context(client)
            await check_connection(client, setting=self._setting)
            self._database = client.get_default_database(self._name)
            self._opened = stack.pop_all()

    async def _start(self, server: LocalServer, stack: AsyncExitStack) -> str:
        try:
            await server.start()
        except ProgramMissing as error:
            if self._setting is not None:
                error.add_note(f"or set {self._setting} to the URL of a MongoDB")
            raise
        stack.push_async_callback(server.stop)
        return server.url

    async def close(self) -> None:
        """Close all connections, and stop a `LocalServer`. `open` connects again."""
        self._database = None
        await self._opened.aclose()

    def __call__(self, app: App[Any]) -> None:
        """Open it before the services of an application, and close it after them.

        That is what ``app.configure(database)`` does. Where several applications share the
        database, the last one closes it.

        Args:
            app: The application.
        """
        open_around(app, self._acquire, self._release)

    async def _acquire(self) -> None:
        self._users += 1
        try:
            await self.open()
        except BaseException:
            await self._release()
            raise

    async def _release(self) -> None:
        self._users -= 1
        if self._users == 0:
            await self.close()
