"""Query strings in bracket notation, without the help of other implementations."""

import json
import random
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from pathlib import Path
from time import process_time
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.errors import BadRequest
from alula.query import parse, stringify
from alula.query._parse import read_agreeing, read_any, read_values

VECTORS = Path(__file__).parents[1] / "conformance" / "vectors"


def repeated(part, count):
    return "&".join(part.format(index) for index in range(count))


def as_mapping(items):
    return {str(index): item for index, item in enumerate(items)}


# --- the recorded exchanges ---------------------------------------------------------------------

REFUSED_BY_US = ("__proto__", "1001st parameter")


def recorded():
    """Yield what a FeathersJS server made of query strings; quirks too, but for our own rules."""
    for area in ("query-parsing", "array-limit"):
        cases = json.loads((VECTORS / f"{area}.json").read_text(encoding="utf-8"))["cases"]
        for case in cases:
            for step in case["steps"]:
                body = step["response"].get("body") or {}
                body = body.get("wrapped", body)
                if "query" not in body or any(name in case["name"] for name in REFUSED_BY_US):
                    continue
                options = {}
                if "array limit" in case.get("quirk", ""):
                    options = {"array_limit": 1000}
                if step["request"].get("app") == 2:
                    options = {"array_limit": 100, "depth": 10}
                path = step["request"]["path"]
                yield pytest.param(
                    path.partition("?")[2], options, body["query"], id=f"{area}: {case['name']}"
                )


RECORDED = list(recorded())


@pytest.mark.parametrize(("querystring", "options", "query"), RECORDED)
def test_recorded_query_strings_give_the_recorded_query(querystring, options, query):
    assert parse(querystring, **options) == query


def test_the_recorded_cases_are_there():
    assert len(RECORDED) > 90


# --- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        ("", {}),
        ("&", {}),
        ("=", {}),
        ("=1", {}),
        ("=1&=2&a=3", {"a": "3"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a==", {"a": "="}),
        ("a=1&&b=2&", {"a": "1", "b": "2"}),
        ("a=b=c", {"a": "b=c"}),
        ("a;b=1;2", {"a;b": "1;2"}),
        ("a.b=1", {"a.b": "1"}),
        ("a=1,2", {"a": "1,2"}),
        ("?a=1", {"?a": "1"}),
        ("a=%26&%3D=b", {"a": "&", "=": "b"}),
        ("a[b=c]=d", {"a": {"b=c": "d"}}),
        ("a=b]=c", {"a=b]": "c"}),
        ("a]=b]=c", {"a]": "b]=c"}),
        ("a[b]=]=c", {"a": {"b": "]=c"}}),
    ],
)
def test_an_equals_sign_parts_key_and_value(querystring, expected):
    assert parse(querystring) == expected


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        ("a+b=c+d", {"a b": "c d"}),
        ("a=b%2Bc", {"a": "b+c"}),
        ("a=b%20c", {"a": "b c"}),
        ("%24a=%24", {"$a": "$"}),
        ("%24a=%20", {"$a": " "}),
        ("%24a[%24b]=%24%21", {"$a": {"$b": "$!"}}),
        ("%c3%BC=%C3%bc", {"ü": "ü"}),
        ("a=%F0%9F%98%80", {"a": "😀"}),
        ("ü=é%C3%A9", {"ü": "éé"}),
        ("a=%00", {"a": "\0"}),
        ("a=%2541", {"a": "%41"}),
        ("a%5Bb%5D%5bc%5d=1", {"a": {"b": {"c": "1"}}}),
        ("a%5bb%5D=%5B%5d", {"a": {"b": "[]"}}),
        ("a%255Bb%255D=1", {"a%5Bb%5D": "1"}),
    ],
)
def test_percent_escapes_and_plus_are_decoded(querystring, expected):
    assert parse(querystring) == expected


@pytest.mark.parametrize(
    "broken",
    [
        "%",
        "%4",
        "%zz",
        "%u0041",
        "%FF",
        "%E9",
        "%C3",
        "%C3x",
        "%A9",
        "%C0%80",
        "%ED%A0%80",
        "%F4%90%80%80",
        "% 4",
        "%+4",
        "%41%FF",
        "%24%FF",
        "é%C3é%A9",
        "%C3é",
    ],
)
def test_what_cannot_be_decoded_stays_as_it_was_sent(broken):
    text = broken.replace("+", " ")
    assert parse(f"a={broken}") == {"a": text}
    assert parse(f"{broken}=%41") == {text: "A"}
    assert parse(f"a[{broken}]=%41") == {"a": {text: "A"}}


