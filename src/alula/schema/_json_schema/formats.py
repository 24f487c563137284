r"""Formats of strings and numbers, regular expressions, and the keyword ``date``.

A test of a format returns whether a value has it. Values of types that the format is not about
pass. The regular expressions of JSON Schema are those of JavaScript. They differ little from
Python's: ``$`` is the very end, ``\d`` and ``\w`` mean ASCII, and some escapes and groups have
another spelling.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Final, TypeAlias

from alula.schema._json_schema.compiler import SchemaLocation, work_limit
from alula.schema._json_schema.json_types import is_number
from alula.types import SchemaKeyword

__all__ = ["DATE_SCHEMA", "FORMATS", "keyword_date", "pattern_of", "python_pattern"]

Test: TypeAlias = Callable[[Any], bool]

_PART = re.compile(
    r"\\u\{(?P<code>[0-9a-fA-F]+)\}|\\c(?P<control>[A-Za-z])|\\k<(?P<again>\w+)>|\\(?P<not>[pP])\{(?P<category>\w+)\}|\\(?P<escape>.)"
    r"|(?P<any>\[\^\])|(?P<none>\[\])|(?P<open>\[\^?)|(?P<close>\])"
    r"|(?P<end>\$)|(?P<named>\(\?<(?![=!]))",
    re.DOTALL,
)
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_"}
_LONG_NAMES = {
    "Letter": "L",
    "Lowercase_Letter": "Ll",
    "Uppercase_Letter": "Lu",
    "Mark": "M",
    "Number": "N",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Other": "C",
    "Control": "Cc",
}
_PYTHON_ONLY = frozenset("AZaN")
"""Escapes that have a meaning in Python only; in JavaScript they are the letter."""


def python_pattern(pattern: str, *, expand: bool = True) -> str:
    r"""Return the pattern as Python spells it.

    Args:
        pattern: The pattern.
        expand: Whether ``\p{...}`` becomes its ranges, which are long. False to find out only
            whether this is a pattern.

    Raises:
        ValueError: It has ``\p{...}`` with a name that is not a general category.
    """
    inside = False

    def spell(match: re.Match[str]) -> str:
        nonlocal inside
        name, text = match.lastgroup or "", match[0]
        if name == "category":
            category = _LONG_NAMES.get(match["category"], match["category"])
            if re.fullmatch("[CLMNPSZ][a-z]?", category) is None:
                raise ValueError(f"{category!r} is not a general category of Unicode")
            ranges = _characters(category, match["not"] == "p") if expand else "a"
            return ranges if inside else f"[{ranges}]"
        if name == "code":
            return re.escape(chr(int(match["code"], 16)))
        if name == "control":
            return re.escape(chr(ord(match["control"]) % 32))
        if name == "again":
            return f"(?P={match['again']})"
        if name == "escape":
            letter = match["escape"]
            digits = _CLASSES.get(letter.lower())
            if digits is None:
                return letter if letter in _PYTHON_ONLY else f"\\{letter}"
            if letter.islower():
                return digits if inside else f"[{digits}]"
            # Brackets cannot be nested: there, all digits or letters of Unicode are left out.
            return f"\\{letter}" if inside else f"[^{digits}]"
        if inside:
            inside = name != "close"
            return "\\[" if name == "open" else text
        inside = name == "open"
        return {"any": r"[\s\S]", "none": "(?!)", "end": r"\Z", "named": "(?P<"}.get(name, text)

    return _PART.sub(spell, pattern)


@cache
def _characters(category: str, positive: bool) -> str:
    """Return the ranges of the characters that are in a general category of Unicode, or are not."""
    # Half a second for each category: Python's `re` has no classes for them.
    codes = range(sys.maxunicode + 1)
    inside = [unicodedata.category(chr(code)).startswith(category) == positive for code in codes]
    edges = [code for code in codes if inside[code] != (code > 0 and inside[code - 1])]
    ends = [*edges[1:], sys.maxunicode + 1]
    pairs = zip(edges[::2], ends[::2], strict=False)
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in pairs)


def pattern_of(location: SchemaLocation, pattern: str, *names: object) -> re.Pattern[str]:
    """Return a compiled pattern.

    Args:
        location: The location of the schema that has it.
        pattern: The pattern.
        names: The way to it from there, for the message.

    Raises:
        SchemaError: It is not a regular expression.
    """
    try:
        return re.compile(python_pattern(pattern))
    except (re.error, ValueError, OverflowError) as error:
        message = f"{pattern!r} is not a regular expression: {error}"
        raise location.error(message, *names) from error


# -- formats ---------------------------------------------------------------------------------------

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[zZ]|([+-])([0-9]{2}):?([0-9]{2}))"
)


def _text(test: Callable[[str], object]) -> Test:
    return lambda value: not isinstance(value, str) or bool(test(value))


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    # The year 0 has the length of any leap year; the calendar begins later.
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or 2000, month)[1]


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    hours, minutes, seconds = (int(match[group]) for group in (1, 2, 3))
    zone = int(match[5] or 0), int(match[6] or 0)
    if hours > 23 or minutes > 59 or zone > (23, 59) or zone[1] > 59 or seconds > 60:
        return False
    offset = (zone[0] * 60 + zone[1]) * (-1 if match[4] == "-" else 1)
    # A leap second is the last of a day in universal time.
    return seconds < 60 or (hours * 60 + minutes - offset) % 1440 == 1439


_LONGEST_PATTERN: Final = 1000
"""The characters of a text of the format ``regex``; longer ones are not written by hand."""

_PYTHON_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?![:=!<])")


def _is_regex(text: str) -> bool:
    # Flags within the pattern exist in Python only, and make it slow to compile.
    if len(text) > _LONGEST_PATTERN or _PYTHON_GROUP.search(text):
        return False
    # The text is compiled, which takes long for many classes: a client chooses it.
    work_limit.spend(400 + 20 * len(text) + 4000 * text.count("["))
    with suppress(re.error, ValueError, OverflowError, RecursionError):
        return bool(re.compile(python_pattern(text, expand=False)))
    return False


def _is_address(kind: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        with suppress(AddressValueError):
            # Python accepts a zone behind an address (fe80::1%eth0), the formats do not.
            return bool(kind(text)) and "%" not in text
        return False

    return test


def _within(bits: int) -> Test:
    top = 2 ** (bits - 1)
    return lambda value: not is_number(value) or (value % 1 == 0 and -top <= value < top)


_UNRESERVED = r"[A-Za-z0-9\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2}"
_LITERAL = r"\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
_HOST = rf"(?:{_LITERAL}|(?:{_UNRESERVED})*?)"
_AUTHORITY = rf"//(?:(?:{_UNRESERVED})*@)?{_HOST}(?::[0-9]*)?"
_PATH = rf"(?:{_UNRESERVED}|[@/])*"
_TAIL = rf"(?:\?(?:{_UNRESERVED}|[@/?])*)?(?:\#(?:{_UNRESERVED}|[@/?])*)?"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_URI = rf"{_SCHEME}(?:{_AUTHORITY}(?:/{_PATH})?|(?!//){_PATH}){_TAIL}"
_RELATIVE = rf"(?:{_AUTHORITY}(?:/{_PATH})?|(?!//)(?![^/?#]*:){_PATH}){_TAIL}"
# DNS allows 63 characters in a label, and 253 in a name.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
# Quoted local parts and comments of RFC 5322 are refused, as by ajv-formats.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-]+"
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?::[1-9][0-9]{0,3}|\*)?"
_EXPRESSION = rf"\{{[+#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}}"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"

_TESTS: Final[Mapping[str, Test]] = {
    "date": _text(_is_date),
    "time": _text(_is_time),
    "date-time": _text(
        lambda text: text[10:11] in ("T", "t", " ") and _is_date(text[:10]) and _is_time(text[11:])
    ),
    "ipv4": _text(_is_address(IPv4Address)),
    "ipv6": _text(_is_address(IPv6Address)),
    "regex": _text(_is_regex),
    "int32": _within(32),
    "int64": _within(64),
    # OpenAPI's hints for tools. ajv-formats accepts every value of them, too.
    "float": lambda _value: True,
    "double": lambda _value: True,
    "password": lambda _value: True,
    "binary": lambda _value: True,
}

_PATTERNS: Final[Mapping[str, str]] = {
    "duration": (
        r"P(?!\Z)(?:(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?"
        r"(?:[0-9]+S)?)?|[0-9]+W)"
    ),
    "email": rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+{_LABEL}",
    "hostname": rf"(?=.{{1,253}}\.?\Z){_LABEL}(?:\.{_LABEL})*\.?",
    "uri": _URI,
    "uri-reference": rf"(?:{_URI}|{_RELATIVE})",
    "uri-template": rf"(?:[^\x00-\x20\"'<>%\\^`{{|}}]|%[0-9A-Fa-f]{{2}}|{_EXPRESSION})*",
    # The prefix is optional, as in ajv-formats.
    "uuid": r"(?i:(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})",
    "json-pointer": rf"(?s:{_POINTER})",
    "relative-json-pointer": rf"(?s:(?:0|[1-9][0-9]*)(?:\#|{_POINTER}))",
    "byte": r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
}


class _Formats(Mapping[str, Test]):
    """The test of each format; its pattern is compiled when the first schema asks for it.

    All patterns together take 2 % of the start, and most applications use none of them.
    """

    def __getitem__(self, name: str) -> Test:
        return _TESTS[name] if name in _TESTS else _pattern_test(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*_TESTS, *_PATTERNS))

    def __len__(self) -> int:
        return len(_TESTS) + len(_PATTERNS)


@cache
def _pattern_test(name: str) -> Test:
    return _text(re.compile(_PATTERNS[name]).fullmatch)


FORMATS: Final[Mapping[str, Test]] = _Formats()
"""The test of each format."""


# -- the keyword date ------------------------------------------------------------------------------

_NOT_A_DATE: Final = "must be a date"


def to_date(value: object, enabled: object) -> object:
    """Return the date that a text is, in UTC unless it has a time zone.

    Raises:
        ValueError: It is not a date.
    """
    if not enabled:
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.upper())  # the format allows t and z
        except ValueError:
            raise ValueError(_NOT_A_DATE) from None
    if not isinstance(value, datetime):
        raise ValueError(_NOT_A_DATE)
    # Not the zone of the server, on which stored data would depend then.
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


keyword_date: Final = SchemaKeyword("date", to_date, _NOT_A_DATE)
"""The keyword ``date``: converts ISO 8601 text to a datetime, and accepts datetimes."""

DATE_SCHEMA: Final = {
    "anyOf": [{"type": "string", "format": "date-time", "date": True}, {"date": True}]
}
"""The schema of a date, as a datetime or as text."""
