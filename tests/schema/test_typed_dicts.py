"""One `TypedDict` validates the records of a service, and is their type for checkers."""

from __future__ import annotations

from typing import Annotated, NotRequired, Required, TypedDict

import pytest
from pydantic import ConfigDict, Field, SecretStr
from typing_extensions import ReadOnly

from alula import App
from alula.adapters.memory import MemoryService
from alula.errors import BadRequest
from alula.schema import SchemaError, resolve, virtual, with_schema

pytestmark = pytest.mark.anyio


class Message(TypedDict):
    """A text that somebody likes."""

    id: int
    text: Annotated[str, Field(min_length=1)]
    likes: NotRequired[Annotated[int, Field(ge=0)]]
    copy: NotRequired[ReadOnly[bool]]  # the name of a method of models
    json: Annotated[NotRequired[Annotated[int, Field(ge=1)]], Field(le=3)]


class Draft(TypedDict, total=False):
    _id: Required[str]
    title: str


class Shown(Draft):
    shown: bool


class Signed(TypedDict):
    text: str
    author: str


class Account(TypedDict):
    id: int
    name: str
    token: SecretStr


class Strict(TypedDict):
    __pydantic_config__ = ConfigDict(strict=True)
    size: int


def service_of(model, **options):
    app = App()
    app.use("messages", with_schema(MemoryService(start_id=1, multi=True), model, **options))
    return app.service("messages")


async def test_records_have_what_was_sent():
    messages = service_of(Message)
    assert await messages.create({"text": "Hi"}) == {"id": 1, "text": "Hi"}
    full = {"text": "Ho", "likes": 0, "copy": True, "json": 1}
    assert await messages.create(full) == {"id": 2, **full}
    assert await messages.patch(1, {"likes": 2}) == {"id": 1, "text": "Hi", "likes": 2}
    assert await messages.update(2, {"text": "He"}) == {"id": 2, "text": "He"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "must have required property 'text'"),
        ({"text": ""}, "/text must NOT have fewer than 1 characters"),
        ({"text": "Hi", "txet": 1}, "must NOT have additional properties: 'txet'"),
        ({"text": "Hi", "field_1": "Ho"}, "must NOT have additional properties: 'field_1'"),
        ({"text": "Hi", "likes": None}, "/likes must be integer"),
        ({"text": "Hi", "likes": -1}, "/likes must be >= 0"),
        ({"text": "Hi", "json": 0}, "/json must be >= 1"),
        ({"text": "Hi", "json": 4}, "/json must be <= 3"),
    ],
)
async def test_data_that_is_not_a_record_is_refused(data, reason):
    messages = service_of(Message)
    with pytest.raises(BadRequest, match=reason):
        await messages.create(data)
    assert await messages.find() == []


async def test_a_patch_is_checked_in_part():
    messages = service_of(Message)
    await messages.create({"text": "Hi"})
    for data in ({"text": ""}, {"likes": -1}, {"txet": 1}):
        with pytest.raises(BadRequest):
            await messages.patch(1, data)
    assert await messages.find() == [{"id": 1, "text": "Hi"}]


async def test_queries_have_its_types_and_names():
    messages = service_of(Message)
    await messages.create([{"text": "Hi", "likes": 2}, {"text": "Ho"}])
    found = await messages.find(query={"likes": {"$gte": "2"}}, provider="rest")
    assert [record["id"] for record in found] == [1]
    for query in ({"likes": "many"}, {"txet": "Hi"}, {"field_1": "Hi"}):
        with pytest.raises(BadRequest):
            await messages.find(query=query, provider="rest")


async def test_qualifiers_beat_total_and_are_inherited():
    app = App()
    app.use("messages", with_schema(MemoryService(id="_id"), Shown))
    messages = app.service("messages")
    assert await messages.create({"_id": "a", "shown": True}) == {"_id": "a", "shown": True}
    assert await messages.create({"_id": "b", "shown": False, "title": "Hi"}) == {
        "_id": "b",
        "shown": False,
        "title": "Hi",
    }
    with pytest.raises(BadRequest, match="must have required property 'shown'"):
        await messages.create({"_id": "c"})


def test_the_schema_describes_it():
    schema = with_schema(MemoryService(), Message).schema
    assert schema["title"] == "Message"
    assert schema["description"] == "A text that somebody likes."
    assert schema["required"] == ["id", "text"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["id", "text", "likes", "copy", "json"]
    assert schema["properties"]["likes"] == {"title": "Likes", "type": "integer", "minimum": 0}


async def test_resolvers_may_make_what_is_required():
    messages = service_of(Signed, data={"create": resolve({"author": virtual(lambda: "Ann")})})
    assert await messages.create({"text": "Hi"}) == {"id": 1, "text": "Hi", "author": "Ann"}


async def test_secrets_stay_inside():
    accounts = service_of(Account)
    await accounts.create({"name": "Ann", "token": "abc"})
    assert await accounts.get(1) == {"id": 1, "name": "Ann", "token": "abc"}
    assert "token" not in with_schema(MemoryService(), Account).schema["properties"]


async def test_it_may_have_a_configuration_of_pydantic():
    sizes = service_of(Strict)
    with pytest.raises(BadRequest, match="/size must be integer"):
        await sizes.create({"size": "1"})
    with pytest.raises(BadRequest, match="additional properties"):
        await sizes.create({"size": 1, "width": 1})


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("Nowhere", "Wrong: an annotation is not a type: name 'Nowhere' is not defined"),
        ("int[", "Wrong: an annotation is not a type: "),
        (type("Unknown", (), {}), "Wrong is neither a JSON Schema nor a model of Pydantic: "),
    ],
)
def test_what_cannot_be_described_is_refused(type_, reason):
    class Wrong(TypedDict):
        id: int

    Wrong.__annotations__ = {"id": type_}
    with pytest.raises(SchemaError, match=reason):
        with_schema(MemoryService(), Wrong)
