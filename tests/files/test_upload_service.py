"""Records of uploads: together with their content, or not at all."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from functools import partial
from hashlib import sha256

import pytest
from bson import ObjectId
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient
from sqlalchemy import BigInteger, Column, DateTime, Integer, MetaData, Table, Text
from tests.express.asgi_client import call, post_json
from tests.files.forms import (
    FORM,
    PNG,
    application,
    field_part,
    file_part,
    files_below,
    form,
    part,
    pieces_of,
    post_form,
)

from alula import App, Params
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.errors import (
    BadRequest,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    Unavailable,
    UnsupportedMediaType,
)
from alula.express import error_handler, express, json, rest
from alula.files import LocalFileStore, UploadService, multipart
from alula.outgoing import RedactedRecord
from alula.schema import with_schema

HELLO = sha256(b"hello").hexdigest()
CONTENT = {"name": "a.txt", "type": "text/plain", "content": b"hello"}


class Records(MemoryService):
    """Records that can fail, or let something else run first."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first = {}

    async def create(self, data, params):
        await self._run_first("create")
        return await super().create(data, params)

    async def find(self, params):
        await self._run_first("find")
        return await super().find(params)

    async def _run_first(self, method):
        if (function := self.first.pop(method, None)) is not None:
            await function()


@pytest.fixture
def records():
    return Records(multi=True)


@pytest.fixture
def service(tmp_path, records):
    return UploadService(LocalFileStore(tmp_path), records, fields=["title"])


@pytest.fixture
def app(tmp_path, service):
    return application(tmp_path, service=service)


def stored(folder):
    return [path for path in files_below(folder) if path.startswith("content")]


async def test_a_form_becomes_a_record(app, tmp_path):
    answer = await post_form(app, file_part(PNG, "ä.png", "image/png"), field_part("title", "Me"))
    assert answer.status == 201
    record = answer.json
    assert record.pop("createdAt").startswith("20")
    assert files_below(tmp_path) == [f"content/{record.pop('contentKey')}"]
    assert record == {
        "id": 0,
        "name": "ä.png",
        "type": "image/png",
        "size": len(PNG),
        "sha256": sha256(PNG).hexdigest(),
        "title": "Me",
    }
    assert len(files_below(tmp_path)) == 1
    assert (await call(app, "GET", "/uploads/0")).json["name"] == "ä.png"
    assert len((await call(app, "GET", "/uploads?type=image/png")).json) == 1


async def test_several_files_become_several_records(app, tmp_path):
    events = []
    app.service("uploads").on("created", lambda record, context: events.append(record["name"]))
    answer = await post_form(app, *(file_part(b"%d" % n, f"{n}.txt") for n in range(3)))
    assert [record["name"] for record in answer.json] == ["0.txt", "1.txt", "2.txt"]
    assert events == ["0.txt", "1.txt", "2.txt"]
    assert len(files_below(tmp_path)) == 3


async def test_hooks_run_before_anything_is_read(app, tmp_path):
    @app.service("uploads").before("create")
    async def refuse(context):
        raise NotAuthenticated("Sign in")

    async def receive():
        raise AssertionError

    sent = []

    async def send(message):
        sent.append(message)

    from tests.express.asgi_client import scope_of

    await app(scope_of("POST", "/uploads", {**FORM, "content-length": "999"}), receive, send)
    assert sent[0]["status"] == 401
    assert files_below(tmp_path) == []


async def test_what_hooks_add_goes_into_the_record_and_wins(app):
    @app.service("uploads").before("create")
    async def own(context):
        facts = {"size": -1, "sha256": "x", "contentKey": "x"}
        context.data = {**context.data, "ownerId": 7, "title": "ours", **facts}

    record = (await post_form(app, file_part(b"hello"), field_part("title", "theirs"))).json
    assert (record["ownerId"], record["title"]) == (7, "ours")
    assert (record["size"], record["sha256"]) == (5, HELLO)
    assert (await call(app, "GET", "/uploads/0/content")).body == b"hello"


