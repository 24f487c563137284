"""The grammar: what a query may say, what it means, and how what it may not say is refused."""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.errors import BadRequest
from alula.query import EMPTY_QUERY, And, Grammar, Or, Query, Where, predicate
from alula.query._grammar import COMMON_FILTERS, COMMON_OPERATORS, FORBIDDEN

grammar = Grammar()
wide = Grammar(
    operators=[
        "$eq",
        "$exists",
        "$size",
        "$all",
        "$not",
        "$elemMatch",
        "$regex",
        "$options",
        "$near",
    ],
    filters={"$text": True, "$ignored": False, "$since": int},
)


def refusal(raw, reader=grammar):
    with pytest.raises(BadRequest) as caught:
        reader.read(raw)
    return caught.value


def criteria(raw, reader=grammar):
    return reader.read(raw).criteria.parts


# What a query means


def test_an_empty_query_is_always_the_same():
    assert grammar.read({}) is EMPTY_QUERY
    assert Query(And(()), None, 0, (), None, {}) == EMPTY_QUERY


def test_all_filters_at_once():
    query = grammar.read(
        {
            "$limit": "10",
            "$skip": 5,
            "$sort": {"createdAt": "-1", "name": 1},
            "$select": ["name", "address.zip"],
            "read": "true",
        }
    )
    assert query == Query(
        And((Where("read", (("$eq", "true"),)),)),
        limit=10,
        skip=5,
        sort=(("createdAt", -1), ("name", 1)),
        select=("name", "address.zip"),
    )


def test_filters_alone_ask_for_every_record():
    assert grammar.read({"$limit": 1}).criteria == And(())


@pytest.mark.parametrize(
    ("raw", "tests"),
    [
        ({"a": "1"}, (("$eq", "1"),)),
        ({"a": None}, (("$eq", None),)),
        ({"a": ["x", "y"]}, (("$eq", ["x", "y"]),)),
        ({"a": ("x",)}, (("$eq", ["x"]),)),
        ({"a": {}}, (("$eq", {}),)),
        ({"a": []}, (("$eq", []),)),
        ({"a": {"b": "1", "c": {"d": 2}}}, (("$eq", {"b": "1", "c": {"d": 2}}),)),
        ({"a": {"$gt": 1, "$lte": 9}}, (("$gt", 1), ("$lte", 9))),
        ({"a": {"$ne": ["x"]}}, (("$ne", ["x"]),)),
        ({"a": {"$lt": {"b": 1}}}, (("$lt", {"b": 1}),)),
        ({"a": {"$in": ["x", None]}}, (("$in", ["x", None]),)),
        ({"a": {"$nin": []}}, (("$nin", []),)),
        ({"a": {"$in": [["x"], {"b": 1}]}}, (("$in", [["x"], {"b": 1}]),)),
    ],
)
def test_one_field(raw, tests):
    assert criteria(raw) == (Where("a", tests),)


def test_several_fields_keep_their_order():
    assert [part.field for part in criteria({"b": 1, "a": 2, "c.d": 3})] == ["b", "a", "c.d"]


def test_names_that_mean_something_in_javascript_are_names_like_any_other():
    raw = {"__proto__": {"x": "1"}, "constructor": "1", "$or": [{"prototype": "2"}]}
    assert [getattr(part, "field", None) for part in criteria(raw)] == [
        "__proto__",
        "constructor",
        None,
    ]


@pytest.mark.parametrize("name", ["a$b", "a b", "ü", "a..b", "a.", ".", "1", "a-b", "a.b$"])
def test_odd_names_are_names(name):
    assert criteria({name: 1}) == (Where(name, (("$eq", 1),)),)


