"""The hooks that check queries and data, on services."""

from __future__ import annotations

import copy

import pytest
from pydantic import BaseModel, ConfigDict

from alula import App, HookContext, Params
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.query import ValidatedQuery
from alula.schema import SchemaError, get_validator, query_syntax, validate_data, validate_query
from alula.schema._validation_hooks import MAX_RECORDS

RECORDS = [{"name": name, "age": age} for name, age in (("Ann", 20), ("Bob", 30), ("Amy", 40))]
PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}, "age": {"type": "integer"}}
DATA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 1}},
    "required": ["name"],
    "additionalProperties": False,
}


class Person(BaseModel):
    id: int = 0
    name: str
    age: int = 0


class NewPerson(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    age: int = 1


QUERIES = {
    "schema": query_syntax(PROPERTIES, {"name": {"$regex": {"type": "string"}}}),
    "model": query_syntax(Person, {"name": {"$regex": str}}),
}


def people(hooks, **options):
    app = App()
    app.use("people", MemoryService(RECORDS, multi=True, **options))
    service = app.service("people")
    service.hooks(**hooks)
    return service


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("place", ["around", "before"])
class TestQueries:
    async def test_are_typed(self, kind, place):
        service = people({place: [validate_query(QUERIES[kind])]})
        query = {"age": {"$gt": "20"}, "$sort": {"age": "-1"}, "$select": ["age"]}
        before = copy.deepcopy(query)
        found = await service.find(query=query)
        assert [record["age"] for record in found] == [40, 30]
        assert query == before

    async def test_are_checked_for_every_method(self, kind, place):
        service = people({place: [validate_query(QUERIES[kind])]})
        for method, arguments in {
            "find": [],
            "get": [0],
            "create": [{"name": "x"}],
            "update": [0, {"name": "x"}],
            "patch": [0, {"name": "x"}],
            "remove": [0],
        }.items():
            with pytest.raises(BadRequest) as caught:
                await getattr(service, method)(*arguments, query={"nope": 1})
            assert caught.value.data[0]["params"] == {"additionalProperty": "nope"}

    async def test_open_what_the_schema_names(self, kind, place):
        service = people({place: [validate_query(QUERIES[kind])]})
        found = await service.find(query={"name": {"$regex": "^A"}})
        assert [record["name"] for record in found] == ["Ann", "Amy"]
        with pytest.raises(BadRequest):
            await service.find(query={"name": {"$size": 1}})

    async def test_keep_to_the_page_sizes(self, kind, place):
        hooks = {place: [validate_query(QUERIES[kind])]}
        service = people(hooks, paginate={"default": 1, "max": 2})
        assert (await service.find())["limit"] == 1
        page = await service.find(query={"$limit": "50"})
        assert (page["total"], page["limit"], len(page["data"])) == (3, 2, 2)

    async def test_take_21_ids(self, kind, place):
        service = people({place: [validate_query(QUERIES[kind])]})
        ids = {str(index): str(index) for index in range(21)}
        assert len(await service.find(query={"id": {"$in": ids}})) == 3


@pytest.mark.parametrize("place", ["before", "around"])
async def test_a_call_without_a_query_has_one_of_its_own(place):
    seen = []

    async def note(context):
        seen.append(context.params.query)
        context.params.query["age"] = 20

    query_check = validate_query(query_syntax(Person))
    service = people(
        {place: [query_check], "before": [note]}
        if place == "around"
        else {"before": [query_check, note]}
    )
    await service.find()
    await service.find()
    assert all(isinstance(query, ValidatedQuery) for query in seen)
    assert seen[0] is not seen[1]


async def test_a_validator_of_the_application_sees_an_empty_query():
    class Tenant:
        operators = filters = frozenset()

        def validate(self, value):
            if "tenant" not in value:
                raise BadRequest("which tenant?")
            return {}

    service = people({"before": [validate_query(Tenant())]})
    assert len(await service.find(query={"tenant": "acme"})) == 3
    with pytest.raises(BadRequest, match="which tenant"):
        await service.find()


async def test_hooks_that_check_can_be_called_by_others():
    service = people({})
    context = HookContext(service.app, service, "create", Params(query={"age": "20"}), None, {})
    await validate_query(QUERIES["schema"])(context)
    assert context.params.query == {"age": 20}
    with pytest.raises(BadRequest):
        await validate_data({"type": "object", "required": ["name"]})(context)


async def test_a_checked_query_bears_the_mark():
    seen = []
    check = validate_query(QUERIES["schema"])
    service = people({"around": [check], "before": [lambda context: seen.append(context.params)]})
    await service.find(query={"age": "20"})
    assert isinstance(seen[0].query, ValidatedQuery)
    assert seen[0].query == {"age": 20}
    assert seen[0].query.operators == {"$regex"}


async def test_a_validator_may_be_given_as_well():
    strict = get_validator(QUERIES["schema"])
    service = people({"around": [validate_query(strict)]})
    with pytest.raises(BadRequest):
        await service.find(query={"age": "20"})
    assert len(await service.find(query={"age": 20})) == 1


@pytest.mark.parametrize("name", ["$where", "$expr", "$function", "$accumulator"])
def test_what_never_passes_from_a_query_cannot_be_opened(name):
    for extensions in ({"name": {name: {}}}, {name: {}}):
        with pytest.raises(SchemaError, match=rf"opens what cannot be opened: .*\{name}"):
            validate_query(query_syntax(PROPERTIES, extensions))


def test_a_malformed_schema_is_an_error_when_the_hook_is_made():
    with pytest.raises(SchemaError, match="schema at #/type"):
        validate_query({"type": "objekt"})
    with pytest.raises(SchemaError, match="schema at #/properties/a: unknown keyword"):
        validate_data({"properties": {"a": {"minLenght": 1}}})
    with pytest.raises(SchemaError, match="neither a JSON Schema nor"):
        validate_data(object())


@pytest.mark.parametrize("place", ["around", "before"])
@pytest.mark.parametrize("what", [DATA, NewPerson], ids=["schema", "model"])
class TestData:
    async def test_is_checked_and_completed(self, place, what):
        service = people({place: [validate_data(what)]})
        data = {"name": "x"}
        assert await service.create(data) == {"name": "x", "age": 1, "id": 3}
        assert data == {"name": "x"}
        assert await service.update(0, {"name": "y"}) == {"name": "y", "age": 1, "id": 0}
        with pytest.raises(BadRequest) as caught:
            await service.patch(0, {"age": 5, "nope": 1})
        assert sorted(each["keyword"] for each in caught.value.data) == [
            "additionalProperties",
            "required",
        ]

    async def test_is_checked_in_lists_to_the_last_record(self, place, what):
        service = people({place: [validate_data(what)]})
        new = await service.create([{"name": "x"}, {"name": "y"}])
        assert [record["age"] for record in new] == [1, 1]
        assert await service.create([]) == []
        with pytest.raises(BadRequest) as caught:
            await service.create([{"name": "x"}, {"age": 1}, {"age": 2, "nope": 3}])
        assert sorted(each["keyword"] for each in caught.value.data) == [
            "additionalProperties",
            "required",
            "required",
        ]
        assert len(await service.find()) == 5

    async def test_has_to_be_an_object(self, place, what):
        service = people({place: [validate_data(what)]})
        for data in (None, 5, "x"):
            with pytest.raises(BadRequest) as caught:
                await service.create(data)
            assert caught.value.data[0]["message"] == "must be object"

    async def test_is_no_matter_of_methods_without(self, place, what):
        service = people({place: [validate_data(what)]})
        assert len(await service.find()) == 3
        assert (await service.get(0))["name"] == "Ann"
        assert (await service.remove(0))["name"] == "Ann"


async def test_is_not_coerced():
    service = people({"before": [validate_data(DATA)]})
    with pytest.raises(BadRequest):
        await service.create({"name": "x", "age": "5"})


async def test_data_may_have_a_schema_for_each_method():
    part = {**DATA, "required": [], "properties": {"name": {"type": "string"}}}
    service = people({"before": [validate_data({"create": DATA, "patch": part})]})
    assert (await service.patch(0, {}))["age"] == 20
    with pytest.raises(BadRequest):
        await service.create({})
    with pytest.raises(BadRequest):
        await service.patch(0, {"age": 5})
    assert await service.update(0, {"nope": 1}) == {"nope": 1, "id": 0}


async def test_data_of_custom_methods_is_checked():
    class Calculator:
        async def add(self, data, params):
            return sum(data["values"])

    app = App()
    app.use("calc", Calculator(), methods=["add"])
    values = {"type": "array", "items": {"type": "number"}}
    schema = {"type": "object", "properties": {"values": values}, "required": ["values"]}
    app.service("calc").hooks(before={"add": [validate_data(schema)]})
    assert await app.service("calc").add({"values": [1, 2]}) == 3
    with pytest.raises(BadRequest):
        await app.service("calc").add({"values": ["1"]})


async def test_a_list_is_given_up_where_there_is_enough_to_tell():
    seen = []

    class Counting:
        operators = filters = frozenset()

        def validate(self, value):
            seen.append(value)
            raise BadRequest("validation failed", [{"message": "no"}] * 600)

    service = people({"before": [validate_data(Counting())]})
    with pytest.raises(BadRequest) as caught:
        await service.create([{}] * 50)
    assert len(seen) == 2
    assert len(caught.value.data) == 1_000


async def test_a_list_with_a_record_that_is_too_deep_is_refused():
    service = people({"before": [validate_data({"items": {"$ref": "#"}})]})
    deep: list = []
    for _ in range(2_000):
        deep = [deep]
    with pytest.raises(BadRequest, match="nested too deeply"):
        await service.create([{}, deep])


@pytest.mark.parametrize("hook", [validate_query({"type": "object"}), validate_data({})])
@pytest.mark.parametrize("kind", ["after", "error"])
def test_a_check_after_the_call_would_check_nothing(hook, kind):
    app = App()
    app.use("things", MemoryService())
    with pytest.raises(TypeError, match="before or around hook"):
        app.service("things").hooks({kind: [hook]})


async def test_the_outside_brings_so_many_records_at_once():
    app = App()
    app.use("people", MemoryService(multi=True))
    people = app.service("people").hooks(before={"create": [validate_data(DATA)]})
    records = [{"name": "Ann"}] * (MAX_RECORDS + 1)
    with pytest.raises(BadRequest, match=f"more than {MAX_RECORDS} records"):
        await people.create(records, provider="rest")
    assert len(await people.create(records[1:], provider="rest")) == MAX_RECORDS
    assert len(await people.create(records)) == MAX_RECORDS + 1


async def test_a_filter_of_a_model_is_converted_and_opened():
    queries = query_syntax(Person, {"$near": list[float]})
    service = people({"before": [validate_query(queries)]}, filters={"$near": lambda value: value})
    seen = []
    service.before("find")(lambda context: seen.append(context.params.query["$near"]))
    await service.find(query={"$near": ["1.5", 2]})
    assert seen == [[1.5, 2.0]]
    with pytest.raises(BadRequest):
        await service.find(query={"$near": ["here"]})
