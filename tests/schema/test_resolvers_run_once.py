"""Resolvers run once for each call, whichever way it comes: those of data after the check."""

from __future__ import annotations

from contextlib import suppress

import pytest
from pydantic import BaseModel
from tests.express.asgi_client import call, post_json
from tests.files.forms import FORM, field_part, file_part, form
from tests.realtime.test_sse import Stream

from alula import App
from alula.adapters.memory import MemoryService
from alula.adapters.relations import belongs_to
from alula.errors import BadRequest, Conflict
from alula.express import error_handler, express, json, rest
from alula.files import LocalFileStore, UploadService, multipart
from alula.realtime import socketio, sse
from alula.schema import resolve, virtual, with_schema
from alula.testing import RealtimeClient
from alula.types import UNSET

PROPERTIES = {
    "id": {"type": "integer"},
    "text": {"type": "string", "maxLength": 8},
    "parentId": {"type": "integer"},
}


class Post(BaseModel, extra="forbid"):
    text: str = ""
    parentId: int = 0  # noqa: N815  # as on the wire


class Counts(dict):
    """How often each kind of resolver has run, and how often hooks and methods saw a result."""

    def taken(self):
        """Return the counts that are not zero, and begin anew."""
        counts = {name: count for name, count in self.items() if count}
        self.clear()
        return counts

    def counting(self, kind, change):
        async def count(value, record, context):
            self[kind] = self.get(kind, 0) + 1
            return change(value)

        return count


@pytest.fixture
def counts():
    return Counts()


@pytest.fixture(params=[Post, {"properties": PROPERTIES}], ids=["model", "schema"])
async def app(request, counts, tmp_path):
    app = express(App())
    app.use(json(), multipart())
    app.configure(rest()).configure(socketio()).configure(sse())

    def made(kind):
        return virtual(lambda record, context: counts.counting(kind, lambda _: kind)(0, 0, 0))

    resolvers = {
        "query": resolve({"id": counts.counting("query", lambda value: value)}),
        "data": resolve({"text": counts.counting("data", lambda text: f"<{text}>")}),
        "result": resolve({"size": made("result")}),
        "external": resolve({"shown": made("external")}),
    }
    relations = {"parent": belongs_to("posts", "parentId")}
    store = MemoryService(start_id=1, multi=True, relations=relations)
    app.use("posts", with_schema(store, request.param, **resolvers))
    uploads = UploadService(LocalFileStore(tmp_path), MemoryService(), fields=["text"])
    fields = {name: {} for name in ("name", "type", "size", "sha256", "createdAt", "contentKey")}
    schema = {"properties": {**fields, **PROPERTIES}}
    del resolvers["result"]  # `size` is that of the file
    app.use("files", with_schema(uploads, schema, **resolvers))
    app.on("connection", lambda connection: app.channel("all").join(connection))
    app.publish(lambda data, context: app.channel("all"))
    app.use(error_handler(logger=False))
    await app.setup()
    yield app
    await app.teardown()


WRITE = {"query": 1, "data": 1, "result": 1, "external": 1}
READ = {"query": 1, "result": 1, "external": 1}


@pytest.mark.parametrize("provider", [None, "rest"])
async def test_calls_of_the_application(app, counts, provider):
    posts = app.service("posts")
    assert (await posts.create({"text": "a"}, provider=provider))["text"] == "<a>"
    assert counts.taken() == WRITE
    await posts.create([{"text": "a"}, {"text": "b"}], provider=provider)
    assert counts.taken() == {"query": 1, "data": 2, "result": 2, "external": 2}
    for calls, expected in (
        (lambda: posts.update(1, {"text": "b"}, provider=provider), WRITE),
        (lambda: posts.patch(1, {"text": "c"}, provider=provider), WRITE),
        (lambda: posts.get(1, provider=provider), READ),
        (lambda: posts.find(query={"id": 1}, provider=provider), READ),
        (lambda: posts.remove(1, provider=provider), READ),
    ):
        await calls()
        assert counts.taken() == expected


