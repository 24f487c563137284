"""What the client is asked in Pyodide, under Node and in a browser.

``run`` is called there, and returns a line of JSON for each check.
"""

from __future__ import annotations

import asyncio
import json

from alula.client import (
    AbortController,
    Aborted,
    authentication,
    create_client,
    create_sync_client,
    rest,
)
from alula.errors import Conflict, NotFound, Timeout, Unavailable

SENT = 1.0  # seconds in which a request is on its way, also on a slow machine


async def creates_and_finds(client, _):
    messages = client.service("messages")
    made = await messages.create({"text": "hällo \U0001f600", "n": [1, None]})
    assert made["text"] == "hällo \U0001f600"
    page = await messages.find(query={"text": made["text"], "$limit": 1})
    assert page["data"] == [made]
    assert (await messages.remove(made["id"]))["n"] == [1, None]


async def custom_methods(client, _):
    calc = client.service("calc", methods=["sum", "noop"])
    assert (await calc.sum({"values": [1, 2]}))["sum"] == 3
    assert await calc.noop({}) is None


async def streams(client, _):
    words = client.service("words", methods=["say", "count"])
    before = (await words.count())["closed"]
    assert [each async for each in await words.say({"text": "a b"})] == ["a", "b"]
    items = await words.say({"text": "a conflict"})
    assert await anext(items) == "a"
    assert isinstance(await failure_of(anext(items)), Conflict)
    items = await words.say({"text": "a wait"})
    assert await anext(items) == "a"
    await items.aclose()
    while (await words.count())["closed"] < before + 3:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.05)


async def errors_come_back(client, _):
    error = await failure_of(client.service("messages").get(123456))
    assert isinstance(error, NotFound), repr(error)


async def all_pages(client, _):
    messages = client.service("messages")
    every = [each async for each in messages.iterate({"$sort": {"id": 1}}, page_size=20)]
    assert len(every) == (await messages.find(query={"$limit": 0}))["total"]


async def signs_in(client, _):
    client.configure(authentication())
    await client.login(strategy="local", email="ada@example.com", password="secret-ada")
    assert len(await client.service("secrets").find()) > 0
    await client.logout()


async def a_server_that_is_away(_, __):
    client = create_client().configure(rest("http://127.0.0.1:9").fetch())
    error = await failure_of(client.service("x").find())
    assert isinstance(error, Unavailable), repr(error)


async def a_signal_gives_up(_, stalling):
    controller = AbortController()
    asyncio.get_running_loop().call_later(SENT, controller.abort)
    error = await failure_of(stalled(stalling, signal=controller.signal))
    assert isinstance(error, Aborted), repr(error)


async def cancelling_gives_up(_, stalling):
    call = asyncio.ensure_future(stalled(stalling))
    await asyncio.sleep(SENT)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        return
    raise AssertionError("not cancelled")


async def a_limit_of_time_holds(_, stalling):
    error = await failure_of(stalled(stalling, timeout=SENT))
    assert isinstance(error, Timeout), repr(error)


async def nothing_blocks(_, __):
    try:
        create_sync_client().configure(rest("http://here").fetch())
    except TypeError:
        return
    raise AssertionError("no error")


async def failure_of(call):
    try:
        await call
    except Exception as error:
        return error
    raise AssertionError("no error")


async def stalled(url, **connection):
    client = create_client().configure(rest(url).fetch())
    return await client.service("x").find(connection=connection)


CHECKS = (
    creates_and_finds,
    custom_methods,
    streams,
    errors_come_back,
    all_pages,
    signs_in,
    a_server_that_is_away,
    a_signal_gives_up,
    cancelling_gives_up,
    a_limit_of_time_holds,
    nothing_blocks,
)


async def run(base, stalling):
    """Return what came of each check; in a browser `base` may be a path."""
    lines = []
    for check in CHECKS:
        client = create_client().configure(rest(base).fetch())
        try:
            await asyncio.wait_for(check(client, stalling), 60)
            error = None
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        lines.append(json.dumps({"name": check.__name__, "error": error}))
    return "\n".join(lines)
