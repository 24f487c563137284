"""Data is an object, of a certain depth, without keys that a database takes for operators."""

from __future__ import annotations

from types import MappingProxyType
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.adapters._data import (
    MAX_DEPTH,
    check_data,
    check_new_id,
    hide_nested,
    is_scalar,
    read_data,
)
from alula.errors import BadRequest
from alula.outgoing import RedactedRecord

NOTHING = frozenset()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("id", [0, 5, "a", "", 1.5, True, uuid4(), b"x"])
def test_scalars(id):
    assert is_scalar(id)


@pytest.mark.parametrize(
    "id", [None, [], {}, (), set(), frozenset(), MappingProxyType({}), [1], {"$gt": ""}]
)
def test_no_scalars(id):
    assert not is_scalar(id)


@pytest.mark.parametrize("id", [0, 5, "a", 1.5, uuid4()])
def test_new_ids(id):
    check_new_id("key", id)


@pytest.mark.parametrize(
    ("id", "kind"), [(True, "true or false"), ([], "a list"), ({"$gt": 1}, "an object")]
)
def test_no_new_ids(id, kind):
    with pytest.raises(BadRequest) as caught:
        check_new_id("key", id)
    assert caught.value.message == f"'key' is {kind}; an id is a string or a number"


def test_data_is_a_dict_of_its_own():
    data = MappingProxyType({"a": [1]})
    copy = read_data("patch", data)
    assert type(copy) is dict
    assert copy == {"a": [1]}
    copy["b"] = 1
    assert data == {"a": [1]}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "null"),
        ("text", "a string"),
        (5, "a number"),
        (5.5, "a number"),
        (False, "true or false"),
        ([{}], "a list"),
        ({1}, "a list"),
        (object(), "a value"),
    ],
)
def test_no_data(data, kind):
    with pytest.raises(BadRequest) as caught:
        read_data("create", data)
    assert caught.value.message == f"The data of create must be an object, not {kind}"


@pytest.mark.parametrize(
    "data",
    [
        {"$set": 1},
        {"a": {"$set": 1}},
        {"a": [{"b": [[{"$set": 1}]]}]},
        {"a": ({"$set": 1},)},
        {"a": MappingProxyType({"$set": 1})},
        {"a": {"$inc": {"$set": 1}}},
    ],
)
def test_keys_with_a_dollar(data):
    with pytest.raises(BadRequest) as caught:
        check_data(data, {"$inc"})
    assert "$set" in caught.value.message
    assert "$inc" not in caught.value.message
    check_data(data, {"$inc", "$set"})
    check_data(data, None)


@pytest.mark.parametrize("data", [{}, {"a$": 1}, {"a.$": 1}, {"": 1}, {5: 1}, {"a": "$set"}])
def test_other_keys(data):
    check_data(data, NOTHING)


def nested(levels, wrap):
    data = {}
    for _ in range(levels - 1):
        data = wrap(data)
    return data


@pytest.mark.parametrize("opened", [None, NOTHING])
@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner, "b": 1}, lambda inner: {"a": inner}])
def test_levels(wrap, opened):
    check_data(nested(MAX_DEPTH, wrap), opened)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(BadRequest, match="more than 100 levels"):
            check_data(nested(levels, wrap), opened)


def test_lists_are_levels():
    check_data({"a": nested(MAX_DEPTH - 1, lambda inner: [inner])}, NOTHING)
    with pytest.raises(BadRequest, match="levels"):
        check_data({"a": nested(MAX_DEPTH, lambda inner: [inner])}, NOTHING)


def test_what_holds_itself_has_no_end():
    data = {}
    data["itself"] = [data]
    with pytest.raises(BadRequest, match="levels"):
        check_data(data, None)


def has_dollar(value):
    if isinstance(value, dict):
        return any(key[:1] == "$" for key in value) or any(map(has_dollar, value.values()))
    return isinstance(value, list) and any(map(has_dollar, value))


@given(st.dictionaries(st.text() | st.sampled_from(["$a", "$"]), VALUES, max_size=4))
def test_any_data(data):
    if has_dollar(data):
        with pytest.raises(BadRequest):
            check_data(data, NOTHING)
    else:
        check_data(data, NOTHING)
    check_data(data, None)


def test_what_is_guarded_within_data_is_replaced_by_what_may_leave():
    guarded = RedactedRecord({"id": 1, "password": "hash"}, {"id": 1})
    data = {"user": guarded, "users": [{"by": guarded}], "text": "a", "tags": ["b"]}
    tags = data["tags"]
    hide_nested(data)
    assert data == {"user": {"id": 1}, "users": [{"by": {"id": 1}}], "text": "a", "tags": ["b"]}
    assert data["tags"] is tags
    assert guarded["password"] == "hash"


def test_properties_of_data_that_is_guarded_itself_stay():
    inner = RedactedRecord({"key": "secret", "name": "A"}, {"name": "A"})
    record = read_data("update", RedactedRecord({"password": "hash", "team": inner}, {}))
    hide_nested(record)
    assert record == {"password": "hash", "team": {"name": "A"}}