async def test_requests(app, counts):
    assert (await post_json(app, {"text": "a"}, "/posts")).json["text"] == "<a>"
    assert counts.taken() == WRITE
    await post_json(app, [{"text": "a"}, {"text": "b", "parentId": 1}], "/posts")
    assert counts.taken() == {"query": 1, "data": 2, "result": 2, "external": 2}
    answer = await call(app, "GET", "/posts/3?$include=parent")
    assert (answer.json["size"], answer.json["parent"]["size"]) == ("result", "result")
    assert counts.taken() == {"query": 2, "result": 2, "external": 2}  # also those of the parent
    await call(app, "DELETE", "/posts/1")
    assert counts.taken() == READ


async def test_sockets_and_events(app, counts):
    stream = await Stream(app, "/posts").started()
    counts.taken()
    async with RealtimeClient(app) as one, RealtimeClient(app) as other:
        assert (await one.call("create", "posts", {"text": "a"}))["shown"] == "external"
        for client in (one, other):
            assert (await client.next_event()).data["text"] == "<a>"
        await stream.have(1)
        assert counts.taken() == WRITE
        await one.call("find", "posts")
        assert counts.taken() == READ
    await stream.leave()


async def test_files(app, counts):
    body = form(file_part(b"hello"), field_part("text", "a"))
    answer = await call(app, "POST", "/files", body, FORM)
    assert answer.status == 201, answer.text
    assert answer.json["text"] == "<a>"
    assert counts.taken() == {"query": 1, "data": 1, "external": 1}
    await call(app, "GET", "/files/0")
    assert counts.taken() == {"query": 1, "external": 1}


async def test_each_attempt_of_a_call_that_is_tried_again(app, counts):
    attempts = []

    async def retry(context, next):
        for _ in range(2):
            with suppress(Conflict):
                await next()
        await next()

    def fail(context):
        attempts.append(context.data["text"])
        if len(attempts) < 3:
            raise Conflict("again")

    app.service("posts").hooks(around={"create": [retry]}, after={"create": [fail]})
    # Checked each time, too: resolved three times it would be too long.
    answer = await post_json(app, {"text": "abcdef"}, "/posts")
    assert answer.json["text"] == "<abcdef>"
    assert attempts == ["<abcdef>"] * 3
    assert counts.taken() == {"query": 3, "data": 3, "result": 1, "external": 1}


@pytest.mark.parametrize("data", [{"text": "a"}, [{"text": "a"}, {}]], ids=["one", "several"])
@pytest.mark.parametrize("other", [None, [{"text": "b"}] * 3], ids=["the same", "other data"])
async def test_what_resolvers_have_added_is_gone_before_the_next_attempt(data, other):
    given = []

    def as_list(value):
        return value if isinstance(value, list) else [value]

    def add(value):
        given.append(value)
        return "made"

    schema = {"properties": {**PROPERTIES, "kind": {"type": "string"}}}
    store = MemoryService(start_id=1, multi=True)
    app = App().use("posts", with_schema(store, schema, data=resolve({"kind": add})))

    async def retry(context, next):
        await next()
        if other is not None:
            context.data = other
        await next()

    posts = app.service("posts").hooks(around=[retry])
    attempts = [as_list(data), as_list(other or data)]
    result = as_list(await posts.create(data))
    assert [(each.get("text"), each["kind"]) for each in result] == [
        (each.get("text"), "made") for each in attempts[1]
    ]
    assert given == [UNSET] * sum(map(len, attempts))


async def test_none_for_what_the_check_refuses(app, counts):
    for bad in ({"text": 5}, {"other": 1}, [{"text": "a"}, {"text": 5}]):
        with pytest.raises(BadRequest):
            await app.service("posts").create(bad, provider="rest")
    with pytest.raises(BadRequest):
        await app.service("posts").find(query={"other": 1}, provider="rest")
    assert counts.taken() == {}


async def test_those_of_results_run_outside_of_all_other_hooks(app, counts):
    seen = []

    async def around(context, next):
        await next()
        seen.append("size" in context.result)

    def after(context):
        seen.append("size" in context.result)
        context.result["text"] = "changed"

    app.service("posts").hooks(around=[around], after=[after])
    made = await app.service("posts").create({"text": "a"})
    assert seen == [False, False]
    assert (made["text"], made["size"]) == ("changed", "result")