def test_brackets_are_decoded_even_beside_what_cannot_be():
    assert parse("a%5Bb%FF%5D=%5b%FF%5D+%41") == {"a": {"b%FF": "[%FF] %41"}}


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        ("a=\ud800", {"a": "\ufffd"}),
        ("\udcff[\udcfe]=1&b=%41", {"\ufffd": {"\ufffd": "1"}, "b": "A"}),
        ("a=é\udc80%20x", {"a": "é\ufffd x"}),
        ("a=\ud7ff\ud800\udfff\ue000", {"a": "\ud7ff\ufffd\ufffd\ue000"}),
    ],
)
def test_lone_surrogates_become_the_replacement_character(querystring, expected):
    assert parse(querystring) == expected


def test_bytes_that_a_server_decoded_as_latin_1_stay_those_characters():
    raw = "ü=é".encode().decode("latin-1")
    assert parse(raw) == {"Ã¼": "Ã©"}


# --- lists and mappings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        ("a[b]=1&a[c]=2&d=3", {"a": {"b": "1", "c": "2"}, "d": "3"}),
        ("a[b][c]=1&a[b][d]=2&a[e]=3", {"a": {"b": {"c": "1", "d": "2"}, "e": "3"}}),
        ("a=1&a=2&a=3", {"a": ["1", "2", "3"]}),
        ("a=1&a=", {"a": ["1", ""]}),
        ("a[]=1", {"a": ["1"]}),
        ("a[]", {"a": [""]}),
        ("a[]=1&a[]=2", {"a": ["1", "2"]}),
        ("a[][]=1", {"a": ["1"]}),
        ("a[][0]=1", {"a": ["1"]}),
        ("a[][][b]=1", {"a": [{"b": "1"}]}),
        ("a[0][]=1", {"a": [["1"]]}),
        ("a[0]=1&a[1]=2", {"a": ["1", "2"]}),
        ("a[1]=2&a[0]=1", {"a": ["1", "2"]}),
        ("a[7]=1&a[3]=2&a[19]=3", {"a": ["2", "1", "3"]}),
        ("a[0]=1&a[0]=2", {"a": [["1", "2"]]}),
        ("a[b]=1&a[b]=2", {"a": {"b": ["1", "2"]}}),
        ("a[0][0]=1&a[0][1]=2&a[1][0]=3", {"a": [["1", "2"], ["3"]]}),
        ("a[0][b]=1&a[0][c]=2&a[1][b]=3", {"a": [{"b": "1", "c": "2"}, {"b": "3"}]}),
        ("a[][b]=1&a[][b]=2", {"a": [{"b": ["1", "2"]}]}),
        ("a[][b]=1&a[][c]=2", {"a": [{"b": "1", "c": "2"}]}),
        ("a[2][b]=1&a[1][b]=2", {"a": [{"b": "2"}, {"b": "1"}]}),
        ("a[b][0]=1&a[b][1]=2", {"a": {"b": ["1", "2"]}}),
        ("a[b][1]=1", {"a": {"b": ["1"]}}),
        ("$or[0][a]=1&$or[1][b][$gt]=2", {"$or": [{"a": "1"}, {"b": {"$gt": "2"}}]}),
        ("a[$in][]=1&a[$in][]=2", {"a": {"$in": ["1", "2"]}}),
        ("0=x&1=y", {"0": "x", "1": "y"}),
        ("0[b]=x", {"0": {"b": "x"}}),
    ],
)
def test_brackets_make_lists_and_mappings(querystring, expected):
    assert parse(querystring) == expected


@pytest.mark.parametrize(
    "name", ["-1", "01", "00", "1.0", "1e1", " 1", "+1", "٣", "²", "0x1", "x", "9" * 16]
)
def test_what_is_no_whole_number_is_a_name(name):
    expected = name.replace("+", " ")
    assert parse(f"a[{name}]=1") == {"a": {expected: "1"}}
    # Beside an empty pair of brackets too, where a number would be an index.
    assert parse(f"a[]=1&a[{name}]=2") == {"a": {"0": "1", expected: "2"}}