class TestBranches:
    def test_or_and_and(self):
        assert criteria({"$or": [{"a": 1}, {"b": 2, "c": 3}], "$and": [{"d": 4}]}) == (
            Or(
                (
                    Where("a", (("$eq", 1),)),
                    And((Where("b", (("$eq", 2),)), Where("c", (("$eq", 3),)))),
                )
            ),
            And((Where("d", (("$eq", 4),)),)),
        )

    def test_they_nest_in_each_other_freely(self):
        assert criteria({"$or": [{"$and": [{"$or": [{"a": 1}]}]}]}) == (
            Or((And((Or((Where("a", (("$eq", 1),)),)),)),)),
        )

    def test_an_empty_entry_matches_everything(self):
        assert criteria({"$or": [{}]}) == (Or((And(()),)),)

    def test_an_object_with_index_keys_stands_for_the_list(self):
        many = {str(index): {"a": index} for index in reversed(range(21))}
        (branch,) = criteria({"$or": many})
        assert [part.tests[0][1] for part in branch.parts] == list(range(21))

    @pytest.mark.parametrize("name", ["$or", "$and"])
    @pytest.mark.parametrize(
        "value", [[], "", "x", None, 5, {}, {"name": "Ada"}, ["x"], [{}, 1], {"0": "x"}, {"00": {}}]
    )
    def test_anything_but_a_list_of_objects_is_refused(self, name, value):
        error = refusal({name: value})
        assert error.message == (
            f"Invalid value for {name}: expected a list of objects with at least one entry"
        )
        assert error.data is None


class TestOperatorsInNestedObjects:
    def test_they_stand_for_dotted_names(self):
        assert criteria({"address": {"geo": {"$gt": 5}, "zip": "N1"}}) == (
            Where("address.geo", (("$gt", 5),)),
            Where("address.zip", (("$eq", "N1"),)),
        )

    def test_only_where_there_is_one_inside(self):
        raw = {"a": {"b": {"c": {"d": 1}}, "e": {"f": {"$ne": 2}}, "g": [1], "h.i": {"j": 3}}}
        assert criteria(raw) == (
            Where("a.b", (("$eq", {"c": {"d": 1}}),)),
            Where("a.e.f", (("$ne", 2),)),
            Where("a.g", (("$eq", [1]),)),
            Where("a.h.i", (("$eq", {"j": 3}),)),
        )

    @pytest.mark.parametrize("key", ["", "a\0b", 5])
    def test_their_names_are_checked_like_all(self, key):
        assert "Invalid query parameter" in refusal({"a": {"b": {"$gt": 1}, key: 1}}).message

    def test_the_dotted_name_is_bounded(self):
        long = ".".join("a" * 20)
        assert "too many parts" in refusal({long: {long: {"$gt": 1}}}).message


class TestLists:
    @pytest.mark.parametrize("name", ["$in", "$nin"])
    @pytest.mark.parametrize(
        ("given", "read"),
        [
            ("Ada", ["Ada"]),
            ("", [""]),
            (None, [None]),
            (7, [7]),
            (("a", "b"), ["a", "b"]),
            ({"0": "a"}, ["a"]),
            ({"10": "c", "9": "b", "0": "a"}, ["a", "b", "c"]),
            ({str(n): n for n in range(30)}, list(range(30))),
            (frozenset({"a"}), ["a"]),
        ],
    )
    def test_what_stands_for_a_list(self, name, given, read):
        assert criteria({"a": {name: given}}) == (Where("a", ((name, read),)),)

    @pytest.mark.parametrize(
        "value", [{}, {"a": 1}, {"0": 1, "a": 2}, {"01": 1}, {"-1": 1}, {"²": 1}, {"": 1}, {0: 1}]
    )
    def test_other_objects_do_not(self, value):
        assert refusal({"a": {"$in": value}}).message == "Invalid value for $in: expected a list"


# What is refused


