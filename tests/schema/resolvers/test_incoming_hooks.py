"""Resolvers of what comes in."""

from __future__ import annotations

import asyncio

import pytest

from alula import App, HookContext
from alula._context import Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest, Forbidden, MethodNotAllowed
from alula.query import ValidatedQuery
from alula.schema import virtual
from alula.schema._resolvers.hooks import resolve_data, resolve_query
from alula.schema._resolvers.resolver import resolve
from alula.types import UNSET


class Echo:
    """Answers what arrived."""

    async def find(self, params):
        return {"query": params.query}

    async def create(self, data, params):
        return {"data": data}

    async def shout(self, data, params):
        return {"data": data}


def echo(**hooks):
    app = App()
    app.use("echo", Echo(), methods=["find", "create", "shout"])
    return app.service("echo").hooks(**hooks)


def date(value):
    """Stands for what turns a text into a date, in operators too."""
    if isinstance(value, dict):
        return {name: date(inner) for name, inner in value.items()}
    if isinstance(value, str):
        return ("date", value)
    return value


async def asked(resolver, query, kind="around"):
    return (await echo(**{kind: [resolve_query(resolver)]}).find(query=query))["query"]


@pytest.mark.parametrize("kind", ["around", "before"])
class TestQuery:
    async def test_resolves_fields(self, kind):
        query = await asked(resolve({"at": date}), {"at": {"$gt": "x"}, "$limit": 2}, kind)
        assert query == {"at": {"$gt": ("date", "x")}, "$limit": 2}

    async def test_sets_what_callers_may_not_choose(self, kind):
        own = resolve({"userId": lambda _, __, context: context.params.user["id"]})
        service = echo(**{kind: [resolve_query(own)]})
        for query in ({}, {"userId": 2}, {"$or": [{"userId": 2}]}):
            answer = await service.find(query=query, user={"id": 1})
            assert answer["query"]["userId"] == 1

    async def test_removes(self, kind):
        query = {"password": "a", "$or": [{"password": "b", "name": "c"}]}
        hidden = resolve({"password": lambda: UNSET})
        assert await asked(hidden, query, kind) == {"$or": [{"name": "c"}]}


async def test_resolves_what_is_present_in_every_branch():
    resolver = resolve({"at": date, "own": lambda: 1, "more": virtual(lambda: 2)})
    query = {
        "$or": [{"at": "x"}, {"$and": [{"at": "y", "a": 1}, {"own": 5}]}],
        "$and": {"0": {"at": "z"}},
    }
    assert await asked(resolver, query) == {
        "$or": [{"at": ("date", "x")}, {"$and": [{"at": ("date", "y"), "a": 1}, {"own": 1}]}],
        "$and": [{"at": ("date", "z")}],
        "own": 1,
        "more": 2,
    }


async def test_leaves_to_others_what_is_no_branch():
    for branches in ([3, None], {"a": {"at": "x"}}, {}):
        for name in ("$or", "$and"):
            assert await asked(resolve({"at": date}), {name: branches}) == {name: branches}


async def test_keeps_the_mark_of_a_checked_query():
    seen = []
    service = echo(
        around=[
            resolve_query(resolve({"at": date})),
        ],
        before=[lambda context: seen.append(context.params)],
    )
    context = HookContext(service.app, service, "find", Params())
    context.params.query = ValidatedQuery({"at": "x"}, ["$regex"], ["$text"])
    await service.run(context)
    assert seen[0].query == {"at": ("date", "x")}
    assert isinstance(seen[0].query, ValidatedQuery)
    assert (seen[0].query.operators, seen[0].query.filters) == ({"$regex"}, {"$text"})


async def test_does_not_change_what_the_caller_holds():
    query = {"at": "x", "$or": [{"at": "y"}]}
    await asked(resolve({"at": date}), query)
    assert query == {"at": "x", "$or": [{"at": "y"}]}


