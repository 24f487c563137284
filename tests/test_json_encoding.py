"""Values to JSON and back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections import OrderedDict, UserDict, namedtuple
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula._json_encoding import (
    MAX_DEPTH,
    MAX_INTEGERS_OF_ONE_HASH,
    dumps,
    dumps_with_attachments,
    loads,
)

Point = namedtuple("Point", "x y")
TWO_HOURS = datetime.timezone(datetime.timedelta(hours=2))
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)
    WHEN = datetime.date(2026, 1, 2)


class Name(enum.StrEnum):
    ADA = "ada"


class Level(enum.IntEnum):
    HIGH = 3


class Meters(float):
    pass


class Text(str):
    __slots__ = ()


class Moment(datetime.datetime):
    pass


@dataclasses.dataclass
class Plain:
    a: int = 1
    _hidden: int = 2


@dataclasses.dataclass
class WithDate:
    when: datetime.datetime
    _hidden: int = 2


@dataclasses.dataclass(slots=True)
class Slotted:
    when: datetime.datetime


class Model:
    """As Pydantic's models are."""

    def __init__(self, value):
        self.value = value

    def model_dump(self, mode):
        assert mode == "json"
        return {"value": self.value}


NEW_YEAR = datetime.datetime(2026, 1, 1, 12, 30, 15, 123_999)

VALUES = {
    "mapping": ({"a": [1, 2.5, None, True, "ü"]}, '{"a":[1,2.5,null,true,"ü"]}'),
    "empty": ([{}, [], ""], '[{},[],""]'),
    "naive datetime is UTC": (NEW_YEAR, '"2026-01-01T12:30:15.123Z"'),
    "datetime that is after the year 9999 in UTC": (
        datetime.datetime.fromisoformat("9999-12-31T23:30:00-01:00"),
        '"9999-12-31T23:30:00.000-01:00"',
    ),
    "datetime that is before the year 1 in UTC": (
        datetime.datetime.fromisoformat("0001-01-01T00:30:00+01:00"),
        '"0001-01-01T00:30:00.000+01:00"',
    ),
    "aware datetime": (NEW_YEAR.replace(tzinfo=TWO_HOURS), '"2026-01-01T10:30:15.123Z"'),
    "whole second": (
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        '"2026-01-01T00:00:00.000Z"',
    ),
    "early year": (datetime.datetime(7, 1, 1), '"0007-01-01T00:00:00.000Z"'),
    "subclass of datetime": (Moment(2026, 1, 1), '"2026-01-01T00:00:00.000Z"'),
    "date": (datetime.date(2026, 1, 2), '"2026-01-02"'),
    "time": (datetime.time(1, 2, 3), '"01:02:03"'),
    "decimal": (decimal.Decimal("1.10"), '"1.10"'),
    "uuid": (ID, f'"{ID}"'),
    "bytes": (b"\x00\xff", '"AP8="'),
    "bytearray": (bytearray(b"abc"), '"YWJj"'),
    "memoryview": (memoryview(b"abc"), '"YWJj"'),
    "set": ({1}, "[1]"),
    "frozenset": (frozenset({"a"}), '["a"]'),
    "tuple": ((1, (2,)), "[1,[2]]"),
    "named tuple": (Point(1, 2), "[1,2]"),
    "float subclass": (Meters(1.5), "1.5"),
    "str subclass": (Text("a"), '"a"'),
    "NaN": (float("nan"), "null"),
    "infinities": ([float("inf"), float("-inf")], "[null,null]"),
    "durations": (
        [datetime.timedelta(1, 7200), -datetime.timedelta(milliseconds=1), datetime.timedelta()],
        '["P1DT2H","-PT0.001S","PT0S"]',
    ),
    "enum": (Color.RED, '"red"'),
    "enum of a tuple": (Color.PAIR, "[1,2]"),
    "enum of a date": (Color.WHEN, '"2026-01-02"'),
    "str enum": (Name.ADA, '"ada"'),
    "int enum": (Level.HIGH, "3"),
    "dataclass": (Plain(), '{"a":1}'),
    "dataclass with a datetime": (WithDate(NEW_YEAR), '{"when":"2026-01-01T12:30:15.123Z"}'),
    "dataclass with slots": (Slotted(NEW_YEAR), '{"when":"2026-01-01T12:30:15.123Z"}'),
    "model": (Model([1]), '{"value":[1]}'),
    "ordered dict": (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    "other mappings": ([UserDict(a=1), MappingProxyType({"b": 2})], '[{"a":1},{"b":2}]'),
    "64 bits": ([2**64 - 1, -(2**63)], "[18446744073709551615,-9223372036854775808]"),
    "beyond 64 bits": ({"n": 2**64}, '{"n":18446744073709551616}'),
    "beyond 64 bits, negative": ([-(2**63) - 1], "[-9223372036854775809]"),
    "int keys": ({1: "a", -2: "b"}, '{"1":"a","-2":"b"}'),
    "keys of all scalars": ({True: 1, None: 2, 2.5: 3}, '{"true":1,"null":2,"2.5":3}'),
    "keys that are text elsewhere": (
        {ID: 1, datetime.date(2026, 1, 2): 2, Color.RED: 3, Name.ADA: 4},
        f'{{"{ID}":1,"2026-01-02":2,"red":3,"ada":4}}',
    ),
    "lone surrogate": ("a\ud800", r'"a\ud800"'),
    "lone surrogate in a key": ({"\udfff": 1}, r'{"\udfff":1}'),
    "control characters": ("\x00\n", r'"\u0000\n"'),
}


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_writes(value, text):
    assert dumps(value).decode() == text


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES)
def test_writes_the_same_beside_what_orjson_refuses(value, text):
    found = json.loads(dumps({"beyond": 2**70, "value": value}))
    assert found == {"beyond": 2**70, "value": json.loads(text)}