@pytest.mark.parametrize(
    "name", ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__class__"]
)
def test_names_that_mean_something_elsewhere_are_names(name):
    assert parse(f"{name}=1") == {name: "1"}
    assert parse(f"{name}[x]=1") == {name: {"x": "1"}}
    assert parse(f"a[{name}]=1&a[b]=2") == {"a": {name: "1", "b": "2"}}
    assert parse(f"a[{name}][x]=1&a[]=1") == {"a": {name: {"x": "1"}, "0": "1"}}


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        ("a[b=1", {"a": {"[b": "1"}}),
        ("a[", {"a": {"[": ""}}),
        ("[", {"[": ""}),
        ("[[=1", {"[[": "1"}),
        ("a[b][c=1", {"a": {"b": {"[c": "1"}}}),
        ("a[b[c]=1", {"a": {"[b[c]": "1"}}),
        ("a[b]c]=1", {"a": {"b": "1"}}),
        ("a]=1", {"a]": "1"}),
        ("]a[b]=1", {"]a": {"b": "1"}}),
        ("a]b[c]=1", {"a]b": {"c": "1"}}),
        ("a[b]c=1", {"a": {"b": "1"}}),
        ("a[b]c[d]=1", {"a": {"b": {"d": "1"}}}),
        ("a[]b=1", {"a": ["1"]}),
        ("a[[b]]=1", {"a": {"[b]": "1"}}),
        ("a[[]]=1", {"a": {"[]": "1"}}),
        ("a[b[c]d]=1", {"a": {"b[c]d": "1"}}),
        ("a[[0]]=1", {"a": {"[0]": "1"}}),
        ("[a]=1", {"a": "1"}),
        ("[a][b]=1", {"a": {"b": "1"}}),
        ("[]=1", {"0": "1"}),
        ("[]=1&[]=2", {"0": "1", "1": "2"}),
        ("[0]=1&[a]=2&b=3", {"0": "1", "a": "2", "b": "3"}),
        ("[25]=1", {"25": "1"}),
    ],
)
def test_brackets_out_of_order_are_read_as_qs_reads_them(querystring, expected):
    assert parse(querystring) == expected


@pytest.mark.parametrize(
    ("querystring", "expected"),
    [
        # A value and a list.
        ("a=1&a[]=2", {"a": ["1", "2"]}),
        ("a[]=1&a=2", {"a": ["1", "2"]}),
        ("a=1&a[0]=2", {"a": ["1", "2"]}),
        ("a=1&a[3]=2&a=3", {"a": ["1", "3", "2"]}),
        ("a=1&a[19]=2", {"a": {"0": "1", "20": "2"}}),
        ("a[0]=1&a=2&a=3", {"a": ["1", "2", "3"]}),
        ("a[0]=1&a[]=2", {"a": ["1", "2"]}),
        ("a[5]=1&a[]=2&a[5]x=3", {"a": ["2", "1", "3"]}),
        ("a[]=&a[0]=1", {"a": ["", "1"]}),
        # A value and a mapping.
        ("a=1&a[b]=2", {"a": ["1", {"b": "2"}]}),
        ("a[b]=1&a=2", {"a": [{"b": "1"}, "2"]}),
        ("a=1&a[b]=2&a[c]=3", {"a": {"0": "1", "1": {"b": "2"}, "c": "3"}}),
        ("a[b]=1&a=2&[a]=3", {"a": [{"b": "1"}, "2", "3"]}),
        ("a[b]=1&a=2&a[c]=3", {"a": {"0": {"b": "1"}, "1": "2", "c": "3"}}),
        ("a[b]=1&a=2&a[c]=3&[a]=4", {"a": {"0": {"b": "1"}, "1": "2", "c": "3", "2": "4"}}),
        (
            "a[b]=1&a=2&a[c]=3&a[7]=4&[a]=5",
            {"a": {"0": {"b": "1"}, "1": "2", "c": "3", "7": "4", "8": "5"}},
        ),
        # A list and a mapping.
        ("a[]=1&a[b]=2", {"a": {"0": "1", "b": "2"}}),
        ("a[b]=1&a[]=2", {"a": {"b": "1", "0": "2"}}),
        ("a[3]=1&a[b]=2", {"a": {"3": "1", "b": "2"}}),
        ("a[b]=1&a[0]=2", {"a": {"b": "1", "0": "2"}}),
        ("a[0][b]=1&a[b]=2", {"a": {"0": {"b": "1"}, "b": "2"}}),
        ("a[]=1&a[b]=2&a=3", {"a": [{"0": "1", "b": "2"}, "3"]}),
        # Twice the same name by two spellings.
        ("a[b]=1&a[b]x=2", {"a": {"b": ["1", "2"]}}),
        ("a[b]=1&[a][b]=", {"a": {"b": "1"}}),
        ("a[b]=&[a][b]=1", {"a": {"b": ["", "1"]}}),
        ("a[b][c]=1&a[b]=", {"a": {"b": {"c": "1"}}}),
        # Numbers as names: JavaScript objects list them before other names.
        ("0[]=1&0=2", {"0": ["2", "1"]}),
        ("[0]=1&0=2", {"0": ["2", "1"]}),
        ("[]=1&[]=2&1=3", {"0": "1", "1": ["3", "2"]}),
        ("4294967295[]=1&4294967295=2", {"4294967295": ["1", "2"]}),
        ("4294967294[]=1&4294967294=2", {"4294967294": ["2", "1"]}),
    ],
)
def test_shapes_that_contradict_each_other_are_all_kept_as_qs_keeps_them(querystring, expected):
    assert parse(querystring) == expected


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["a={}", "a[]={}", "a[{0}]={0}", "a[][{0}]={0}"])
def test_a_list_over_the_limit_is_a_mapping(part):
    items = [str(index) for index in range(21)]
    assert parse(repeated(part, 20)) == {"a": items[:20]}
    assert parse(repeated(part, 21)) == {"a": as_mapping(items)}
    assert parse(repeated(part, 21), array_limit=21) == {"a": items}
    assert parse(repeated("b[c]" + part[1:], 21)) == {"b": {"c": as_mapping(items)}}


