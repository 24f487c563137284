"""The queries that a model of Pydantic allows."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from alula.errors import BadRequest
from alula.schema import SchemaError, get_validator, query_syntax


class Place(BaseModel):
    city: str
    zip: int = 0


@dataclass
class Point:
    x: int


class Size(TypedDict):
    width: int
    height: NotRequired[int]


class Message(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    age: Annotated[int, Field(ge=0), Field(le=150)] = 3
    read: bool = False
    sent_at: datetime | None = Field(None, alias="sentAt")
    kind: Literal["a", "b"] = "a"
    tags: list[str] = []
    scores: set[float] = set()
    address: Optional[Place] = None  # noqa: UP045  # both spellings have to do
    many: list[Place] = []
    point: Point | None = None
    size: Annotated[Size, "any remark"] | None = None
    either: int | str = 0
    free: Any = None


EXTENSIONS = {"name": {"$regex": str, "$options": str}, "$text": dict[str, str]}
VALIDATOR = query_syntax(Message, EXTENSIONS)
DATE = datetime.fromisoformat("2024-01-01T00:00:00Z")

TYPED = [
    ({"age": "5"}, {"age": 5}),
    ({"read": "true"}, {"read": True}),
    ({"name": "5"}, {"name": "5"}),
    ({"sentAt": "2024-01-01T00:00:00Z"}, {"sentAt": DATE}),
    ({"sentAt": {"$gt": "2024-01-01T00:00:00Z"}}, {"sentAt": {"$gt": DATE}}),
    ({"kind": {"$ne": "b"}}, {"kind": {"$ne": "b"}}),
    ({"tags": "5"}, {"tags": "5"}),
    ({"tags": {"0": "a"}}, {"tags": ["a"]}),
    ({"scores": "5"}, {"scores": 5.0}),
    ({"scores": ["5"]}, {"scores": [5.0]}),
    ({"address.zip": {"$gt": "5"}}, {"address.zip": {"$gt": 5}}),
    ({"address": {"city": "x"}}, {"address": {"city": "x"}}),
    ({"many": {"city": "x", "zip": "1"}}, {"many": {"city": "x", "zip": 1}}),
    ({"many.zip": "1"}, {"many.zip": 1}),
    ({"point.x": "1"}, {"point.x": 1}),
    ({"point": {"x": "1"}}, {"point": {"x": 1}}),
    ({"size.height": "1"}, {"size.height": 1}),
    ({"size": {"width": "1"}}, {"size": {"width": 1}}),
    ({"either": "x"}, {"either": "x"}),
    ({"free": {"x": "1"}}, {"free": {"x": "1"}}),
    ({"name": {"$regex": "^a", "$options": "i"}}, {"name": {"$regex": "^a", "$options": "i"}}),
    ({"$text": {"$search": "x"}}, {"$text": {"$search": "x"}}),
    ({"$limit": "5", "$skip": "1"}, {"$limit": 5, "$skip": 1}),
    ({"$sort": {"age": "-1", "many.zip": 1}}, {"$sort": {"age": -1, "many.zip": 1}}),
    ({"$select": "age"}, {"$select": ["age"]}),
    ({"age": {"$in": "5"}}, {"age": {"$in": [5]}}),
    ({"age": {"$nin": "5"}}, {"age": {"$nin": [5]}}),
    ({"tags": {"$in": "a"}}, {"tags": {"$in": ["a"]}}),
    ({"$select": {"0": "age", "1": "address.zip"}}, {"$select": ["age", "address.zip"]}),
    *(
        ({"age": {operator: "5"}}, {"age": {operator: 5}})
        for operator in ("$gt", "$gte", "$lt", "$lte", "$ne")
    ),
    *(
        ({"age": {operator: ["5", "6"]}}, {"age": {operator: [5, 6]}})
        for operator in ("$in", "$nin")
    ),
    *(
        ({branch: [{"age": "5"}, {"read": "true"}]}, {branch: [{"age": 5}, {"read": True}]})
        for branch in ("$or", "$and")
    ),
]


@pytest.mark.parametrize(("query", "wanted"), TYPED, ids=str)
def test_types_the_values(query, wanted):
    before = copy.deepcopy(query)
    assert VALIDATOR.validate(query) == wanted
    assert query == before


class Nullable(BaseModel):
    age: int | None = None
    limited: Annotated[Optional[int], Field(ge=0)] = None  # noqa: UP045  # both spellings
    sent: datetime | None = None
    name: str | None = None
    scores: list[int] | None = None
    place: Place | None = None
    plain: int = 0


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"age": ""}, {"age": None}),
        ({"age": "5"}, {"age": 5}),
        ({"age": None}, {"age": None}),
        ({"limited": ""}, {"limited": None}),
        ({"sent": {"$ne": ""}}, {"sent": {"$ne": None}}),
        ({"age": {"$in": ["5", ""]}}, {"age": {"$in": [5, None]}}),
        ({"$or": [{"age": ""}]}, {"$or": [{"age": None}]}),
        ({"name": ""}, {"name": ""}),  # a text like any other
        ({"scores": ""}, {"scores": None}),
        ({"scores": ["5"]}, {"scores": [5]}),
        ({"place": ""}, {"place": None}),
    ],
    ids=str,
)
def test_an_empty_text_is_null_where_it_is_nothing_else(query, wanted):
    assert query_syntax(Nullable).validate(query) == wanted


@pytest.mark.parametrize("query", [{"plain": ""}, {"age": "x"}, {"limited": "-1"}], ids=str)
def test_other_values_do_not_become_null(query):
    with pytest.raises(BadRequest):
        query_syntax(Nullable).validate(query)


class Measured(BaseModel):
    value: float
    maybe: float | None = None
    several: list[float] = []


@pytest.mark.parametrize("text", ["NaN", "-Infinity", float("nan"), float("inf")], ids=repr)
@pytest.mark.parametrize("name", ["value", "maybe", "several"])
def test_what_is_no_number_in_json_is_none_here(name, text):
    validator = query_syntax(Measured)
    for query in ({name: text}, {name: {"$gt": text}}, {"$or": [{name: {"$in": ["1", text]}}]}):
        with pytest.raises(BadRequest) as caught:
            validator.validate(query)
        assert {"type": "number"} in [each["params"] for each in caught.value.data]


class Step(Enum):
    WHOLE = 1
    HALF = 0.5
    NONE = "none"


class Ranked(BaseModel):
    step: Step = Step.NONE
    rank: Literal[1, 2, "top"]
    maybe: Literal[True, 0] | None = None
    ranks: list[Literal[1, 2]] = []
    both: Annotated[Literal[1, "1"], "any remark"] = 1


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"rank": "2"}, {"rank": 2}),
        ({"rank": 2}, {"rank": 2}),
        ({"rank": "top"}, {"rank": "top"}),
        ({"rank": {"$in": ["1", "top"]}}, {"rank": {"$in": [1, "top"]}}),
        ({"step": "1"}, {"step": 1}),
        ({"step": {"$in": ["0.5", "none", 1]}}, {"step": {"$in": [0.5, "none", 1]}}),
        ({"maybe": "true"}, {"maybe": True}),
        ({"maybe": {"$ne": "0"}}, {"maybe": {"$ne": 0}}),
        ({"maybe": ""}, {"maybe": None}),
        ({"ranks": "1"}, {"ranks": 1}),
        ({"both": "1"}, {"both": "1"}),  # a text like any other
    ],
    ids=str,
)
def test_listed_values_that_are_no_texts_are_spelled_as_such(query, wanted):
    found = query_syntax(Ranked).validate(query)
    assert str(found) == str(wanted)  # True is not 1


@pytest.mark.parametrize(
    "query", [{"rank": "3"}, {"rank": ["1"]}, {"maybe": "True"}, {"step": "2"}], ids=str
)
def test_values_that_are_not_listed_are_refused(query):
    with pytest.raises(BadRequest):
        query_syntax(Ranked).validate(query)


def test_types_the_values_at_any_depth():
    query, wanted = {"age": {"$gt": "5"}}, {"age": {"$gt": 5}}
    for branch in ("$or", "$and", "$or"):
        query, wanted = {branch: [query, {"read": "true"}]}, {branch: [wanted, {"read": True}]}
    assert VALIDATOR.validate(query) == wanted


def test_takes_an_object_with_index_keys_for_the_list_that_it_stands_for():
    ids = {str(index): str(index) for index in range(21)}
    assert VALIDATOR.validate({"age": {"$in": ids}}) == {"age": {"$in": list(range(21))}}
    assert VALIDATOR.validate({"$or": {"0": {"$and": {"0": {"age": "1"}}}}}) == {
        "$or": [{"$and": [{"age": 1}]}]
    }


def test_keeps_the_order_of_sort():
    query = {"$sort": {"read": "1", "age": "1", "name": "-1"}}
    assert list(VALIDATOR.validate(query)["$sort"]) == ["read", "age", "name"]


def told(query):
    with pytest.raises(BadRequest) as caught:
        VALIDATOR.validate(query)
    return [(each["instancePath"], each["keyword"], each["params"]) for each in caught.value.data]


@pytest.mark.parametrize(
    ("query", "path", "name"),
    [
        ({"nope": 1}, "", "nope"),
        ({"$where": "1"}, "", "$where"),
        ({"age": {"$regex": "1"}}, "/age", "$regex"),
        ({"name": {"$where": "1"}}, "/name", "$where"),
        ({"$or": [{"nope": 1}]}, "/$or/0", "nope"),
        ({"$or": [{"$and": [{"$limit": 1}]}]}, "/$or/0/$and/0", "$limit"),
        ({"$sort": {"nope": 1}}, "/$sort", "nope"),
    ],
)
def test_names_what_is_unknown(query, path, name):
    assert told(query) == [(path, "additionalProperties", {"additionalProperty": name})]


@pytest.mark.parametrize(
    ("query", "path", "keyword"),
    [
        ({"$limit": "-1"}, "/$limit", "minimum"),
        ({"$skip": "x"}, "/$skip", "type"),
        ({"$or": []}, "/$or", "minItems"),
        ({"$select": ["nope"]}, "/$select/0", "enum"),
        ({"$select": {"a": "age"}}, "/$select", "type"),
        ({"$sort": {"age": "0"}}, "/$sort/age", "enum"),
        ({"$sort": {"age": [1]}}, "/$sort/age", "enum"),
        ({"$sort": "age"}, "/$sort", "type"),
        ({"age": "x"}, "/age", "type"),
        ({"age": {"x": 1}}, "/age", "type"),
        ({"age": {1: 1}}, "/age", "type"),
        ({"age": "151"}, "/age", "maximum"),
        ({"age": {"$in": {}}}, "/age/$in", "type"),
        ({"age": {"$in": {"x": 1}}}, "/age/$in", "type"),
        ({"age": {"$in": ["1", "x"]}}, "/age/$in/1", "type"),
        ({"name": ""}, "/name", "minLength"),
        ({"kind": "c"}, "/kind", "enum"),
        ({"address": {"zip": 1}}, "/address", "required"),
    ],
)
def test_tells_values_that_make_no_sense(query, path, keyword):
    assert [(where, found) for where, found, _ in told(query)] == [(path, keyword)]


def test_knows_what_the_extensions_open():
    assert VALIDATOR.operators == {"$regex", "$options"}
    assert VALIDATOR.filters == {"$text"}
    plain = query_syntax(Message)
    assert (plain.operators, plain.filters) == (frozenset(), frozenset())


def test_is_a_validator_itself():
    assert get_validator(VALIDATOR) is VALIDATOR


def test_takes_dataclasses_and_typed_dicts():
    assert query_syntax(Point).validate({"x": {"$gt": "1"}}) == {"x": {"$gt": 1}}
    assert query_syntax(Size).validate({"height": "1"}) == {"height": 1}


class Node(BaseModel):
    value: int
    below: list[Node] = []


def test_dotted_names_end():
    properties = query_syntax(Node).json_schema()["properties"]
    assert [name for name in properties if name.endswith("value")] == [
        "value",
        "below.value",
        "below.below.value",
        "below.below.below.value",
    ]


def test_can_be_described_as_json_schema():
    schema = VALIDATOR.json_schema()
    assert schema["additionalProperties"] is False
    assert {"$limit", "$or", "age", "address.zip", "$text"} <= schema["properties"].keys()


@pytest.mark.parametrize("model", [int, list[Message], object(), "Message"])
def test_tells_what_is_no_model(model):
    with pytest.raises(SchemaError, match=r"not the model of a record; .*Pydantic"):
        query_syntax(model)


def test_a_model_without_fields_allows_only_filters():
    validator = get_validator(query_syntax(type("Empty", (BaseModel,), {})))
    query = {"$limit": "5", "$sort": {}, "$select": []}
    assert validator.validate(query) == {"$limit": 5, "$sort": {}, "$select": []}
    for query in ({"a": 1}, {"$sort": {"a": 1}}, {"$select": ["a"]}, {"$or": [{"a": 1}]}):
        with pytest.raises(BadRequest):
            validator.validate(query)


def test_tells_extensions_that_make_no_sense():
    with pytest.raises(SchemaError, match=r"extensions: 'nope' is not a property; .*name,"):
        query_syntax(Message, {"nope": {"$regex": str}})
    with pytest.raises(SchemaError, match="'name': 'regex' is not an operator"):
        query_syntax(Message, {"name": {"regex": str}})