class TestSelect:
    async def test_of_new_records(self, app):
        answer = await post_form(app, file_part(b"hello"), url="/uploads?$select[]=name")
        assert (answer.status, answer.json) == (201, {"id": 0, "name": "a.txt"})
        files = [file_part(b"%d" % n, f"{n}.txt") for n in range(2)]
        answer = await post_form(app, *files, url="/uploads?$select[]=size")
        assert answer.json == [{"id": 1, "size": 1}, {"id": 2, "size": 1}]

    @pytest.mark.parametrize("names", [["name"], ["contentKey", "name"], ["id"]])
    async def test_of_what_is_removed(self, app, tmp_path, names):
        uploads = app.service("uploads")
        record = await uploads.create({**CONTENT})
        url = "/uploads/0?" + "&".join(f"$select[]={name}" for name in names)
        answer = await call(app, "DELETE", url)
        assert answer.json == {"id": 0, **{name: record[name] for name in names}}
        assert files_below(tmp_path) == []

    async def test_of_several_that_are_removed(self, app, tmp_path):
        uploads, query = app.service("uploads"), {"$select": ["name"]}
        for content in (b"a", b"b"):
            await uploads.create({**CONTENT, "content": content})
        removed = await uploads.remove(None, query=query)
        assert removed == [{"id": n, "name": "a.txt"} for n in range(2)]
        assert (query, files_below(tmp_path)) == ({"$select": ["name"]}, [])

    async def test_what_is_hidden_stays_hidden(self, tmp_path):
        class Redacting(MemoryService):
            async def remove(self, id, params):
                record = await super().remove(id, params)
                return RedactedRecord(
                    record, {"id": record["id"], "contentKey": record["contentKey"]}
                )

        service = UploadService(LocalFileStore(tmp_path), Redacting())
        uploads = application(tmp_path, service=service).service("uploads")
        await uploads.create({**CONTENT})
        removed = await uploads.remove(0, query={"$select": ["name"]})
        assert (dict(removed), removed.public) == ({"id": 0, "name": "a.txt"}, {"id": 0})

    @pytest.mark.parametrize("query", ["$select[a]=b", "$select[]=$x"])
    async def test_a_wrong_one_is_refused_before_anything_happens(self, app, tmp_path, query):
        answer = await post_form(app, file_part(b"hello"), url=f"/uploads?{query}")
        assert answer.status == 400
        assert files_below(tmp_path) == []
        await app.service("uploads").create({**CONTENT})
        assert (await call(app, "DELETE", f"/uploads/0?{query}")).status == 400
        assert len(stored(tmp_path)) == 1


class Picture(BaseModel):
    """A record of uploads."""

    id: int
    name: str = Field(max_length=20)
    type: str
    size: int
    sha256: str
    created_at: datetime = Field(alias="createdAt")
    content_key: str = Field(alias="contentKey")
    title: str = Field("Untitled", max_length=10)
    stars: int | None = Field(None, le=5)
    owner_id: int = Field(alias="ownerId")


TEXTS = ("name", "type", "sha256", "contentKey")
PICTURE = {
    "properties": {
        "id": {"type": "integer"},
        **{key: {"type": "string", "maxLength": 64} for key in TEXTS},
        "size": {"type": "integer"},
        "createdAt": {"type": "string", "date": True},
        "title": {"type": "string", "default": "Untitled", "maxLength": 10},
        "stars": {"anyOf": [{"type": "string", "pattern": "^[0-5]$"}, {"type": "null"}]},
        "ownerId": {"type": "integer"},
    },
    "required": ["id", *TEXTS, "size", "createdAt", "ownerId"],
}


