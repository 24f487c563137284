"""The formats: what is one, and what is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from alula.schema import SchemaError, Validator
from alula.schema._json_schema.formats import FORMATS

GOOD = {
    "date": ["2024-02-29", "0000-02-29", "9999-12-31"],
    "time": ["00:00:00Z", "23:59:60z", "12:30:00.5+05:30", "22:59:60-01:00", "00:29:60+00:30"],
    "date-time": ["2024-01-01T00:00:00Z", "2024-01-01t23:59:60z", "2024-01-01 00:00:00+0100"],
    "duration": ["P1Y2M3DT4H5M6S", "P1W", "PT1S", "P1D"],
    "email": ["a@b.cd", "a.b+c@d-e.fg"],
    "hostname": ["a", "a.b-c", "a.b.", "1a"],
    "ipv4": ["127.0.0.1", "255.255.255.255"],
    "ipv6": ["::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4"],
    "uri": ["http://a.b/c?d=e#f", "mailto:a@b", "urn:x:y", "http://[::1]:80/", "http://u:p@h"],
    "uri-reference": ["", "/a/b", "a?b#c", "//h/p", "http://a"],
    "uri-template": ["/a/{b}", "{+path}{?q,r*}", "a"],
    "uuid": [
        "64b00000-0000-4000-8000-00000000000A",
        "urn:uuid:64b00000-0000-4000-8000-000000000001",
    ],
    "json-pointer": ["", "/a/b~0~1", "/a\nb"],
    "relative-json-pointer": ["0", "1/a", "2#"],
    "regex": ["^a", "(?<a>b)"],
    "byte": ["", "YWI=", "YWJj"],
    "int32": [0, -(2**31), 2**31 - 1],
    "int64": [2**63 - 1, -(2**63), 1.0],
    "float": [1.5],
    "double": [1.5],
    "password": ["x"],
    "binary": ["x"],
}

BAD = {
    "date": ["2023-02-29", "2024-13-01", "2024-00-01", "2024-01-00", "2024-1-1", "2024-01-01\n"],
    "time": [
        "24:00:00Z",
        "12:60:00Z",
        "12:00:61Z",
        "12:00:00",
        "12:00:60Z",
        "1:00:00Z",
        "12:00:00+24:00",
        "12:00:00+01:60",
        "23:59:60+01:00",
    ],
    "date-time": [
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-02-30T00:00:00Z",
        "2024-01-01_00:00:00Z",
    ],
    "duration": ["P", "PT", "1D", "P1D2W", "P1H"],
    "email": ["a", "a@b", "@b.c", "a b@c.d", "a@b.c-"],
    "hostname": ["", "-a", "a-", "a..b", "a" * 64, ".".join(["a" * 60] * 5)],
    "ipv4": ["1.2.3", "256.1.1.1", "01.2.3.4", ""],
    "ipv6": ["1::2::3", "12345::", ":::", "::1%eth0"],
    "uri": ["/a", "a b", "http://[::1", "//h", "1:a", ""],
    "uri-reference": ["a b", "\\", "#a#b", ":"],
    "uri-template": ["{", "{a", "a b", "{$}"],
    "uuid": ["", "64b0", "64b00000_0000-4000-8000-000000000001"],
    "json-pointer": ["a", "/~2", "/~"],
    "relative-json-pointer": ["a", "01", "-1", "1a"],
    "regex": ["(", "[z-a]"],
    "byte": ["a", "YWI", "Y=WI"],
    "int32": [2**31, -(2**31) - 1, 1.5],
    "int64": [2**63],
}


@pytest.mark.parametrize("name", FORMATS)
def test_knows_what_is_of_the_format(name):
    for value in GOOD[name]:
        assert FORMATS[name](value), value


@pytest.mark.parametrize("name", BAD)
def test_knows_what_is_not(name):
    for value in BAD[name]:
        assert not FORMATS[name](value), value


@pytest.mark.parametrize("name", FORMATS)
def test_values_of_other_types_are_no_matter_of_a_format(name):
    for value in (None, [], {}, True):
        assert FORMATS[name](value)
    assert FORMATS[name]("x" if name in {"int32", "int64"} else 5)


def test_the_error_of_an_unknown_format_has_its_location():
    with pytest.raises(SchemaError, match=r"at #/items/format: unknown format 'datum'; known"):
        Validator({"items": {"format": "datum"}})


def test_formats_of_ones_own_come_beside_the_known_ones():
    validator = Validator(
        {"properties": {"a": {"format": "even"}, "b": {"format": "date"}}},
        formats={"even": lambda value: value % 2 == 0},
    )
    assert validator.is_valid({"a": 2, "b": "2024-01-01"})
    assert not validator.is_valid({"a": 3})
    assert not validator.is_valid({"b": "x"})


def test_formats_can_be_mere_remarks():
    assert Validator({"format": "datum"}, formats=False).is_valid("x")


def test_the_formats_are_a_mapping():
    assert len(FORMATS) == len(set(FORMATS)) == len(GOOD)
    assert "datum" not in FORMATS
    assert FORMATS["uuid"] is FORMATS["uuid"]


def test_patterns_are_compiled_for_the_first_schema_that_names_the_format():
    code = """if True:
        import re
        patterns, compile = [], re.compile
        def recorded(pattern, flags=0):
            patterns.append(str(pattern))
            return compile(pattern, flags)
        re.compile = recorded
        from alula.schema import Validator
        print(any("urn:uuid" in pattern for pattern in patterns))
        Validator({"format": "uuid"})
        print(any("urn:uuid" in pattern for pattern in patterns))
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]
