"""Transactions by hook, on a real server."""

from __future__ import annotations

import asyncio
import random
import time
from urllib.parse import urlsplit

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import AutoReconnect, OperationFailure
from tests.requirements import require_mongod

from alula import App
from alula.adapters._transactions import pause_before_retry
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService, transaction
from alula.errors import BadRequest, Conflict, NotFound, Timeout, Unavailable
from alula.local_mongodb import Mongod
from alula.query import ValidatedQuery


@pytest.fixture(scope="module")
async def database(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        yield client.transactions_of_hooks
        await client.drop_database("transactions_of_hooks")


@pytest.fixture
async def app(database):
    """A shop: orders take from the stock, in one transaction."""
    for name in ("orders", "stock"):
        await database[name].delete_many({})
    app = App()
    app.use("orders", MongoDBService(database.orders, paginate={"default": 2}, multi=True))
    app.use("stock", MongoDBService(database.stock))
    app.service("orders").hooks(around={"create": [transaction()], "patch": [transaction()]})
    await app.service("stock").create({"_id": "apples", "left": 5})
    return app


async def take(context):
    """A hook: take from the stock what is ordered."""
    changes = {"$inc": {"left": -context.data["count"]}}
    stock = context.app.service("stock")
    left = await stock.patch(context.data["what"], changes, docdb=context.params.docdb)
    if left["left"] < 0:
        raise BadRequest("There is not enough left")


async def left(database) -> int:
    return (await database.stock.find_one({"_id": "apples"}))["left"]


def order(count, what="apples"):
    return {"what": what, "count": count}


# -- all or nothing -------------------------------------------------------------------------------


async def test_what_a_call_does_and_what_it_calls_takes_effect_together(app, database):
    app.service("orders").hooks(before={"create": [take]})
    made = await app.service("orders").create(order(2))
    assert await database.orders.find_one({}) == made
    assert await left(database) == 3


@pytest.mark.parametrize("kind", ["before", "after"])
async def test_nothing_takes_effect_where_a_hook_refuses(app, database, kind):
    app.service("orders").hooks({kind: {"create": [take]}})
    with pytest.raises(BadRequest, match="not enough left"):
        await app.service("orders").create(order(6))
    assert await database.orders.count_documents({}) == 0
    assert await left(database) == 5


async def test_nothing_takes_effect_where_a_call_inside_fails(app, database):
    app.service("orders").hooks(after={"create": [take]})
    with pytest.raises(NotFound):
        await app.service("orders").create(order(1, "pears"))
    assert await database.orders.count_documents({}) == 0


async def test_nothing_takes_effect_where_the_call_is_cancelled(app, database):
    reached = asyncio.Event()

    async def wait(context):
        reached.set()
        await asyncio.sleep(60)

    app.service("orders").hooks(after={"create": [take, wait]})
    call = asyncio.ensure_future(app.service("orders").create(order(1)))
    await reached.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await database.orders.count_documents({}) == 0
    assert await left(database) == 5


async def test_nobody_sees_it_before_the_commit_but_the_call_itself(app, database):
    seen = {}

    async def look(context):
        orders = context.app.service("orders")
        seen["inside"] = (await orders.find(docdb=context.params.docdb))["total"]
        seen["outside"] = (await orders.find())["total"]

    app.service("orders").hooks(after={"create": [look]})
    await app.service("orders").create([order(1), order(1), order(1)])
    assert seen == {"inside": 3, "outside": 0}


async def test_calls_that_change_several_records_take_part(app, database):
    await database.orders.insert_many([order(1), order(2)])

    async def refuse(context):
        assert [each["count"] for each in context.result] == [9, 9]
        raise BadRequest("no")

    app.service("orders").hooks(after={"patch": [refuse]})
    with pytest.raises(BadRequest):
        await app.service("orders").patch(None, {"count": 9})
    assert await database.orders.distinct("count") == [1, 2]


async def test_every_method_takes_part(app, database):
    orders = app.service("orders")
    await database.orders.insert_many([{"_id": n, "count": n} for n in range(4)])
    async with database.client.start_session() as session:
        docdb = {"session": session}
        transaction = await session.start_transaction()
        async with transaction:
            await orders.create({"_id": 4, "count": 4}, docdb=docdb)
            await orders.create([{"_id": 5}, {"_id": 6}], docdb=docdb)
            await orders.update(0, {"count": 10}, docdb=docdb)
            await orders.patch(1, {"count": 11}, docdb=docdb)
            await orders.patch(None, {"x": 1}, query={"count": {"$in": [2, 4]}}, docdb=docdb)
            await orders.remove(3, docdb=docdb)
            await orders.remove(None, query={"_id": {"$in": [5, 6]}}, docdb=docdb)
            found = await orders.find(query={"$sort": {"_id": 1}}, paginate=False, docdb=docdb)
            assert await orders.get(4, docdb=docdb) == {"_id": 4, "count": 4, "x": 1}
            await session.abort_transaction()
    assert [each.get("count") for each in found] == [10, 11, 2, 4]
    kept = await database.orders.find().sort("_id").to_list()
    assert kept == [{"_id": n, "count": n} for n in range(4)]


# -- sessions -------------------------------------------------------------------------------------


async def test_the_session_is_there_inside_and_gone_afterwards(app, database):
    inside, after = [], []

    async def around(context, next):
        try:
            await next()
        finally:
            after.append(context.params.docdb)

    async def look(context):
        inside.append(context.params.docdb)

    app.hooks(around=[around])
    app.service("orders").hooks(before={"create": [look]}, after={"create": [refuse_3]})
    given = {"comment": "mine"}
    await app.service("orders").create(order(1), docdb=given)
    with pytest.raises(BadRequest):
        await app.service("orders").create(order(3))
    assert (given, after) == ({"comment": "mine"}, [given, None])
    assert [docdb.keys() for docdb in inside] == [{"comment", "session"}, {"session"}]
    assert all(docdb["session"].has_ended for docdb in inside)


async def test_a_transaction_within_another_joins_it(app, database):
    sessions = []

    async def remember(context):
        sessions.append(context.params.docdb["session"])

    app.service("stock").hooks(around={"patch": [transaction()]}, before={"patch": [remember]})
    app.service("orders").hooks(before={"create": [remember, take]}, after={"create": [refuse_3]})
    with pytest.raises(BadRequest):
        await app.service("orders").create(order(3))
    assert await left(database) == 5
    await app.service("orders").create(order(2))
    assert await left(database) == 3
    assert [sessions[0], sessions[2]] == [sessions[1], sessions[3]]
    assert len(set(sessions)) == 2


async def refuse_3(context):
    if context.data["count"] == 3:
        raise BadRequest("no")


async def test_a_transaction_of_the_caller_is_joined(app, database):
    async with database.client.start_session() as session, await session.start_transaction():
        await app.service("orders").create(order(1), docdb={"session": session})
        assert await database.orders.count_documents({}) == 0
    assert await database.orders.count_documents({}) == 1


async def test_a_session_of_the_caller_is_used_and_stays_open(app, database):
    async with database.client.start_session() as session:
        for expected in (1, 2):
            await app.service("orders").create(order(1), docdb={"session": session})
            assert await database.orders.count_documents({}) == expected
        assert not session.has_ended
        assert not session.in_transaction


async def test_what_ends_the_transaction_itself_has_the_last_word(app, database):
    async def abort(context):
        await context.params.docdb["session"].abort_transaction()

    async def abort_and_fail(context):
        await abort(context)
        raise BadRequest("no")

    app.service("orders").hooks(after={"create": [abort]}, before={"patch": [abort_and_fail]})
    await app.service("orders").create(order(1))
    assert await database.orders.count_documents({}) == 0
    with pytest.raises(BadRequest):
        await app.service("orders").patch(None, {"count": 1})


async def test_a_service_of_another_kind_names_the_client(app, database):
    class Shop:
        async def create(self, data, params):
            await app.service("orders").create(data, docdb=params.docdb)
            await app.service("stock").patch(data["what"], {"left": -1}, docdb=params.docdb)

    app.use("shop", Shop())
    shop = app.service("shop").hooks(around={"create": [transaction(database.client)]})
    with pytest.raises(NotFound):
        await shop.create(order(1, "pears"))
    assert await database.orders.count_documents({}) == 0
    await shop.create(order(1))
    assert await left(database) == -1


# -- what begins anew -----------------------------------------------------------------------------


async def test_calls_that_hinder_each_other_all_succeed_in_the_end(app, database):
    """Each reads and then writes, so one of two at a time loses against the other."""
    attempts = 0

    async def read_and_write(context):
        nonlocal attempts
        attempts += 1
        stock, docdb = context.app.service("stock"), context.params.docdb
        found = await stock.get("apples", docdb=docdb)
        await asyncio.sleep(0.02)
        await stock.patch("apples", {"left": found["left"] - 1}, docdb=docdb)

    app.service("orders").hooks(before={"create": [read_and_write]})
    await asyncio.gather(*(app.service("orders").create(order(1)) for _ in range(4)))
    assert await left(database) == 1
    assert await database.orders.count_documents({}) == 4
    assert attempts > 4


class Losing:
    """A hook that loses against another write, so many times."""

    def __init__(self, database, times) -> None:
        self.database, self.times, self.tried = database, times, 0

    async def __call__(self, context):
        self.tried += 1
        docdb = context.params.docdb
        await context.app.service("stock").get("apples", docdb=docdb)
        if self.tried <= self.times:
            await self.database.stock.update_one({"_id": "apples"}, {"$inc": {"other": 1}})
        await context.app.service("stock").patch("apples", {"last": self.tried}, docdb=docdb)


async def test_a_call_begins_anew_with_what_it_began_with(app, database):
    seen = []

    def change(context):
        """What hooks may do to a call, and must not find done by an earlier attempt."""
        params = context.params
        seen.append(f"{context.id} {context.data} {params.query} {params.user} {context.event}")
        assert context.http == {}
        context.data["tags"].append("x")
        params.query["count"]["$in"].append(7)
        params.user, context.event = "other", None
        context.http["status"] = 202

    losing = Losing(database, 2)
    made = await app.service("orders").create({**order(1), "tags": []})
    app.service("orders").hooks(before={"patch": [change, losing]})
    events = []
    app.service("orders").on("patched", lambda *_: events.append(1))
    changed = await app.service("orders").patch(
        made["_id"], {"tags": []}, query={"count": {"$in": [1]}}, user="acme"
    )
    assert losing.tried == 3
    assert seen == [f"{made['_id']} {{'tags': []}} {{'count': {{'$in': [1]}}}} acme patched"] * 3
    assert changed["tags"] == ["x"]
    assert await database.orders.find_one({}) == changed
    assert (await database.stock.find_one({}))["last"] == 3
    assert events == []


async def test_a_query_that_was_checked_stays_so_when_its_call_begins_anew(app, database):
    query = ValidatedQuery({"what": {"$regex": "^a"}}, operators=["$regex"], filters=[])

    async def check(context, next):
        context.params.query = query
        await next()

    made = await app.service("orders").create(order(1))
    losing, service = Losing(database, 1), MongoDBService(database.orders)
    app.use("checked", service).service("checked").hooks(
        around={"patch": [check, transaction()]}, before={"patch": [losing]}
    )
    changed = await app.service("checked").patch(made["_id"], {"count": 2}, provider="rest")
    assert losing.tried == 2
    assert changed == {**made, "count": 2}


async def test_events_of_calls_inside_come_after_the_commit(app, database):
    heard = []

    async def listen(name, record):
        there = await database.orders.count_documents({})
        heard.append((name, record.get("left", record.get("count")), there))

    app.service("stock").on("patched", lambda record, _: listen("stock", record))
    app.service("orders").on("created", lambda record, _: listen("orders", record))
    app.service("orders").hooks(after={"create": [Losing(database, 2), take]})
    await app.service("orders").create(order(2))
    await app.service("stock").wait_for_listeners()
    await app.service("orders").wait_for_listeners()
    # One attempt of three is heard of; the first patch of the stock is the rival's own.
    assert sorted(heard) == [("orders", 2, 1), ("stock", 3, 1), ("stock", 5, 1)]


async def test_events_of_calls_inside_are_not_heard_where_nothing_took_effect(app, database):
    heard = []

    def apart(context):
        """Something that is no part of the transaction, and a call that a hook answers."""
        context.params = {**context.params, "seen": True}

    async def note(context):
        await context.app.service("notes").create({"id": 1})

    app.use("notes", MemoryService())
    app.service("notes").hooks(before={"create": [apart]})
    app.service("notes").on("created", lambda record, _: heard.append("note"))
    app.service("stock").on("patched", lambda record, _: heard.append(record["left"]))
    app.service("orders").hooks(before={"create": [note]}, after={"create": [take]})
    with pytest.raises(BadRequest, match="not enough left"):
        await app.service("orders").create(order(6))
    assert heard == ["note"]
    await app.service("stock").patch("apples", {"left": 1})
    assert heard == ["note", 1]


async def test_a_call_that_a_hook_answers_may_have_a_mapping_for_params(app, database):
    heard = []

    def answer(context):
        context.params = {**context.params}
        context.result = {"left": 0}

    app.service("stock").hooks(before={"patch": [answer]})
    app.service("stock").on("patched", lambda record, _: heard.append(record["left"]))
    app.service("orders").hooks(before={"create": [take]})
    await app.service("orders").create(order(1))
    assert heard == [0]


async def test_what_a_hook_within_puts_in_the_place_of_the_params_hides_no_error(app, database):
    def replace(context):
        context.params = {**context.params}
        raise BadRequest("not like this")

    app.service("orders").hooks(before={"create": [replace]})
    with pytest.raises(BadRequest, match="not like this"):
        await app.service("orders").create(order(1))


async def test_it_gives_up_in_time(app, database):
    app.service("stock").hooks(around={"create": [transaction(seconds=0)]})
    losing = Losing(database, 10**6)
    app.service("stock").hooks(after={"create": [losing]})
    with pytest.raises(Conflict, match="Another write changed the same record"):
        await app.service("stock").create({"_id": "pears"})
    assert losing.tried == 1
    assert await database.stock.count_documents({}) == 1


def test_it_waits_longer_each_time_within_a_bound(monkeypatch):
    monkeypatch.setattr(random, "random", lambda: 1.0)
    assert [pause_before_retry(tried) for tried in range(3)] == pytest.approx(
        [0.005, 0.0075, 0.01125]
    )
    assert [pause_before_retry(tried) for tried in (11, 12, 1000)] == [
        pytest.approx(0.4324878),
        0.5,
        0.5,
    ]
    monkeypatch.setattr(random, "random", lambda: 0.0)
    assert pause_before_retry(3) == 0


async def test_what_hides_the_drivers_error_does_not_hide_the_conflict(app, database):
    losing = Losing(database, 1)

    async def hide(context):
        try:
            await losing(context)
        except Conflict:
            raise BadRequest("no") from None

    app.service("orders").hooks(before={"create": [hide]})
    await app.service("orders").create(order(1))
    assert losing.tried == 2


# -- commits --------------------------------------------------------------------------------------


class Commits:
    """Stands before the session's commit: carries it out or not, and then fails as told."""

    def __init__(self, monkeypatch, *failures) -> None:
        self.failures, self.count = list(failures), 0
        real = AsyncClientSession.commit_transaction

        async def commit(session):
            self.count += 1
            if not self.failures:
                return await real(session)
            carried_out, error = self.failures.pop(0)
            await (real(session) if carried_out else session.abort_transaction())
            raise error

        monkeypatch.setattr(AsyncClientSession, "commit_transaction", commit)


def labelled(error, *labels):
    for label in labels:
        error._add_error_label(label)
    return error


UNKNOWN, TRANSIENT = "UnknownTransactionCommitResult", "TransientTransactionError"


async def test_a_call_that_was_cancelled_is_not_retried_whatever_it_raises(app, database):
    begun, attempts = asyncio.Event(), []

    async def hang(context):
        attempts.append(context)
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:  # as the driver does it now and then
            raise labelled(AutoReconnect("gone"), TRANSIENT) from None

    app.service("orders").hooks(before={"create": [hang]})
    call = asyncio.ensure_future(app.service("orders").create(order(1)))
    await begun.wait()
    call.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(AutoReconnect):
            await call
    assert len(attempts) == 1


async def test_a_commit_whose_outcome_is_unknown_is_repeated(app, database, monkeypatch):
    away = labelled(AutoReconnect("gone"), UNKNOWN)
    commits = Commits(monkeypatch, (True, away), (True, away))
    app.service("orders").hooks(before={"create": [take]})
    await app.service("orders").create(order(1))
    assert commits.count == 3
    assert await database.orders.count_documents({}) == 1
    assert await left(database) == 4


async def test_a_commit_that_failed_for_the_time_being_begins_anew(app, database, monkeypatch):
    gone = OperationFailure("NoSuchTransaction", 251)
    commits = Commits(monkeypatch, (False, labelled(gone, TRANSIENT)))
    app.service("orders").hooks(before={"create": [take]})
    await app.service("orders").create(order(1))
    assert commits.count == 2
    assert await database.orders.count_documents({}) == 1
    assert await left(database) == 4


@pytest.mark.parametrize(
    ("error", "labels", "expected"),
    [
        (OperationFailure("over time", 50), [UNKNOWN], Timeout),
        (AutoReconnect("gone"), [], Unavailable),
    ],
)
async def test_other_failures_of_the_commit_are_raised(app, monkeypatch, error, labels, expected):
    commits = Commits(monkeypatch, (True, labelled(error, *labels)))
    with pytest.raises(expected):
        await app.service("orders").create(order(1))
    assert commits.count == 1


async def test_an_unknown_outcome_is_asked_for_in_time_only(app, monkeypatch):
    away = labelled(AutoReconnect("gone"), UNKNOWN)
    commits = Commits(monkeypatch, *[(True, away)] * 9)
    app.service("stock").hooks(around={"create": [transaction(seconds=0)]})
    with pytest.raises(Unavailable):
        await app.service("stock").create({"_id": "pears"})
    assert commits.count == 1


# -- a server that falls silent -------------------------------------------------------------------


class Silencer:
    """Passes on what a client and the server say, until it falls silent."""

    def __init__(self, url: str) -> None:
        self._host, self._port = urlsplit(url).hostname, urlsplit(url).port
        self._tasks: list[asyncio.Task[None]] = []
        self.speaks = asyncio.Event()
        self.speaks.set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        return self

    async def __aexit__(self, *error):
        await self.hang_up()

    async def hang_up(self):
        """End all connections; what was held back is never said."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _join(self, reader, writer):
        self._tasks.append(asyncio.create_task(self._connect(reader, writer)))

    async def _connect(self, reader, writer):
        there, back = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        finally:
            writer.close()
            back.close()

    async def _pass(self, reader, writer):
        while data := await reader.read(65_536):
            await self.speaks.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


@pytest.fixture
async def silencer(mongodb_url):
    async with Silencer(mongodb_url) as silencer:
        yield silencer


def shop(client, **options):
    app = App()
    app.use("orders", MongoDBService(client.transactions_of_hooks.orders, multi=True, **options))
    return app.service("orders")


@pytest.mark.parametrize(
    ("kind", "seconds", "options", "refuses"),
    [
        ("before", 1.5, {"max_time_ms": 2_000}, False),
        ("after", 1.5, {"max_time_ms": 2_000}, False),
        ("after", 1.5, {"max_time_ms": 2_000}, True),
        ("after", 1.5, {}, False),
        ("after", 1.5, {}, True),
    ],
)
async def test_a_server_that_falls_silent_holds_nobody_up(
    app, database, silencer, kind, seconds, options, refuses
):
    """In the call, at the commit, or at the abort."""

    sessions = []

    async def hush(context):
        sessions.append(context.params.docdb["session"].session_id)
        silencer.speaks.clear()
        if refuses:
            raise BadRequest("the reason")

    async with AsyncMongoClient(silencer.url) as client:
        orders = shop(client, **options)
        await client.admin.command("ping")  # connecting may take longer than the limit
        orders.hooks(around={"create": [transaction(seconds=seconds)]})
        orders.hooks({kind: {"create": [hush]}})
        begun = time.monotonic()
        with pytest.raises(BadRequest if refuses else (Timeout, Unavailable)):
            await orders.create(order(1))
        assert time.monotonic() - begun < 8
        await silencer.hang_up()
        # The server has not heard of the end, and would wait a minute for more.
        await database.client.admin.command("killSessions", sessions)


async def test_an_abort_that_fails_leaves_the_error_of_the_call(app, monkeypatch, caplog):
    real = AsyncClientSession.abort_transaction

    async def fail(session):
        await real(session)
        raise RuntimeError("no abort")

    monkeypatch.setattr(AsyncClientSession, "abort_transaction", fail)
    app.service("orders").hooks(after={"create": [take]})
    with pytest.raises(BadRequest, match="not enough left"):
        await app.service("orders").create(order(6))
    assert "a transaction could not be aborted" in caplog.text


# -- what it needs --------------------------------------------------------------------------------


async def test_the_error_of_a_standalone_server_advises_a_replica_set(tmp_path):
    require_mongod()
    server = Mongod(tmp_path)
    await server.start()
    async with AsyncMongoClient("127.0.0.1", server.port) as client:
        app = App()
        app.use("orders", MongoDBService(client.shop.orders))
        await app.service("orders").create(order(1))
        app.service("orders").hooks(around=[transaction()])
        with pytest.raises(RuntimeError, match=r"no transactions, .* replica set;.*rs"):
            await app.service("orders").create(order(1))
        assert await client.shop.orders.count_documents({}) == 1
    server.kill()


async def test_another_failure_of_that_kind_is_raised_unchanged(app):
    async def fail(context):
        raise OperationFailure("not in this way", 20)

    app.service("orders").hooks(before={"create": [fail]})
    with pytest.raises(OperationFailure, match="not in this way"):
        await app.service("orders").create(order(1))


async def test_a_server_that_is_away_is_asked_again_until_the_time_is_over(app, database):
    tried = []

    async def away(context):
        tried.append(time.monotonic())
        cause = labelled(AutoReconnect("gone"), TRANSIENT)
        raise Unavailable("The database cannot be reached") from cause

    app.service("stock").hooks(around={"create": [transaction(seconds=2)]})
    app.service("stock").hooks(after={"create": [away]})
    with pytest.raises(Unavailable):
        await app.service("stock").create({"_id": "pears"})
    assert len(tried) > 2
    assert 0 < tried[-1] - tried[0] < 10
    assert await database.stock.count_documents({}) == 1


async def test_the_error_of_a_service_without_a_client_shows_how_to_name_one():
    app = App()
    app.use("notes", MemoryService())
    app.service("notes").hooks(around=[transaction()])
    with pytest.raises(
        RuntimeError, match=r"around 'notes', .* not a MongoDBService.*tion\(client\)"
    ):
        await app.service("notes").create({})


def test_an_invalid_client_is_an_error_at_once():
    with pytest.raises(TypeError, match=r"transaction\(\) takes an AsyncMongoClient, not 'client'"):
        transaction("client")


@pytest.mark.parametrize("options", [{"reads": 1}, {"max_commit_time_ms": "long"}])
def test_wrong_options_are_errors_at_once(options):
    with pytest.raises(TypeError):
        transaction(**options)


async def test_options_reach_the_transaction(app):
    seen = []

    async def look(context):
        seen.append(context.params.docdb["session"]._transaction.opts.max_commit_time_ms)

    around = transaction(max_commit_time_ms=1234)
    app.service("stock").hooks(around={"create": [around]}, before={"create": [look]})
    await app.service("stock").create({"_id": "pears"})
    assert seen == [1234]
