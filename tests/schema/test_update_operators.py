"""Update operators and paths in changes behind a schema, on every store that has them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from bson import ObjectId
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    WithJsonSchema,
    field_validator,
)
from pymongo import AsyncMongoClient
from sqlalchemy import JSON, Column, Float, Integer, MetaData, Numeric, Table, Text
from typing_extensions import TypedDict

from alula import App
from alula.adapters.base import AdapterService
from alula.adapters.memory import MemoryService
from alula.adapters.mongodb import MongoDBService
from alula.adapters.sql import Database, SQLService
from alula.errors import BadRequest, NotFound
from alula.schema import DATE_SCHEMA, resolve, with_schema
from alula.schema._validators import records_of

OPERATORS = [
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$push",
    "$addToSet",
    "$pull",
    "$pullAll",
    "$pop",
    "$bit",
    "$each",
    "$slice",
    "$in",
    "$gte",
]


class Place(BaseModel):
    city: str = Field(min_length=1)
    zip: int | None = None


class Score(TypedDict):
    points: int


@dataclass
class Point:
    x: int
    y: int = 0


class Post(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = Field("", max_length=5)
    likes: int = Field(0, ge=0, le=10)
    votes: int = 0
    price: float | None = Field(None, multiple_of=0.5)
    cost: Decimal = Decimal(0)
    seen: datetime | None = None
    also_seen: datetime | None = Field(None, alias="alsoSeen")
    tags: list[str] = []
    few: list[int] = Field([], min_length=1, max_length=3)
    place: Place | None = None
    places: list[Place] = []
    scores: list[Score] = []
    counts: dict[str, int] = {}
    anything: Any = None
    pair: tuple[int, ...] = ()
    point: Point | None = None
    kind: str = "post"

    @field_validator("kind")
    @classmethod
    def not_bad(cls, kind: str) -> str:
        if kind == "bad":
            raise ValueError("is bad")
        return kind.lower()


PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "zip": {"type": ["integer", "null"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 5},
        "likes": {"type": "integer", "minimum": 0, "maximum": 10},
        "votes": {"type": "integer"},
        "price": {"anyOf": [{"type": "number", "multipleOf": 0.5}, {"type": "null"}]},
        "cost": {"type": "number"},
        "seen": {"anyOf": [DATE_SCHEMA, {"type": "null"}]},
        "alsoSeen": {"anyOf": [DATE_SCHEMA, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "few": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        "place": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
        "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        "scores": {
            "type": "array",
            "items": {"type": "object", "properties": {"points": {"type": "integer"}}},
        },
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": True,
        "pair": {"type": "array", "items": {"type": "integer"}},
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"],
            "additionalProperties": False,
        },
        "kind": {"type": "string", "not": {"const": "bad"}},
    },
    "$defs": {"place": PLACE},
}

both = pytest.mark.parametrize("model", [Post, SCHEMA], ids=["model", "schema"])


@pytest.fixture
async def collection(mongodb_url):
    async with AsyncMongoClient(mongodb_url) as client:
        yield client["alula_schema"][f"c{ObjectId()}"]
        await client.drop_database("alula_schema")


@pytest.fixture
def posts(collection):
    """Makes the service `posts` in MongoDB, behind a schema."""

    def make(model, **options):
        app = App()
        service = MongoDBService(
            collection, update_operators=OPERATORS, dotted_names=True, multi=True
        )
        app.use("posts", with_schema(service, model, **options))
        return app.service("posts")

    return make


@pytest.fixture
async def counters(sql_url):
    """Makes the service `counters` in a database of each dialect, behind a schema."""
    database = Database(sql_url)
    await database.open()
    table = Table(
        "counters",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("text", Text),
        Column("likes", Integer),
        Column("votes", Integer),
        Column("price", Float),
        Column("cost", Numeric(10, 2)),
        Column("tags", JSON),
    )
    operators = ["$inc", "$mul", "$min", "$max", "$push", "$set", "$each"]

    async def make(model, **options):
        app = App()
        service = SQLService(table, database, update_operators=operators, **options)
        app.use("counters", with_schema(service, model))
        await database.create()
        await app.setup()
        return app.service("counters")

    yield make
    await database.close()


class Unreached(AdapterService):
    """An adapter whose store must not be reached."""

    async def unreached(self, *_: object) -> Any:
        raise AssertionError("the store was asked")

    _find = _get = _create = _update = _patch = _remove = unreached


class Counter(BaseModel):
    text: str = Field("", max_length=5)
    likes: int | None = Field(None, ge=0, le=10)
    votes: int | None = None
    price: float | None = Field(None, multiple_of=0.5)
    cost: Decimal | None = None
    tags: list[str] = []


COUNTER = {
    "type": "object",
    "properties": {
        name: SCHEMA["properties"][name]
        for name in ("text", "likes", "votes", "price", "cost", "tags")
    },
}
counted = pytest.mark.parametrize("model", [Counter, COUNTER], ids=["model", "schema"])
WRITTEN: list[tuple[dict, dict, dict]] = [
    # what is stored, the patch, what is stored then
    ({"likes": 1}, {"$inc": {"likes": 2}}, {"likes": 3}),
    ({"likes": 10}, {"$inc": {"likes": -10}}, {"likes": 0}),
    ({}, {"$inc": {"likes": 10}}, {"likes": 10}),
    ({"votes": -5}, {"$inc": {"votes": -5}, "text": "more"}, {"votes": -10, "text": "more"}),
    ({"price": 1.5}, {"$inc": {"price": 0.5}}, {"price": 2.0}),
    ({"votes": 2}, {"$mul": {"votes": -3}}, {"votes": -6}),
    ({"likes": 2}, {"$min": {"likes": 1}}, {"likes": 1}),
    ({"likes": 2}, {"$max": {"likes": 9}}, {"likes": 9}),
    ({"tags": ["a"]}, {"$push": {"tags": "b"}}, {"tags": ["a", "b"]}),
    ({"tags": ["a"]}, {"$push": {"tags": {"$each": ["b", "c"]}}}, {"tags": ["a", "b", "c"]}),
    ({}, {"$set": {"text": "other"}}, {"text": "other"}),
]
WRITTEN_IN_MONGODB: list[tuple[dict, dict, dict]] = [
    ({"place": {"city": "Oslo"}}, {"place.zip": 5}, {"place": {"city": "Oslo", "zip": 5}}),
    ({"place": {"city": "Oslo"}}, {"$set": {"place.city": "B"}}, {"place": {"city": "B"}}),
    (
        {"place": {"city": "Oslo", "zip": 5}},
        {"$inc": {"place.zip": 1}},
        {"place": {"city": "Oslo", "zip": 6}},
    ),
    (
        {"places": [{"city": "A"}]},
        {"$set": {"places.0.zip": 5}},
        {"places": [{"city": "A", "zip": 5}]},
    ),
    ({"places": []}, {"$push": {"places": {"city": "B"}}}, {"places": [{"city": "B"}]}),
    ({"scores": [{"points": 1}]}, {"$inc": {"scores.0.points": 1}}, {"scores": [{"points": 2}]}),
    ({"counts": {"a": 1}}, {"$inc": {"counts.a": 1, "counts.b": 2}}, {"counts": {"a": 2, "b": 2}}),
    ({"anything": 1}, {"$inc": {"anything": 1}}, {"anything": 2}),
    ({}, {"$set": {"anything.deep.down": [1]}}, {"anything": {"deep": {"down": [1]}}}),
    ({"tags": ["a"]}, {"$addToSet": {"tags": {"$each": ["a", "b"]}}}, {"tags": ["a", "b"]}),
    ({"tags": ["a", "b"]}, {"$pull": {"tags": "a"}}, {"tags": ["b"]}),
    ({"tags": ["a", "b"]}, {"$pull": {"tags": {"$in": ["a"]}}}, {"tags": ["b"]}),
    ({"tags": ["a", "b"]}, {"$pullAll": {"tags": ["a", "c"]}}, {"tags": ["b"]}),
    ({"tags": ["a", "b"]}, {"$pop": {"tags": 1}}, {"tags": ["a"]}),
    (
        {"scores": [{"points": 1}, {"points": 9}]},
        {"$pull": {"scores": {"points": {"$gte": 5}}}},
        {"scores": [{"points": 1}]},
    ),
    ({"votes": 5}, {"$unset": {"votes": ""}}, {}),
    ({"place": {"city": "A", "zip": 5}}, {"$unset": {"place.zip": True}}, {"place": {"city": "A"}}),
    (
        {"seen": datetime(2026, 1, 1)},
        {"$rename": {"seen": "alsoSeen"}},
        {"alsoSeen": datetime(2026, 1, 1)},
    ),
    ({"votes": 5}, {"$bit": {"votes": {"and": 4}}}, {"votes": 4}),
    ({}, {"$set": {"seen": "2026-01-01T00:00:00Z"}}, {"seen": datetime(2026, 1, 1)}),
    ({"tags": ["a", "b"]}, {"$set": {"tags.1": "c"}}, {"tags": ["a", "c"]}),
    ({"anything": [1]}, {"$push": {"anything": {"a": 1}}}, {"anything": [1, {"a": 1}]}),
    ({"pair": [1]}, {"$push": {"pair": 2}}, {"pair": [1, 2]}),
    ({"point": {"x": 1, "y": 2}}, {"$inc": {"point.x": 1}}, {"point": {"x": 2, "y": 2}}),
]

# The patch, and the place that the failure names.
REFUSED: list[tuple[dict, str]] = [
    ({"$inc": {"likes": "a"}}, "/$inc/likes"),
    ({"$inc": {"likes": 1.5}}, "/$inc/likes"),
    ({"$inc": {"likes": True}}, "/$inc/likes"),
    ({"$inc": {"text": 1}}, "/$inc/text"),
    ({"$inc": {"nothing": 1}}, "/$inc"),
    ({"$inc": {"price": 0.2}}, "/$inc/price"),
    ({"$mul": {"likes": 2}}, "/$mul/likes"),
    ({"$mul": {"price": 0.5}}, "/$mul/price"),
    ({"$min": {"likes": -1}}, "/$min/likes"),
    ({"$max": {"likes": 11}}, "/$max/likes"),
    ({"$set": {"text": "too long"}}, "/$set/text"),
    ({"$set": {"text": 5}}, "/$set/text"),
    ({"$set": {"nothing": 5}}, "/$set"),
    ({"$push": {"tags": 5}}, "/$push/tags"),
    ({"$push": {"tags": {"$each": ["a", 5]}}}, "/$push/tags/$each/1"),
    ({"$push": {"tags": {"$slice": 1}}}, "/$push/tags"),
    ({"$push": {"text": "a"}}, "/$push/text"),
    ({"$push": {"pair": "a"}}, "/$push/pair"),
    ({"$set": {"tags.$[]": 5}}, "/$set/tags.$[]"),
    ({"$inc": {"cost": "1" * 101}}, "/$inc/cost"),
    ({"$unset": {"point.x": ""}}, "/$unset/point.x"),
    ({"$set": {"point.z": 1}}, "/$set"),
    ({"place.city": ""}, "/place.city"),
    ({"place.nothing": ""}, ""),
    ({"place.city": 5, "text": "too long"}, "/place.city"),
    ({"$set": {"place.city": ""}}, "/$set/place.city"),
    ({"$set": {"place": {"city": ""}}}, "/$set/place/city"),
    ({"$set": {"places.0.city": ""}}, "/$set/places.0.city"),
    ({"$set": {"places.x.city": "a"}}, "/$set"),
    ({"$set": {"places.01.city": "a"}}, "/$set"),
    ({"$set": {"tags.1000000": "a"}}, "/$set"),
    ({"$set": {"few.3": 1}}, "/$set"),
    ({"$set": {"text.a": "a"}}, "/$set"),
    ({"$set": {"kind": "bad"}}, "/$set/kind"),
    ({"$setOnInsert": {"kind": "bad"}}, "/$setOnInsert/kind"),
    ({"$push": {"places": {"city": ""}}}, "/$push/places/city"),
    ({"$push": {"few": 1}}, "/$push/few"),
    ({"$addToSet": {"few": 1}}, "/$addToSet/few"),
    ({"$pull": {"few": 1}}, "/$pull/few"),
    ({"$pop": {"few": 1}}, "/$pop/few"),
    ({"$pop": {"tags": 2}}, "/$pop/tags"),
    ({"$pop": {"text": 1}}, "/$pop/text"),
    ({"$pull": {"scores": {"nothing": 1}}}, "/$pull/scores"),
    ({"$pull": {"scores": {"points": "a"}}}, "/$pull/scores"),
    ({"$pullAll": {"tags": "a"}}, "/$pullAll/tags"),
    ({"$pullAll": {"tags": [5]}}, "/$pullAll/tags/0"),
    ({"$unset": {"place.city": ""}}, "/$unset/place.city"),
    ({"$rename": {"votes": "text"}}, "/$rename/votes"),
    ({"$rename": {"votes": "nothing"}}, "/$rename/votes"),
    ({"$currentDate": {"votes": True}}, "/$currentDate/votes"),
    ({"$currentDate": {"seen": {"$type": "timestamp"}}}, "/$currentDate/seen"),
    ({"$bit": {"votes": 5}}, "/$bit/votes"),
    ({"$bit": {"likes": {"and": 5}}}, "/$bit/likes"),
    ({"$bit": {"text": {"and": 5}}}, "/$bit/text"),
]


def paths_of(error):
    return [failure["instancePath"] for failure in error.data]


@both
@pytest.mark.parametrize("provider", [None, "rest"])
async def test_mongodb_changes_what_the_schema_allows(posts, collection, model, provider):
    service = posts(model)
    for stored, patch, expected in (*WRITTEN, *WRITTEN_IN_MONGODB):
        new = await collection.insert_one({"text": "hi", "kind": "post", **stored})
        changed = await service.patch(str(new.inserted_id), patch, provider=provider)
        del changed["_id"]
        assert changed == {"text": "hi", "kind": "post", **expected}, patch


@counted
@pytest.mark.parametrize("provider", [None, "rest"])
async def test_sql_changes_what_the_schema_allows(counters, model, provider):
    service = await counters(model)
    for stored, patch, expected in WRITTEN:
        key = (await service.service.create({"text": "hi", **stored}))["id"]
        changed = await service.patch(key, patch, provider=provider)
        there = {name: value for name, value in changed.items() if value is not None}
        assert there == {"id": key, "text": "hi", **expected}, patch


@both
@pytest.mark.parametrize("provider", [None, "rest"])
async def test_what_the_schema_refuses_does_not_reach_the_store(model, provider):
    app = App()
    service = Unreached(update_operators=OPERATORS, dotted_names=True)
    app.use("posts", with_schema(service, model))
    for patch, path in REFUSED:
        with pytest.raises(BadRequest) as caught:
            await app.service("posts").patch(1, patch, provider=provider)
        assert caught.value.data[0]["instancePath"] == path, patch


@both
async def test_inc_keeps_a_number_within_its_limits(posts, collection, model):
    service = posts(model)
    new = await collection.insert_one({"text": "hi", "likes": 9})
    key = str(new.inserted_id)
    results = await asyncio.gather(
        *(service.patch(key, {"$inc": {"likes": 1}}, provider="rest") for _ in range(3)),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["BadRequest"] * 2 + ["dict"]
    for amount in (1, -11):
        with pytest.raises(BadRequest, match="would leave the limits of likes"):
            await service.patch(key, {"$inc": {"likes": amount}})
    assert (await service.get(key))["likes"] == 10
    with pytest.raises(BadRequest, match="one record at a time"):
        await service.patch(None, {"$inc": {"likes": 1}})
    with pytest.raises(NotFound):
        await service.patch(
            key, {"$inc": {"likes": 1}}, query={"text": "other", "$select": ["text"]}
        )
    with pytest.raises(NotFound):
        await service.patch(str(ObjectId()), {"$inc": {"likes": -1}})
    with pytest.raises(NotFound):
        await service.patch(str(ObjectId()), {"text": "hi"})
    # Without a limit in that direction, there is nothing to look at.
    await service.patch(None, {"$inc": {"votes": 1}})


@counted
async def test_inc_keeps_a_column_within_its_limits(counters, model):
    service = await counters(model)
    key = (await service.create({"text": "hi", "likes": 9}))["id"]
    for amount, expected in ((1, 10), (-10, 0), (0, 0), (3, 3)):
        changed = await service.patch(key, {"$inc": {"likes": amount}}, provider="rest")
        assert changed["likes"] == expected
    for amount in (8, -4):
        with pytest.raises(BadRequest, match="would leave the limits of likes"):
            await service.patch(key, {"$inc": {"likes": amount}}, provider="rest")
    await service.service.patch(key, {"likes": None})
    assert (await service.patch(key, {"$inc": {"likes": 1}}))["likes"] == 1


@both
async def test_an_update_by_operators_is_checked_as_changes(posts, collection, model):
    resolved = resolve({"votes": lambda votes: votes})
    service = posts(model, data=resolved)
    new = await collection.insert_one({"text": "hi"})
    changed = await service.update(str(new.inserted_id), {"$set": {"text": "more", "kind": "a"}})
    assert (changed["text"], changed["kind"]) == ("more", "a")
    with pytest.raises(BadRequest):
        await service.update(str(new.inserted_id), {"$set": {"text": "too long"}})


async def test_a_required_property_that_a_resolver_makes_is_not_needed_in_operators(collection):
    app = App()
    schema = {**SCHEMA, "required": ["kind"]}
    service = MongoDBService(collection)
    made = {"update": resolve({"kind": lambda kind: kind})}
    app.use("posts", with_schema(service, schema, data=made))
    new = await collection.insert_one({"text": "hi", "kind": "a"})
    changed = await app.service("posts").update(str(new.inserted_id), {"$set": {"text": "more"}})
    assert changed["kind"] == "a"
    with pytest.raises(BadRequest, match="validation failed"):
        await app.service("posts").patch(str(new.inserted_id), {"$unset": {"kind": ""}})


@pytest.mark.parametrize("named", ["alsoSeen", "inner", "also_seen", "author"])
async def test_operators_take_every_name_that_the_model_reads(collection, named):
    class Named(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        also_seen: str = Field("", validation_alias=AliasChoices("alsoSeen", "inner"))
        by: str = Field("", validation_alias=AliasChoices(AliasPath("data", 1, "by"), "author"))

    app = App()
    app.use("posts", with_schema(MongoDBService(collection), Named))
    new = await collection.insert_one({})
    changed = await app.service("posts").patch(str(new.inserted_id), {"$set": {named: "a"}})
    assert changed == {"_id": new.inserted_id, "by" if named == "author" else "also_seen": "a"}


async def test_a_value_that_is_never_stored_cannot_be_changed(collection):
    class Post(BaseModel):
        text: str = ""
        note: str = Field("", exclude=True)

    app = App()
    app.use("posts", with_schema(MongoDBService(collection), Post))
    with pytest.raises(BadRequest, match="'note' is never stored"):
        await app.service("posts").patch(str(ObjectId()), {"$set": {"note": "a"}})


async def test_operators_of_a_store_that_has_none_are_refused():
    class Note(BaseModel):
        likes: int = 0

    app = App()
    app.use("notes", with_schema(MemoryService([{"likes": 1}]), Note))
    for provider in (None, "rest"):
        with pytest.raises(BadRequest, match=r"Invalid key \$inc in the data"):
            await app.service("notes").patch(0, {"$inc": {"likes": 1}}, provider=provider)
    assert await app.service("notes").get(0) == {"likes": 1, "id": 0}


async def test_paths_in_memory_are_checked_by_the_schema():
    class Note(BaseModel):
        place: Place

    app = App()
    service = MemoryService([{"place": {"city": "Oslo"}}], dotted_names=True)
    app.use("notes", with_schema(service, Note))
    changed = await app.service("notes").patch(0, {"place.zip": "5"}, provider="rest")
    assert changed["place"] == {"city": "Oslo", "zip": 5}
    with pytest.raises(BadRequest, match="validation failed"):
        await app.service("notes").patch(0, {"place.city": ""}, provider="rest")


@both
async def test_the_time_of_the_store_is_set_for_dates(posts, collection, model):
    new = await collection.insert_one({"text": "hi"})
    patch = {"$currentDate": {"seen": True}}
    changed = await posts(model).patch(str(new.inserted_id), patch, provider="rest")
    assert datetime.now(UTC) - changed["seen"].replace(tzinfo=UTC) < timedelta(hours=1)


@both
async def test_own_code_may_change_every_item_of_a_list(posts, collection, model):
    new = await collection.insert_one({"scores": [{"points": 1}, {"points": 2}]})
    patch = {"$inc": {"scores.$[].points": 1}}
    changed = await posts(model).patch(str(new.inserted_id), patch)
    assert changed["scores"] == [{"points": 2}, {"points": 3}]


@both
async def test_an_id_is_left_to_the_store_which_never_changes_it(posts, collection, model):
    new = await collection.insert_one({"text": "hi"})
    with pytest.raises(BadRequest, match="_id"):
        await posts(model).patch(str(new.inserted_id), {"$set": {"_id": str(ObjectId())}})
    assert await collection.find_one({}) == {"_id": new.inserted_id, "text": "hi"}


@both
async def test_names_that_are_not_text_are_refused(model):
    app = App().use("posts", with_schema(Unreached(update_operators=OPERATORS), model))
    with pytest.raises(BadRequest):
        await app.service("posts").patch(1, {5: "a", "text": "too long"})


async def test_an_amount_of_exact_numbers_keeps_the_limits(counters):
    class Account(BaseModel):
        text: str = ""
        cost: Decimal = Field(Decimal(0), ge=0, le=100)

    service = await counters(Account)
    key = (await service.create({"text": "hi", "cost": "99.50"}))["id"]
    for amount, provider in (("0.25", "rest"), (Decimal("0.25"), None)):
        await service.patch(key, {"$inc": {"cost": amount}}, provider=provider)
    assert (await service.get(key))["cost"] == 100
    for amount, provider in (("0.01", "rest"), (Decimal("0.01"), None), ("-100.01", "rest")):
        with pytest.raises(BadRequest, match="would leave the limits of cost"):
            await service.patch(key, {"$inc": {"cost": amount}}, provider=provider)


async def test_an_amount_that_a_hook_made_no_number_is_left_to_the_store(posts, collection):
    async def break_it(context):
        context.data["$inc"]["likes"] = "many"

    service = posts(Post)
    service.hooks(before={"patch": [break_it]})
    new = await collection.insert_one({"likes": 1})
    with pytest.raises(BadRequest, match="The database refuses"):
        await service.patch(str(new.inserted_id), {"$inc": {"likes": 1}})
    assert (await collection.find_one({}))["likes"] == 1


async def test_an_operand_with_too_many_failures_is_refused_without_a_list():
    class Numbers(BaseModel):
        numbers: list[int] = []

    app = App().use("numbers", with_schema(Unreached(update_operators=OPERATORS), Numbers))
    with pytest.raises(BadRequest, match="too many failures") as caught:
        await app.service("numbers").patch(1, {"$set": {"numbers": ["x"] * 21_000}})
    assert not caught.value.data


async def test_a_field_gets_the_name_that_its_model_reads(collection):
    class Named(BaseModel):
        first: str = Field("", validation_alias="one")
        second: str = Field("", validation_alias="two")

    app = App().use("named", with_schema(MongoDBService(collection), Named))
    new = await collection.insert_one({"second": "b"})
    for given in ({"one": "a"}, {"first": "a"}):
        changed = await app.service("named").patch(str(new.inserted_id), given)
        assert changed == {"_id": new.inserted_id, "first": "a", "second": "b"}


async def test_a_type_without_a_schema_of_data_takes_no_operator_for_numbers():
    class Stored(BaseModel):
        key: Annotated[
            InstanceOf[ObjectId] | None, WithJsonSchema({"type": "string"}, mode="serialization")
        ] = None

    app = App().use("stored", with_schema(Unreached(update_operators=OPERATORS), Stored))
    with pytest.raises(BadRequest, match="validation failed") as caught:
        await app.service("stored").patch(1, {"$inc": {"key": 1}})
    assert paths_of(caught.value) == ["/$inc/key"]


LIMITED = {
    "properties": {
        "both": {"$ref": "#/$defs/high", "allOf": [{"minimum": 5, "maximum": 20}], "minimum": 3},
        "typed": {"type": ["integer", "string"], "allOf": [{"type": ["integer", "null"]}]},
        "either": {
            "anyOf": [
                {"properties": {"a": {"properties": {"n": {"type": "integer"}}}}},
                {"properties": {"a": {"properties": {"n": {"type": "boolean"}}}}},
            ]
        },
        "needed": {
            "required": ["a"],
            "allOf": [{"required": ["b"]}],
        },
        "open": {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]},
        "same": {"allOf": [{"$ref": "#/$defs/named"}, {"$ref": "#/$defs/named"}]},
        "whatever": True,
        "never": False,
        "first": {"type": "array", "prefixItems": [{"type": "integer"}]},
        "many": {"allOf": [{"anyOf": [{}, {"title": "a"}]}] * 6},
    },
    "$defs": {
        "high": {"type": "integer", "minimum": 1, "maximum": 10},
        "named": {"properties": {"name": {"type": "string"}}},
    },
}
BY_LIMITS: list[tuple[dict, bool]] = [
    # the patch, and whether the schema allows it
    ({"$inc": {"both": 1}}, True),
    ({"$min": {"both": 5}}, True),
    ({"$min": {"both": 4}}, False),
    ({"$max": {"both": 10}}, True),
    ({"$max": {"both": 11}}, False),
    ({"$inc": {"typed": 1}}, True),
    ({"$inc": {"typed": 0.5}}, False),
    ({"$set": {"either.a.n": 1}}, True),
    ({"$set": {"either.a.n": True}}, True),
    ({"$set": {"either.a.n": "x"}}, False),
    ({"$unset": {"needed.a": ""}}, False),
    ({"$unset": {"needed.b": ""}}, False),
    ({"$unset": {"needed.c": ""}}, True),
    ({"$set": {"open.a": "x"}}, True),
    ({"$set": {"same.name": "x"}}, True),
    ({"$set": {"same.name": 5}}, False),
    ({"$set": {"whatever.below": "x"}}, True),
    ({"$set": {"never.below": "x"}}, False),
    ({"$set": {"first.0": 1}}, True),
    ({"$set": {"first.0": "x"}}, False),
    ({"$set": {"first.1": "x"}}, True),
    ({"$inc": {"many": 1}}, True),
]


@pytest.fixture(scope="module")
def limited():
    """A service that no test changes: what operators may do is described once for each."""
    app = App()
    service = Unreached(update_operators=OPERATORS, dotted_names=True)
    app.use("posts", with_schema(service, LIMITED))
    return app.service("posts")


@pytest.mark.parametrize(("patch", "is_allowed"), BY_LIMITS)
async def test_a_json_schema_says_what_an_operator_may_do(limited, patch, is_allowed):
    expected = (AssertionError, "the store was asked") if is_allowed else (BadRequest, "failed")
    with pytest.raises(expected[0], match=expected[1]):
        await limited.patch(1, patch)


def test_an_operator_that_no_schema_can_check_is_an_error_at_registration():
    with pytest.raises(ValueError, match="opens '\\$append' for updates"):
        with_schema(Unreached(update_operators=["$append"]), Post)


async def test_an_operator_that_no_schema_can_check_is_refused():
    app = App().use("posts", with_schema(Unreached(), Post))
    with pytest.raises(BadRequest, match=r"Invalid key \$append in the data"):
        await app.service("posts").patch(1, {"$append": {"text": "a"}})
    with pytest.raises(BadRequest, match="expected an object of fields"):
        await app.service("posts").patch(1, {"$inc": 5})
    with pytest.raises(BadRequest, match="must be object"):
        await app.service("posts").patch(1, [1])


@pytest.mark.parametrize("kind", ["model", "schema"])
async def test_queries_of_operands_are_described_when_the_first_one_comes(kind, monkeypatch):
    """Services seldom see one, and the description takes long to make."""

    class Note(BaseModel):
        id: int | None = None
        tags: list[str]

    records = records_of(Note if kind == "model" else Note.model_json_schema(), MemoryService())
    made, query = [], records.query

    def watched(extensions):
        made.append(extensions)
        return query(extensions)

    monkeypatch.setattr(records, "query", watched)
    changes = records.changes()
    changes.validate({"$push": {"tags": "a"}})
    assert made == []
    for _ in range(2):
        changes.validate({"$pull": {"tags": {"$in": ["a"]}}})
    assert made == [{}]