class TestSchema:
    @pytest.fixture(params=["pydantic", "json"])
    def model(self, request):
        return Picture if request.param == "pydantic" else PICTURE

    @pytest.fixture
    def app(self, tmp_path, records, model):
        service = UploadService(LocalFileStore(tmp_path), records, fields=["title", "stars"])
        app = application(tmp_path, service=with_schema(service, model))

        @app.service("uploads").around("create")
        async def own(context, next):
            context.data = {**context.data, "ownerId": 7}
            await next()

        return app

    async def test_the_whole_record_is_checked(self, app, tmp_path, model):
        fields = field_part("title", "Me"), field_part("stars", "5")
        record = (await post_form(app, file_part(b"hello"), *fields)).json
        assert (record["title"], record["ownerId"], record["sha256"]) == ("Me", 7, HELLO)
        assert record["stars"] == (5 if model is Picture else "5")
        assert (await post_form(app, file_part(b"other"))).json["title"] == "Untitled"
        stored = await app.service("uploads").get(0)
        assert type(stored["createdAt"]) is datetime
        assert (await call(app, "GET", "/uploads/0/content")).body == b"hello"

    @pytest.mark.parametrize("field", [("title", "too long for it"), ("stars", "6")])
    async def test_what_does_not_fit_is_refused(self, app, tmp_path, records, field):
        answer = await post_form(app, file_part(b"a"), file_part(b"b"), field_part(*field))
        assert (answer.status, field[0] in answer.text) == (400, True)
        assert (files_below(tmp_path), await records.find(Params())) == ([], [])

    async def test_what_hooks_add_has_to_fit(self, app, tmp_path):
        @app.service("uploads").before("create")
        async def disown(context):
            context.data = {**context.data, "ownerId": "nobody"}

        answer = await post_form(app, file_part(b"a"))
        assert (answer.status, "ownerId" in answer.text) == (400, True)
        assert files_below(tmp_path) == []

    async def test_other_methods_are_checked_as_ever(self, app):
        await post_form(app, file_part(b"hello"))
        uploads = app.service("uploads")
        with pytest.raises(BadRequest):
            await uploads.patch(0, {"title": "too long for it"})
        assert (await uploads.patch(0, {"title": "Me"}))["title"] == "Me"
        assert len((await call(app, "GET", "/uploads?size=5&title=Me")).json) == 1
        assert (await call(app, "GET", "/uploads?other=5")).status == 400
        removed = await call(app, "DELETE", "/uploads/0?$select[]=title")
        assert removed.json == {"id": 0, "title": "Me"}

    async def test_the_program_is_checked_too(self, app, tmp_path):
        uploads = app.service("uploads")
        assert (await uploads.create({**CONTENT, "title": "Me"}))["title"] == "Me"
        with pytest.raises(BadRequest):
            await uploads.create({**CONTENT, "title": "too long for it"})
        assert len(files_below(tmp_path)) == 1

    async def test_the_given_service_is_not_changed(self, service):
        bundle = with_schema(service, PICTURE)
        assert (bundle.service is service, bundle.service.store) == (False, service.store)
        assert await service._check_record({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("of", ["memory", "mongodb"])
async def test_it_says_what_its_records_are(service, tmp_path, of):
    if of == "mongodb":
        records = MongoDBService(AsyncMongoClient(connect=False)["a"]["b"])
        service = UploadService(LocalFileStore(tmp_path), records)
        assert service.record_schema["properties"]["_id"] == {"type": "string"}
        return
    schema = service.record_schema
    uploads = application(tmp_path, service=with_schema(service, schema)).service("uploads")
    record = await uploads.create({**CONTENT, "title": "Me", "ownerId": 7})
    assert record.keys() == {*schema["properties"], "ownerId"}
    facts = ["name", "type", "size", "sha256", "createdAt", "contentKey"]
    assert schema["required"] == ["id", *facts]


@pytest.mark.parametrize("takes_uploads", [True, False])
async def test_multipart_behind_rest_has_no_effect_and_says_so(tmp_path, takes_uploads):
    app = express(App()).use(json()).configure(rest()).use(multipart())
    service = UploadService(LocalFileStore(tmp_path), MemoryService())
    app.use("uploads", service if takes_uploads else MemoryService())
    app.use(error_handler(logger=False))
    answer = await post_form(app, file_part(b"hello"))
    expected = "register multipart() before rest()" if takes_uploads else "send application/json"
    assert (answer.status, expected in answer.json["message"]) == (415, True)
    answer = await call(app, "POST", "/uploads", b"hello", {"content-type": "text/plain"})
    expected = "send multipart/form-data" if takes_uploads else "send application/json"
    assert (answer.status, expected in answer.json["message"]) == (415, True)


REFUSED = {
    "no file": ([field_part("title", "x")], 400, "has no file"),
    "nothing": ([], 400, "has no file"),
    "unknown field": ([file_part(b"x"), field_part("ownerId", "1")], 400, "'ownerId' is not known"),
    "field twice": ([field_part("title", "x")] * 2, 400, "there twice"),
    "lies": ([file_part(b"a", "a.txt"), file_part(PNG, "b", "text/plain")], 415, "another type"),
    "path": ([file_part(b"a"), file_part(b"b", "../..")], 400, "not the name of a file"),
    "too large": ([file_part(b"a"), file_part(b"b" * 11_000_000)], 413, "too large"),
    "broken head": ([file_part(b"a"), part(b"x", "X: y")], 400, "no name"),
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_what_is_refused_leaves_nothing(app, tmp_path, records, kind):
    parts, status, message = REFUSED[kind]
    answer = await post_form(app, *parts)
    assert (answer.status, message in answer.json["message"]) == (status, True), answer.text
    assert files_below(tmp_path) == []
    assert await records.find(Params()) == []


@pytest.mark.parametrize("cut", [1, 60, 200, 400])
async def test_a_client_that_goes_away_leaves_nothing(app, tmp_path, cut):
    body = form(file_part(b"a" * 100), file_part(b"b" * 200))
    answer = await call(app, "POST", "/uploads", [body[:cut]], FORM, leaves=True)
    assert answer.status == 400
    assert files_below(tmp_path) == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        [{"content": "x"}],
        {"upload": {"a": 1}},
        {"upload": "x"},
        {**CONTENT, "content": "hello"},
    ],
)
async def test_clients_send_forms(app, data, tmp_path):
    answer = await post_json(app, data, "/uploads")
    assert (answer.status, "multipart/form-data" in answer.json["message"]) == (415, True)
    with pytest.raises(UnsupportedMediaType):  # such as over socket.io, which has bytes
        await app.service("uploads").create({**CONTENT}, provider="socketio")
    assert files_below(tmp_path) == []


async def test_the_program_passes_content(app):
    uploads = app.service("uploads")
    record = await uploads.create({**CONTENT, "ownerId": 7})
    assert (record["name"], record["size"], record["ownerId"]) == ("a.txt", 5, 7)
    record = await uploads.create({"name": "b", "content": pieces_of(b"hel", b"lo")})
    assert (record["type"], record["sha256"]) == ("application/octet-stream", HELLO)
    assert (await uploads.create({"name": "c", "content": bytearray(b"x")}))["size"] == 1


@pytest.mark.parametrize(
    "change", [{"name": None}, {"name": "a/b"}, {"type": "text"}, {"type": 5}, {"content": "text"}]
)
async def test_content_that_is_not_valid(app, change, tmp_path):
    with pytest.raises(BadRequest):
        await app.service("uploads").create({**CONTENT, **change})
    assert files_below(tmp_path) == []


async def test_equal_files_are_kept_apart(app, tmp_path):
    uploads = app.service("uploads")
    first, second = [await uploads.create({**CONTENT}) for _ in range(2)]
    assert len(files_below(tmp_path)) == 2
    await uploads.remove(first["id"])
    assert files_below(tmp_path) == [f"content/{second['contentKey']}"]
    await uploads.remove(second["id"])
    assert files_below(tmp_path) == []


async def test_an_upload_flushes_twice(app, monkeypatch):
    uploads, flushed = app.service("uploads"), []
    await uploads.create({**CONTENT})  # it makes the folders
    monkeypatch.setattr(os, "fsync", flushed.append)
    await uploads.create({**CONTENT})
    assert len(flushed) == 2


async def test_several_are_removed_at_once(app, tmp_path):
    uploads = app.service("uploads")
    for content in (b"a", b"b", b"a"):
        await uploads.create({**CONTENT, "content": content})
    removed = await uploads.remove(None)
    assert (len(removed), files_below(tmp_path)) == (3, [])


async def test_several_that_may_not_be_removed_at_once_are_not_marked(tmp_path, monkeypatch):
    service = UploadService(LocalFileStore(tmp_path), MemoryService())
    uploads = application(tmp_path, service=service).service("uploads")
    await uploads.create({**CONTENT})
    written = []
    monkeypatch.setattr(service.store, "write", written.append)
    with pytest.raises(MethodNotAllowed):
        await uploads.remove(None)
    assert written == []


async def test_a_service_of_records_may_remove_several_at_once_without_an_option(tmp_path):
    class Rows:
        """A service that is no adapter, so it cannot be asked in advance."""

        def __init__(self):
            self.kept = MemoryService(multi=True)

        async def create(self, data, params):
            return await self.kept.create(data, params)

        async def find(self, params):
            return await self.kept.find(params)

        async def remove(self, id, params):
            return await self.kept.remove(id, params)

    service = UploadService(LocalFileStore(tmp_path), Rows())
    uploads = application(tmp_path, service=service).service("uploads")
    for content in (b"a", b"b"):
        await uploads.create({**CONTENT, "content": content})
    removed = await uploads.remove(None)
    assert (len(removed), files_below(tmp_path)) == (2, [])


async def test_the_query_decides_what_is_removed(app, tmp_path):
    uploads = app.service("uploads")
    for title in ("mine", "mine", "theirs"):
        await uploads.create({**CONTENT, "title": title})
    with pytest.raises(NotFound):
        await uploads.remove(2, query={"title": "mine"})
    assert len(files_below(tmp_path)) == len(stored(tmp_path)) == 3
    removed = await uploads.remove(None, query={"title": "mine", "$select": ["title"]})
    assert removed == [{"id": 0, "title": "mine"}, {"id": 1, "title": "mine"}]
    (kept,) = await uploads.find()
    assert files_below(tmp_path) == [f"content/{kept['contentKey']}"]


async def test_what_is_not_there_is_not_removed(app, tmp_path):
    await app.service("uploads").create({**CONTENT})
    with pytest.raises(NotFound):
        await app.service("uploads").remove(99)
    assert len(stored(tmp_path)) == 1


async def test_a_name_can_be_patched(app):
    await app.service("uploads").create({**CONTENT})
    record = await app.service("uploads").patch(0, {"name": "b.txt", "title": "B"})
    assert (record["name"], record["title"], record["sha256"]) == ("b.txt", "B", HELLO)
    assert (await app.service("uploads").patch(0, {"title": "C"}))["name"] == "b.txt"
    with pytest.raises(BadRequest):
        await app.service("uploads").patch(0, [])


@pytest.mark.parametrize(
    "data",
    [
        {"sha256": "x"},
        {"contentKey": "x"},
        {"size": 1},
        {"type": "text/html"},
        {"createdAt": 1},
        {"content": "x"},
        {"sha256.a": "x"},
        {"$set": {"sha256": "x"}},
        {"name": "../x"},
        {"name": 5},
    ],
)
async def test_what_describes_the_content_cannot(app, data):
    await app.service("uploads").create({**CONTENT})
    with pytest.raises(BadRequest):
        await app.service("uploads").patch(0, data)


async def test_records_that_cannot_be_kept_leave_no_content(app, tmp_path, records):
    async def fail():
        records.first["create"] = fail_second

    async def fail_second():
        raise Unavailable("no database")

    records.first["create"] = fail
    answer = await post_form(app, file_part(b"a"), file_part(b"b"), file_part(b"c"))
    assert answer.status == 503
    assert files_below(tmp_path) == []
    assert await records.find(Params()) == []


async def test_a_cancelled_call_leaves_nothing(app, tmp_path, records):
    waits = asyncio.Event()

    async def wait():
        waits.set()
        await asyncio.sleep(100)

    records.first["create"] = wait
    task = asyncio.create_task(app.service("uploads").create({**CONTENT}))
    await waits.wait()
    assert [name.partition("/")[0] for name in files_below(tmp_path)] == ["content", "mark"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_below(tmp_path) == []


async def test_a_record_whose_creation_seemed_to_fail_keeps_its_bytes(app, tmp_path, records):
    """Such as when the connection to the database breaks after the insert."""
    create = records.create

    async def lose_the_answer(data, params):
        await create(data, params)
        raise Unavailable("no database")

    records.create = lose_the_answer
    with pytest.raises(Unavailable):
        await app.service("uploads").create({**CONTENT})
    (record,) = await records.find(Params())
    assert files_below(tmp_path) == [f"content/{record['contentKey']}"]


async def test_if_records_cannot_be_read_a_sweep_decides(app, tmp_path, records):
    async def fail():
        records.first["find"] = fail
        raise Unavailable("no database")

    records.first |= {"create": fail, "find": fail}
    with pytest.raises(Unavailable, match="no database"):
        await app.service("uploads").create({**CONTENT})
    assert [name.partition("/")[0] for name in files_below(tmp_path)] == ["content", "mark"]
    records.first.clear()
    make_old(tmp_path)
    await app.service("uploads").service.sweep()
    assert files_below(tmp_path) == []


def make_old(folder, seconds=2 * 24 * 3600):
    """Let all marks be that old."""
    old = time.time() - seconds
    for path in (folder / "mark").iterdir():
        os.utime(path, (old, old))


class Killed(BaseException):
    """What ends a process between two steps."""


async def killed_at(step, call, store, records, monkeypatch):
    """Run a call that ends for good before the given step of the store or the records."""
    steps = 0
    names = [(store, "write"), (store, "delete"), (records, "create"), (records, "remove")]
    with monkeypatch.context() as patch:
        for owner, name in names:

            def counted(real, *args, **options):
                nonlocal steps
                steps += 1
                if steps >= step:
                    raise Killed
                return real(*args, **options)

            patch.setattr(owner, name, partial(counted, getattr(owner, name)))
        # What would run after an exception does not run after a kill.
        patch.setattr(UploadService, "_settle_all", lambda *_: asyncio.sleep(0))
        try:
            await call
        except Killed:
            return True
    return False


@pytest.mark.parametrize("method", ["create", "remove", "remove all"])
async def test_nothing_stays_wherever_a_call_is_killed(tmp_path, records, method, monkeypatch):
    """Bytes without a record go, and bytes with a record stay."""
    for step in range(1, 20):
        store = LocalFileStore(tmp_path / str(step))
        service = UploadService(store, records)
        kept = await service.create({**CONTENT}, Params())
        if method == "create":
            called = service.create({**CONTENT}, Params())
        else:
            called = service.remove(kept["id"] if method == "remove" else None, Params())
        was_killed = await killed_at(step, called, store, records, monkeypatch)
        (tmp_path / str(step) / "mark").mkdir(exist_ok=True)
        make_old(tmp_path / str(step))
        await service.sweep()
        keys = {record["contentKey"] for record in await records.find(Params())}
        assert set(files_below(tmp_path / str(step))) == {f"content/{key}" for key in keys}
        await records.remove(None, Params())
        if not was_killed:
            break
    assert step > 3  # each step had its turn


async def test_marks_of_running_calls_are_left_alone(tmp_path, records):
    service = UploadService(LocalFileStore(tmp_path), records, leftover_age=3600)
    await service._mark("a" * 32)
    make_old(tmp_path, 3600 + 300)  # the record of a slow upload may be on its way
    await service.sweep()
    assert files_below(tmp_path) == [f"mark/{'a' * 32}"]
    make_old(tmp_path, 3600 + 700)
    await service.sweep()
    assert files_below(tmp_path) == []


async def test_an_upload_that_took_too_long_fails(app, tmp_path, records, monkeypatch):
    seconds = iter([0, 24 * 3600 + 1])
    monkeypatch.setattr("alula.files._upload_service.monotonic", lambda: next(seconds))
    with pytest.raises(Unavailable, match="took too long; send it again"):
        await app.service("uploads").create({**CONTENT})
    assert (files_below(tmp_path), await records.find(Params())) == ([], [])


async def test_two_removals_of_one_record(app, tmp_path):
    uploads = app.service("uploads")
    record = await uploads.create({**CONTENT})
    results = await asyncio.gather(
        *(uploads.remove(record["id"]) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["NotFound", "NotFound", "dict"]
    assert files_below(tmp_path) == []


async def test_a_record_that_changes_while_several_are_removed(app, tmp_path, records):
    """The query leaves it out then, so it stays with its bytes."""
    uploads = app.service("uploads")
    for _ in range(2):
        await uploads.create({**CONTENT, "title": "old"})
    write = app.service("uploads").service.store.write

    async def write_and_change(*args, **options):
        await records.patch(1, {"title": "new"}, Params())
        await write(*args, **options)

    app.service("uploads").service.store.write = write_and_change
    removed = await uploads.remove(None, query={"title": "old"})
    (kept,) = await uploads.find()
    assert ([record["id"] for record in removed], kept["id"]) == ([0], 1)
    assert files_below(tmp_path) == [f"content/{kept['contentKey']}"]


async def test_many_come_and_go_at_once(app, tmp_path, records):
    uploads = app.service("uploads")

    async def come_and_go(number):
        record = await uploads.create({**CONTENT, "content": b"%d" % (number % 3)})
        if number % 2:
            await uploads.remove(record["id"])

    await asyncio.gather(*(come_and_go(number) for number in range(120)))
    kept = {f"content/{record['contentKey']}" for record in await records.find(Params())}
    assert set(files_below(tmp_path)) == kept


async def test_marks_are_swept_at_the_start(tmp_path, records):
    store = LocalFileStore(tmp_path)
    keys = {"no record": "a" * 32, "record": "b" * 32, "no bytes": "c" * 32, "unmarked": "d" * 32}
    for name, key in keys.items():
        if name != "no bytes":
            await store.write(f"content/{key}", pieces_of(b"hello"))
        if name != "unmarked":
            await store.write(f"mark/{key}", pieces_of(b""))
    await records.create({"contentKey": keys["record"]}, Params())
    make_old(tmp_path)
    app = App().use("uploads", UploadService(store, records))
    await app.setup()
    # Without a mark, nothing is deleted: the records may be those of another database.
    assert files_below(tmp_path) == [f"content/{keys[name]}" for name in ("record", "unmarked")]
    await app.teardown()


async def test_each_service_has_a_store_of_its_own(tmp_path):
    store = LocalFileStore(tmp_path)
    first = UploadService(store, MemoryService())
    app = App().use("a", first).use("b", first)  # one service may have two paths
    await app.setup()
    other = App().use("c", UploadService(store, MemoryService()))
    with pytest.raises(ValueError, match="service at 'c' has the LocalFileStore"):
        await other.setup()
    await app.teardown()
    await other.setup()
    await other.teardown()


async def test_the_service_of_the_records_is_set_up(tmp_path):
    class Stateful(MemoryService):
        states = ()

        async def setup(self, app, path):
            self.states += (path,)

        async def teardown(self, app, path):
            self.states += (None,)

    table = Stateful()
    app = App().use("uploads", UploadService(LocalFileStore(tmp_path), table))
    await app.setup()
    await app.teardown()
    assert table.states == ("uploads", None)


async def test_records_without_setup(tmp_path):
    class Bare:
        async def find(self, params):
            return []

    app = App().use("uploads", UploadService(LocalFileStore(tmp_path), Bare()))
    await app.setup()
    await app.teardown()
    assert await app.service("uploads").find() == []


async def test_records_may_be_a_registered_service(tmp_path):
    app = App().use("records", MemoryService(id="key"), methods=[])
    inner = App().use("inner", app.service("records"))
    service = UploadService(LocalFileStore(tmp_path), inner.service("inner"))
    app.use("uploads", service)
    await app.setup()
    record = await app.service("uploads").create({**CONTENT})
    assert (service.id, record["key"]) == ("key", 0)
    await app.service("uploads").remove(0)
    assert files_below(tmp_path) == []
    await app.teardown()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"store": "files"}, TypeError, "give a FileStore"),
        (
            {"records": with_schema(MemoryService(), {"properties": {"a": {"type": "string"}}})},
            TypeError,
            "hooks would not run",
        ),
        ({"fields": "title"}, TypeError, "give a list"),
        ({"fields": ["name"]}, ValueError, "fields has 'name'"),
        ({"fields": ["id"]}, ValueError, "fields has 'id'"),
        ({"fields": ["sha256"]}, ValueError, "fields has 'sha256'"),
        ({"fields": ["contentKey"]}, ValueError, "fields has 'contentKey'"),
        ({"leftover_age": 60}, ValueError, "at least 3600 seconds"),
    ],
)
def test_arguments_that_are_not_valid(tmp_path, change, error, message):
    given = {"store": LocalFileStore(tmp_path), "records": MemoryService(), **change}
    with pytest.raises(error, match=message):
        UploadService(given.pop("store"), given.pop("records"), **given)


