"""Methods that stream: their calls, the hooks around them, and what leaves of each item."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.waiting import eventually

from alula import App, HookContext, Params, answers
from alula.adapters.relations import belongs_to
from alula.adapters.sql import Database
from alula.adapters.sql import transaction as in_transaction
from alula.authentication import protect
from alula.common_hooks import cache, discard, iff, is_external, keep, populate
from alula.errors import BadRequest, Conflict
from alula.outgoing import public_result
from alula.schema import hidden, resolve, resolve_external, resolve_result, with_schema
from alula.types import UNSET

CANARY = "never-leaves"


class Token(BaseModel):
    text: str


class Assistant:
    """Streams words, and notes what becomes of its generators."""

    def __init__(self):
        self.notes = []
        self.gate = asyncio.Event()

    async def ask(self, data: Any, params: Params) -> AsyncIterator[Token]:
        self.notes.append("begun")
        try:
            for word in data["words"]:
                if word == "wait":
                    await self.gate.wait()
                if word == "fail":
                    raise Conflict("taken")
                yield Token(text=word)
        finally:
            self.notes.append("closed")

    async def find(self, params: Params):
        yield {"id": 1, "password": CANARY}
        yield {"id": 2, "password": CANARY}


def application(service=None, methods=("ask", "find"), **hooks):
    app = App().use("assistant", service or Assistant(), methods=methods)
    app.service("assistant").hooks(**hooks)
    return app


def ask(app, *words):
    return app.service("assistant").ask({"words": [*words]})


async def all_of(stream):
    return [item async for item in stream]


async def test_await_gives_the_stream():
    stream = await ask(application(), "a", "b")
    assert isinstance(stream, AsyncIterator)
    assert await all_of(stream) == [{"text": "a"}, {"text": "b"}]


class Forms:
    """All forms of a method that streams."""

    async def items(self) -> AsyncIterator[int]:
        yield 1

    async def returned(self, data: Any, params: Params) -> AsyncIterator[str]:
        return self.letters()

    def plain(self, data: Any, params: Params) -> AsyncGenerator[str, None]:
        return self.letters()

    async def open(self, data: Any, params: Params) -> AsyncIterable:
        return self.letters()

    async def untyped(self, data, params):
        yield "a"

    async def any(self, data, params) -> Any:
        yield "a"

    async def letters(self):
        yield "a"

    class Called:
        async def __call__(self, data, params):
            yield "a"

    called = Called()


@pytest.mark.parametrize("name", ["returned", "plain", "open", "untyped", "any", "called"])
async def test_forms_of_a_method(name):
    app = App().use("forms", Forms(), methods=[name])
    assert await all_of(await app.service("forms").call(name, data={})) == ["a"]


async def test_an_item_that_does_not_fit():
    class Wrong:
        async def ask(self, data: Any, params: Params) -> AsyncIterator[Token]:
            yield {"word": "a"}

    with pytest.raises(TypeError, match=r"an item of `ask` .* the result is not Token"):
        await ask(application(Wrong(), ["ask"]))


async def test_what_is_no_stream_is_an_error():
    class Wrong:
        async def ask(self, data: Any, params: Params) -> AsyncIterator[str]:
            return ["a"]

    with pytest.raises(TypeError, match=r"`ask` of .* returned a list; by its annotation"):
        await ask(application(Wrong(), ["ask"]))


def test_a_method_that_yields_has_the_type_of_a_stream():
    class Wrong:
        async def ask(self, data: Any, params: Params) -> Token:
            yield Token(text="a")

    with pytest.raises(TypeError, match=r"yields, so its type is .* AsyncIterator\[Token\]"):
        application(Wrong(), ["ask"])


def test_a_setup_does_not_yield():
    class Wrong(Assistant):
        async def setup(self, app, path):
            yield 1

    with pytest.raises(TypeError, match=r"`setup` .* yields, but it has no result"):
        application(Wrong())


async def test_the_status_of_a_stream():
    class Accepted:
        @answers(202)
        async def ask(self, data: Any, params: Params) -> AsyncIterator[str]:
            yield "a"

    app = application(Accepted(), ["ask"])
    context = HookContext(app, app.service("assistant"), "ask", Params(), data={})
    await app.service("assistant").run(context)
    assert context.http == {"status": 202}

    def own(context):
        context.http = {"status": 203}

    app.service("assistant").hooks(before=[own])
    context = HookContext(app, app.service("assistant"), "ask", Params(), data={})
    await app.service("assistant").run(context)
    assert context.http == {"status": 203}


async def test_nothing_is_called_where_no_items_are_wanted():
    service = Assistant()
    app = application(service)
    context = HookContext(app, app.service("assistant"), "ask", Params(), data={})
    context.wants_items = False
    await app.service("assistant").run(context)
    assert await all_of(context.result) == []
    assert service.notes == []


async def test_a_stream_emits_no_event():
    class Made:
        async def create(self, data: Any, params: Params) -> AsyncIterator[int]:
            yield 1

    app, heard = App().use("made", Made()), []
    app.service("made").on("created", lambda *_: heard.append("created"))
    assert await all_of(await app.service("made").create({})) == [1]
    assert heard == []


async def test_a_find_that_streams_has_no_live_lists():
    with pytest.raises(ValueError, match=r"the `find` of .* streams, so it has no live lists"):
        application().service("assistant").live()


# -- hooks -----------------------------------------------------------------------------------------


async def test_error_hooks_see_what_fails_before_the_first_item():
    seen = []
    app = application(error=[lambda context: seen.append(context.error)])
    with pytest.raises(Conflict, match="taken"):
        await ask(app, "fail")
    stream = await ask(app, "a", "fail")
    with pytest.raises(Conflict, match="taken"):
        await all_of(stream)
    assert [error.message for error in seen] == ["taken"]


def refuse(context):
    raise Conflict("refused")


def with_list(context):
    context.result = ["a"]


def with_dispatch(context):
    context.dispatch = {"text": "a"}


def recover(context):
    context.error = None


@pytest.mark.parametrize(
    ("hooks", "error", "text"),
    [
        ({"after": [refuse]}, Conflict, "refused"),
        ({"after": [with_list]}, TypeError, "context.result .* to a list"),
        (
            {"after": [with_dispatch]},
            TypeError,
            "context.dispatch .* to a dict",
        ),
        ({"after": [refuse], "error": [recover]}, TypeError, "context.result .* to a NoneType"),
    ],
)
async def test_a_call_that_fails_closes_its_stream(hooks, error, text):
    service = Assistant()
    with pytest.raises(error, match=text):
        await ask(application(service, **hooks), "a", "b")
    assert service.notes == ["begun", "closed"]


async def test_a_hook_may_set_a_stream_before_the_method():
    async def letters():
        yield "a"

    def instead(context):
        context.result = letters()

    service = Assistant()
    stream = await ask(application(service, before=[instead]), "b")
    assert await all_of(stream) == ["a"]
    assert service.notes == []


async def test_a_hook_may_close_the_stream():
    async def close(context):
        await context.result.aclose()

    service = Assistant()
    assert await all_of(await ask(application(service, after=[close]), "a")) == []
    assert service.notes == ["begun", "closed"]


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_another_attempt_closes_the_stream_of_the_first(is_mounted):
    service = Assistant()
    app = application(service)

    async def twice(context, next):
        await next()
        await next()

    if is_mounted:
        outer = App().use("inner", app)
        app = App().use("assistant", outer.service("inner/assistant"))
    app.service("assistant").hooks(around=[twice])
    stream = await ask(app, "a", "b")
    assert service.notes == ["begun", "closed", "begun"]
    assert await all_of(stream) == [{"text": "a"}, {"text": "b"}]


async def test_a_mounted_service_closes_its_stream_when_a_hook_outside_fails():
    service = Assistant()
    outer = App().use("inner", application(service))
    outer.service("inner/assistant").hooks(after=[refuse])
    with pytest.raises(Conflict):
        await outer.service("inner/assistant").ask({"words": ["a", "b"]})
    assert service.notes == ["begun", "closed"]


WHOLE = {
    "populate": ("find", {"after": {"find": [populate({"user": belongs_to("users", "userId")})]}}),
    "cache": ("find", {"around": [cache(ttl=1, by=None)]}),
    "transaction": ("ask", {"around": {"ask": [in_transaction(Database("sqlite://"))]}}),
    "in a condition": (
        "find",
        {"after": [iff(is_external(), populate({"user": belongs_to("users", "userId")}))]},
    ),
}


@pytest.mark.parametrize(("method", "hooks"), WHOLE.values(), ids=WHOLE)
def test_hooks_that_need_the_whole_result_are_refused(method, hooks):
    with pytest.raises(TypeError, match=rf"cannot be registered for `{method}` of .* streams"):
        application(**hooks)


def test_so_are_those_of_the_application():
    app = application()
    with pytest.raises(TypeError, match=r"cannot be registered for `find` of .* streams"):
        app.hooks(around=[cache(ttl=1, by=None)])


def test_such_hooks_may_be_there_for_other_methods():
    class Mixed(Assistant):
        async def find(self, params):
            return []

    application(Mixed(), around=[cache(ttl=1, by=None)])


# -- what leaves -----------------------------------------------------------------------------------


async def shown(app, method="find", data=None):
    """Return the items of a call, and those that its client gets."""
    handle = app.service("assistant")
    found = await all_of(await handle.call(method, data=data))
    context = HookContext(app, handle, method, Params(), data=data)
    await handle.run(context)
    return found, await all_of(public_result(context))


def add_name(value, record):
    return f"user {record['id']}"


HIDING = {
    "protect": {"around": [protect("password")]},
    "protect after": {"after": [protect("password")]},
    "resolve_external": {"around": [resolve_external(resolve({"password": hidden}))]},
    "a function": {"around": [resolve_external(resolve({"password": lambda: UNSET}))]},
    "both": {"around": [protect("password"), resolve_external(resolve({"password": hidden}))]},
}


@pytest.mark.parametrize("hooks", HIDING.values(), ids=HIDING)
async def test_clients_do_not_get_what_is_hidden(hooks):
    found, public = await shown(application(**hooks))
    assert found == [{"id": 1, "password": CANARY}, {"id": 2, "password": CANARY}]
    assert public == [{"id": 1}, {"id": 2}]


async def test_with_schema_hides_in_each_item():
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "password": {}}}
    app = App().use("assistant", with_schema(Assistant(), schema, hidden=["password"]))
    assert (await shown(app))[1] == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("hook", [discard("password"), keep("id")])
async def test_hooks_that_reduce_records_reduce_each_item(hook):
    found, public = await shown(application(after={"find": [hook]}))
    assert found == public == [{"id": 1}, {"id": 2}]


async def test_items_are_resolved():
    named = resolve({"name": add_name, "password": lambda: UNSET})
    found, public = await shown(application(around=[resolve_result(named)]))
    assert found == public == [{"id": 1, "name": "user 1"}, {"id": 2, "name": "user 2"}]


async def test_a_resolver_that_fails_for_the_first_item_is_an_error_of_the_call():
    def fail(value):
        raise Conflict("no")

    seen = []
    app = application(around=[resolve_result(resolve({"id": fail}))])
    app.hooks(error=[lambda context: seen.append(type(context.error))])
    with pytest.raises(BadRequest):
        await app.service("assistant").find()
    assert seen == [BadRequest]


class Nested:
    """Yields records as the items of lists, and below other records."""

    async def ask(self, data: Any, params: Params):
        yield data


NESTED = [
    ([{"id": 1, "password": CANARY}], [{"id": 1}]),
    ([[{"id": 1, "password": CANARY}]], [[{"id": 1}]]),
    ({"user": {"id": 1, "password": CANARY}}, {"user": {"id": 1}}),
    ("text", "text"),
]


@pytest.mark.parametrize("hooks", [HIDING["protect"], HIDING["resolve_external"]])
@pytest.mark.parametrize(("item", "expected"), NESTED)
async def test_hides_wherever_a_record_is_in_an_item(hooks, item, expected):
    _, public = await shown(application(Nested(), ["ask"], **hooks), "ask", item)
    assert public == [expected]


@pytest.mark.parametrize("inside", HIDING.values(), ids=HIDING)
async def test_a_wrapped_stream_still_hides(inside):
    async def numbered(items):
        async for number, item in numbered_of(items):
            yield item | {"number": number}

    async def numbered_of(items):
        number = 0
        async for item in items:
            number += 1
            yield number, item

    def wrap(context):
        context.result = numbered(context.result)

    app = application(**inside)
    app.hooks(after=[wrap], around=[protect("id")])
    found, public = await shown(app)
    assert public == [{"number": 1}, {"number": 2}]
    assert found[0] == {"id": 1, "password": CANARY, "number": 1}


async def test_a_wrapped_stream_closes_with_its_call():
    service = Assistant()

    async def same(items):
        async for item in items:
            yield item

    def wrap(context):
        context.result = same(context.result)

    app = application(service, after=[wrap], around=[protect("id")])
    app.hooks(after=[refuse])
    with pytest.raises(Conflict):
        await ask(app, "a", "b")
    assert service.notes == ["begun", "closed"]


RESOLVED = {"around": [resolve_result(resolve({"name": lambda: "Ada"}))]}


@pytest.mark.parametrize("hooks", [{}, RESOLVED, *HIDING.values()])
async def test_an_abandoned_stream_closes(hooks):
    service = Assistant()
    async for item in await ask(application(service, **hooks), "a", "wait"):
        assert item["text"] == "a"
        break
    gc.collect()  # a hook for each item refers to the call, and the call to the stream
    await eventually(lambda: service.notes == ["begun", "closed"])
