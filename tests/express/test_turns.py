"""Clients take turns with their requests, so that many of one do not hold up all others."""

from __future__ import annotations

import asyncio

import pytest
from tests.express.asgi_client import call

from alula import App
from alula.express import express, rest
from alula.realtime import sse


class Busy:
    """Holds up the event loop for 10 ms of a clock of its own with each call."""

    def __init__(self):
        self.now, self.begun = 1.0, []

    async def get(self, id, params):
        self.begun.append(id)
        self.now += 0.01
        return {"id": id}

    async def find(self, params):
        self.begun.append("other")
        return []


def plain(web, busy):
    web.configure(rest()).use("busy", busy)


def with_a_formatter(web, busy):
    web.configure(rest(lambda req, res: res.json(res.data))).use("busy", busy)


def go_on(req, res, next):
    return next()


def surrounded(web, busy):
    web.configure(rest()).use("busy", go_on, busy)


@pytest.mark.parametrize("build", [plain, with_a_formatter, surrounded])
async def test_many_requests_of_one_client_leave_turns_to_others(build):
    busy, app = Busy(), App()
    app.turns._now = lambda: busy.now
    web = express(app)
    build(web, busy)
    await app.setup()
    many = [asyncio.create_task(call(web, "GET", f"/busy/{number}")) for number in range(32)]
    other = asyncio.create_task(call(web, "GET", "/busy", client=("192.0.2.8", 1)))
    assert (await other).json == []
    assert busy.begun.index("other") < 4
    assert [answer.json["id"] for answer in await asyncio.gather(*many)] == [
        str(number) for number in range(32)
    ]
    await app.teardown()


async def test_streams_of_one_client_begin_in_turn():
    busy, app = Busy(), App()
    app.turns._now = lambda: busy.now
    web = express(app).configure(rest()).configure(sse()).use("busy", busy)
    begun = []

    def work(context):
        begun.append(context.params.ip)
        busy.now += 0.01

    web.service("busy").hooks(before={"find": [work]})
    await app.setup()
    headers = {"accept": "text/event-stream"}
    url = "/events?services=busy"
    many = [asyncio.create_task(call(web, "HEAD", url, headers=headers)) for _ in range(32)]
    other = asyncio.create_task(call(web, "HEAD", url, headers=headers, client=("192.0.2.8", 1)))
    await asyncio.gather(*many, other)
    assert begun.index("192.0.2.8") < 4
    await app.teardown()