@pytest.mark.parametrize(
    ("raw", "message", "data"),
    [
        ({"$foo": "1"}, "Invalid filter value $foo", None),
        ({"$foo": {"bar": "1"}}, "Invalid filter value $foo", None),
        ({"$where": "1"}, "Invalid filter value $where", None),
        ({"$in": ["1"]}, "Invalid filter value $in", None),
        ({"$": 1}, "Invalid filter value $", None),
        (
            {"name": {"$foo": "1", "$ne": "x"}},
            "Invalid query parameter $foo",
            {"$foo": "1", "$ne": "x"},
        ),
        ({"name": {"$where": "1"}}, "Invalid query parameter $where", {"$where": "1"}),
        ({"name": {"$eq": "Ada"}}, "Invalid query parameter $eq", {"$eq": "Ada"}),
        ({"name": {"$and": ["A"]}}, "Invalid query parameter $and", {"$and": ["A"]}),
        ({"name": {"$or": [{}]}}, "Invalid query parameter $or", {"$or": [{}]}),
        ({"name": {"$limit": 1}}, "Invalid query parameter $limit", {"$limit": 1}),
        ({"a": {"b": {"$foo": "1"}}}, "Invalid query parameter $foo", {"$foo": "1"}),
        ({"$or": [{"$foo": "1"}]}, "Invalid query parameter $foo", {"$foo": "1"}),
        (
            {"$or": [{"b": 2}, {"a": 1, "$limit": "1"}]},
            "Invalid query parameter $limit",
            {"a": 1, "$limit": "1"},
        ),
        ({"$and": [{"$text": "1"}]}, "Invalid query parameter $text", {"$text": "1"}),
        ({"$or": [{"a": {"$foo": "1"}}]}, "Invalid query parameter $foo", {"$foo": "1"}),
        ({"a": {"$gt": {"$gt": 1}}}, "Invalid query parameter $gt", {"$gt": 1}),
        ({"a": {"$in": [{"$gt": 1}]}}, "Invalid query parameter $gt", {"$gt": 1}),
        ({"a": {"$ne": [{"b": {"$x": 1}}]}}, "Invalid query parameter $x", {"$x": 1}),
        ({"a": [{"$ne": 1}]}, "Invalid query parameter $ne", {"$ne": 1}),
        ({"a": {"b": [{"$ne": 1}]}}, "Invalid query parameter $ne", {"$ne": 1}),
        ({"a.$where": 1}, "Invalid query parameter a.$where", {"a.$where": 1}),
        ({"a": {"b.$x": 1}}, "Invalid query parameter b.$x", {"b.$x": 1}),
        (
            {"a": {"$gt": 1, "b": 2}},
            "Invalid query parameter b: expected an operator",
            {"$gt": 1, "b": 2},
        ),
    ],
)
def test_unknown_names(raw, message, data):
    error = refusal(raw)
    assert (error.message, error.code, error.data) == (message, 400, data)


@pytest.mark.parametrize("rest", [{}, {"$limit": 1}])
@pytest.mark.parametrize(
    "names",
    [
        ["a", "b"],
        ["1", "a-b", "\u00fc"],
        ["a.b", "_"],
        ("a", "a"),
        [],
        {"a"},
        {"0": "a", "1": "b"},
        "a",
    ],
)
def test_names_to_select(names, rest):
    chosen = grammar.read({"$select": names, **rest}).select
    expected = names.values() if isinstance(names, dict) else names
    assert chosen == tuple(expected)


@pytest.mark.parametrize("rest", [{}, {"$limit": 1}])
@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["", "a"], "'' is not a name"),
        (["a", ""], "'' is not a name"),
        (["a", 5], "a name of a field must be a string"),
        ([None], "a name of a field must be a string"),
        (["a", "$b"], r"'\$b' is not a name"),
        (["a..b"], "'a..b' is not a name"),
        (["a", "b\0"], r"'\(2 characters\)' is not a name"),
        ([["a"]], "a name of a field must be a string"),
        ([".".join("a" * 33)], r"'\(65 characters\)' is not a name"),
    ],
)
def test_what_cannot_be_selected(names, part, rest):
    with pytest.raises(BadRequest, match=rf"^Invalid value for \$select: {part}"):
        grammar.read({"$select": names, **rest})


def test_what_tests_or_sorts_has_a_budget():
    for raw in ({"a": 1}, {"$sort": {"a": 1}}, {"$or": [{"a": 1}], "$select": ["a"]}):
        budget = grammar.read(raw, 5).budget
        assert budget is not None
        assert budget.steps_left == 5
        assert grammar.read(raw).budget is None
    for raw in ({}, {"$select": ["a"]}, {"$limit": 1, "$skip": 2, "$select": ["a"]}):
        assert grammar.read(raw, 5).budget is None