def test_a_mapping_for_a_list_is_in_the_order_of_its_items():
    result = parse(repeated("a={}", 30))
    assert list(result["a"]) == [str(index) for index in range(30)]


def test_records_over_the_limit_are_a_mapping():
    records = [{"b": str(index)} for index in range(21)]
    assert parse(repeated("a[{0}][b]={0}", 21)) == {"a": as_mapping(records)}


@pytest.mark.parametrize(
    ("querystring", "limit", "expected"),
    [
        ("a=1&a=2", 2, {"a": ["1", "2"]}),
        ("a[2]=1", 2, {"a": {"2": "1"}}),
        ("a[2]=1&a[]=2", 2, {"a": {"0": "2", "2": "1"}}),
        ("a[2]=1&[a]=2", 2, {"a": {"2": "1", "3": "2"}}),
        ("a[b]=1&a[5]=2&[a]=3", 2, {"a": {"b": "1", "5": "2", "6": "3"}}),
        ("a[7]=0&a[b]=1&a[5]=2&[a]=3", 2, {"a": {"7": "0", "b": "1", "5": "2", "8": "3"}}),
        ("a[b]=1&a[5]=2&[a]=", 2, {"a": {"b": "1", "5": "2"}}),
        ("a[]=1&a[]=2&a=3", 2, {"a": {"0": "1", "1": "2", "2": "3"}}),
        ("a[0]=1&a[1]=2&a=3&[a]=4", 2, {"a": {"0": "1", "1": "2", "2": "3", "3": "4"}}),
        ("a=1&a=2&a=3&a[b]=4&a[]=5", 2, {"a": {"0": ["1", "5"], "1": "2", "2": "3", "b": "4"}}),
        ("a=1&a[5]=2&[a]=3", 2, {"a": {"0": "1", "6": "2", "7": "3"}}),
        ("a[1]=1&a[5]=2&[a]=3", 2, {"a": {"1": "1", "5": "2", "6": "3"}}),
        ("a[][5]=1", 2, {"a": {"5": "1"}}),
        ("a[b]=1&a=2&[a]=3&[a]x=4", 2, {"a": {"0": {"b": "1"}, "1": "2", "2": "3", "3": "4"}}),
        ("a[b]=1&a=2&a=3&[a]=4", 2, {"a": [{"b": "1", "0": "2", "1": "3"}, "4"]}),
        ("a[-1]=1&a[7]=2&[a]=3", 2, {"a": {"-1": "1", "7": "2", "8": "3"}}),
        ("[]=1&[]=2&[]=3&b=4", 2, {"0": "1", "1": "2", "2": "3", "b": "4"}),
        ("a[0]=1&a[0]=2&a[0]=3", 2, {"a": [{"0": "1", "1": "2", "2": "3"}]}),
        ("a[0]=1", 1, {"a": ["1"]}),
        ("a[0]=1&a[1]=2", 1, {"a": {"0": "1", "1": "2"}}),
        ("a=1&a[b]=2", 1, {"a": {"0": "1", "1": {"b": "2"}}}),
        ("a[b]=1&a=2&[a]=3", 1, {"a": {"0": {"b": "1"}, "1": "2", "2": "3"}}),
        ("a=1", 0, {"a": "1"}),
        ("a=1&a=2", 0, {"a": {"0": "1", "1": "2"}}),
        ("a[]=1", 0, {"a": {"0": "1"}}),
        ("a[][]=1", 0, {"a": {"0": "1"}}),
        ("a[0]=1", -1, {"a": {"0": "1"}}),
        ("a[]=1", -1, {"a": {"0": "1"}}),
    ],
)
def test_contradictions_at_the_limit_are_kept_as_qs_keeps_them(querystring, limit, expected):
    assert parse(querystring, array_limit=limit) == expected


