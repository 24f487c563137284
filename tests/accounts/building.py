"""Applications with accounts, on each store, whose passwords are hashed in no time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pymongo import AsyncMongoClient
from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, Table, Text
from tests.authentication.building import SECRET, quick_passwords

from alula import App
from alula.accounts import Accounts, Mail, MemoryMailer
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.authentication import (
    AuthenticationService,
    LocalStrategy,
    authenticate,
    hash_password,
    protect,
)
from alula.errors import FrameworkError

PAGE = "https://app.example/{page}#token={{token}}"
LINKS = {page: PAGE.format(page=page) for page in ("verify", "reset")}
# By whether it is PostgreSQL: statements that empty a table, and let its ids begin at 1 again.
CLEARS = {
    True: ["truncate {} restart identity"],
    False: ["delete from {}", "delete from sqlite_sequence where name = '{}'"],
}
ADA = {"email": "ada@example.com", "password": "correct horse"}
FROM_AFAR = {"provider": "rest", "ip": "192.0.2.1"}


@dataclass
class Stores:
    """The services of an application that store something."""

    users: Any
    sessions: Any
    credentials: Any
    clear: Callable[[], Awaitable[None]]


def memory_stores() -> Stores:
    services = MemoryService(start_id=1, unique=["email"]), MemoryService(), MemoryService()

    async def clear() -> None:
        for service in services:
            service.reset()

    return Stores(*services, clear)


@asynccontextmanager
async def stores_at(url: str, name: str) -> AsyncIterator[Stores]:
    """Yield stores in a database; in MongoDB the users stay in memory, for numbers as ids."""
    if urlsplit(url).scheme.startswith("mongodb"):
        async with AsyncMongoClient(url) as client:
            database = client[f"alula_{name}"]
            yield await mongodb_stores(database)
            await client.drop_database(database)
        return
    is_postgresql = url.startswith("postgresql")
    database = Database(url, pool=4) if is_postgresql else Database(url)
    await database.open()
    stores = await sql_stores(database, name, clears=CLEARS[is_postgresql])
    yield stores
    await stores.clear()
    await database.close()


async def mongodb_stores(database: Any) -> Stores:
    users = MemoryService(start_id=1, unique=["email"])
    closed = [MongoDBService(database[path]) for path in ("sessions", "credentials")]

    async def clear() -> None:
        users.reset()
        for path in ("sessions", "credentials"):
            await database[path].delete_many({})

    await clear()
    return Stores(users, *closed, clear)


async def sql_stores(database: Database, name: str, *, clears: Sequence[str]) -> Stores:
    metadata = MetaData()
    tables = [
        Table(
            f"{name}_users",
            metadata,
            Column("id", Integer, primary_key=True),
            Column("email", Text, unique=True),  # people who sign in with others may have neither
            Column("password", Text),
            Column("name", Text),
            Column("role", Text),
            Column("isVerified", Boolean, nullable=False),
        ),
        Table(
            f"{name}_sessions",
            metadata,
            Column("id", Text, primary_key=True),
            Column("userId", Text, index=True),
            Column("rotation", Integer),
            *(Column(time, BigInteger) for time in ("createdAt", "rotatedAt", "expiresAt")),
            *(Column(text, Text) for text in ("methods", "ip", "userAgent")),
        ),
        Table(
            f"{name}_credentials",
            metadata,
            Column("id", Text, primary_key=True),
            Column("kind", Text, nullable=False),
            Column("userId", Text, nullable=False, index=True),
            Column("secret", Text, nullable=False),
            Column("data", Text, nullable=False),
            Column("count", BigInteger, nullable=False),
            Column("createdAt", BigInteger, nullable=False),
            Column("usedAt", BigInteger),
            Column("expiresAt", BigInteger, nullable=False, index=True),
        ),
    ]

    async def clear() -> None:
        for table in tables:
            for statement in clears:
                await database.execute(statement.format(table.name))

    services = [SQLService(table, database) for table in tables]
    await database.create()
    await clear()
    return Stores(*services, clear)


@dataclass
class World:
    """An application with accounts, and what tests ask of it."""

    app: App
    accounts: Accounts
    mailer: MemoryMailer
    authentication: Any

    async def manage(
        self, action: str, value: Any = None, /, *, by: Any = None, **data: Any
    ) -> Any:
        """Call an action as a client."""
        params = {**FROM_AFAR, **(by or {})}
        sent = {"action": action, "value": value, **data}
        return await self.app.service("authManagement").create(sent, params)

    async def refusal(self, *arguments: Any, **values: Any) -> FrameworkError:
        """Return the error of an action."""
        try:
            result = await self.manage(*arguments, **values)
        except FrameworkError as error:
            return error
        raise AssertionError(f"{arguments[0]} was not refused: {result}")

    async def sign_up(self, **changes: Any) -> dict[str, Any]:
        data = {**ADA, **changes}
        return await self.app.service("users").create(data, dict(FROM_AFAR))

    async def sign_in(self, password: str = "correct horse", **changes: Any) -> dict[str, Any]:
        credentials = {"strategy": "local", **ADA, "password": password, **changes}
        return await self.app.service("authentication").create(credentials, dict(FROM_AFAR))

    async def mails(self, *kinds: str) -> list[Mail]:
        """Return what was sent since the last time, of these kinds or of all."""
        await self.accounts.idle()
        sent, self.mailer.sent = self.mailer.sent, []
        return [mail for mail in sent if not kinds or mail.kind in kinds]

    async def token(self, kind: str) -> str:
        """Return the token of the only mail of a kind."""
        (mail,) = await self.mails(kind)
        return token_of(mail)

    async def user(self) -> dict[str, Any]:
        """Return the first user as the application sees it."""
        return await self.app.service("users").get(1)


def token_of(mail: Mail) -> str:
    return re.search(r"#token=([\w-]+)$", mail.link or "")[1]


def make_world(
    stores: Stores | None = None,
    *,
    throttle: Any = False,
    hooks: Any = None,
    authentication: Any = None,
    **options: Any,
) -> World:
    """Return an application that is not set up."""
    stores = stores or memory_stores()
    mailer = options.pop("mailer", None) or MemoryMailer()
    has_mails = options.pop("has_mails", True)
    links = dict(LINKS)
    if options.get("magic_link"):
        links["link"] = PAGE.format(page="in")
    if options.get("sign_in") and options.get("link_by_email") != "never":
        links["link_identity"] = PAGE.format(page="link")
    mails = {"mailer": mailer, "sender": "Example <no-reply@app.example>", "links": links}
    accounts = Accounts(store="credentials", **{**(mails if has_mails else {}), **options})
    app = App()
    app.use("users", stores.users)
    app.use("sessions", stores.sessions, methods=[])
    app.use("credentials", stores.credentials, methods=[])
    settings = {"sessions": "sessions", "throttle": throttle, **(authentication or {})}
    service = AuthenticationService(app, secret=SECRET, **settings)
    service.register("local", LocalStrategy(fold_username=True, passwords=quick_passwords()))
    app.use("authentication", service)
    signed_in = {m: [authenticate("jwt")] for m in ("find", "get", "patch", "update", "remove")}
    hashed = {method: [hash_password("password")] for method in ("create", "patch", "update")}
    app.service("users").hooks(around={"all": [protect("password")], **signed_in}, before=hashed)
    if hooks:
        app.service("users").hooks(**hooks)
    app.configure(accounts)
    return World(app, accounts, mailer, service)


async def started(*arguments: Any, **options: Any) -> World:
    """Return an application that is set up."""
    world = make_world(*arguments, **options)
    await world.app.setup()
    return world
