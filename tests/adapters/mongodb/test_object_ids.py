"""Object ids from text: the keyword, the schema, the resolvers."""

from __future__ import annotations

from typing import Annotated

import pytest
from bson import ObjectId
from pydantic import BaseModel, TypeAdapter, ValidationError

from alula.adapters import mongodb
from alula.adapters.mongodb import (
    MongoDBService,
    ObjectIdSchema,
    keyword_object_id,
    resolve_object_id,
    resolve_query_object_id,
)
from alula.adapters.mongodb._bson_types import to_object_id
from alula.errors import BadRequest
from alula.types import UNSET, SchemaKeyword

HEX = "64b0000000000000000000d1"
ID = ObjectId(HEX)
NO_IDS = ["abc", "", HEX[:-1], HEX + "0", HEX[:-1] + "g", "abcdefghijkl", b"abcdefghijkl", 5, True]


@pytest.mark.parametrize("text", [HEX, HEX.upper()])
def test_24_digits_are_an_id(text):
    assert to_object_id(text) == ID
    assert resolve_object_id(text) == ID
    assert keyword_object_id.convert(text, True) == ID


def test_an_id_stays_the_same():
    assert to_object_id(ID) is ID
    assert resolve_object_id(ID) is ID
    assert keyword_object_id.convert(ID, True) is ID


@pytest.mark.parametrize("value", NO_IDS)
def test_anything_else_is_none(value):
    assert to_object_id(value) is value
    with pytest.raises(BadRequest, match="must be an object id"):
        resolve_object_id(value)
    with pytest.raises(ValueError, match="must be an object id"):
        keyword_object_id.convert(value, True)


@pytest.mark.parametrize("absent", [None, UNSET])
def test_what_is_not_there_stays_so(absent):
    assert resolve_object_id(absent) is absent
    assert resolve_query_object_id(absent) is absent


def test_both_resolvers_take_what_resolvers_get():
    assert resolve_object_id(HEX, {"name": "x"}, object()) == ID
    assert resolve_query_object_id(HEX, {"name": "x"}, object()) == ID


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (HEX, ID),
        ("abc", "abc"),
        (5, 5),
        ({"$in": [HEX, "abc", ID]}, {"$in": [ID, "abc", ID]}),
        ({"$nin": (HEX,), "$ne": HEX}, {"$nin": [ID], "$ne": ID}),
        ({"$not": {"$in": [HEX]}}, {"$not": {"$in": [ID]}}),
        ([{"owner": HEX}, {"$and": [{"owner.id": {"$gt": HEX}}]}],
         [{"owner": ID}, {"$and": [{"owner.id": {"$gt": ID}}]}]),
        ({"$regex": HEX, "$options": "i"}, {"$regex": HEX, "$options": "i"}),
    ],
)  # fmt: skip
def test_a_query_is_converted_at_any_depth(value, wanted):
    assert resolve_query_object_id(value) == wanted


def test_a_query_stays_as_it_was():
    value = {"$in": [HEX]}
    resolve_query_object_id(value)
    assert value == {"$in": [HEX]}


def test_the_keyword_has_the_name_of_the_interface():
    assert isinstance(keyword_object_id, SchemaKeyword)
    assert keyword_object_id.name == "objectid"
    assert keyword_object_id.message == 'must pass "objectid" keyword validation', "as Ajv has it"
    assert MongoDBService.schema_keywords == (keyword_object_id,)


def test_a_keyword_that_is_false_has_no_effect():
    assert keyword_object_id.convert(HEX, False) == HEX
    assert keyword_object_id.convert(5, False) == 5


def test_the_schema_can_be_called_for_a_copy():
    plain = {"anyOf": [{"type": "string", "objectid": True}, {"objectid": True}]}
    copy = ObjectIdSchema(description="whose it is")
    assert copy == {**plain, "description": "whose it is"}
    copy["anyOf"].clear()
    assert ObjectIdSchema == plain
    assert ObjectIdSchema() == plain
    assert ObjectIdSchema() is not ObjectIdSchema
    assert isinstance(ObjectIdSchema, dict)


class Note(BaseModel):
    owner: Annotated[ObjectId, ObjectIdSchema]
    other: Annotated[ObjectId | None, ObjectIdSchema()] = None


def test_a_model_converts_ids():
    assert Note(owner=HEX).owner == ID
    assert Note.model_validate({"owner": ID}).owner is ID
    assert TypeAdapter(Annotated[ObjectId, ObjectIdSchema]).validate_json(f'"{HEX}"') == ID


def test_a_model_refuses_what_is_none():
    with pytest.raises(ValidationError, match="must be an object id"):
        Note(owner="abc")


def test_a_model_writes_ids_as_text():
    note = Note(owner=HEX)
    assert note.model_dump() == {"owner": ID, "other": None}
    assert note.model_dump(mode="json") == {"owner": HEX, "other": None}


def test_the_schema_of_a_model_has_the_keyword():
    schema = Note.model_json_schema()
    assert schema["properties"]["owner"]["anyOf"][0] == {"type": "string", "objectid": True}


def test_all_of_it_is_exported():
    assert set(mongodb.__all__) >= {
        "JSON_ENCODERS",
        "MongoDBService",
        "ObjectIdSchema",
        "keyword_object_id",
        "resolve_object_id",
        "resolve_query_object_id",
    }