def test_the_data_of_an_error_arrives_as_it_is():
    holder = {"$foo": 1, "message": "mine", "errors": {"x": 1}}
    assert refusal({"$or": [holder]}).to_dict() == {
        "name": "BadRequest",
        "message": "Invalid query parameter $foo",
        "code": 400,
        "className": "bad-request",
        "data": holder,
    }


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"": 1}, "Invalid query parameter '': a name cannot be empty"),
        ({"a": {"": 1}}, "Invalid query parameter '': a name cannot be empty"),
        ({"a\0b": 1}, r"Invalid query parameter '(3 characters)': a name cannot hold NUL"),
        ({"a": [{"\0": 1}]}, r"Invalid query parameter '(1 characters)': a name cannot hold NUL"),
        ({5: 1}, "Invalid query parameter 5: a name must be a string"),
        ({None: 1}, "Invalid query parameter None: a name must be a string"),
        ({"a": {"b": {1: 2}}}, "Invalid query parameter 1: a name must be a string"),
        ({"a": {"$gt": 1, 2: 3}}, "Invalid query parameter 2: a name must be a string"),
        ({"$or": [{("a",): 1}]}, "Invalid query parameter ('a',): a name must be a string"),
        ({".".join("a" * 33): 1}, "A field name has too many parts: at most 32 are allowed"),
    ],
)
def test_names_that_are_none(raw, message):
    assert refusal(raw).message == message


def test_a_name_of_32_parts_is_the_longest():
    assert criteria({".".join("a" * 32): 1})


@pytest.mark.parametrize("raw", ["$limit", ["$limit"], 5, object()])
def test_a_query_that_is_no_mapping(raw):
    assert refusal(raw).message == "Invalid query: expected an object"


def nested(levels, wrap, value=1):
    for _ in range(levels):
        value = wrap(value)
    return value


WRAPS = {
    "objects": lambda inner: {"a": inner},
    "lists": lambda inner: [inner],
    "or": lambda inner: {"$or": [inner]},
    "and": lambda inner: {"$and": {"0": inner}},
    "not": lambda inner: {"$not": inner},
    "elements": lambda inner: {"$elemMatch": inner},
}


class TestDepth:
    @pytest.mark.parametrize("wrap", ["objects", "lists"])
    def test_values_of_31_levels_below_the_query_are_the_deepest(self, wrap):
        assert criteria({"x": nested(31, WRAPS[wrap])})
        assert "nested too deeply" in refusal({"x": nested(32, WRAPS[wrap])}).message

    @pytest.mark.parametrize("wrap", ["or", "and"])
    def test_branches_of_31_levels_are_the_deepest(self, wrap):
        assert criteria(nested(31, WRAPS[wrap], {"x": 1}))
        assert "nested too deeply" in refusal(nested(32, WRAPS[wrap], {"x": 1})).message

    @pytest.mark.parametrize("wrap", ["not", "elements"])
    def test_operators_of_31_levels_are_the_deepest(self, wrap):
        assert criteria({"x": nested(30, WRAPS[wrap], {"$gt": 1})}, wide)
        assert (
            "nested too deeply" in refusal({"x": nested(31, WRAPS[wrap], {"$gt": 1})}, wide).message
        )

    @pytest.mark.parametrize("wrap", WRAPS)
    @pytest.mark.parametrize("below", [lambda deep: deep, lambda deep: {"x": deep}])
    def test_twenty_thousand_levels_are_an_error_like_any_other(self, wrap, below):
        raw = below(nested(20_000, WRAPS[wrap], {"$gt": 1}))
        for reader in (grammar, wide):
            with pytest.raises(BadRequest):
                reader.read(raw)

    @pytest.mark.parametrize("name", ["$text", "$since", "a"])
    def test_a_mapping_that_holds_itself(self, name):
        endless: dict = {}
        endless["b"] = endless
        assert "nested too deeply" in refusal({name: endless}, wide).message
        assert "nested too deeply" in refusal({"a": {"$near": endless}}, wide).message


# Values and containers

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("value", [NOW, b"x", Decimal("1.5"), object(), 1.5, True, None, 2**80])
def test_values_are_taken_over_as_they_are(value):
    (equal, listed, compared) = criteria(
        {"a": value, "b": {"$in": [value]}, "c": {"$gt": value}},
    )
    assert equal.tests[0][1] is value
    assert listed.tests[0][1][0] is value
    assert compared.tests[0][1] is value