def test_a_high_limit_costs_no_memory():
    assert parse("a[999999999]=1&a[5]=2", array_limit=10**10) == {"a": ["2", "1"]}


def test_an_index_of_sixteen_digits_is_a_name():
    assert parse("a[999999999999999]=1&[a]=2") == {
        "a": {"999999999999999": "1", "1000000000000000": "2"}
    }
    assert parse("a[9999999999999998]=1&[a]=2") == {"a": [{"9999999999999998": "1"}, "2"]}


@pytest.mark.parametrize("part", ["a{}=1", "a[]=1", "a=1", ""])
def test_as_many_parameters_as_allowed_are_read_and_one_more_is_refused(part):
    parse(repeated(part, 1000))
    with pytest.raises(BadRequest, match="1001 parameters; at most 1000"):
        parse(repeated(part, 1001))
    parse(repeated(part, 1001), parameter_limit=1001)
    with pytest.raises(BadRequest, match="raise parameter_limit in"):
        parse(repeated(part, 3), parameter_limit=2)


def test_no_parameter_is_under_any_limit():
    assert parse("", parameter_limit=0) == {}


@pytest.mark.parametrize(
    "key",
    [
        "a[b][c][d][e][f]",
        "[a][b][c][d][e]",
        "a[][][][][]",
        "a[0][0][0][0][0]",
        "a[b]x[c]x[d]x[e]x[f]x",
        "a[b][c][d][e][f",
        "a[[[[[[[b]]]]]]][c][d][e][f]",
        "a[b][c][d][e][[f][g]",
    ],
)
def test_five_pairs_of_brackets_are_read_and_six_are_refused(key):
    parse(f"{key}=1")
    deeper = f"{key}]" if key.count("[") > key.count("]") else key
    with pytest.raises(BadRequest, match="more than 5 pairs of brackets"):
        parse(f"x=1&{deeper}[g]=1&y=2")
    with pytest.raises(BadRequest, match="more than 5 pairs of brackets"):
        parse(f"{deeper}[g=1")
    parse(f"{deeper}[g]=1", depth=6)


def test_deep_values_arrive_whole():
    assert parse("a[b][c][d][e][f]=1") == {"a": {"b": {"c": {"d": {"e": {"f": "1"}}}}}}


@pytest.mark.parametrize("depth", [0, -1])
def test_at_depth_nought_there_are_no_brackets(depth):
    assert parse("a=1&b]=2", depth=depth) == {"a": "1", "b]": "2"}
    for querystring in ("a[b]=1", "[a]=1", "a[=1", "a[]=1"):
        with pytest.raises(BadRequest, match=f"more than {depth} pairs"):
            parse(querystring, depth=depth)


def test_the_refusal_of_a_deep_key_names_it_shortened_and_what_to_do():
    with pytest.raises(BadRequest) as caught:
        parse("a=1&key%5Bb%5D[c]" + "[d]" * 1000)
    message = caught.value.message
    assert message.startswith("The key 'key[b][c][d][d]")
    assert "…' of the query string has more than 5 pairs of brackets." in message
    assert "raise depth in the server's query parser" in message
    assert len(message) < 220
    with pytest.raises(BadRequest, match=r"'a\[b\]\[c\]' of"):
        parse("a[b][c]=1", depth=1)


# --- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("querystring", "order"),
    [
        ("b=1&a=2&b=3&c=4", ["b", "a", "c"]),
        ("b[x]=1&a=2&b[y]=3&c=4", ["b", "a", "c"]),
        ("b[]=1&2=1&a[3]=2&1=1&b[]=4", ["b", "2", "a", "1"]),
    ],
)
def test_keys_are_in_order_of_appearance(querystring, order):
    assert list(parse(querystring)) == order


def test_sort_keys_are_in_order_of_appearance():
    assert list(parse("$sort[b]=1&$sort[a]=-1&$sort[b]=1&$sort[c]=1")["$sort"]) == ["b", "a", "c"]
    assert list(parse("$sort[b]=1&$sort[a]=-1&$sort[-1]=1&$sort=")["$sort"]) == ["b", "a", "-1"]


