"""Checks of data, patches, $select and copies of records."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from datetime import UTC, datetime
from types import MappingProxyType
from uuid import uuid4

import pytest
from bson import SON, Binary, Decimal128, Int64, ObjectId, Regex
from hypothesis import given
from hypothesis import strategies as st

from alula.adapters._records import (
    IMMUTABLE,
    MAX_DEPTH,
    check_data,
    check_dotted,
    check_new_id,
    copied,
    dotted_names,
    hide_nested,
    is_plain,
    is_scalar,
    merged,
    read_data,
    selected,
    selector,
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


class Text(str):
    """A string that shows itself as another one."""

    __slots__ = ()

    def __str__(self):
        return "harmless"


@pytest.mark.parametrize(
    "data",
    [
        {"text": "a", "read": False, "at": 1, "share": 0.5, "none": None},
        {"größe": 1, "_id": 1, "a1": 1},
    ],
)
def test_plain_data(data):
    assert is_plain(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"$set": 1},
        {"a": 1, "b$": 1},
        {"a.b": 1},
        {Text("$set"): 1},
        {Text("a.b"): 1},
        {5: 1},
        {"a": {}},
        {"a": 1, "b": []},
        {"a": datetime(2026, 1, 1, tzinfo=UTC)},
        {"a": Text("b")},
    ],
)
def test_data_that_is_not_plain(data):
    assert not is_plain(data)


@given(st.dictionaries(st.text() | st.sampled_from(["$a", "a.b", "a"]), VALUES, max_size=4))
def test_plain_data_needs_no_check(data):
    if is_plain(data):
        check_data(data, NOTHING)
        check_dotted(data, are_open=False)
        hidden = dict(data)
        hide_nested(hidden)
        assert hidden == data == copied(data)


def test_names_with_dots():
    assert dotted_names({"a.b": 1, "c": 1, 5: 1, ".": 1}) == ["a.b", "."]
    check_dotted(["a", 5], are_open=False)
    check_dotted(["a.b"], are_open=True)
    with pytest.raises(BadRequest, match=r"Invalid key a\.b in the data: .* send 'a' as a whole"):
        check_dotted(["c", "a.b"], are_open=False)


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
def test_names_with_dots_have_levels_too(levels):
    check_dotted([".".join("a" * MAX_DEPTH)], are_open=True)
    with pytest.raises(BadRequest, match="more than 100 levels"):
        check_dotted([".".join("a" * levels)], are_open=True)


# -- patches ---------------------------------------------------------------------------------------


def merge(record, changes):
    return merged(record, changes, dotted_names(changes))


def test_a_patch_makes_a_new_record():
    record, inner = {"id": 1, "a": 1}, []
    assert merge(record, {"a": 2, "b": inner})["b"] is inner
    assert record == {"id": 1, "a": 1}


def test_names_with_dots_change_copies():
    record = {"a": {"b": [{"c": 1}, 2]}, "a.b": "a name of its own"}
    before = deepcopy(record)
    changes = {"a.b.0.c": 3, "a.b.0.d": 4, "a.b.3": 5, "x.y.z": 6, "x.w": 7, "e": 8}
    assert merge(record, changes) == {
        "a": {"b": [{"c": 3, "d": 4}, 2, None, 5]},
        "a.b": "a name of its own",
        "x": {"y": {"z": 6}, "w": 7},
        "e": 8,
    }
    assert record == before


def test_values_of_a_patch_stay_as_they_are():
    value = {"b": 1}
    changed = merge({}, {"x.y": value, "x.z": value})
    assert changed == {"x": {"y": {"b": 1}, "z": {"b": 1}}}
    assert value == {"b": 1}


@pytest.mark.parametrize("part", ["-1", "-0", "01", "+1", "1_0", "\u0661", "x", "9" * 5_000])
@pytest.mark.parametrize("items", [[], [1, 2]])
def test_what_is_no_index_of_a_list(part, items):
    for name in (f"list.{part}", f"list.{part}.x"):
        with pytest.raises(BadRequest, match="is not an index of a list"):
            merge({"list": items}, {name: 1})


def test_padding_has_one_limit_for_all_names_of_a_patch():
    assert merge({"a": [0]}, {"a.3": 3, "a.6": 6}) == {"a": [0, None, None, 3, None, None, 6]}
    assert len(merge({"a": []}, {"a.1500": 1})["a"]) == 1_501
    for second in ("a.3000", "b.0.800"):
        with pytest.raises(BadRequest, match=f"{second} in the data: [0-9]+ is not an index"):
            merge({"a": [], "b": [[]]}, {"a.1000": 1, second: 2})
    # Further entries of one's own are no padding.
    many = {f"a.{n}": n for n in range(5_000)}
    assert merge({"a": []}, many) == {"a": [*range(5_000)]}


# -- $select ---------------------------------------------------------------------------------------

RECORD = {
    "id": 1,
    "name": "Ada",
    "none": None,
    "a": {"b": {"c": 1, "d": 2}, "e": 3, "f": None},
    "list": [{"x": 1, "y": {"z": 2}}, 5, [{"x": 6}, 7], {"y": 3}, None],
    "pair": ({"x": 1}, 2),
    "dotted.name": "key",
}


@pytest.mark.parametrize(
    ("names", "selected"),
    [
        ((), {}),
        (("name",), {"name": "Ada"}),
        (("name", "name"), {"name": "Ada"}),
        (("none",), {"none": None}),
        (("nothing",), {}),
        (("id",), {}),
        (("a",), {"a": RECORD["a"]}),
        (("a.e",), {"a": {"e": 3}}),
        (("a.f",), {"a": {"f": None}}),
        (("a.b.c",), {"a": {"b": {"c": 1}}}),
        (("a.b.c", "a.b.d"), {"a": {"b": {"c": 1, "d": 2}}}),
        (("a.b.c", "a.e", "name"), {"a": {"b": {"c": 1}, "e": 3}, "name": "Ada"}),
        (("a.b.c", "a.b"), {"a": {"b": {"c": 1, "d": 2}}}),
        (("a.b", "a.b.c"), {"a": {"b": {"c": 1, "d": 2}}}),
        (("a.b.c", "a"), {"a": RECORD["a"]}),
        (("a", "a.b.c"), {"a": RECORD["a"]}),
        (("a.x",), {"a": {}}),
        (("a.b.x",), {"a": {"b": {}}}),
        (("a.e.x",), {"a": {}}),
        (("a.f.x",), {"a": {}}),
        (("name.x",), {}),
        (("none.x",), {}),
        (("x.y",), {}),
        (("list.x",), {"list": [{"x": 1}, [{"x": 6}], {}]}),
        (("list.y.z",), {"list": [{"y": {"z": 2}}, [{}], {}]}),
        (("list.0",), {"list": [{}, [{}], {}]}),
        (("pair.x",), {"pair": [{"x": 1}]}),
        (("dotted.name",), {"dotted.name": "key"}),
        (("id.x",), {}),
    ],
)
def test_selection(names, selected):
    assert selector(names, "id")(RECORD) == {"id": 1, **selected}


def test_the_id_has_any_name():
    assert selector(("name",), "none")(RECORD) == {"name": "Ada", "none": None}
    assert selector(("name",), "key")(RECORD) == {"name": "Ada"}


def test_one_selector_serves_many_records():
    select = selector(("a.b", "c"), "id")
    assert [select(record) for record in ({"a": {"b": 1, "x": 2}}, {"c": 3, "d": 4}, {})] == [
        {"a": {"b": 1}},
        {"c": 3},
        {},
    ]


PARTS = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(".".join)
VALUES = st.recursive(
    st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PARTS, inner, max_size=3),
    max_leaves=10,
)


def project(value, paths):
    """The same, said in the shortest way."""
    if [] in paths:
        return value
    if isinstance(value, list):
        return [project(item, paths) for item in value if isinstance(item, dict | list)]
    chosen = {}
    for name, inner in value.items():
        below = [path[1:] for path in paths if path[0] == name]
        if below and ([] in below or isinstance(inner, dict | list)):
            chosen[name] = project(inner, below)
    return chosen


@given(st.dictionaries(PARTS, VALUES, max_size=3), st.lists(PATHS, max_size=4))
def test_any_selection(record, names):
    expected = project({**record, "id": 7}, [["id"], *(name.split(".") for name in names)])
    assert selector(tuple(names), "id")({**record, "id": 7}) == expected


@given(
    st.dictionaries(PARTS | st.just("a.b"), VALUES),
    st.lists(PATHS | PARTS, max_size=4),
    st.sampled_from(["id", "a", "key"]),
)
def test_one_record_is_reduced_as_by_a_selector(record, names, id):
    record = {**record, "id": 7}
    before = repr(record)
    assert repr(selected(record, tuple(names), id)) == repr(selector(names, id)(record))
    assert repr(record) == before


def test_a_name_that_is_selected_twice_comes_once():
    assert selected({"a": 1, "b": 2, "id": 3}, ("b", "a", "b"), "id") == {"b": 2, "a": 1, "id": 3}


def test_a_name_that_the_record_lacks_is_left_out():
    assert selected({"a": 1, "id": 2}, ("b", "a"), "id") == {"a": 1, "id": 2}
    assert selected({"a": {"b": 1, "c": 2}}, ("a.b", "d"), "id") == {"a": {"b": 1}}


def test_nothing_is_made_up_for_what_a_record_lacks():
    record = defaultdict(list, id=1)
    assert selected(record, ("a",), "id") == {"id": 1}
    assert record == {"id": 1}


# -- copies ----------------------------------------------------------------------------------------


def test_a_copy_is_equal_and_shares_no_container():
    record = {
        "_id": ObjectId(),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "numbers": [1, 2.5, Int64(3), Decimal128("4.5"), [None, True]],
        "inner": {"list": [{"deep": "x"}]},
    }
    copy = copied(record)
    assert copy == record
    copy["numbers"][4].append(1)
    copy["inner"]["list"][0]["deep"] = "y"
    copy["inner"]["list"].append(2)
    copy["new"] = 1
    assert record["numbers"][4] == [None, True]
    assert record["inner"] == {"list": [{"deep": "x"}]}
    assert "new" not in record


def test_types_stay_as_they_are():
    value = {"a": Int64(1), "b": Binary(b"x", 5), "c": Regex("a"), "d": SON([("x", [1])])}
    copy = copied(value)
    assert {name: type(each) for name, each in copy.items()} == {
        "a": Int64,
        "b": Binary,
        "c": Regex,
        "d": SON,
    }
    assert copy["d"]["x"] is not value["d"]["x"]


def test_none_stands_for_no_record():
    assert copied(None) is None


def test_a_database_names_further_types_that_need_no_copy():
    key = ObjectId()
    assert copied({"a": [key]}, IMMUTABLE | {ObjectId})["a"][0] is key


def test_a_mapping_becomes_a_dict():
    inner = MappingProxyType({"a": MappingProxyType({"b": [1]})})
    assert copied([inner]) == [{"a": {"b": [1]}}]
    assert type(copied(inner)["a"]) is dict
