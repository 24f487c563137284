"""$select in Python means what MongoDB's projection means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.adapters._selection import selector

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
