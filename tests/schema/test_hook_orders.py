"""Checks and resolvers of `with_schema` run where the caller is known, in every order of hooks."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field
from tests.schema.hook_orders import ORDERS, TASK, Task, answers_of, make_app, name_of, own

from alula import UNSET, App
from alula.adapters.memory import MemoryService
from alula.common_hooks import cache
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound
from alula.query import ValidatedQuery
from alula.schema import resolve, virtual, with_schema

models = pytest.mark.parametrize("model", [Task, TASK], ids=["model", "schema"])
FOUND = {"find": "200 1", "find all": "200 1"}


@models
@pytest.mark.parametrize("order", ORDERS, ids=name_of)
async def test_strangers_change_nothing_in_any_order(order, model):
    for name, answer in (await answers_of(make_app(order, model))).items():
        caller, _, what = name.partition(" ")
        if caller == "nobody":
            assert answer == "401", name
        elif caller == "2":
            assert answer == ("200 0" if what in FOUND else "404"), name
        else:
            assert answer == FOUND.get(what, "200"), name


def tasks(**options):
    app = App()
    store = MemoryService({1: {"id": 1, "text": "first", "userId": 1}}, start_id=2, multi=True)
    app.use("tasks", with_schema(store, options.pop("model", Task), **options))
    return app.service("tasks")


def know(user):
    """Return a before hook that says who is calling, as an application may write one itself."""

    async def identify(context):
        context.params.user = user

    return identify


OWN = resolve({"userId": own})


@models
class TestACallerOfWhomABeforeHookTells:
    async def test_is_known_to_queries(self, model):
        service = tasks(model=model, query=OWN).hooks(before=[know({"id": 2})])
        assert await service.find(provider="rest") == []
        for method, data in (("get", []), ("patch", [{}]), ("remove", [])):
            with pytest.raises(NotFound):
                await getattr(service, method)(1, *data, query={"userId": 1}, provider="rest")

    async def test_is_known_to_data(self, model):
        service = tasks(model=model, data=OWN).hooks(before=[know({"id": 2})])
        assert (await service.create({"text": "a", "userId": 1}))["userId"] == 2
        created = await service.create([{"text": "a", "userId": 1}, {"text": "b"}])
        assert [each["userId"] for each in created] == [2, 2]

    async def test_is_there_for_resolvers_that_cannot_do_without(self, model):
        need = resolve({"userId": lambda _value, _record, context: context.params.user["id"]})
        service = tasks(model=model, query=need, data=need).hooks(before=[know({"id": 2})])
        assert (await service.create({"text": "a"}, provider="rest"))["userId"] == 2
        assert [each["id"] for each in await service.find(provider="rest")] == [2]
        unknown = tasks(model=model, query=need, data=need)
        unknown.hooks(before=[know(None)])
        for call in (unknown.find(provider="rest"), unknown.create({}, provider="rest")):
            with pytest.raises(TypeError, match="not subscriptable") as caught:
                await call
            assert "the property 'userId'" in caught.value.__notes__[0]

    async def test_is_refused_by_a_hook_before_a_resolver_fails(self, model):
        def fail(_value, _record, _context):
            raise ValueError("nobody is signed in")

        def refuse(_context):
            raise NotAuthenticated("sign in")

        for hooks, kind in (([refuse], NotAuthenticated), ([], BadRequest)):
            service = tasks(model=model, data=resolve({"userId": fail})).hooks(before=hooks)
            with pytest.raises(kind):
                await service.create({"text": "a"}, provider="rest")

    async def test_resolvers_do_not_run_on_what_they_made(self, model):
        twice = resolve({"userId": lambda n, _, c: n if n is UNSET else (n + 1)})
        service = tasks(model=model, query=twice, data=twice)
        service.hooks(before=[know({"id": 2})])
        assert (await service.create({"text": "a", "userId": 5}))["userId"] == 6
        assert len(await service.find(query={"userId": 0})) == 1

    async def test_what_resolvers_add_and_remove_is_taken_back(self, model):
        several = resolve(
            {
                "userId": lambda value, _, context: context.params.user and UNSET,
                "text": lambda text, record: text if text is UNSET else f"{text}{len(record)}",
                "id": virtual(lambda: 9),
            }
        )
        service = tasks(model=model, data=several).hooks(before=[know({"id": 2})])
        created = await service.create({"text": "a", "userId": 5})
        assert created == {"id": 9, "text": "a2"}

    async def test_what_hooks_change_is_resolved(self, model):
        double = resolve({"userId": lambda n: n if n is UNSET else n * 2})
        service = tasks(model=model, data=double)

        def change(context):
            if context.data["text"] == "in place":
                context.data["userId"] = 50
            else:
                context.data = {**context.data, "userId": 50, "text": "new"}

        service.hooks(before={"create": [know({"id": 2}), change]})
        assert (await service.create({"text": "in place", "userId": 5}))["userId"] == 100
        assert await service.create({"text": "a", "userId": 5}) == {
            "id": 3,
            "userId": 100,
            "text": "new",
        }

    async def test_hooks_may_make_something_else_of_it(self, model):
        service = tasks(model=model, data=OWN)

        def change(context):
            context.data = [context.data, {"text": "b"}]

        service.hooks(before={"create": [know({"id": 2}), change]})
        created = await service.create({"text": "a"})
        assert [each["userId"] for each in created] == [2, 2]


@models
class TestBeforeHooks:
    async def test_see_what_is_checked_but_not_resolved(self, model):
        seen = []
        service = tasks(
            model=model, query=OWN, data=resolve({"text": lambda text: text and text.upper()})
        )
        for by in ("all", "find", "create"):

            def look(context, by=by):
                seen.append((by, context.params.query, context.data))

            service.hooks(before={by: [look]})
        await service.find(query={"userId": "1"}, user={"id": 7})
        query = {"userId": 1}
        assert seen == [("all", query, None), ("find", query, None)]
        assert isinstance(seen[0][1], ValidatedQuery)
        del seen[:]
        await service.create({"text": "a", "userId": 3})
        data = {"text": "a", "userId": 3}
        assert seen == [("all", {}, data), ("create", {}, data)]

    async def test_cannot_undo_what_resolvers_make(self, model):
        service = tasks(model=model, query=OWN, data=OWN)

        def admin(context):
            context.params.query.pop("userId", None)
            if context.data:
                context.data["userId"] = 9

        service.hooks(before=[admin])
        assert await service.find(user={"id": 7}) == []
        assert (await service.create({"text": "a"}, user={"id": 7}))["userId"] == 7

    async def test_may_set_the_result(self, model):
        service = tasks(model=model, query=OWN)

        def answer(context):
            context.result = ["made"]

        service.hooks(before={"find": [answer]})
        assert await service.find(user={"id": 7}) == ["made"]

    async def test_a_cache_keeps_results_by_what_is_resolved(self, model):
        service = tasks(model=model, query=OWN).hooks(around=[cache(60, by=None)])
        for user, count in ((1, 1), (2, 0), (1, 1)):
            assert len(await service.find(user={"id": user})) == count

    @pytest.mark.parametrize("way", ["new", "in place", "params", "copy"])
    async def test_may_change_what_is_opened(self, model, way):
        kind = bool if model is Task else {"type": "boolean"}
        app = App()
        app.use("tasks", with_schema(Echo(), model, extensions={"text": {"$exists": kind}}))

        def change(context):
            query = {**context.params.query, "text": {"$exists": True}}
            if way == "new":
                context.params.query = query
            elif way == "in place":
                context.params.query["text"] = query["text"]
            elif way == "params":
                context.params = {"query": query}
            else:
                context.params = context.params.copy(query=query)

        service = app.service("tasks").hooks(before={"find": [change]})
        (query,) = await service.find(query={"userId": 1})
        assert query == {"userId": 1, "text": {"$exists": True}}
        assert isinstance(query, ValidatedQuery)
        assert query.operators == {"$exists"}


class Echo(MemoryService):
    """Answers the query with which a call has come to the method."""

    async def find(self, params=None):
        return [params.query]


@models
class TestAnotherAttempt:
    async def test_begins_with_what_came_in(self, model):
        service = tasks(
            model=model,
            data=resolve({"text": lambda text: text + "!"}),
            query=resolve({"userId": lambda n: n if n is UNSET else n + 1}),
        )
        attempts = []

        async def retry(context, next):
            for _ in range(3):
                await next()

        def note(context):
            attempts.append((dict(context.params.query), context.data["text"]))

        service.hooks(around=[retry], before=[note], after=[note])
        await service.create({"text": "a"}, query={"userId": 1})
        assert attempts == [({"userId": 1}, "a"), ({"userId": 2}, "a!")] * 3

    async def test_begins_with_what_came_in_after_a_resolver_failed(self, model):
        async def fail(text, record, context):
            context.params.failures = context.params.get("failures", 0) + 1
            if context.params.failures < 3:
                raise Conflict("again")
            return text + "!"

        query = resolve({"userId": lambda n: n if n is UNSET else n + 1})
        service = tasks(model=model, data=resolve({"text": fail}), query=query)
        queries = []

        async def retry(context, next):
            while True:
                try:
                    return await next()
                except BadRequest:
                    queries.append(dict(context.params.query))

        service.hooks(around=[retry])
        assert (await service.patch(1, {"text": "a"}, query={"userId": 0}))["text"] == "a!"
        assert queries == [{"userId": 0}] * 2

    async def test_goes_on_with_what_an_around_hook_has_changed(self, model):
        service = tasks(model=model, data=resolve({"text": lambda text: text + "!"}))
        seen = []

        async def retry(context, next):
            await next()
            context.data = {**context.data, "text": "b"}
            await next()
            context.data["text"] = "c"
            await next()

        service.hooks(around=[retry], after=[lambda context: seen.append(context.data["text"])])
        await service.create({"text": "a"})
        assert seen == ["a!", "b!", "c!"]


async def test_checks_come_after_authenticate_and_resolvers_after_all_hooks():
    from tests.authentication.building import make_app as with_authentication

    from alula.authentication import authenticate

    app = with_authentication()
    seen = []

    def refuse(value, record, context):
        seen.append("resolver")
        raise BadRequest("no")

    app.use("tasks", with_schema(MemoryService(), Task, data=resolve({"text": refuse})))
    first, second = (lambda _, name=name: seen.append(name) for name in ("first", "second"))
    app.service("tasks").hooks(before={"create": [first, authenticate("jwt"), second]})
    for data in ({"text": 5}, {"text": "a"}):
        with pytest.raises(NotAuthenticated):
            await app.service("tasks").create(data, provider="rest")
    assert seen == ["first", "first"]
    with pytest.raises(BadRequest):
        await app.service("tasks").create({"text": "a"})
    assert seen == ["first", "first", "first", "second", "resolver"]


async def test_error_hooks_of_the_service_see_what_checks_refuse():
    service = tasks()
    seen = []
    service.hooks(error=[lambda context: seen.append(context.error.code)])
    with pytest.raises(BadRequest):
        await service.find(query={"nope": 1})
    assert seen == [400]


async def test_a_service_of_another_application_is_checked_here_and_there():
    inner, outer = App(), App()
    inner.use("tasks", with_schema(MemoryService({1: {"id": 1, "userId": 1}}), Task, query=OWN))
    inner.service("tasks").hooks(before=[know({"id": 2})])
    outer.use("inner", inner)
    service = outer.service("inner/tasks")
    assert await service.find(provider="rest") == []
    with pytest.raises(NotFound):
        await service.remove(1, provider="rest")


class Strict(BaseModel, validate_default=True):
    """A model whose validators see fields that are made later."""

    text: str = Field(min_length=1, max_length=5)
    size: int

    def model_post_init(self, _):
        assert self.size < 100


async def test_validators_of_a_model_that_fall_over_what_is_made_later():
    service = tasks(model=Strict, data=resolve({"size": lambda size: min(size, 50)}))
    assert (await service.create({"text": "a", "size": 60}))["size"] == 50
    with pytest.raises(BadRequest) as caught:
        await service.create({"text": "a"})
    assert [each["keyword"] for each in caught.value.data] == ["required"]


async def test_a_hash_may_be_longer_than_what_is_sent():
    hashed = resolve({"text": lambda text: text * 20})
    service = tasks(model=Strict, data=hashed)

    async def retry(context, next):
        await next()
        await next()

    service.hooks(around=[retry])
    assert (await service.create({"text": "abcde", "size": 1}))["text"] == "abcde" * 20
