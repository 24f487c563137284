"""Tabs of one browser that renew at the same moment, and a thief who has a copy of a cookie."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text
from tests.authentication.building import add_authentication, add_user
from tests.authentication.test_token_cookies import REFRESH, Browser

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.authentication import TokenCookie, authenticate
from alula.express import express, rest
from alula.express import json as json_body


def session_table() -> Table:
    """Return a table of an earlier version, which has no place for addresses."""
    return Table(
        f"sessions_{ObjectId()}",
        MetaData(),
        Column("id", Text, primary_key=True),
        Column("userId", Text, nullable=False),
        Column("rotation", Integer, nullable=False),
        Column("createdAt", BigInteger, nullable=False),
        Column("rotatedAt", BigInteger, nullable=False),
        Column("expiresAt", BigInteger, nullable=False),
        Column("methods", Text),
    )


@pytest.fixture(params=["memory", "sqlite", "postgresql", "mongodb"])
async def stores(request, tmp_path):
    """The sessions of two processes: services of their own with connections of their own."""
    async with AsyncExitStack() as stack:
        if request.param == "memory":
            memory = MemoryService()
            yield [memory, memory]
        elif request.param == "mongodb":
            name = f"tabs_{ObjectId()}"
            clients = [
                await stack.enter_async_context(
                    AsyncMongoClient(request.getfixturevalue("mongodb_url"))
                )
                for _ in range(2)
            ]
            yield [
                MongoDBService(client["alula_tabs"][name], disable_objectify=True)
                for client in clients
            ]
            await clients[0]["alula_tabs"].drop_collection(name)
        else:
            url = f"sqlite:///{tmp_path}/sessions.sqlite"
            if request.param == "postgresql":
                url = request.getfixturevalue("postgresql_url")
            databases, table = [Database(url) for _ in range(2)], session_table()
            services = [SQLService(table, database) for database in databases]
            await databases[0].create()
            yield services
            await databases[0].execute(f'DROP TABLE "{table.name}"')
            for database in databases:
                await database.close()


async def processes_with(stores, clock, **options):
    """Return two applications whose sessions are shared, as two processes of one server."""
    users = MemoryService(start_id=1)
    apps = []
    for store in stores:
        app = express(App()).use(json_body()).configure(rest())
        app.use("users", users).use("sessions", store, methods=[])
        sessions = {"service": "sessions", "now": clock, **options}
        add_authentication(app, cookie=TokenCookie(), sessions=sessions)
        app.use("notes", MemoryService())
        app.service("notes").hooks(around=[authenticate("jwt")])
        await app.setup()
        apps.append(app)
    await add_user(apps[0])
    return apps


async def tabs_of(apps, number=2):
    """Return tabs of a browser that is signed in: each has what the cookies are now."""
    browser = Browser(apps[0])
    await browser.sign_in()
    return [copy_of(browser, apps[at % 2]) for at in range(number)]


def copy_of(browser, app):
    copy = Browser(app)
    copy.cookies = dict(browser.cookies)
    return copy


async def refresh(tab):
    return await tab.ask("POST", "/authentication", {"strategy": "refresh"}, **tab.csrf)


async def is_signed_in(tab):
    return (await tab.ask("GET", "/notes")).status == 200


async def test_tabs_that_refresh_at_the_same_moment_stay_signed_in(stores, clock):
    tabs = await tabs_of(await processes_with(stores, clock), 6)
    old = tabs[0].cookies[REFRESH]
    answers = await asyncio.gather(*map(refresh, tabs))
    assert [answer.status for answer in answers] == [201] * 6
    (new,) = {tab.cookies[REFRESH] for tab in tabs}  # whichever comes last: all have the next one
    assert new != old
    clock.time += 60
    assert (await refresh(tabs[1])).status == 201
    assert await is_signed_in(tabs[0])


@pytest.mark.parametrize("first", ["thief", "owner"])
async def test_a_stolen_cookie_ends_all_that_came_of_it(stores, clock, first):
    owner, thief = await tabs_of(await processes_with(stores, clock))
    one, other = (owner, thief) if first == "owner" else (thief, owner)
    assert (await refresh(one)).status == 201
    clock.time += 10
    assert (await refresh(other)).status == 401
    assert [await is_signed_in(tab) for tab in (one, other)] == [False, False]
    assert (await refresh(one)).status == 401


async def test_within_the_grace_an_older_cookie_ends_them_too(stores, clock):
    owner, thief = await tabs_of(await processes_with(stores, clock))
    for _ in range(2):
        assert (await refresh(owner)).status == 201
    assert (await refresh(thief)).status == 401
    assert not await is_signed_in(owner)


async def test_it_can_be_turned_off(stores, clock):
    tabs = await tabs_of(await processes_with(stores, clock, grace=0))
    answers = await asyncio.gather(*map(refresh, tabs))
    assert sorted(answer.status for answer in answers) == [201, 401]


async def test_without_cookies_there_is_none():
    app = App().use("users", MemoryService()).use("sessions", MemoryService(), methods=[])
    plain = add_authentication(app, sessions="sessions")
    chosen = add_authentication(app, "other", sessions={"service": "sessions", "grace": 5})
    assert (plain.sessions.grace, chosen.sessions.grace) == (0, 5_000)