async def test_takes_params_that_a_hook_has_made_a_mapping():
    def replace(context, next):
        context.params = {**context.params, "query": {"at": "x"}}
        return next()

    answer = await echo(around=[replace, resolve_query(resolve({"at": date}))]).find()
    assert answer == {"query": {"at": ("date", "x")}}


async def test_several_resolvers_follow_each_other():
    app = echo(
        around=[resolve_query(resolve({"a": lambda v: v + 1}), resolve({"a": lambda v: v * 2}))]
    )
    assert (await app.find(query={"a": 3, "$or": [{"a": 1}]}))["query"] == {
        "a": 8,
        "$or": [{"a": 4}],
    }


@pytest.mark.parametrize("where", [{"at": "x"}, {"$or": [{"at": "x"}]}])
async def test_a_value_that_cannot_be_is_a_400(where):
    def refuse(value):
        if value is not UNSET:
            raise ValueError(f"{value} is no date")
        return value

    with pytest.raises(BadRequest) as caught:
        await asked(resolve({"at": refuse}), where)
    assert caught.value.data == {"at": {"message": "x is no date"}}


@pytest.mark.parametrize("kind", ["around", "before"])
class TestData:
    async def test_resolves_one_record(self, kind):
        service = echo(
            **{kind: [resolve_data(resolve({"text": str.upper, "at": virtual(lambda: 1)}))]}
        )
        assert await service.create({"text": "a", "b": 1}) == {
            "data": {"text": "A", "b": 1, "at": 1}
        }

    async def test_resolves_each_of_a_list(self, kind):
        service = echo(**{kind: [resolve_data(resolve({"text": str.upper}))]})
        assert await service.create([{"text": "a"}, {"text": "b"}]) == {
            "data": [{"text": "A"}, {"text": "B"}]
        }
        assert await service.create([]) == {"data": []}

    async def test_resolves_for_custom_methods(self, kind):
        service = echo(**{kind: [resolve_data(resolve({"text": str.upper}))]})
        assert await service.shout({"text": "a"}) == {"data": {"text": "A"}}

    async def test_goes_on_where_there_is_no_data(self, kind):
        service = echo(**{kind: [resolve_data(resolve({"text": str.upper}))]})
        assert await service.find() == {"query": {}}
        assert await service.shout() == {"data": None}

    async def test_what_is_no_object_is_a_400(self, kind):
        service = echo(**{kind: [resolve_data(resolve({"text": str.upper}))]})
        for data in ("text", 3, [{"text": "a"}, 3]):
            with pytest.raises(BadRequest, match="data of create must be an object"):
                await service.create(data)


async def test_data_that_cannot_be_is_a_400_with_all_properties():
    def number(value):
        return int(value)

    def mine():
        raise Forbidden("not yours")

    service = echo(before={"create": [resolve_data(resolve({"age": number, "userId": mine}))]})
    with pytest.raises(BadRequest) as caught:
        await service.create({"age": "x"})
    assert caught.value.data["age"]["message"].startswith("invalid literal")
    assert caught.value.data["userId"]["name"] == "Forbidden"


async def test_does_not_change_the_data_of_the_caller():
    data = {"password": "x"}
    service = echo(before=[resolve_data(resolve({"password": lambda: "hashed"}))])
    assert await service.create(data) == {"data": {"password": "hashed"}}
    assert data == {"password": "x"}


class Operated:
    """A service whose data may have update operators."""

    async def patch(self, id, data, params):
        return data


def operated():
    first = resolve({"owner": lambda: 7, "role": lambda: UNSET})
    second = resolve({"pin": lambda pin: pin if pin is UNSET else f"hash of {pin}"})
    app = App().use("operated", Operated())
    return app.service("operated").hooks(before={"patch": [resolve_data(first, second)]})