@pytest.fixture
async def collection(mongodb_url):
    async with AsyncMongoClient(mongodb_url, tz_aware=True) as client:
        collection = client["alula_files"][f"c{ObjectId()}"]
        yield collection
        await collection.drop()


@pytest.mark.parametrize("has_schema", [False, True])
async def test_records_in_mongodb(collection, tmp_path, has_schema):
    records = MongoDBService(collection, multi=["remove"])
    service = UploadService(LocalFileStore(tmp_path), records, fields=["title"])
    if has_schema:
        fields = {"_id": {"type": "string", "objectid": True}, **PICTURE["properties"]}
        service = with_schema(service, {"properties": fields, "required": ["name"]})
    app = application(tmp_path, service=service)
    await app.setup()
    first = (await post_form(app, file_part(b"hello"), field_part("title", "Me"))).json
    second = (await post_form(app, file_part(b"hello", "b.txt"))).json
    assert ObjectId.is_valid(first["_id"])
    assert (first["title"], first["createdAt"][-1]) == ("Me", "Z")
    url = f"/uploads/{second['_id']}"
    assert (await call(app, "GET", f"{url}/content")).body == b"hello"
    assert (await call(app, "GET", "/uploads/nothing/content")).status in {400, 404}
    assert (await app.service("uploads").get(first["_id"]))["createdAt"].tzinfo is not None
    selected = await call(app, "GET", f"/uploads?sha256={HELLO}&$select[]=name&$sort[name]=-1")
    assert [record["name"] for record in selected.json] == ["b.txt", "a.txt"]
    removed = await call(app, "DELETE", f"/uploads/{first['_id']}?$select[]=name")
    assert removed.json == {"_id": first["_id"], "name": "a.txt"}
    assert len(files_below(tmp_path)) == 1
    assert (await call(app, "DELETE", url)).status == 200
    assert files_below(tmp_path) == []
    for content in (b"a", b"b", b"a"):
        await app.service("uploads").create({**CONTENT, "content": content})
    assert len(await app.service("uploads").remove(None)) == 3
    assert files_below(tmp_path) == []
    await app.teardown()