# --- whatever comes -----------------------------------------------------------------------------

BRACKETS = ["a", "b", "[", "]", "[]", "[a]", "[b]", "[0]", "[1]", "[2]", "[25]", "=", "=1", "x"]
BRACKETS += ["&", "&a", "&a=1", "&a[]", "&a[b]=1", "&a[0]", "&0", "&[a]", "&b[a][]"]
ESCAPES = ["%5B", "%5d", "%C3%A9", "%FF", "%", "+", "é", "\ud800", "\0"]


def strings_of(pieces):
    return st.lists(st.sampled_from(pieces), max_size=30).map("".join)


def is_plain(value):
    if type(value) is str:
        return value.encode() is not None
    if type(value) is list:
        return all(map(is_plain, value))
    return type(value) is dict and all(map(is_plain, [*value, *value.values()]))


@given(st.text() | st.text(st.characters()) | strings_of(BRACKETS + ESCAPES), st.integers(0, 3))
def test_any_text_gives_plain_values_or_a_bad_request(querystring, limit):
    for options in ({}, {"array_limit": limit, "depth": 100}, {"depth": limit}):
        try:
            result = parse(querystring, **options)
        except BadRequest as error:
            result = error.to_dict()
        assert type(result) is dict
        assert is_plain({name: value for name, value in result.items() if name != "code"})


# Pieces of keys and of what follows them: many strings of them are usual, the others nearly so.
USUAL_KEYS = ["a", "b[]", "b[]", "c[d]", "c[$in][]", "$e[f]", "g[0]", "g[1]", "h[0][i]", "j%20"]
KEYS = ["a", "b", "$a", "a[]", "b[]", "a[b]", "a[$in]", "$a[c]", "a[0]", "a[1]", "a[2]", "b[10]"]
KEYS += ["a[b][]", "a[b][c]", "a[0][b]", "b[][c]", "a[b][1]", "$a[0][]", "a[b][c][d]", "a%20", "a%"]
KEYS += ["", "[a]", "[]", "a[", "a]", "a[b", "a[b]c", "a[b[c]]", "a][b]", "a[01]", "a[0x]", "a[-1]"]
KEYS += ["a[b=c]", "0", "0[]", "1[b]", "\u00fc[\u00fc]", "a[]]", "a[[]", "[a][b]", "__proto__[a]"]
ENDS = ["=", "=1", "=2", "=1", "=2", "=3", "=x%20y", "=%zz", "=%C3%A9", "==", "=a]=b", "", "=1=2"]


def nearly_usual(count):
    """Yield query strings of few names, the same in every run."""
    choose = random.Random(count)
    for number in range(count):
        if number % 2:
            keys = sorted(choose.sample(USUAL_KEYS, k=choose.randint(1, 6)))
        else:
            names = choose.choices(KEYS, k=choose.randint(1, 4))
            keys = choose.choices(names, k=choose.randint(1, 6))
        ends = choose.choices(ENDS, weights=[3] * 8 + [1] * 5, k=len(keys))
        yield "&".join(map("".join, zip(keys, ends, strict=True)))


def test_the_short_way_for_usual_strings_gives_what_the_long_way_gives():
    taken = 0
    for number, querystring in enumerate(nearly_usual(40_000)):
        limit, depth = (20, 3, 2, 1, 20)[number % 5], (5, 3, 2, 4)[number % 4]
        short = read_agreeing(querystring, limit, depth)
        if short is not None:
            taken += 1
            long = read_any(read_values(querystring, limit), limit, depth)
            assert repr(short) == repr(long), (querystring, limit)  # in the same order, too
    assert taken > 10_000


@given(strings_of(BRACKETS), st.sampled_from([1, 2, 3, 20]))
def test_the_short_way_for_any_string_gives_what_the_long_way_gives(querystring, limit):
    short = read_agreeing(querystring, limit, 100)
    long = read_any(read_values(querystring, limit), limit, 100)
    assert short is None or repr(short) == repr(long)


@pytest.mark.parametrize(
    "querystring",
    [
        "a=1",
        "a=1&=2&b=%20",
        "a=x==&b",
        "$select[]=a&$select[]=b&$select[]=c",
        "$limit=10&$sort[createdAt]=-1&$sort[name]=1",
        "age[$in][]=1&age[$in][]=2&age[$ne]=3&$select[]=a",
        "age[$in][0]=1&age[$in][1]=2&$select[0]=a&$select[1]=b",
        "$or[0][a]=1&$or[0][b][$gt]=2&$or[1][a]=3&$or[1][c][0]=4",
        "a[0][0]=1&a[0][1]=2&a[1][0]=3",
    ],
)
def test_usual_keys_go_the_short_way(querystring):
    assert read_agreeing(querystring, 20, 5) == parse(querystring)