async def test_what_a_client_sets_by_an_operator_is_resolved():
    data = {"$set": {"owner": 8, "role": "admin", "pin": "1", "text": "a"}, "$inc": {"n": 1}}
    assert await operated().patch(1, data, provider="rest") == {
        "$set": {"owner": 7, "pin": "hash of 1", "text": "a"},
        "$inc": {"n": 1},
        "owner": 7,
    }
    assert data["$set"]["role"] == "admin"
    kept = {"$set": {"text": "a"}, "$odd": 5}
    assert await operated().patch(1, kept, provider="rest") == {**kept, "owner": 7}


@pytest.mark.parametrize(
    "data", [{"$max": {"owner": 9}}, {"$unset": {"pin": 1}}, {"$rename": {"text": "role"}}]
)
async def test_other_operators_of_clients_change_nothing_that_is_resolved(data):
    with pytest.raises(BadRequest, match=r"can be set, but not changed by \$"):
        await operated().patch(1, data, provider="rest")
    assert await operated().patch(1, data) == {**data, "owner": 7}


@pytest.mark.parametrize(
    "data",
    [
        {"pin.x": 9},
        {"pin.0": 9},
        {"$set": {"pin.x": 1}},
        {"$push": {"pin.0": 1}},
        {"$rename": {"text": "role.x"}},
    ],
)
async def test_paths_of_clients_change_no_part_of_what_is_resolved(data):
    with pytest.raises(BadRequest, match="can be set as a whole, but not changed by"):
        await operated().patch(1, data, provider="rest")
    assert await operated().patch(1, data) == {**data, "owner": 7}


async def test_records_of_a_list_are_resolved_at_the_same_time():
    begun = []
    gate = asyncio.Event()

    async def wait(value):
        begun.append(value)
        if len(begun) == 3:
            gate.set()
        await gate.wait()
        return value

    app = App()
    app.use("notes", MemoryService(multi=True))
    app.service("notes").hooks(before={"create": [resolve_data(resolve({"text": wait}))]})
    async with asyncio.timeout(30):
        await app.service("notes").create([{"text": str(n)} for n in range(3)])


async def test_a_list_that_the_service_refuses_costs_nothing():
    hashed = []
    app = App()
    app.use("people", MemoryService())
    resolver = resolve({"password": hashed.append})
    people = app.service("people").hooks(before={"create": [resolve_data(resolver)]})
    with pytest.raises(MethodNotAllowed, match="Can not create multiple entries"):
        await people.create([{"password": "a"}])
    await people.create([{"password": "b"}], adapter={"multi": True})
    assert hashed == ["b"]


async def test_a_list_for_one_record_costs_nothing():
    hashed = []
    app = App()
    app.use("people", MemoryService(multi=True))
    hook = resolve_data(resolve({"password": hashed.append}))
    people = app.service("people").hooks(before={"update": [hook], "patch": [hook]})
    with pytest.raises(BadRequest, match="can not replace multiple instances"):
        await people.update(1, [{"password": "a"}])
    for record_id in (1, None):
        with pytest.raises(BadRequest, match="data of patch must be an object, not a list"):
            await people.patch(record_id, [{"password": "a"}])
    with pytest.raises(MethodNotAllowed, match="Can not patch multiple entries"):
        await people.patch(None, [{"password": "a"}], adapter={"multi": False})
    assert hashed == []


async def test_a_method_of_its_own_may_take_a_list():
    class Notes(MemoryService):
        async def read_all(self, data, params):
            return data

    app = App()
    app.use("notes", Notes(), methods=["read_all"])
    notes = app.service("notes").hooks(before=[resolve_data(resolve({"read": lambda: True}))])
    assert await notes.read_all([{"id": 1}, {"id": 2}]) == [
        {"id": 1, "read": True},
        {"id": 2, "read": True},
    ]


@pytest.mark.parametrize("hook", [resolve_query, resolve_data])
def test_what_is_not_a_resolver_is_refused(hook):
    with pytest.raises(TypeError, match=f"{hook.__name__} needs a resolver"):
        hook()
    with pytest.raises(TypeError, match=rf"{hook.__name__} takes what resolve\({{...}}\) returns"):
        hook({"a": lambda: 1})
