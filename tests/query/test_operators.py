"""What each operator asks of a value; what a list or a dotted name means is in test_match.py."""

from __future__ import annotations

import re
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from alula.errors import BadRequest
from alula.query import SUPPORTED_OPERATORS, And, Where, predicate

NAN = float("nan")
INFINITY = float("inf")


class Id:
    """An id like MongoDB's: equal and in order among its kind only."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Id) and self.value == other.value

    def __lt__(self, other):
        return self.value < other.value if isinstance(other, Id) else NotImplemented

    def __le__(self, other):
        return self.value <= other.value if isinstance(other, Id) else NotImplemented

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f"Id({self.value})"


class Tag:
    """A value without an order."""

    def __repr__(self):
        return "Tag()"


NO_MOD = [
    [2],
    [2, 0, 1],
    [],
    "2",
    2,
    None,
    {"0": 2},
    [0, 0],
    [0.5, 0],
    ["x", 0],
    [2, None],
    [NAN, 0],
    [2, INFINITY],
    [True, 0],
]


def matching(values, *tests):
    """Return those of the values that pass the tests, as the only field of a record."""
    matches = predicate(And((Where("x", tests),)))
    return [value for value in values if matches({"x": value})]


def same(found, expected):
    """Compare with the types, for which 1 and True are the same."""
    assert list(map(repr, found)) == list(map(repr, expected))


SCALARS = [
    None,
    0,
    1,
    1.0,
    1.5,
    Decimal(1),
    NAN,
    -INFINITY,
    INFINITY,
    True,
    False,
    "",
    "1",
    "a",
    b"a",
    Id(1),
    datetime(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=UTC),
]


class TestEquality:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            (None, [None]),
            (0, [0]),
            (1, [1, 1.0, Decimal(1)]),
            (1.0, [1, 1.0, Decimal(1)]),
            (Decimal("1.50"), [1.5]),
            (NAN, [NAN]),
            (Decimal("NaN"), [NAN]),
            (INFINITY, [INFINITY]),
            (True, [True]),
            (False, [False]),
            ("", [""]),
            ("1", ["1"]),
            (b"a", [b"a"]),
            (Id(1), [Id(1)]),
            (Id(2), []),
            (datetime(2026, 1, 1), SCALARS[-2:]),
            (date(2026, 1, 1), SCALARS[-2:]),
            (datetime(2026, 1, 2), []),
            ({}, []),
            ([], []),
        ],
        ids=repr,
    )
    def test_scalars(self, wanted, expected):
        same(matching(SCALARS, ("$eq", wanted)), expected)
        same(matching(SCALARS, ("$in", [wanted])), expected)
        same(matching(SCALARS, ("$in", [wanted, "no", Tag()])), expected)
        others = [value for value in SCALARS if repr(value) not in map(repr, expected)]
        same(matching(SCALARS, ("$ne", wanted)), others)
        same(matching(SCALARS, ("$nin", [wanted])), others)

    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({}, [{}]),
            ({"a": 1}, [{"a": 1}, {"a": 1.0}]),
            ({"a": 1, "b": 2}, [{"a": 1, "b": 2}]),
            ({"b": 2, "a": 1}, [{"b": 2, "a": 1}]),
            ({"a": True}, [{"a": True}]),
            ({"a": {"b": None}}, [{"a": {"b": None}}]),
        ],
        ids=repr,
    )
    def test_objects_are_equal_with_all_keys_in_their_order(self, wanted, expected):
        objects = [
            {},
            {"a": 1},
            {"a": 1.0},
            {"a": True},
            {"a": 1, "b": 2},
            {"b": 2, "a": 1},
            {"a": {"b": None}},
            {"a": {}},
            {"a": 1, "b": 2, "c": 3},
        ]
        same(matching(objects, ("$eq", wanted)), expected)

    def test_many_ids_at_once(self):
        records = [*range(100), True, 7.0, "7", None, [7], [True], {}, NAN]
        same(matching(records, ("$in", list(range(5, 8)))), [5, 6, 7, 7.0, [7]])
        same(matching(records, ("$in", ["7"])), ["7"])
        same(matching(records, ("$in", [7, "7", NAN])), [7, 7.0, "7", [7], NAN])
        same(matching(records, ("$in", [])), [])
        same(matching(records, ("$nin", [])), records)

    def test_a_pattern_is_searched_for(self):
        pattern = re.compile("^a", re.IGNORECASE)
        found = ["a", "Ab", ["ba", "ab"], pattern]
        assert matching([*found, "ba", None, b"a"], ("$eq", pattern)) == found
        assert matching([*found, "ba", 5], ("$in", [pattern, 5])) == [*found, 5]
        assert matching(["a", "b"], ("$ne", pattern)) == ["b"]


class TestRanges:
    @pytest.mark.parametrize(
        ("bound", "lower", "equal", "higher"),
        [
            (1, [0, -INFINITY], [1, 1.0, Decimal(1)], [1.5, INFINITY]),
            (1.0, [0, -INFINITY], [1, 1.0, Decimal(1)], [1.5, INFINITY]),
            (Decimal("0.5"), [0, -INFINITY], [], [1, 1.0, 1.5, Decimal(1), INFINITY]),
            (-INFINITY, [], [-INFINITY], [0, 1, 1.0, 1.5, Decimal(1), INFINITY]),
            (NAN, [], [NAN], []),
            (Decimal("NaN"), [], [NAN], []),
            (None, [], [None], []),
            (True, [False], [True], []),
            (False, [], [False], [True]),
            ("1", [""], ["1"], ["a"]),
            (b"b", [b"a"], [], []),
            (b"", [], [], [b"a"]),
            (Id(1), [], [Id(1)], []),
            (Id(0), [], [], [Id(1)]),
            (Id(2), [Id(1)], [], []),
            (datetime(2026, 1, 1), [], SCALARS[-2:], []),
            (date(2026, 1, 2), SCALARS[-2:], [], []),
            (Tag(), [], [], []),
        ],
        ids=repr,
    )
    def test_only_within_the_type(self, bound, lower, equal, higher):
        def in_order(values):
            return [value for value in SCALARS if any(value is one for one in values)]

        def found(name):
            return [value for value in SCALARS if matching([value], (name, bound))]

        by_repr = {repr(value): value for value in SCALARS}
        lower, equal, higher = ([by_repr[repr(v)] for v in vs] for vs in (lower, equal, higher))
        same(found("$lt"), in_order(lower))
        same(found("$lte"), in_order([*lower, *equal]))
        same(found("$gt"), in_order(higher))
        same(found("$gte"), in_order([*higher, *equal]))

    def test_null_is_a_missing_field_too(self):
        for name, expected in (("$lt", False), ("$lte", True), ("$gt", False), ("$gte", True)):
            assert predicate(And((Where("x", ((name, None),)),)))({}) is expected

    def test_strings_compare_by_code_points(self):
        words = ["Z", "a", "z", "\xe9", "\uffff", "\U0001f600"]
        assert matching(words, ("$gt", "a"), ("$lte", "\uffff")) == ["z", "\xe9", "\uffff"]

    @pytest.mark.parametrize(
        ("bound", "lower", "higher"),
        [
            ({"a": 1}, [{}, {"a": NAN}, {"a": 0}], [{"a": 1, "b": 0}, {"b": 1}, {"a": "x"}]),
            ({"a": {"b": 1}}, [{"a": {}}, {"a": "x"}], [{"a": {"b": 2}}, {"a": []}]),
        ],
    )
    def test_objects_compare_field_by_field(self, bound, lower, higher):
        objects = [*lower, bound, *higher, 1, "a", None]
        same(matching(objects, ("$lt", bound)), lower)
        same(matching(objects, ("$lte", bound)), [*lower, bound])
        same(matching(objects, ("$gt", bound)), higher)
        same(matching(objects, ("$gte", bound)), [bound, *higher])

    def test_a_type_that_cannot_compare_with_itself(self):
        values = [{1}, 1j, Tag()]
        assert matching(values, ("$gte", 1j)) == []
        assert matching(values, ("$eq", 1j)) == [1j]


class TestExists:
    @pytest.mark.parametrize("yes", [True, "true", "1", 1, 2.5])
    @pytest.mark.parametrize("no", [False, "false", "0", 0, None])
    def test_its_values(self, yes, no):
        exists = predicate(And((Where("x", (("$exists", yes),)),)))
        lacks = predicate(And((Where("x", (("$exists", no),)),)))
        for record in ({"x": None}, {"x": 0}, {"x": []}):
            assert exists(record)
            assert not lacks(record)
        assert lacks({})
        assert not exists({})

    @pytest.mark.parametrize("value", ["", "yes", "True", [], {}, b"1"])
    def test_values_that_are_none(self, value):
        with pytest.raises(BadRequest, match=r"\$exists: expected true or false"):
            matching([], ("$exists", value))


class TestSize:
    @pytest.mark.parametrize("size", [2, 2.0, "2", Decimal(2)])
    def test_its_values(self, size):
        values = [[], [1], [1, 2], (1, 2), [[1, 2]], "ab", {"a": 1, "b": 2}, None]
        assert matching(values, ("$size", size)) == [[1, 2], (1, 2)]

    @pytest.mark.parametrize("size", [-1, "-1", 1.5, "x", "", None, True, [1], NAN, INFINITY])
    def test_values_that_are_none(self, size):
        with pytest.raises(BadRequest, match=r"Invalid value for \$size: expected a"):
            matching([], ("$size", size))


class TestMod:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ([2, 0], [0, 4, 4.9, -4, Decimal("2.5"), 10**20]),
            (["2", "1"], [3]),
            ([3, -1], [-4]),
            ([-3, -1], [-4]),
            ([2.9, 1.9], [3]),
        ],
        ids=repr,
    )
    def test_its_values(self, wanted, expected):
        values = [0, 3, 4, 4.9, -4, Decimal("2.5"), 10**20, NAN, INFINITY, True, "4", None]
        same(matching(values, ("$mod", wanted)), expected)

    @pytest.mark.parametrize("value", NO_MOD, ids=repr)
    def test_values_that_are_none(self, value):
        with pytest.raises(BadRequest, match=r"Invalid value for \$mod: "):
            matching([], ("$mod", value))


class TestRegex:
    def test_it_searches_in_strings(self):
        values = ["Ada", "ada", "banana", ["x", "Ada"], None, 5, b"A"]
        assert matching(values, ("$regex", "^A")) == ["Ada", ["x", "Ada"]]
        assert matching(values, ("$regex", "an")) == ["banana"]

    @pytest.mark.parametrize(
        ("pattern", "options", "expected"),
        [
            ("^A.B$", "", ["AxB"]),
            ("^a.b$", "i", ["AxB"]),
            ("^A.B$", "s", ["AxB", "A\nB"]),
            ("^B$", "m", ["A\nB"]),
            ("^A . B$ # comment", "x", ["AxB"]),
            ("^a . b $", "ixs", ["AxB", "A\nB"]),
            (re.compile("^a.b$", re.IGNORECASE), "", ["AxB"]),
            (re.compile("^a.b$", re.IGNORECASE), "s", ["AxB", "A\nB"]),
        ],
    )
    def test_options(self, pattern, options, expected):
        values = ["AxB", "A\nB", "none"]
        assert matching(values, ("$regex", pattern), ("$options", options)) == expected
        assert matching(values, ("$options", options), ("$regex", pattern)) == expected

    @pytest.mark.parametrize("options", ["g", "iu", "L", None, 2, ["i"]])
    def test_options_that_are_none(self, options):
        with pytest.raises(BadRequest, match=r"\$options: .*i, m, s and x"):
            matching([], ("$regex", "a"), ("$options", options))

    def test_options_alone(self):
        with pytest.raises(BadRequest, match=r"\$options: it needs a \$regex"):
            matching([], ("$options", "i"))

    @pytest.mark.parametrize(
        "pattern", ["[", "(", "*", "(?P<a", "\\", "a{99999999999999999999}", "(?au)", "(" * 50_000]
    )
    def test_patterns_that_are_none(self, pattern):
        with pytest.raises(BadRequest, match=r"Invalid value for \$regex: "):
            matching([], ("$regex", pattern))

    def test_a_pattern_of_doubtful_meaning_is_refused_where_warnings_are_errors(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(BadRequest, match="Possible nested set"):
                matching([], ("$regex", "[[a]"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert matching(["["], ("$regex", "[[a]")) == ["["]

    @pytest.mark.parametrize("pattern", [None, 5, ["a"], {}, b"a"])
    def test_values_that_are_none(self, pattern):
        with pytest.raises(BadRequest, match=r"\$regex: expected a string"):
            matching([], ("$regex", pattern))

    def test_a_pattern_of_bytes_fits_no_string(self):
        with pytest.raises(BadRequest, match=r"\$regex: expected a string"):
            matching([], ("$regex", re.compile(b"a")))


def test_an_operator_that_memory_does_not_know():
    for tests in (
        (("$near", [1, 2]),),
        (("$not", (("$near", 1),)),),
        (("$elemMatch", (("$x", 1),)),),
    ):
        with pytest.raises(
            BadRequest, match=r"Invalid query parameter \$(near|x): it is not supported"
        ):
            matching([], *tests)


def test_all_supported_operators_are_known():
    values = {
        "$not": (("$eq", 1),),
        "$elemMatch": (("$eq", 1),),
        "$all": [1],
        "$mod": [1, 0],
        "$regex": "x",
        "$options": "i",
    }
    for name in SUPPORTED_OPERATORS:
        beside = (("$regex", "x"),) if name == "$options" else ()
        matching([], (name, values.get(name, 1)), *beside)


@pytest.mark.parametrize("name", ["$lt", "$lte", "$gt", "$gte"])
def test_a_pattern_has_no_order(name):
    with pytest.raises(BadRequest, match="a pattern has no order"):
        matching(["a"], (name, re.compile("a")))


@pytest.mark.parametrize(
    ("name", "wanted"), [("$eq", re.compile(b"a")), ("$in", [re.compile(b"a")])]
)
def test_a_pattern_of_bytes_matches_no_text(name, wanted):
    with pytest.raises(BadRequest, match="compile one of text"):
        matching(["a"], (name, wanted))