SIZE = 2**20
SECONDS = 10  # The slowest takes some 0.2; time that grew with the square would be minutes.


@pytest.mark.parametrize(
    "querystring",
    [
        "[" * SIZE,
        "]" * SIZE,
        "[" * (SIZE // 2) + "]" * (SIZE // 2),
        "a" + "[]" * (SIZE // 2),
        "a[" + "[]" * (SIZE // 2) + "]",
        "a[b]" + "[[x" * (SIZE // 3),
        "=" * SIZE,
        "]=" * (SIZE // 2),
        "&" * SIZE,
        "a&" * (SIZE // 2),
        "%" * SIZE,
        "%5B" * (SIZE // 3),
        "a=" + "%41" * (SIZE // 3),
        "a=" + "%C3%A9" * (SIZE // 6) + "%",
        "a[" + "%5b" * (SIZE // 3),
        "+" * SIZE,
        "\0" * SIZE,
        "\ud800" * SIZE,
        "9" * SIZE + "[" + "9" * SIZE + "]=1",
        "&".join(["=" * 1000] * 1000),
        "&".join(["a[]=" + "x" * 1000] * 1000),
        "&".join(["a[b]=1&a=2", "[a]=3", "a[c]=4"] + ["a[" * 500] * 900),
        repeated("a[b][c][d][{0}][e]=1&a[b][c][d][{0}][f]=2", 500),
        repeated("a[{0}]=1&a[x{0}]=2&[a]{0}=3", 330),
        repeated("[{0}]=1&{0}=2&[]{0}=3", 330),
    ],
    ids=lambda querystring: querystring[:12].encode("ascii", "backslashreplace").decode(),
)
def test_a_megabyte_of_anything_takes_no_time(querystring):
    start = process_time()
    with suppress(BadRequest):
        parse(querystring)
    assert process_time() - start < SECONDS


def test_raised_limits_cost_no_more_than_the_length():
    start = process_time()
    parse("a" + "[b]" * 100_000 + "=1", depth=10**6)
    parse("a" + "[[b]]" * 50_000 + "=1&a" + "[[b]]" * 50_000 + "=2", depth=10**6)
    many = repeated("a[]={0}&b[{0}]=1&c[x{0}]=1&c[]=2", 10_000)
    assert len(parse(many, parameter_limit=10**6, array_limit=10**6)["b"]) == 10_000
    assert process_time() - start < SECONDS


# --- stringify ----------------------------------------------------------------------------------


class Colour(StrEnum):
    RED = "r&d"


class Level(IntEnum):
    HIGH = 3


class Ratio(float):
    def __repr__(self):
        return "Ratio!"


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({}, ""),
        ({"a": "1"}, "a=1"),
        ({"a": ""}, "a="),
        ({"": "1"}, "=1"),
        ({"a": "x", "b": "y"}, "a=x&b=y"),
        ({"a": {"b": "1", "c": {"d": "2"}}}, "a%5Bb%5D=1&a%5Bc%5D%5Bd%5D=2"),
        ({"": {"b": "1"}}, "%5Bb%5D=1"),
        ({"a": {"": "1"}}, "a%5B%5D=1"),
        ({"a": ["x", "y"]}, "a%5B0%5D=x&a%5B1%5D=y"),
        ({"a": ("x", ["y"])}, "a%5B0%5D=x&a%5B1%5D%5B0%5D=y"),
        ({"a": [], "b": {}, "c": [[], {}], "d": "1"}, "d=1"),
        (
            {"$or": [{"a": 1}, {"b": {"$gt": 2}}]},
            "%24or%5B0%5D%5Ba%5D=1&%24or%5B1%5D%5Bb%5D%5B%24gt%5D=2",
        ),
        ({"a": None, "b": [None]}, "a=&b%5B0%5D="),
        ({"a": True, "b": False}, "a=true&b=false"),
        ({"a": 0, "b": -12, "c": 2**70}, "a=0&b=-12&c=1180591620717411303424"),
        ({"a": Colour.RED, "b": Level.HIGH, "c": Ratio(1.5)}, "a=r%26d&b=3&c=1.5"),
        (OrderedDict(b="1", a="2"), "b=1&a=2"),
        (MappingProxyType({"a": MappingProxyType({"b": 1})}), "a%5Bb%5D=1"),
        ({"a b&c=d[e]": "f+g h%"}, "a%20b%26c%3Dd%5Be%5D=f%2Bg%20h%25"),
        ({"ü": "😀"}, "%C3%BC=%F0%9F%98%80"),
        ({"a": "-._~!'()*,;:@/?#$\0\n"}, "a=-._~%21%27%28%29%2A%2C%3B%3A%40%2F%3F%23%24%00%0A"),
        ({"a": "\ud800", "\udfff": "é"}, "a=%EF%BF%BD&%EF%BF%BD=%C3%A9"),
    ],
)
def test_mappings_are_written_as_javascript_clients_write_them(mapping, expected):
    assert stringify(mapping) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1.0, "1"),
        (-1.0, "-1"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (-2.25, "-2.25"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.5e16, "15000000000000000"),
        (-123456789012345680000.0, "-123456789012345680000"),
        (2.0**60, "1152921504606847000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.25e300, "-1.25e+300"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (-1.25e-6, "-0.00000125"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_floats_are_written_as_javascript_prints_them(number, expected):
    assert parse(stringify({"a": number})) == {"a": expected}


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 11, 20, 9, 5, 7, 123456, tzinfo=UTC), "2026-11-20T09:05:07.123Z"),
        (datetime(2026, 11, 20, 9, 5, 7), "2026-11-20T09:05:07.000Z"),
        (
            datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))),
            "2025-12-31T22:30:00.000Z",
        ),
        (datetime(1, 1, 1, 0, 0, 0, 999), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_datetimes_are_written_as_javascript_prints_dates(moment, expected):
    assert parse(stringify({"a": moment})) == {"a": expected}


@pytest.mark.parametrize(
    "value", [{1}, object(), b"x", 1j, iter([]), int, timedelta(1), lambda: 1], ids=type
)
def test_what_cannot_be_sent_is_an_error_that_names_it(value):
    with pytest.raises(TypeError, match=rf"'a' is of type {type(value).__name__}"):
        stringify({"a": value})
    with pytest.raises(TypeError, match=r"'a\[b\]\[1\]' is of type .*Use strings, numbers"):
        stringify({"a": {"b": ["x", value]}})


def test_names_must_be_strings():
    with pytest.raises(TypeError, match="The key 1 at the top"):
        stringify({1: "x"})
    with pytest.raises(TypeError, match=r"The key None in 'a\[0\]'"):
        stringify({"a": [{None: "x"}]})


@pytest.mark.parametrize("value", [None, "a=1", ["a"], [("a", "b")], 1])
def test_only_a_mapping_has_a_query_string(value):
    with pytest.raises(TypeError, match=f"takes a mapping, not {type(value).__name__}"):
        stringify(value)


def test_what_contains_itself_is_an_error_with_its_location():
    cyclic = {"a": {"b": ["x"]}}
    cyclic["a"]["b"].append(cyclic["a"])
    with pytest.raises(ValueError, match=r"'a\[b\]\[1\]' contains itself"):
        stringify(cyclic)
    cyclic = {"a": 1}
    cyclic["b"] = cyclic
    with pytest.raises(ValueError, match="'b' contains itself"):
        stringify(cyclic)


def test_the_same_object_in_two_places_is_written_twice():
    shared = {"x": ["1"]}
    assert parse(stringify({"a": shared, "b": [shared, shared]})) == {
        "a": shared,
        "b": [shared, shared],
    }


def test_depth_is_no_matter():
    value = "x"
    for _ in range(3000):
        value = {"a": value}
    value = parse(stringify(value), depth=3000)
    for _ in range(3000):
        value = value["a"]
    assert value == "x"


def test_stringify_leaves_its_argument_alone():
    mapping = {"a": [1, {"b": None}], "c": {}}
    stringify(mapping)
    assert mapping == {"a": [1, {"b": None}], "c": {}}


# --- there and back -----------------------------------------------------------------------------

text = st.text(st.characters(codec="utf-8"), max_size=20)
# Brackets in a name have a meaning, a number in brackets is an index, no name is no parameter.
names = st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=1)
inner_names = names.filter(lambda name: not name.isdigit())


def containers(item):
    lists = st.lists(item, min_size=1, max_size=4)
    return lists | st.dictionaries(inner_names, item, min_size=1, max_size=3)


values = st.recursive(text, containers, max_leaves=12)


@given(st.dictionaries(names, values, max_size=3))
def test_what_the_notation_can_carry_comes_back(mapping):
    assert parse(stringify(mapping), depth=25) == mapping