def test_nothing_that_can_change_is_shared_with_the_caller():
    inner = {"deep": [1]}
    raw = {
        "a": [inner],
        "b": {"$in": [inner]},
        "c": {"$ne": inner},
        "d": {"$near": inner},
        "$text": inner,
        "$select": ["x"],
        "$sort": {"x": 1},
    }
    query = wide.read(raw)
    before = repr(query)
    inner["deep"].append(2)
    inner["new"] = 1
    raw["$select"].append("y")
    raw["$sort"]["y"] = 1
    assert repr(query) == before
    assert raw["a"] == [{"deep": [1, 2], "new": 1}]


@pytest.mark.parametrize(
    "kind",
    [OrderedDict, MappingProxyType, lambda raw: ChainMap({}, raw)],
    ids=["OrderedDict", "MappingProxyType", "ChainMap"],
)
def test_every_kind_of_mapping_is_read(kind):
    raw = kind({"$or": kind({"0": kind({"a": kind({"$gt": 1})})}), "$sort": kind({"b": 1})})
    query = grammar.read(raw)
    assert query == grammar.read({"$or": [{"a": {"$gt": 1}}], "$sort": {"b": 1}})
    data = refusal({"a": kind({"$foo": 1})}).data
    assert type(data) is dict
    assert data == {"$foo": 1}


def test_names_may_be_of_a_kind_of_str():
    class Name(str):
        __slots__ = ()

    raw = {Name("$limit"): 1, Name("a"): {Name("$gt"): 1}, Name("$or"): [{Name("b"): 1}]}
    assert grammar.read(raw) == grammar.read({"$limit": 1, "a": {"$gt": 1}, "$or": [{"b": 1}]})
    assert refusal({Name("$foo"): 1}).message == "Invalid filter value $foo"


def test_a_query_cannot_be_changed():
    query = wide.read({"a": 1, "$text": "x"})
    with pytest.raises(AttributeError):
        query.limit = 5
    with pytest.raises(AttributeError):
        query.criteria.parts[0].field = "b"
    with pytest.raises(TypeError):
        query.filters["$text"] = "y"


# What a service opens


class TestOpenedOperators:
    def test_their_values_are_passed_on(self):
        raw = {"a": {"$regex": "^a", "$options": "i", "$gt": "b"}, "b": {"$exists": "true"}}
        assert criteria(raw, wide) == (
            Where("a", (("$regex", "^a"), ("$options", "i"), ("$gt", "b"))),
            Where("b", (("$exists", "true"),)),
        )

    def test_values_of_unknown_form_may_hold_operators_of_the_database(self):
        near = {"$geometry": {"type": "Point", "coordinates": [1, 2]}, "": 1}
        assert criteria({"a": {"$near": near}}, wide) == (Where("a", (("$near", near),)),)

    @pytest.mark.parametrize("name", sorted(FORBIDDEN))
    def test_code_never_passes(self, name):
        holder = {"x": 1, name: "code"}
        for raw in (
            {"a": {"$near": holder}},
            {"a": {"$near": [{"b": [holder]}]}},
            {"$text": holder},
            {"$text": [[holder]]},
            {"$since": holder},
        ):
            error = refusal(raw, wide)
            assert error.message == f"Invalid query parameter {name}"
            assert error.data == holder

    @pytest.mark.parametrize("key", [5, "a\0"])
    def test_names_in_them_are_strings_without_nul(self, key):
        assert "Invalid query parameter" in refusal({"a": {"$near": {key: 1}}}, wide).message

    @pytest.mark.parametrize("name", ["$eq", "$all"])
    def test_values_of_these_hold_no_operators(self, name):
        assert refusal({"a": {name: [{"$gt": 1}]}}, wide).message == "Invalid query parameter $gt"

    def test_all_takes_a_list_like_in(self):
        assert criteria({"a": {"$all": {"0": "x"}}}, wide) == (Where("a", (("$all", ["x"]),)),)
        assert criteria({"a": {"$all": "x"}}, wide) == (Where("a", (("$all", ["x"]),)),)

    def test_they_are_unknown_elsewhere(self):
        assert refusal({"$regex": "x"}, wide).message == "Invalid filter value $regex"
        assert refusal({"a": {"$text": "x"}}, wide).message == "Invalid query parameter $text"


