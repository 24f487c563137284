"""What descriptions say of methods with annotations; the typed endpoints show the rest."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from tests.openapi.described import references
from typing_extensions import TypedDict

from alula import App, Page, Params, answers
from alula.adapters.memory import MemoryService
from alula.errors import Conflict, PaymentError
from alula.openapi import describe, typescript
from alula.openapi._asyncapi import describe_events
from alula.schema import with_schema


class Place(BaseModel):
    city: str


class Article(BaseModel):
    id: int
    title: str
    place: Place | None = None


class Draft(TypedDict):
    title: str


class Color(Enum):
    RED = "red"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


def document(path="things", methods=None, schema=None, **functions):
    service = type("Service", (), functions)()
    bundle = service if schema is None else with_schema(service, schema)
    app = App().use(path, bundle, methods=methods)
    told = describe(app)
    assert {*references(told)} <= {
        *(f"#/components/schemas/{name}" for name in told["components"]["schemas"]),
        *(f"#/components/responses/{name}" for name in told["components"]["responses"]),
    }
    return told, typescript(app)


def shown(operation, status="200"):
    return operation["responses"][status]["content"]["application/json"]["schema"]


@pytest.mark.parametrize(
    ("type_", "schema", "in_typescript"),
    [
        (Page[Article], "page", "Feathers.Paginated<Article>"),
        (Page[Article] | list[Article], "either", "Feathers.Paginated<Article> | Article[]"),
        (Callable[..., int], {}, "unknown"),
        (dict[str, Place], "#", "{ [name: string]: Place }"),
    ],
)
def test_results_of_other_kinds(type_, schema, in_typescript):
    async def find(self, params): ...

    find.__annotations__["return"] = type_
    told, code = document(find=find)
    result = shown(told["paths"]["/things"]["get"])
    records = {"type": "array", "items": {"$ref": "#/components/schemas/things.findResult"}}
    if schema == "page":
        assert result["properties"]["data"] == records
    elif schema == "either":
        assert result["anyOf"][0]["properties"]["data"] == result["anyOf"][1] == records
    elif schema == "#":
        assert result == {"$ref": "#/components/schemas/things.findResult"}
    else:
        assert result == schema
    assert f"find(params?: ThingsParams): Promise<{in_typescript}>" in code


def test_one_thing_has_no_address_with_an_id():
    async def find(self, params: Params) -> Place: ...
    async def update(self, id: None, data: Place, params: Params) -> Place: ...
    async def patch(self, id: int | None, data: Place, params: Params) -> Place: ...

    told, code = document(find=find, update=update, patch=patch)
    assert {*told["paths"]["/things"]} == {"parameters", "get", "put", "patch"}
    assert {*told["paths"]["/things/{id}"]} == {"parameters", "patch"}
    assert told["paths"]["/things"]["put"]["operationId"] == "things.update"
    assert told["paths"]["/things"]["patch"]["operationId"] == "things.patchSeveral"
    assert "update(id: null, data: ThingsData, params?" in code
    assert "patch(id: number | null, data: ThingsPatch, params?" in code


def test_statuses_and_errors():
    @answers(202, errors=[PaymentError, Conflict])
    async def create(self, data: None, params: Params) -> None: ...

    @answers(errors=[Conflict])
    async def start(self, data: dict[str, Any], params: Params): ...

    told, code = document(methods=["create", "start"], create=create, start=start)
    create_ = told["paths"]["/things"]["post"]
    assert {*create_["responses"]} == {"202", "400", "402", "409", "default"}
    assert "requestBody" not in create_
    assert {*told["paths"]["/things/start"]["post"]["responses"]} >= {"200", "204", "409"}
    assert "create(data: null, params?: ThingsParams): Promise<null>" in code


def test_parameters_of_other_kinds():
    async def find(
        self,
        params: Params,
        *,
        page: int | str | None = None,
        sort: Literal["a", "b"] = "a",
        near: Place | None = None,
    ): ...

    told, _ = document(find=find)
    page, sort, near = (each["schema"] for each in told["paths"]["/things"]["get"]["parameters"])
    assert page == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert sort == {"default": "a", "enum": ["a", "b"], "type": "string"}
    assert near == {"$ref": "#/components/schemas/things.Query.Place"}


def test_parameters_that_are_lists_have_a_text_or_are_an_enumeration():
    async def find(
        self,
        params: Params,
        *,
        tags: Annotated[list[str], Field(description="any of these")],
        color: Color | None = None,
    ): ...

    told, _ = document(find=find)
    tags, color = told["paths"]["/things"]["get"]["parameters"]
    assert (tags["description"], tags["style"], tags["explode"]) == ("any of these", "form", True)
    assert color["schema"] == {"enum": ["red"], "type": "string"}


def test_custom_methods_without_data_take_null():
    async def start(self, data: None, params: Params): ...

    _, code = document(methods=["start"], start=start)
    assert "start(data: null, params?: ThingsParams): Promise<unknown>" in code


def test_a_discriminator_leads_to_components():
    async def get(self, id: int, params: Params) -> Owner: ...

    told, _ = document(get=get)
    pet = told["components"]["schemas"]["things.getResult"]["properties"]["pet"]
    assert {*pet["discriminator"]["mapping"]} == {"cat", "dog"}
    assert [{"$ref": each} for each in pet["discriminator"]["mapping"].values()] == pet["oneOf"]


def test_placeholders_of_different_types_are_text():
    async def find(self, params: Params, *, year: int): ...
    async def get(self, id: str, params: Params, *, year: Annotated[str, Field()]): ...

    told, _ = document("years/:year/things", find=find, get=get)
    for path in told["paths"].values():
        assert path["parameters"][0]["schema"] == {"type": "string"}


def test_a_schema_describes_the_results_of_a_service_of_ones_own():
    async def find(self, params): ...
    async def get(self, id, params): ...
    async def create(self, data: Draft, params: Params): ...

    told, code = document(find=find, get=get, create=create, schema=Article)
    record = {"$ref": "#/components/schemas/things"}
    assert shown(told["paths"]["/things/{id}"]["get"]) == record
    assert shown(told["paths"]["/things"]["get"]) == {"type": "array", "items": record}
    assert shown(told["paths"]["/things"]["post"], "201") == record
    assert "204" not in told["paths"]["/things/{id}"]["get"]["responses"]
    assert "find(params?: ArticleParams): Promise<Article[]>" in code
    assert "create(data: ArticleData, params?: ArticleParams): Promise<Article>" in code


def test_queries_are_those_of_each_method():
    async def find(self, params: Params, *, tag: str = ""): ...
    async def get(self, id: int, params: Params, *, version: int = 1): ...
    async def remove(self, id: int, params: Params, *, tag: str = ""): ...

    _, code = document(find=find, get=get, remove=remove)
    assert "find(params?: ThingsParams): Promise<unknown>" in code
    assert "remove(id: number, params?: ThingsParams): Promise<unknown>" in code
    assert "get(id: number, params?: ThingsGetParams): Promise<unknown>" in code
    assert "export interface ThingsGetQuery {\n  version?: number\n}" in code


def test_classes_of_one_name_have_two_types_unless_they_are_equal():
    other = type("Place", (BaseModel,), {"__annotations__": {"zip": str}})
    same = type("Place", (BaseModel,), {"__annotations__": {"city": str}})

    def service(type_):
        async def get(self, id: int, params: Params): ...

        get.__annotations__ = {"return": type_}
        return type("Service", (), {"get": get})()

    app = App()
    for name, type_ in {"a": Place, "b": other, "c": same, "d": Article}.items():
        app.use(name, service(type_))
    code = typescript(app)
    assert code.count("export interface Place {") == code.count("export interface Place_ {") == 1
    assert code.count("Promise<Place>") == 2
    assert "Promise<Place_>" in code
    assert "  place: Place | null" in code


def test_annotations_of_a_method_that_an_adapter_has_got_are_described():
    class Notes(MemoryService):
        async def get(self, id: str, params: Params) -> Article: ...

    told = describe(App().use("notes", Notes()))
    assert shown(told["paths"]["/notes/{id}"]["get"]) == {
        "$ref": "#/components/schemas/notes.getResult"
    }


def test_a_discriminator_may_have_no_mapping():
    schema = {
        "properties": {
            "a": {"discriminator": {"propertyName": "b"}, "oneOf": [{"properties": {"b": {}}}]}
        }
    }
    told = describe(App().use("notes", with_schema(MemoryService(), schema)))
    shown_ = told["components"]["schemas"]["notes"]["properties"]["a"]
    assert shown_["discriminator"] == {"propertyName": "b"}


def test_events_have_the_types_of_results():
    async def create(self, data: Place, params: Params) -> Article: ...
    async def remove(self, id: int, params: Params) -> None: ...

    app = App().use("things", type("Things", (), {"create": create, "remove": remove})())
    app.service("things").publish(lambda data, context: None)
    messages = describe_events(app)["components"]["messages"]
    result = {"$ref": "#/components/schemas/things.createResult"}
    assert messages["things.created"]["payload"] == result
    assert messages["things.removed"]["payload"] == {"type": "null"}
    assert "ServiceEvents<{ created: Article; removed: null }>" in typescript(app)
