"""The primary is killed again and again while clients write through REST."""

from __future__ import annotations

import asyncio
import itertools
import time

import httpx2
import pytest
from tests.faults.serving import DATABASE, Site, site_on
from tests.waiting import eventually

pytestmark = pytest.mark.slow

CLIENTS = 6
KINDS = ("create", "push", "mark", "order")
SECONDS_TO_ANSWER = 20
SECONDS_TO_REFUSE = 8
"""Far more than the limits of the tests, and less than the one that operations have by default."""
SECONDS_TO_ELECT = 45
"""Far more than an election takes here: the machine may be busy with other things."""


class Writers:
    """Clients that create records, push to the record that they have created last, and mark it.

    Attributes:
        tried: What was ever sent, by kind.
        acknowledged: What was answered with success, by kind.
        marks: What each record may be marked with: the mark acknowledged last, and any tried since.
        statuses: The statuses that were answered.
        last: When the last success came.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.tokens = itertools.count()
        self.tried: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.acknowledged: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.marks: dict[str, set[int | None]] = {}
        self.statuses: set[int] = set()
        self.slowest = self.last = 0.0
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Write until `stop` is called; raises what is no answer at all."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(self._write())

    def stop(self) -> None:
        self._ended.set()

    async def _write(self) -> None:
        while not self._ended.is_set():
            made = await self._send("create", "POST", "/records", lambda token: {"token": token})
            if made is not None:
                path = f"/records/{made['_id']}"
                await self._send("push", "PATCH", path, lambda token: {"$push": {"list": token}})
                await self._mark(made["_id"], path)
            await self._send("order", "POST", "/orders", lambda token: {"token": token})
            await asyncio.sleep(0.01)

    async def _mark(self, id, path):
        """Set one field again and again. Patches of several clients at a time go together."""
        marks = self.marks.setdefault(id, {None})
        for _ in range(3):

            def data_of(token):
                marks.add(token)
                return {"mark": token}

            answer = await self._send("mark", "PATCH", path, data_of)
            if answer is not None:
                marks.clear()
                marks.add(answer["mark"])

    async def _send(self, kind, method, path, data_of):
        token = next(self.tokens)
        self.tried[kind].add(token)
        begun = time.monotonic()
        answer = await self.site.send(method, path, json=data_of(token))
        now = time.monotonic()
        self.slowest = max(self.slowest, now - begun)
        self.statuses.add(answer.status_code)
        if answer.status_code >= 300:
            return None
        self.acknowledged[kind].add(token)
        self.last = now
        return answer.json()


async def written(site: Site, writers: Writers) -> dict[str, list[int]]:
    """Return what is in the database, by kind, having looked at the marks."""
    database = site.mongo[DATABASE]
    records = await database.records.find().to_list()
    orders = await database.orders.find().to_list()
    for record in records:
        assert record.get("mark") in writers.marks.get(str(record["_id"]), {None})
    return {
        "create": [record["token"] for record in records],
        "push": [token for record in records for token in record.get("list", ())],
        "order": [order["token"] for order in orders],
    }


async def test_what_was_acknowledged_is_there_and_nothing_is_there_twice(replica_set, thorough):
    deaths = 30 if thorough else 3
    async with site_on(replica_set.url, SECONDS_TO_ANSWER) as site:
        writers = Writers(site)
        running = asyncio.ensure_future(writers.run())
        try:
            for _ in range(deaths):
                await asyncio.sleep(1)
                await replica_set.kill_primary()
                await answers_again(writers, running)
                await replica_set.heal()
            # Enough for a comparison, however slow the machine is.
            marks, updates = writers.acknowledged["mark"], site.watch.commands
            await eventually(lambda: len(marks) > updates["update"] > deaths)
            await eventually(lambda: min(map(len, writers.acknowledged.values())) > deaths)
        finally:
            writers.stop()
            await running
        found = await written(site, writers)
        shared = site.watch.commands["update"]
    for kind, tokens in found.items():
        assert len(tokens) == len(set(tokens)), f"{kind}: some are there twice"
        assert writers.acknowledged[kind] <= set(tokens) <= writers.tried[kind]
        assert len(writers.acknowledged[kind]) > deaths
    assert len(writers.acknowledged["mark"]) > shared > deaths, "no patches went together"
    assert writers.statuses <= {200, 201, 503}
    assert writers.slowest < SECONDS_TO_ANSWER


async def answers_again(writers: Writers, running: asyncio.Future[None]) -> None:
    """Wait until something succeeds that was acknowledged after the death of the primary."""
    begun = time.monotonic()
    while writers.last < begun + 0.2:  # what was under way may still be answered by others
        assert time.monotonic() - begun < SECONDS_TO_ELECT, "no write succeeded after the election"
        assert not running.done(), running
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("max_time_ms", "options", "several"),
    [
        (1_000, {}, True),
        # The driver itself repeats transactions for two minutes where there is no limit.
        (False, {"serverSelectionTimeoutMS": 500}, False),
    ],
    ids=["limit of operations", "limit of the client"],
)
async def test_all_are_stopped_and_come_back(replica_set, thorough, max_time_ms, options, several):
    limits = {"mongodb_max_time_ms": max_time_ms}
    for _ in range(5 if thorough else 1):
        async with site_on(replica_set.url, 10, settings=limits, **options) as site:
            made = (await site.send("POST", "/records", json={"n": 1})).json()
            path = f"/records/{made['_id']}"
            replica_set.kill()
            begun = time.monotonic()
            await every_method_is_refused(site, path, several)
            assert time.monotonic() - begun < SECONDS_TO_REFUSE
            await replica_set.heal()
            assert (await site.recovered("GET", path)).json() == made
            assert (await site.recovered("PATCH", path, json={"n": 2})).json()["n"] == 2
            assert (await site.recovered("POST", "/orders", json={})).status_code == 201


async def every_method_is_refused(site: Site, path: str, several: bool) -> None:
    """Ask for everything at once, while no server is there; also for several records."""
    requests = [
        site.send("GET", "/records"),
        site.send("GET", path),
        site.send("GET", path),
        site.send("POST", "/records", json={"n": 3}),
        site.send("POST", "/records", json={"n": 3}),
        site.send("PUT", path, json={"n": 3}),
        site.send("PATCH", path, json={"n": 3}),
        site.send("DELETE", path),
    ]
    if several:
        requests += [
            site.send("POST", "/records", json=[{"n": 3}, {"n": 3}]),
            site.send("PATCH", "/records?n=1", json={"n": 3}),
            site.send("DELETE", "/records?n=1"),
        ]
    answers = await asyncio.gather(*requests)
    assert [answer.status_code for answer in answers] == [503] * len(requests)
    messages = {answer.json()["message"] for answer in answers}
    assert messages == {"The database cannot be reached; try again later"}


async def test_a_silent_primary_holds_up_no_one(replica_set):
    limits = {"mongodb_max_time_ms": 1_000}
    async with site_on(replica_set.url, 8, settings=limits) as site:
        made = (await site.send("POST", "/records", json={"n": 1})).json()
        path = f"/records/{made['_id']}"
        async with replica_set.frozen_primary():
            calls = [site.send("GET", path), site.send("PATCH", path, json={"n": 2})]
            answers = await asyncio.gather(*calls, site.send("POST", "/records", json={"n": 3}))
            assert {answer.status_code for answer in answers} <= {408, 503}
        await replica_set.heal()
        assert (await site.recovered("GET", path)).status_code == 200
        assert (await site.recovered("PATCH", path, json={"n": 4})).json()["n"] == 4


async def test_a_client_that_hangs_up_leaves_nothing_behind(replica_set):
    async def take_long(context):
        await asyncio.sleep(1.5)

    async with site_on(replica_set.url, 10) as site:
        site.app.service("orders").hooks(after={"create": [take_long]})
        assert (await site.recovered("POST", "/orders", json={})).status_code == 201
        hasty = httpx2.AsyncClient(base_url=site.http.base_url, timeout=0.05, trust_env=False)
        async with hasty:
            for _ in range(10):
                with pytest.raises(httpx2.TimeoutException):
                    await hasty.post("/orders", json={})
        assert (await site.send("POST", "/orders", json={})).status_code == 201
        assert await open_transactions(site) == 0


async def open_transactions(site: Site) -> int:
    """Return how many are open, once those that are ending have ended."""
    end = time.monotonic() + 30
    while True:
        status = await site.mongo.admin.command("serverStatus")
        count = status["transactions"]["currentOpen"]
        if count == 0 or time.monotonic() > end:
            return count
        await asyncio.sleep(0.05)