async def test_uploads_that_come_and_go_at_once_in_mongodb(collection, tmp_path):
    service = UploadService(LocalFileStore(tmp_path), MongoDBService(collection))
    uploads = application(tmp_path, service=service).service("uploads")

    async def come_and_go(number):
        record = await uploads.create({**CONTENT, "content": b"%d" % (number % 3)})
        if number % 2:
            await uploads.remove(record["_id"])

    await asyncio.gather(*(come_and_go(number) for number in range(30)))
    kept = {f"content/{record['contentKey']}" for record in await uploads.find()}
    assert set(files_below(tmp_path)) == kept


async def test_records_in_a_table(tmp_path):
    table = Table(
        "uploads",
        MetaData(),
        Column("id", Integer, primary_key=True),
        *(Column(name, Text) for name in ("name", "type", "sha256", "contentKey")),
        Column("size", BigInteger),
        Column("createdAt", DateTime(timezone=True)),
    )
    database = Database("sqlite://")
    await database.create(records := SQLService(table, database))
    app = application(tmp_path, service=UploadService(LocalFileStore(tmp_path), records))
    await app.setup()
    first = (await post_form(app, file_part(b"hello"))).json
    second = (await post_form(app, file_part(b"hello", "b.txt"))).json
    assert (await call(app, "GET", f"/uploads/{second['id']}/content")).body == b"hello"
    assert (await call(app, "DELETE", f"/uploads/{first['id']}")).json["name"] == "a.txt"
    assert len(files_below(tmp_path)) == 1
    assert (await call(app, "DELETE", f"/uploads/{second['id']}")).status == 200
    assert files_below(tmp_path) == []
    await app.teardown()
    await database.close()
