"""The JSON Schema of queries, from the properties of a record."""

from __future__ import annotations

import jsonschema
import pytest
from tests.schema.failures import brief, report

from alula.schema import SchemaError, Validator, query_syntax

PROPERTIES = {
    "name": {"type": "string", "minLength": 1},
    "age": {"type": "integer"},
    "read": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "scores": {"type": "array", "items": {"type": "number"}},
    "address": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
        "required": ["city"],
    },
    "many": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    "free": {},
}
RECORD = {
    "type": "object",
    "properties": PROPERTIES,
    "$defs": {"item": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}
EXTENSIONS = {
    "name": {"$regex": {"type": "string"}, "$options": {"type": "string"}},
    "$text": {"type": "object", "properties": {"$search": {"type": "string"}}},
}
SCHEMA = query_syntax(RECORD, EXTENSIONS)
VALIDATOR = Validator(SCHEMA, coerce=True)

TYPED = [
    ({"age": "5"}, {"age": 5}),
    ({"read": "true"}, {"read": True}),
    ({"name": "5"}, {"name": "5"}),
    ({"tags": "5"}, {"tags": "5"}),
    ({"scores": "5"}, {"scores": 5}),
    ({"scores": ["5", "6"]}, {"scores": [5, 6]}),
    ({"free": {"x": "1"}}, {"free": {"x": "1"}}),
    ({"address.zip": "5"}, {"address.zip": 5}),
    ({"address.zip": {"$gt": "5"}}, {"address.zip": {"$gt": 5}}),
    ({"many.n": {"$in": ["5"]}}, {"many.n": {"$in": [5]}}),
    ({"address": {"city": "x", "zip": "5"}}, {"address": {"city": "x", "zip": 5}}),
    ({"name": {"$regex": "^a", "$options": "i"}}, {"name": {"$regex": "^a", "$options": "i"}}),
    ({"$text": {"$search": "x"}}, {"$text": {"$search": "x"}}),
    ({"$limit": "5", "$skip": "1"}, {"$limit": 5, "$skip": 1}),
    ({"$sort": {"age": "-1", "many.n": "1"}}, {"$sort": {"age": -1, "many.n": 1}}),
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
    assert VALIDATOR.validate(query) == wanted


def test_types_the_values_at_any_depth():
    query, wanted = {"age": {"$gt": "5"}}, {"age": {"$gt": 5}}
    for branch in ("$or", "$and", "$or"):
        query, wanted = {branch: [query, {"read": "true"}]}, {branch: [wanted, {"read": True}]}
    assert VALIDATOR.validate(query) == wanted


def test_takes_an_object_with_index_keys_for_the_list_that_it_stands_for():
    ids = {str(index): str(index) for index in range(21)}
    assert VALIDATOR.validate({"age": {"$in": ids}}) == {"age": {"$in": list(range(21))}}
    assert VALIDATOR.validate({"$or": {"0": {"age": "1"}}}) == {"$or": [{"age": 1}]}


NULLABLE = Validator(
    query_syntax(
        {
            "age": {"type": ["integer", "null"]},
            "scores": {"type": ["array", "null"], "items": {"type": "number"}},
            "address": {"type": ["object", "null"], "properties": {"zip": {"type": "integer"}}},
        }
    ),
    coerce=True,
)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"age": "5"}, {"age": 5}),
        ({"age": ""}, {"age": None}),
        ({"age": {"$ne": ""}}, {"age": {"$ne": None}}),
        ({"age": {"$in": ["5", ""]}}, {"age": {"$in": [5, None]}}),
        ({"scores": "5"}, {"scores": 5}),
        ({"scores": ["5"]}, {"scores": [5]}),
        ({"scores": {"$nin": ["5"]}}, {"scores": {"$nin": [5]}}),
        ({"address.zip": "5"}, {"address.zip": 5}),
        ({"$or": [{"age": {"$gt": "5"}}]}, {"$or": [{"age": {"$gt": 5}}]}),
    ],
)
def test_of_properties_that_may_be_null(query, wanted):
    assert NULLABLE.validate(query) == wanted


def test_keeps_the_order_of_sort():
    query = {"$sort": {"read": "1", "age": "1", "name": "-1"}}
    assert list(VALIDATOR.validate(query)["$sort"]) == ["read", "age", "name"]