class TestNot:
    def test_it_holds_tests(self):
        raw = {"a": {"$not": {"$gt": 1, "$not": {"$in": "x"}}}}
        inner = (("$gt", 1), ("$not", (("$in", ["x"]),)))
        assert criteria(raw, wide) == (Where("a", (("$not", inner),)),)

    @pytest.mark.parametrize("value", [{}, "x", None, ["$gt"], 5])
    def test_it_needs_operators(self, value):
        assert refusal({"a": {"$not": value}}, wide).message == (
            "Invalid value for $not: expected an object of operators"
        )

    def test_its_operators_are_checked(self):
        error = refusal({"a": {"$not": {"$foo": 1}}}, wide)
        assert (error.message, error.data) == ("Invalid query parameter $foo", {"$foo": 1})
        error = refusal({"a": {"$not": {"b": 1}}}, wide)
        assert error.message == "Invalid query parameter b: expected an operator"


class TestElemMatch:
    def test_operators_are_tests_of_an_element(self):
        assert criteria({"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, wide) == (
            Where("a", (("$elemMatch", (("$gt", 1), ("$lt", 5))),)),
        )

    def test_fields_are_criteria_for_those_of_an_element(self):
        assert criteria({"a": {"$elemMatch": {"b": 1, "c": {"$gt": 2}}}}, wide) == (
            Where(
                "a",
                (("$elemMatch", And((Where("b", (("$eq", 1),)), Where("c", (("$gt", 2),))))),),
            ),
        )

    @pytest.mark.parametrize(("name", "kind"), [("$or", Or), ("$and", And)])
    def test_branches_are_criteria_too(self, name, kind):
        assert criteria({"a": {"$elemMatch": {name: [{"b": 1}]}}}, wide) == (
            Where("a", (("$elemMatch", And((kind((Where("b", (("$eq", 1),)),)),))),)),
        )

    def test_an_empty_one_asks_for_any_object(self):
        assert criteria({"a": {"$elemMatch": {}}}, wide) == (
            Where("a", (("$elemMatch", And(())),)),
        )

    @pytest.mark.parametrize("value", ["x", None, [{}], 5])
    def test_it_needs_an_object(self, value):
        assert refusal({"a": {"$elemMatch": value}}, wide).message == (
            "Invalid value for $elemMatch: expected an object"
        )

    @pytest.mark.parametrize(
        ("value", "name"),
        [
            ({"$foo": 1}, "$foo"),
            ({"b": {"$foo": 1}}, "$foo"),
            ({"$or": [{"b": 1}], "$gt": 1}, "$gt"),
            ({"$or": [{"b": 1}], "$limit": 1}, "$limit"),
            ({"$where": "1"}, "$where"),
        ],
    )
    def test_its_names_are_checked(self, value, name):
        assert refusal({"a": {"$elemMatch": value}}, wide).message == (
            f"Invalid query parameter {name}"
        )


class TestOpenedFilters:
    def test_true_passes_the_value_on(self):
        assert wide.read({"$text": {"$search": ["x"]}}).filters == {"$text": {"$search": ["x"]}}

    def test_false_drops_it(self):
        assert wide.read({"$ignored": {"$where": 1}}) == EMPTY_QUERY

    def test_a_function_converts_it(self):
        assert wide.read({"$since": "5", "$text": "x"}).filters == {"$since": 5, "$text": "x"}

    @pytest.mark.parametrize("value", ["five", None, float("inf")])
    def test_a_value_that_it_cannot_convert(self, value):
        assert refusal({"$since": value}, wide).message == "Invalid value for $since"

    def test_a_name_that_it_cannot_find(self):
        reader = Grammar(filters={"$mode": {"fast": 1}.__getitem__})
        assert reader.read({"$mode": "fast"}).filters == {"$mode": 1}
        assert refusal({"$mode": "slow"}, reader).message == "Invalid value for $mode"

    def test_its_own_error_stays_as_it_is(self):
        def refuse(value):
            raise BadRequest("not now", {"value": value})

        error = refusal({"$since": "5"}, Grammar(filters={"$since": refuse}))
        assert (error.message, error.data) == ("not now", {"value": "5"})

    def test_no_other_query_has_them(self):
        assert grammar.read({"a": 1}).filters == {}


class TestOpening:
    @pytest.mark.parametrize("name", ["regex", "", "$", "r$egex", 5, None])
    def test_names_that_are_none(self, name):
        for options in ({"operators": [name]}, {"filters": {name: True}}):
            with pytest.raises(ValueError, match="those start with '\\$'"):
                Grammar(**options)

    def test_a_string_in_place_of_a_list(self):
        with pytest.raises(ValueError, match=r"operators: '\$' is not"):
            Grammar(operators="$regex")

    @pytest.mark.parametrize("name", sorted(FORBIDDEN))
    def test_names_that_run_code(self, name):
        for options in ({"operators": [name]}, {"filters": {name: True}}):
            with pytest.raises(ValueError, match="never passes; remove it"):
                Grammar(**options)

    @pytest.mark.parametrize("name", sorted(COMMON_FILTERS | COMMON_OPERATORS))
    def test_names_that_are_there_already(self, name):
        for options in ({"operators": [name]}, {"filters": {name: True}}):
            with pytest.raises(ValueError, match="part of the common syntax already"):
                Grammar(**options)

    @pytest.mark.parametrize("option", [None, 1, "yes", []])
    def test_options_that_are_none(self, option):
        with pytest.raises(ValueError, match=r"filters: .*'\$text' is .*give True"):
            Grammar(filters={"$text": option})


class TestReadSelect:
    def test_it_reads_nothing_else(self):
        raw = {"$select": ["a", "b.c"], "$foo": 1, "name": {"$where": 1}}
        assert grammar.read_select(raw) == ("a", "b.c")

    @pytest.mark.parametrize("raw", [{}, None, {"$limit": 1}])
    def test_where_there_is_none(self, raw):
        assert grammar.read_select(raw) is None

    def test_it_is_checked(self):
        with pytest.raises(BadRequest, match=r"Invalid value for \$select"):
            grammar.read_select({"$select": ["$where"]})


# Whatever comes in

KNOWN = "$limit $skip $sort $select $or $and $in $nin $gt $ne $not $elemMatch $all $where $expr"
OPENED = "$regex $options $exists $size $near $text $since"
names = st.one_of(
    st.sampled_from([*KNOWN.split(), *OPENED.split(), "a", "a.b", "0", "1", "", "$", "a.$b", "\0"]),
    st.text(max_size=3),
    st.integers(),
    st.none(),
)
atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(["-1", "1", "10", "[", "(?", "true", "9" * 5000]),
    st.datetimes(),
    st.dates(),
    st.decimals(),
)
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


