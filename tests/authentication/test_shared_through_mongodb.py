"""Tries and sessions that processes share through a database."""

from __future__ import annotations

import asyncio

import pytest
from pymongo import AsyncMongoClient
from tests.authentication.building import SECRET

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.authentication import Attempt, AuthenticationService
from alula.authentication._refresh_tokens import RefreshTokens
from alula.errors import NotAuthenticated, TooManyRequests

NAME = "alula_shared_authentication"


@pytest.fixture
async def processes(mongodb_url):
    """Two applications as two processes would have them, with one database."""
    async with AsyncMongoClient(mongodb_url) as client:
        await client.drop_database(NAME)
        yield [await make_app(client[NAME]) for _ in range(2)]
        await client.drop_database(NAME)


async def make_app(database):
    app = App()
    app.use("users", MemoryService([{"id": 1}]))
    for path in ("tries", "sessions"):
        service = MongoDBService(database[path], disable_objectify=True)
        app.use(path, service, methods=[])
    authentication = AuthenticationService(
        app, secret=SECRET, throttle={"tries": 3, "service": "tries"}, sessions="sessions"
    )
    app.use("authentication", authentication)
    await app.setup()
    return app.service("authentication").service


async def pay(process, account):
    """Let an attempt pay, and return it."""
    params = Params(provider="rest", ip="192.0.2.1")
    attempt = Attempt({"email": account}, params, process.strategy("local"))
    await process.throttle.before_attempt(attempt)
    await process.throttle.account_found(attempt, account)
    return attempt


async def pay_at_once(processes, accounts):
    """Return how the attempts ended that processes take in at once, one after the other each."""
    tries = (pay(process, account) for account in accounts for process in processes)
    return await asyncio.gather(*tries, return_exceptions=True)


@pytest.mark.parametrize("round", range(5))
async def test_a_crowd_spread_over_processes_gets_no_further_than_one(processes, round):
    results = await pay_at_once(processes, [f"{round}@example.com"] * 10)
    assert sum(isinstance(result, TooManyRequests) for result in results) == 17
    assert sum(not isinstance(result, Exception) for result in results) == 3


async def test_a_crowd_within_the_budget_is_not_refused_for_being_one(processes):
    results = await pay_at_once(processes, [f"{number}@example.com" for number in range(20)])
    assert [result for result in results if isinstance(result, Exception)] == []


async def test_tries_are_given_back_swept_and_reset(processes):
    throttle = processes[0].throttle
    for _ in range(5):
        await throttle.after_success(await pay(processes[0], "ada@example.com"))
    await throttle.reset()
    for _ in range(3):
        await pay(processes[1], "ada@example.com")
    with pytest.raises(TooManyRequests):
        await pay(processes[0], "ada@example.com")


async def test_a_refresh_token_is_good_once_for_all_processes(processes):
    one, other = (RefreshTokens(process.sessions) for process in processes)
    for tokens, process in zip((one, other), processes, strict=True):
        await tokens.setup(process)
    first = await one.sessions.begin(1)
    second = await other.rotate(one.create(first))
    await one.sessions.check({"sid": second.id, "sub": "1"})
    rotations = [tokens.rotate(other.create(second)) for tokens in (one, other)]
    results = await asyncio.gather(*rotations, return_exceptions=True)
    assert sum(isinstance(result, NotAuthenticated) for result in results) == 1
    for process in processes:
        with pytest.raises(NotAuthenticated):
            await process.sessions.check({"sid": second.id, "sub": "1"})


async def test_signing_out_everywhere_counts_for_all_processes(processes):
    one, other = (process.sessions for process in processes)
    sessions = [await each.begin(1) for each in (one, other)]
    await one.end_all(1)
    for session in sessions:
        with pytest.raises(NotAuthenticated):
            await other.check({"sid": session.id, "sub": "1"})
