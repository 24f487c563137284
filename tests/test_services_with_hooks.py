"""A service that brings its hooks."""

from __future__ import annotations

import pytest

from alula import App
from alula._service_object import ServiceBundle
from alula.adapters.memory import MemoryService
from alula.express import express, rest
from alula.hooks import annotate_hook as annotate


def tag(name):
    def hook(context):
        context.data = {**context.data, "tags": [*context.data.get("tags", ()), name]}

    return hook


async def test_its_hooks_run_before_all_others_of_the_service():
    app = App()
    store = MemoryService(start_id=1)
    app.use("notes", ServiceBundle(store, {"before": {"create": [tag("brought")]}}, {"a": 1}))
    app.hooks(before={"create": [tag("application")]})
    app.service("notes").hooks(before={"create": [tag("later")]})
    note = await app.service("notes").create({})
    assert note["tags"] == ["application", "brought", "later"]
    assert app.service("notes").service is store
    assert app.service("notes").record_schema == {"a": 1}


async def test_is_set_up_torn_down_and_taken_away_like_any_service():
    calls = []

    class Store(MemoryService):
        async def setup(self, app, path):
            calls.append(f"setup {path}")

        async def teardown(self, app, path):
            calls.append(f"teardown {path}")

    early, late = Store(), Store()
    app = App()
    app.use("early", ServiceBundle(early, {}))
    await app.setup()
    app.use("late", ServiceBundle(late, {}))
    await app.service("late").find()
    assert await app.unuse("early") is early
    await app.teardown()
    assert calls == ["setup early", "setup late", "teardown early", "teardown late"]


def test_events_and_methods_are_those_of_the_service():
    class Calc:
        events = ("counted",)

        async def add(self, data, params):
            return data

    app = App()
    app.use("calc", ServiceBundle(Calc(), {"before": {"add": [tag("a")]}}), methods=["add"])
    assert app.service("calc").methods == ("add",)
    assert "counted" in app.service("calc").events


def test_what_it_brings_is_checked_when_it_is_registered():
    app = App()
    with pytest.raises(ValueError, match="before hook for `publish` of service 'notes'"):
        app.use("notes", ServiceBundle(MemoryService(), {"before": {"publish": [tag("a")]}}))
    with pytest.raises(TypeError, match=r"'notes' .*has no service method"):
        app.use("notes", ServiceBundle(object(), {}))
    assert app.services == {}


async def test_the_schema_is_known_in_another_application_too():
    inner, outer = App(), App()
    inner.use("notes", ServiceBundle(MemoryService(), {}, "schema"))
    outer.use("inner", inner)
    assert outer.service("inner/notes").record_schema == "schema"
    inner.use("plain", MemoryService())
    assert inner.service("plain").record_schema is None


async def test_the_web_application_takes_it_for_a_service():
    app = express(App())
    app.configure(rest())
    app.use("notes", ServiceBundle(MemoryService(start_id=1), {"before": {"create": [tag("a")]}}))
    assert await app.service("notes").create({}) == {"id": 1, "tags": ["a"]}


@pytest.mark.parametrize("kinds", [("all", "find"), ("find", "all")])
async def test_before_hooks_may_have_a_place_of_their_own(kinds):
    order = []

    def hook(name):
        return lambda context: order.append(name)

    async def around(context, next):
        order.append("around")
        await next()

    identify = annotate(hook("identify"), strategies=("jwt",))
    bundle = ServiceBundle(
        MemoryService(), {}, first={"find": [hook("first")]}, last={"find": [hook("last")]}
    )
    app = App()
    app.use("store", bundle)
    service = app.service("store")
    await service.find()
    assert order == ["first", "last"]
    service.hooks(before={kinds[0]: [hook("a"), identify, hook("b")]}, around=[around])
    service.hooks(before={kinds[1]: [hook("c")]})
    app.hooks(before=[hook("application")])
    del order[:]
    await service.find()
    own = ["a", "identify", "first", "b"]
    inner = [*own, "c"] if kinds[0] == "all" else ["c", *own]
    assert order == ["application", "around", *inner, "last"]
