"""What the outside may ask for of properties that resolvers change on their way out."""

from __future__ import annotations

import functools

import pytest
from pydantic import BaseModel, SecretStr

import alula
from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.outgoing import public_part
from alula.schema import hidden, resolve, virtual, with_schema


class Employee(BaseModel):
    name: str
    salary: int = 0


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "salary": {"type": "integer"}},
    "required": ["name"],
}

models = pytest.mark.parametrize("model", [Employee, SCHEMA], ids=["model", "schema"])


def unset(value, record, context):
    return alula.UNSET


@functools.wraps(unset)
def decorated(*given):
    return unset(*given)


async def waits():
    return alula.UNSET


class Unset:
    def __call__(self, value):
        return alula.UNSET

    def method(self):
        return alula.UNSET


HIDING = {
    "hidden": hidden,
    "attribute": lambda: alula.UNSET,
    "all arguments": unset,
    "decorated": decorated,
    "coroutine": waits,
    "partial": functools.partial(unset, "value"),
    "method": Unset().method,
    "object": Unset(),
    "virtual": virtual(lambda: alula.UNSET),
    "at times": lambda value, record, context: value if context.params.user else alula.UNSET,
    "masked": lambda value: "***",
}

ASKED = [
    {"salary": {"$gt": 80_000}},
    {"salary": "90000"},
    {"$or": [{"name": "x"}, {"$and": [{"salary": {"$gt": 80_000}}]}]},
    {"$sort": {"salary": 1}},
    {"$select": ["salary"]},
    {"salary": {"$in": [90_000]}},
]


def employees(model, **options):
    app = App()
    store = MemoryService({1: {"id": 1, "name": "Ann", "salary": 90_000}})
    app.use("employees", with_schema(store, model, **options))
    return app.service("employees")


@models
@pytest.mark.parametrize("place", ["external", "result", "by method"])
@pytest.mark.parametrize("how", HIDING)
async def test_what_a_resolver_changes_is_closed_to_queries_from_outside(model, place, how):
    resolver = resolve({"salary": HIDING[how]})
    options = {"external": {"find": resolver}} if place == "by method" else {place: resolver}
    service = employees(model, **options)
    # Where a virtual property is selected, the service is asked for whole records.
    for query in ASKED if how != "virtual" else ASKED[:4]:
        for method, ids in (("find", []), ("get", [1]), ("patch", [1, {}]), ("remove", [1])):
            with pytest.raises(BadRequest, match="validation failed"):
                await getattr(service, method)(*ids, query=query, provider="rest")
        assert await service.find(query={**query, "name": "Ann"}) is not None
    (found,) = await service.find(query={"name": "Ann"}, provider="rest")
    assert public_part(found).get("salary") in (None, "***")


@models
async def test_it_is_opened_by_its_name(model):
    service = employees(
        model, external=resolve({"salary": lambda salary: salary // 1000}), queryable=["salary"]
    )
    for query in ASKED:
        (found,) = await service.find(query=query, provider="rest")
        assert public_part(found).get("salary", 90) == 90


@models
@pytest.mark.parametrize("place", ["external", "result"])
async def test_a_function_sees_whole_records_whatever_is_selected(model, place):
    def for_others(salary, record):
        return alula.UNSET if record.get("name") == "Ann" else salary

    resolver = resolve({"salary": for_others, "size": virtual(len)})
    service = employees(model, **{place: resolver}, queryable=["salary"])
    for method, ids in (("find", []), ("get", [1]), ("patch", [1, {}])):
        for names in (["salary"], ["salary", "size"]):
            found = public_part(
                await getattr(service, method)(*ids, query={"$select": names}, provider="rest")
            )
            assert (found[0] if method == "find" else found).keys() <= {"id", "size"}


@models
async def test_other_properties_stay_open(model):
    service = employees(model, result=resolve({"size": virtual(len)}), hidden=["salary"])
    query = {"name": {"$gt": "A"}, "$sort": {"name": 1}, "$select": ["name", "size"]}
    (found,) = await service.find(query=query, provider="rest")
    assert public_part(found) == {"id": 1, "name": "Ann", "size": 3}


async def test_what_a_model_excludes_cannot_be_queryable():
    class Account(BaseModel):
        pin: SecretStr

    with pytest.raises(ValueError, match="'pin' is both hidden and queryable"):
        employees(Account, external=resolve({"pin": lambda pin: pin}), queryable=["pin"])
    service = employees(Account, external=resolve({"pin": lambda pin: "shown"}))
    created = await service.create({"pin": "1234"})
    assert "pin" not in public_part(created)


async def test_a_schema_that_is_open_takes_resolvers_of_any_name():
    service = employees(
        {**SCHEMA, "additionalProperties": True}, data=resolve({"nmae": lambda: 1}), hidden=["x"]
    )
    assert public_part(await service.create({"name": "a", "x": 1})) == {
        "id": 0,
        "name": "a",
        "nmae": 1,
    }


PLACES = ("query", "data", "result", "external")


@models
@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_a_resolver_is_refused(model, place):
    for wrong in (
        5,
        lambda: 1,
        "x",
        {"name": lambda: 1},
        {"create": 5},
        [resolve({})],
        virtual(len),
    ):
        with pytest.raises(TypeError, match=f"{place} takes what resolve"):
            employees(model, **{place: wrong})
    with pytest.raises(TypeError, match=f"{place}: 3 is not the name"):
        employees(model, **{place: {3: resolve({})}})
    with pytest.raises(ValueError, match=f"{place}: .*'creat'; did you mean"):
        employees(model, **{place: {"creat": resolve({})}})
    with pytest.raises(ValueError, match=f"{place} .* the method 'announce'"):
        employees(model, **{place: {"announce": resolve({})}})
    with pytest.raises(ValueError, match=r"'nmae'.*did you mean 'name'"):
        employees(model, **{place: {"create": resolve({"nmae": lambda: 1})}})


@models
async def test_resolvers_by_method(model):
    class Store(MemoryService):
        async def announce(self, data, params):
            return {"name": data["name"], "query": params.query}

    def named(name):
        return resolve({"name": lambda: name})

    app = App()
    bundle = with_schema(
        Store(start_id=1),
        model,
        query={"remove": named("patched"), "announce": resolve({"x": virtual(lambda: 5)})},
        data={
            "create": named("created"),
            "patch": named("patched"),
            "announce": named("published"),
        },
        result={"get": resolve({"size": virtual(lambda record: len(record["name"]))})},
        external={"get": named("shown"), "announce": named("hidden")},
    )
    app.use("employees", bundle, methods=["get", "create", "update", "patch", "remove", "announce"])
    service = app.service("employees")
    assert (await service.create({}))["name"] == "created"
    got = await service.get(1)
    assert (got["size"], public_part(got)["name"]) == (7, "shown")
    assert (await service.update(1, {"name": "sent"}))["name"] == "sent"
    with pytest.raises(BadRequest, match="validation failed"):
        await service.update(1, {})
    assert (await service.patch(1, {"salary": 1}))["name"] == "patched"
    published = await service.announce({"name": "sent"})
    assert published == {"name": "published", "query": {"x": 5}}
    assert public_part(published)["name"] == "hidden"
    assert (await service.remove(1))["name"] == "patched"


def test_data_is_not_for_methods_without_it():
    for method in ("find", "get", "remove"):
        with pytest.raises(ValueError, match=f"data: {method} has no data; use create"):
            employees(Employee, data={method: resolve({})})