REFUSED = [
    ({"nope": 1}, "", "nope"),
    ({"$where": "1"}, "", "$where"),
    ({"age": {"$regex": "1"}}, "/age", "$regex"),
    ({"name": {"$where": "1"}}, "/name", "$where"),
    ({"$or": [{"nope": 1}]}, "/$or/0", "nope"),
    ({"$or": [{"$limit": 1}]}, "/$or/0", "$limit"),
    ({"$sort": {"nope": 1}}, "/$sort", "nope"),
]


@pytest.mark.parametrize(("query", "path", "name"), REFUSED)
def test_names_what_is_unknown(query, path, name):
    found = report(SCHEMA, query, coerce=True)
    assert {"additionalProperty": name} in [
        each["params"] for each in found if each["instancePath"] == path
    ]


@pytest.mark.parametrize(
    ("query", "failure"),
    [
        ({"$limit": "-1"}, ("/$limit", "#/properties/%24limit/minimum", "minimum")),
        ({"$skip": "1.5"}, ("/$skip", "#/properties/%24skip/type", "type")),
        ({"$or": []}, ("/$or", "#/properties/%24or/minItems", "minItems")),
        ({"$select": ["nope"]}, ("/$select/0", "#/properties/%24select/items/enum", "enum")),
        ({"$select": {"a": "age"}}, ("/$select", "#/properties/%24select/type", "type")),
        (
            {"$sort": {"age": "0"}},
            ("/$sort/age", "#/properties/%24sort/properties/age/enum", "enum"),
        ),
        ({"age": "x"}, ("/age", "#/properties/age/anyOf/0/type", "type")),
        ({"name": ""}, ("/name", "#/properties/name/anyOf/0/minLength", "minLength")),
    ],
)
def test_tells_values_that_make_no_sense(query, failure):
    assert failure in brief(report(SCHEMA, query, coerce=True))


def test_asks_for_operators_first_where_any_object_fits():
    assert {"additionalProperty": "$x"} in [
        each["params"] for each in report(query_syntax({"a": {"type": "string"}}), {"a": {"$x": 1}})
    ]
    free = Validator(query_syntax({"free": {"type": "object"}}), coerce=True)
    assert free.validate({"free": {"$in": {"0": {"a": "1"}}}}) == {"free": {"$in": [{"a": "1"}]}}


def test_dotted_names_end():
    inner: dict = {"type": "object", "properties": {}}
    inner["properties"]["x"] = {"$ref": "#/$defs/inner"}
    schema = query_syntax({"type": "object", "properties": {"x": inner}, "$defs": {"inner": inner}})
    assert list(schema["properties"]["$sort"]["properties"]) == ["x", "x.x", "x.x.x", "x.x.x.x"]


def test_the_error_of_a_broken_reference_has_its_location():
    with pytest.raises(SchemaError, match="leads nowhere"):
        Validator(query_syntax({"a": {"$ref": "#/$defs/missing"}}))


def test_is_a_schema_for_everyone():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid({"age": {"$gt": 5}})


def test_the_properties_alone_will_do():
    plain = {name: PROPERTIES[name] for name in ("name", "age")}
    assert query_syntax(plain) == query_syntax({"type": "object", "properties": plain})


@pytest.mark.parametrize("properties", [{}, {"type": "object", "properties": {}}])
def test_a_record_without_properties_allows_only_filters(properties):
    validator = Validator(query_syntax(properties), coerce=True)
    query = {"$limit": "5", "$sort": {}, "$select": []}
    assert validator.validate(query) == {"$limit": 5, "$sort": {}, "$select": []}
    for query in ({"a": 1}, {"$sort": {"a": 1}}, {"$select": ["a"]}, {"$or": [{"a": 1}]}):
        assert not validator.is_valid(query)


def test_a_property_may_be_called_type():
    validator = Validator(query_syntax({"type": {"type": "string"}, "properties": True}))
    assert validator.is_valid({"type": "a", "properties": 5})


@pytest.mark.parametrize(
    ("properties", "extensions", "text"),
    [
        ({"type": "object"}, {}, "there are no properties"),
        ({"a": "string"}, {}, "the property 'a' is 'string', not a schema"),
        ({"$a": {}}, {}, "a property cannot be called '\\$a'"),
        ({"": {}}, {}, "a property cannot be called ''"),
        ({"a": {}}, {"b": {"$regex": {}}}, "extensions: 'b' is not a property; there are a"),
        ({"a": {}}, {"a": {"regex": {}}}, "extensions of 'a': 'regex' is not an operator"),
    ],
)
def test_tells_what_makes_no_sense(properties, extensions, text):
    with pytest.raises(SchemaError, match=text):
        query_syntax(properties, extensions)