def names_in(value):
    """Yield the names in criteria or in a value, at any depth: fields, operators, keys."""
    if isinstance(value, (And, Or)):
        value = value.parts
    elif isinstance(value, Where):
        yield value.field
        value = value.tests
    elif isinstance(value, Mapping):
        value = tuple(value.items())
    if isinstance(value, (list, tuple)):
        for inner in value:
            if isinstance(inner, tuple):  # lists are copied as lists, so this is a pair
                yield inner[0]
                inner = inner[1]  # noqa: PLW2901  # one step inwards each time
            yield from names_in(inner)


def test_the_names_in_criteria_are_collected():
    raw = {"$or": [{"a": {"$not": {"$gt": 1}, "$near": [{"$deep": 1}]}}, {"b": {"c": 1}}]}
    found = set(names_in(wide.read(raw).criteria))
    assert found == {"a", "$not", "$gt", "$near", "$deep", "b", "$eq", "c"}


@given(raw=st.dictionaries(names, values, max_size=5))
def test_nothing_but_a_bad_request_is_raised_and_no_code_passes(raw):
    for reader in (grammar, wide):
        try:
            query = reader.read(raw)
        except BadRequest:
            continue
        assert FORBIDDEN.isdisjoint({*names_in(query.criteria), *names_in(query.filters)})
        opened = set(names_in(query.criteria)) - COMMON_OPERATORS - {"$eq"}
        assert reader is wide or not [name for name in opened if name.startswith("$")]
        try:
            matches = predicate(query.criteria)
        except BadRequest:
            assert reader is wide
            continue
        assert matches({"a": [1, {"b": "x"}], "0": None}) in (True, False)


@given(raw=st.dictionaries(names, values, max_size=5))
def test_reading_changes_nothing_and_is_always_the_same(raw):
    before = repr(raw)
    try:
        first, second = wide.read(raw), wide.read(raw)
    except BadRequest:
        pass
    else:
        assert repr(first) == repr(second)
    assert repr(raw) == before
