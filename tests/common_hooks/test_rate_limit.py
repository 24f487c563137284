"""How often clients may call."""

from __future__ import annotations

import asyncio

import pytest
from tests.common_hooks.conftest import ADA, BOB, app_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.authentication import authenticate
from alula.common_hooks import rate_limit
from alula.errors import NotAuthenticated, TooManyRequests

HOME, NEIGHBOUR, ELSEWHERE = "2001:db8::1", "2001:db8::2", "192.0.2.1"


class Clock:
    time = 1_800_000_000.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "service"])
def limited(request, clock, memory):
    """Makes a service whose calls are limited, with each of both stores."""

    def make(tries, **options):
        app = App().use("notes", memory).use("tries", MemoryService(), methods=[])
        store = {"service": "tries"} if request.param == "service" else {}
        hook = rate_limit(tries, **{"window": 60, "by": "address", **store, **options}, now=clock)
        return app.service("notes").hooks(before=[hook])

    return make


async def spend(notes, tries, **params):
    for _ in range(tries):
        await notes.find(provider="rest", **params)
    with pytest.raises(TooManyRequests) as caught:
        await notes.find(provider="rest", **params)
    return caught.value


async def test_a_budget_is_spent_and_refills(limited, clock):
    notes = limited(3)
    error = await spend(notes, 3, ip=ELSEWHERE)
    assert error.headers == {"Retry-After": "20"}
    assert error.message == "Too many requests; try again in 20 seconds"
    clock.time += 20
    await spend(notes, 1, ip=ELSEWHERE)
    clock.time += 120
    await spend(notes, 3, ip=ELSEWHERE)


async def test_concurrent_calls_do_not_share_a_try(limited):
    notes = limited(4)
    calls = [notes.find(provider="rest", ip=HOME) for _ in range(20)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, list) for result in results) == 4


async def test_each_network_has_a_budget(limited):
    notes = limited(2)
    await spend(notes, 2, ip=HOME)
    await spend(notes, 0, ip=NEIGHBOUR)
    await spend(notes, 2, ip=ELSEWHERE)
    await spend(notes, 2)  # calls without an address share one
    await spend(notes, 0, ip=None)


async def test_each_user_has_a_budget(limited):
    notes = limited(2, by="user")
    await spend(notes, 2, user=ADA["user"], ip=HOME)
    await spend(notes, 0, user=ADA["user"], ip=ELSEWHERE)
    await spend(notes, 2, user=BOB["user"])
    with pytest.raises(NotAuthenticated, match="register rate_limit behind authenticate"):
        await notes.find(provider="rest")


def test_before_authenticate_it_is_an_error(memory):
    limit = rate_limit(2, window=60, by="user")
    with pytest.raises(TypeError, match=r"rate_limit of service .* would run before"):
        app_of(memory, around=[limit, authenticate("jwt")])
    app_of(memory, around=[authenticate("jwt"), limit])
    app_of(memory, around=[rate_limit(2, window=60, by="address"), authenticate("jwt")])


async def test_a_function_says_whose_it_is(limited):
    notes = limited(2, by=lambda context: context.params.query["text"])
    await spend(notes, 2, query={"text": "\ud800" + "x" * 5_000})
    await spend(notes, 2, query={"text": "b"})


async def test_each_method_has_a_budget(limited):
    notes = limited(1)
    await spend(notes, 1, ip=HOME)
    assert await notes.get(1, provider="rest", ip=HOME)


async def test_two_limits_of_one_method(memory, clock):
    app = App().use("notes", memory).use("tries", MemoryService(), methods=[])
    few, many = (
        rate_limit(tries, window=window, by="address", service="tries", now=clock)
        for tries, window in ((2, 1), (3, 600))
    )
    notes = app.service("notes").hooks(before=[few, many])
    await spend(notes, 2, ip=HOME)
    clock.time += 1
    await spend(notes, 1, ip=HOME)


async def test_the_application_is_not_limited(limited):
    notes = limited(1)
    for _ in range(3):
        await notes.find()


async def test_what_is_whole_again_is_removed(clock, memory):
    app = App().use("notes", memory).use("tries", MemoryService(), methods=[])
    hook = rate_limit(2, window=60, by="address", service="tries", now=clock)
    notes = app.service("notes").hooks(around=[hook])
    for number in range(5):
        await notes.find(provider="rest", ip=f"192.0.2.{number}")
    assert len(await app.service("tries").find()) == 5
    clock.time += 61
    await notes.find(provider="rest", ip=HOME)
    assert len(await app.service("tries").find()) == 1


async def test_a_store_that_clients_can_call_is_refused(memory):
    app = App().use("notes", memory).use("tries", MemoryService())
    hook = rate_limit(2, window=60, by="address", service="tries")
    notes = app.service("notes").hooks(before=[hook])
    with pytest.raises(ValueError, match="which clients can call"):
        await notes.find(provider="rest")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tries": 0}, "tries is 0"),
        ({"tries": 1.5}, "tries is 1.5"),
        ({"window": 0}, "window is 0"),
        ({"window": 0.01, "tries": 100}, "window is 0.01"),
        ({"by": "ip"}, "by is 'ip'"),
        ({"by": None}, "by is None"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        rate_limit(**{"tries": 5, "window": 60, "by": "user", **options})


def test_it_runs_before(memory):
    with pytest.raises(TypeError, match="register it as before or around hook"):
        app_of(memory, after=[rate_limit(1, window=1, by="user")])