def test_writes_unicode_as_it_is():
    assert dumps("Zoë 🐢") == '"Zoë 🐢"'.encode()


REFUSED = {
    "object": (object(), "value is a builtins.object, which has no JSON form"),
    "complex": ({"a": [1j]}, r"value\['a'\]\[0\] is a builtins.complex"),
    "path": ([1, {"b": Path()}], r"value\[1\]\['b'\] is a pathlib\."),
    "in a set": ({object()}, r"value\[0\] is a builtins.object"),
    "in a dataclass": (WithDate(object()), r"value\['when'\] is a builtins.object"),
    "class": (Plain, "value is a builtins.type"),
    "class of a model": (Model, "value is a builtins.type"),
    "complex key": ({(1, 2): 3}, r"has the key \(1, 2\), which cannot be a key in JSON"),
    "object as key": ({"a": {Path("x"): 1}}, r"a key of value\['a'\] is a pathlib\."),
    "keys that are the same text": ({"a": {1: "x", "1": "y"}}, r"value\['a'\] has several keys"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_json_lacks_is_an_error_with_its_location(value, message):
    with pytest.raises(TypeError, match=message):
        dumps(value)


def test_says_what_to_do():
    with pytest.raises(TypeError, match="turn it into one before"):
        dumps(object())


def test_shows_what_went_wrong_in_a_model():
    class Broken:
        def model_dump(self, mode):
            raise TypeError("no such field")

    with pytest.raises(TypeError, match="Broken") as caught:
        dumps(Broken())
    assert "no such field" in str(caught.value.__cause__)


def test_refuses_a_list_that_holds_itself():
    circle = []
    circle.append(circle)
    with pytest.raises(TypeError, match="too deeply for JSON, or holds itself"):
        dumps(circle)


def test_writes_what_is_nested_deeper_than_orjson_goes():
    value = nested(300)
    assert dumps(value) == b"[" * 300 + b"]" * 300


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


READ = {
    "object": ('{"a":[1,2.5,null,true,"ü"]}', {"a": [1, 2.5, None, True, "ü"]}),
    "scalar": ("3", 3),
    "64 bits": ("[18446744073709551615]", [2**64 - 1]),
    "beyond 64 bits": ("[18446744073709551616]", [2**64]),
    "beyond 64 bits, negative": ("[-9223372036854775809]", [-(2**63) - 1]),
    "hundred digits": (f'{{"n":{"7" * 100}}}', {"n": int("7" * 100)}),
    "long decimals": ("[0.12345678901234567890]", [0.12345678901234568]),
    "long digits in a text": ('["12345678901234567890"]', ["12345678901234567890"]),
    "last of several keys": ('{"a":1,"a":2}', {"a": 2}),
    "last of several keys, beyond 64 bits": (f'{{"a":{2**64},"a":2}}', {"a": 2}),
    "prototype": (
        '{"__proto__":{"x":1},"constructor":1}',
        {"__proto__": {"x": 1}, "constructor": 1},
    ),
    "surrogate pair": (r'"\ud83d\udc22"', "🐢"),
    "small exponent": ("[1e-400]", [0.0]),
    "negative zero": ("[-0]", [0]),
    "NUL escape": (r'["\u0000"]', ["\x00"]),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ)
def test_reads(text, value):
    found = loads(text.encode())
    assert found == value
    assert repr(found) == repr(value)  # 1 is not 1.0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"{'a':1}",
        b'{"a":1,}',
        b"NaN",
        b"[Infinity]",
        b"1e400",
        b"[-1e400]",
        b"1" * 400,
        b'"\\ud800"',
        b'"\xff"',
        b'"\x00"',
        b"[" * 5000 + b"]" * 5000,
        b"[" * 100_000,
        b"{}x",
        f'[{2**70},"\\ud800"]'.encode(),
        f"[{2**70},NaN]".encode(),
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_refuses_what_is_no_json_or_cannot_be_held(raw):
    with pytest.raises(ValueError):
        loads(raw)


@pytest.mark.parametrize("around", [b"[%b]", b'{"a":%b}', b'[1,{"a":2,"b":%b},"[{"]'])
def test_reads_as_many_levels_as_it_says(around):
    levels = around.count(b"%b") and (2 if b"1," in around else 1)
    raw = b"0"
    for _ in range(MAX_DEPTH // levels):
        raw = around % raw
    assert dumps(loads(raw)) == raw
    with pytest.raises(ValueError, match="it has more than 254 levels"):
        loads(around % raw)


def test_takes_many_brackets_that_are_not_deep():
    raw = json.dumps([{"a": ["[[[{{{"]} for _ in range(300)]).encode()
    assert len(loads(raw)) == 300
    assert loads(b'"' + b"[{" * 300 + b'"') == "[{" * 300


@pytest.mark.parametrize("digits", ["12345678901234567890", "9" * 300])
def test_counts_levels_beside_long_integers_too(digits):
    raw = b"[" * MAX_DEPTH + digits.encode() + b"]" * MAX_DEPTH
    assert dumps(loads(raw)) == raw
    with pytest.raises(ValueError, match="levels"):
        loads(b"[" + raw + b"]")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_reads_what_it_writes(value):
    def finite(value):
        if isinstance(value, dict):
            return {key: finite(item) for key, item in value.items()}
        if isinstance(value, list):
            return [finite(item) for item in value]
        return None if value in (float("inf"), float("-inf")) else value

    assert loads(dumps(value)) == finite(value)


@given(JSON)
def test_reads_as_the_standard_library_does(value):
    text = json.dumps(value, allow_nan=True)
    if "Infinity" not in text and r"\u" not in text:
        assert loads(text.encode()) == json.loads(text)


def test_a_body_may_hold_some_integers_of_one_hash_and_no_more():
    modulus = 2**61 - 1  # integers that differ by this have one hash
    numbers = [number * modulus * 10 for number in range(1, MAX_INTEGERS_OF_ONE_HASH + 2)]
    assert loads(json.dumps(numbers[:-1]).encode()) == numbers[:-1]
    with pytest.raises(ValueError, match="of one hash"):
        loads(json.dumps(numbers).encode())


@pytest.mark.parametrize("large", [1, 2**70])  # orjson refuses the second
def test_binary_data_becomes_attachments(large):
    attachments = [b"before"]
    value = {"a": b"1", "b": [bytearray(b"2"), memoryview(b"3")], "n": large}
    text = dumps_with_attachments(value, attachments)
    assert attachments == [b"before", b"1", b"2", b"3"]
    place = [{"_placeholder": True, "num": number} for number in range(4)]
    assert json.loads(text) == {"a": place[1], "b": [place[2], place[3]], "n": large}


@pytest.mark.parametrize("large", [1, 2**70])
@pytest.mark.parametrize(
    "value",
    [
        {"file": b"1", "forged": {"_placeholder": True, "num": 7}},
        [{"file": b"1"}, {"forged": {"num": 0, "_placeholder": True}}],
        [b"1"] * 11,
    ],
    ids=["forged", "forged in another record", "too many"],
)
def test_what_would_disconnect_official_clients_is_sent_as_base64(value, large):
    attachments = []
    text = dumps_with_attachments([value, large], attachments)
    assert (json.loads(text), attachments) == (json.loads(dumps([value, large])), [])


def test_placeholders_in_strings_and_without_binary_data_stay():
    attachments = []
    text = '"_placeholder":true'
    value = {"a": b"1", "b": text, text: 1}
    assert json.loads(dumps_with_attachments(value, attachments))["b"] == text
    assert attachments == [b"1"]
    forged = {"_placeholder": True, "num": 0}
    assert dumps_with_attachments(forged, []) == '{"_placeholder":true,"num":0}'


def test_other_values_are_the_same_with_attachments():
    attachments = []
    value = [1.5, None, ID, Plain(), {"when": datetime.datetime(2026, 1, 2, tzinfo=TWO_HOURS)}]
    assert dumps_with_attachments(value, attachments) == dumps(value).decode()
    assert attachments == []


@pytest.mark.parametrize("count", [3, 49, 50, 200])
def test_objects_of_any_size_keep_large_integers_and_count_levels(count):
    flat = {f"name {number}": f"value {number}" for number in range(count)}
    assert loads(json.dumps(flat).encode()) == flat
    large = {**flat, "large": 2**70 + 1}  # which no float holds
    assert loads(json.dumps(large).encode()) == large
    with pytest.raises(ValueError, match="levels"):
        loads(json.dumps(flat)[:-1].encode() + b',"deep":' + b"[" * 300 + b"]" * 300 + b"}")
